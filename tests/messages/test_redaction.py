"""Redaction: a removed value is nowhere in a message, for drawn messages. The other values are as before."""

import hashlib
import hmac
import json
import random

import pytest

import rocketstore
from rocketstore import Message
from rocketstore.messages.redaction import Redaction, dump_json, parse_json


def read(tmp_path, *messages):
    """Return messages as they are read from a store."""
    with rocketstore.open(tmp_path / "store", "a") as store:
        for message in messages:
            store.put_message(message)
        return list(store.scan().head(len(messages)))


def everything(message):
    """All that a row of a message shows, as text."""
    return repr(message.to_dict()) + repr(message.body_text) + repr(message.body_json)


def sha(text, key=None):
    data = text.encode()
    return hashlib.sha256(data).hexdigest() if key is None else hmac.new(key, data, "sha256").hexdigest()


# ---- drawn messages ----------------------------------------------------------------------------------------

SECRET = "SECRET"


def draw_value(drawn, depth, secret):
    """A value of JSON in which each field ``phone`` has a secret."""
    if depth and drawn.random() < 0.5:
        names = drawn.sample(["a", "phone", "customer", "b c", "größe"], drawn.randrange(1, 5))
        return {name: secret(drawn) if name == "phone" else draw_value(drawn, depth - 1, secret) for name in names}
    if depth and drawn.random() < 0.4:
        return [draw_value(drawn, depth - 1, secret) for _ in range(drawn.randrange(3))]
    if depth and drawn.random() < 0.2:
        return json.dumps(draw_value(drawn, depth - 1, secret))
    return drawn.choice([None, True, 1, -2.50, 12345678901234567890, "text", "", "{no json", "größe"])


def draw_secret(drawn):
    return drawn.choice([f"{SECRET}1", [f"{SECRET}2"], {"x": f"{SECRET}3"}])


def without_phone(value):
    """The value that plain Python expects."""
    if isinstance(value, dict):
        return {name: None if name == "phone" else without_phone(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_phone(item) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        try:
            return dump_json(parse_json(json.dumps(without_phone(json.loads(value)))))
        except ValueError:
            return value
    return value


def normal(value):
    """A value of JSON whose texts that are JSON have one spelling."""
    if isinstance(value, dict):
        return {name: normal(item) for name, item in value.items()}
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        try:
            return ["JSON", normal(json.loads(value))]
        except ValueError:
            return value
    return value


def test_a_drawn_field_is_nowhere_and_the_rest_is_as_before(tmp_path, seed):
    drawn = random.Random(seed)
    values = [draw_value(drawn, 4, draw_secret) for _ in range(300)]
    properties = [{"phone": f"{SECRET}4", "color": "red"} if drawn.random() < 0.5 else {} for _ in values]
    messages = read(
        tmp_path,
        *(Message("T", json.dumps(v).encode(), properties=p) for v, p in zip(values, properties, strict=True)),
    )
    redaction = Redaction(["phone"])
    for value, old, message in zip(values, properties, messages, strict=True):
        new = redaction.apply(message)
        assert SECRET not in everything(new)
        assert normal(json.loads(new.body)) == normal(without_phone(value))
        assert new.properties.get("color") == old.get("color")
        assert new.body == message.body or SECRET in message.body.decode()
        unchanged = new.to_dict() | {"body": 0, "bodyCrc": 0, "properties": 0}
        assert unchanged == message.to_dict() | {"body": 0, "bodyCrc": 0, "properties": 0}
    assert redaction.removed_bodies == 0
    assert not redaction.unseen


# ---- single cases ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def message(tmp_path_factory):
    body = b'{"phone": "+49 170", "n": 1.10, "big": 12345678901234567.89, "customer": {"phone": 5, "name": "Ann"}}'
    properties = {"phone": "+49 170", "color": "red"}
    made = Message("Orders", body, keys=["o-1", "o-2"], tags="paid", uniq_key="7F0000010002", properties=properties)
    return read(tmp_path_factory.mktemp("redaction"), made)[0]


def test_a_name_is_property_and_json_field_or_one_of_them(message):
    both = Redaction(["phone"]).apply(message)
    assert (both.properties["phone"], json.loads(both.body)["phone"]) == ("***", None)
    assert json.loads(both.body)["customer"] == {"phone": None, "name": "Ann"}
    one = Redaction(["property.phone"]).apply(message)
    assert (one.properties["phone"], one.body) == ("***", message.body)
    other = Redaction(["body.customer.phone"]).apply(message)
    assert other.properties["phone"] == "+49 170"
    assert json.loads(other.body)["customer"]["phone"] is None
    assert json.loads(other.body)["phone"] == "+49 170"


def test_rewriting_changes_no_other_digit(message):
    body = Redaction(["phone"]).apply(message).body
    assert b'"n": 1.10, "big": 12345678901234567.89' in body


@pytest.mark.parametrize(
    ("field", "columns", "properties"),
    [
        ("keys", ["keys"], ["KEYS"]),
        ("tags", ["tags"], ["TAGS"]),
        ("uniqKey", ["uniqKey"], ["UNIQ_KEY"]),
        ("uniq_key", ["uniqKey"], ["UNIQ_KEY"]),
        ("KEYS", ["keys"], ["KEYS"]),
        ("property.KEYS", ["keys"], ["KEYS"]),
        ("bornHost", ["bornHost", "uniqKey"], ["UNIQ_KEY"]),
        ("storeHost", ["storeHost", "msgId"], []),
        ("queueId", ["queueId"], []),
        ("bornTimestamp", ["bornTimestamp"], []),
        ("properties", ["properties", "keys", "tags", "uniqKey"], None),
        ("body", ["body", "bodyCrc"], []),
        ("body_text", ["body", "bodyCrc"], []),
    ],
)
def test_a_column_goes_with_all_its_copies(message, field, columns, properties):
    old, new = message.to_dict(), Redaction([field]).apply(message).to_dict()
    assert {name for name in old if new.get(name) != old[name]} == {*columns, *(["properties"] * bool(properties))}
    assert all(new[name] is None for name in columns)
    if properties is not None:
        changed = dict.fromkeys(properties, "***")
        assert new["properties"] == old["properties"] | changed


def test_texts_of_a_removed_body_are_removed(message):
    new = Redaction(["body"]).apply(message)
    assert (new.body, new.body_text, new.body_json, new.body_crc) == (None, None, None, None)


def test_equal_values_have_equal_hashes(message):
    new = Redaction(hashed=["phone", "keys"]).apply(message)
    body = json.loads(new.body)
    assert body["phone"] == new.properties["phone"] == sha("+49 170")
    assert body["customer"]["phone"] == sha("5")
    assert new.keys == [sha("o-1"), sha("o-2")]
    assert new.properties["KEYS"] == f"{sha('o-1')} {sha('o-2')}"


def test_a_key_gives_other_hashes(message):
    new = Redaction(hashed=["phone", "topic"], key=b"k").apply(message)
    assert new.properties["phone"] == sha("+49 170", b"k")
    assert new.topic == sha("Orders", b"k")


def test_a_body_that_may_have_the_field_is_removed(tmp_path):
    bodies = [b"phone=170", b"\xff", b"", b'{"a": 1}', b'{"phone": 1} x', b"[" * 5000, b'"phone 170"']
    redaction = Redaction(["phone"])
    found = [redaction.apply(message) for message in read(tmp_path, *(Message("T", body) for body in bodies))]
    removed = [message.find_body_error() is not None for message in found]
    assert removed == [True, True, False, False, True, True, False]
    assert redaction.removed_bodies == 4
    assert "may have a redacted field" in found[0].body_error
    assert found[0].body_text is None
    assert redaction.unseen == {"phone"}


def test_each_value_of_a_repeated_name_is_removed(tmp_path):
    body = b'{"a": {"phone": "SECRET"}, "a": {"phone": "SECRET"}, '
    body += b'"b": "{\\"a\\": {\\"phone\\": \\"SECRET\\"}, \\"a\\": 1}"}'
    [message] = read(tmp_path, Message("T", body))
    found = Redaction(["phone"]).apply(message).body
    assert found == body.replace(b'\\"SECRET\\"', b"null").replace(b'"SECRET"', b"null")


def test_other_bodies_stay_if_a_column_or_a_property_is_removed(tmp_path):
    for field in ("tags", "property.phone"):
        [message] = read(tmp_path / field, Message("T", b"phone=170", tags="a"))
        assert Redaction([field]).apply(message).body == b"phone=170"


def test_a_json_field_with_the_name_of_a_column_goes_too(tmp_path):
    [message] = read(tmp_path, Message("T", b'{"tags": "secret", "a": 1}', tags="secret"))
    assert Redaction(["tags"]).apply(message).body == b'{"tags": null, "a": 1}'


def test_the_body_of_an_inner_batch_is_removed(tmp_path):
    with rocketstore.open(tmp_path / "store", "a") as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        store.put_message(Message.batch("B", [Message("B", b"{}", keys="secret")], queue_id=0))
        [message] = store.scan(containers=True).head(1)
    new = Redaction(["keys"]).apply(message)
    assert "inner batch" in new.body_error
    assert "secret" not in everything(new)


def test_copies_of_a_removed_value_are_counted(tmp_path):
    [message] = read(tmp_path, Message("T", b'{"order": "o-17", "n": 1}', keys=["o-17"]))
    redaction = Redaction(["order"])
    redaction.apply(message)
    assert redaction.summary() == {"unseen": [], "removed_bodies": 0, "copies": {"keys": 1, "properties": 1}}


@pytest.mark.parametrize(
    ("redacted", "hashed", "words"),
    [
        ([""], [], "a name of a column"),
        (["a."], [], "a name of a column"),
        (["a..b"], [], "a name of a column"),
        (["a", "a"], [], "given twice"),
        (["a"], ["a"], "given twice"),
        (["bornHost"], ["born_host"], "given twice"),
        ([], ["queueId"], "use --redact"),
        ([], ["bornTimestamp"], "use --redact"),
    ],
)
def test_wrong_names_are_refused(redacted, hashed, words):
    with pytest.raises(ValueError, match=words):
        Redaction(redacted, hashed)
