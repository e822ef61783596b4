"""Where: DuckDB chooses the rows that plain Python chooses, for drawn conditions. Errors name the place."""

import json
import random
import re

import pytest
from support.puts import open_store

import rocketstore
from rocketstore import Message, Where

pytest.importorskip("duckdb", reason="needs DuckDB, from the extra 'duckdb'")

WORDS = ["red", "blue", "größe", "it's", "10", "2.5", "", "true", "x y"]
NAMES = ["a", "b", "shop.name", "order-id", "Größe"]
BIG = 2**60


def make_store(root, seed, count=400):
    drawn = random.Random(seed)
    with open_store(root) as store:
        for i in range(count):
            properties = {name: drawn.choice(WORDS) for name in NAMES if drawn.random() < 0.3}
            tags = drawn.choice([None, "paid", "sent"])
            topic, keys = f"T{i % 3}", [f"k{drawn.randrange(9)}"]
            store.put_message(Message(topic, draw_body(drawn), tags=tags, keys=keys, properties=properties))
    return root


def draw_value(drawn):
    return drawn.choice(
        [None, True, False, drawn.randrange(-5, 20), BIG + drawn.randrange(3), drawn.random() * 10, drawn.choice(WORDS)]
    )


def draw_body(drawn):
    if drawn.random() < 0.2:
        return drawn.choice([b"", b"\xff\x00", b"plain", b"[1, 2", b'"text"', b"[3, 4]", b"null"])
    names = [name for name in NAMES if drawn.random() < 0.7]
    value = {name: draw_value(drawn) for name in names}
    value["shop"] = drawn.choice([None, 3, {"name": draw_value(drawn)}, [draw_value(drawn), {"name": 5}]])
    return json.dumps(value, ensure_ascii=drawn.random() < 0.5).encode()


# ---- plain Python ------------------------------------------------------------------------------------------


def text_of(value):
    """A value of JSON as DuckDB gives it as text."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def field(message, path, place=None):
    """A field as text; None if the message does not have it."""
    name = ".".join(path)
    if place != "body" and name in message.properties:
        return message.properties[name]
    if place == "property":
        return None
    try:
        value = json.loads(message.body.decode())
    except ValueError:
        return None
    for step in path:
        if isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return None
    return text_of(value)


def number(text):
    """A text as an exact number; None if it is none."""
    if text is None or not re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", text):
        return None
    return int(text) if re.fullmatch("-?[0-9]+", text) else float(text)


def truth(text):
    return {"true": True, "false": False, "1": True, "0": False}.get(text)


def compare(left, sign, right):
    if left is None or right is None:
        return None
    return {
        "=": left == right, "<>": left != right, "<": left < right,
        "<=": left <= right, ">": left > right, ">=": left >= right,
    }[sign]  # fmt: skip


# ---- drawn conditions: their text, and a function of a message -> True, False or None -----------------------


def draw_field(drawn):
    """The text of a field, and the function that gives its text."""
    path = drawn.choice([("a",), ("b",), ("shop", "name"), ("order-id",), ("Größe",), ("shop", "1", "name")])
    place = drawn.choice([None, None, "property", "body"])
    names = [name if name.isidentifier() else f'"{name}"' for name in ([place] if place else []) + list(path)]
    text = f"{'.'.join(names[:-2])}[1].{names[-1]}" if path[-2:-1] == ("1",) else ".".join(names)
    return text, lambda message: field(message, path, place)


def quote(text):
    return "'" + text.replace("'", "''") + "'"


def draw_atom(drawn):
    text, value = draw_field(drawn)
    sign = drawn.choice(["=", "<>", "<", "<=", ">", ">="])
    limit = drawn.choice([3, -2, 2.5, 10, BIG + 1, 0])
    word = drawn.choice(WORDS)
    match drawn.randrange(12):
        case 0 | 1:
            return f"{text} {sign} {limit}", lambda m: compare(number(value(m)), sign, limit)
        case 2:
            return f"{limit} {sign} {text}", lambda m: compare(limit, sign, number(value(m)))
        case 3:
            sign = drawn.choice(["=", "<>"])
            return f"{text} {sign} {quote(word)}", lambda m: compare(value(m), sign, word)
        case 4:
            return f"{text} IS NULL", lambda m: value(m) is None
        case 5:
            wanted = drawn.choice([True, False])
            return f"{text} = {str(wanted).upper()}", lambda m: compare(truth(value(m)), "=", wanted)
        case 6:
            low, high = sorted(drawn.sample([-3, 0, 2.5, 7, 15], 2))

            def between(m):
                found = number(value(m))
                return None if found is None else low <= found <= high

            return f"{text} BETWEEN {low} AND {high}", between
        case 7:
            return (
                f"{text} IN (1, 2.5, {BIG + 1})",
                lambda m: None if (n := number(value(m))) is None else n in (1, 2.5, BIG + 1),
            )
        case 8:
            return f"{text} * 2 + 1 > 7", lambda m: None if (n := number(value(m))) is None else float(n) * 2 + 1 > 7
        case 9:
            topic, queue = f"T{drawn.randrange(4)}", drawn.randrange(4)
            return drawn.choice(
                [
                    (f"topic = '{topic}'", lambda m: m.topic == topic),
                    (f"QUEUEID <= {queue}", lambda m: m.queue_id <= queue),
                    (f"queue_offset % 3 = {queue}", lambda m: m.queue_offset % 3 == queue),
                    (f"'k{queue}' IN keys", lambda m: f"k{queue}" in m.keys),
                ]
            )
        case 10:
            return drawn.choice(
                [
                    ("tags = 'paid'", lambda m: compare(m.tags, "=", "paid")),
                    ("tags IS NULL", lambda m: m.tags is None),
                    ("body_text IS NULL", lambda m: m.body in (b"\xff\x00",)),
                    ("body_text = 'plain'", lambda m: None if m.body == b"\xff\x00" else m.body == b"plain"),
                ]
            )
        case _:
            return f"{text} LIKE '%e%'", lambda m: None if (t := value(m)) is None else "e" in t


def draw_condition(drawn, depth=2):
    if depth == 0 or drawn.random() < 0.3:
        return draw_atom(drawn)
    left_text, left = draw_condition(drawn, depth - 1)
    if drawn.random() < 0.2:
        return f"NOT ({left_text})", lambda m: None if (value := left(m)) is None else not value
    right_text, right = draw_condition(drawn, depth - 1)
    if drawn.random() < 0.5:
        return f"({left_text}) AND ({right_text})", lambda m: all_of(left(m), right(m))
    return f"({left_text} OR {right_text})", lambda m: any_of(left(m), right(m))


def all_of(a, b):
    return False if a is False or b is False else None if a is None or b is None else True


def any_of(a, b):
    return True if a is True or b is True else None if a is None or b is None else False


def assert_as_python(root, seed, rounds):
    drawn = random.Random(seed)
    with rocketstore.open(root) as store:
        batch = store.scan().head(10_000)
        messages = list(batch)
        for _ in range(rounds):
            text, function = draw_condition(drawn)
            expected = [row for row, message in enumerate(messages) if function(message)]
            condition = Where(text)
            assert condition.choose(batch).tolist() == expected, text
        for threads in (1, 2):  # scans in parts
            scan = store.scan(columns="phy_offset", batch_size=97, threads=threads).filtered(condition)
            found = [offset for part in scan for offset in part.phy_offset.tolist()]
            assert found == batch.phy_offset[expected].tolist()


@pytest.fixture(scope="module")
def root(tmp_path_factory, seed):
    return make_store(tmp_path_factory.mktemp("where") / "store", seed)


def test_drawn_conditions_choose_what_python_chooses(root, seed):
    assert_as_python(root, seed, 60)


@pytest.mark.slow
def test_thousands_of_conditions_choose_what_python_chooses(tmp_path, seed):
    for part in range(5):
        assert_as_python(make_store(tmp_path / str(part), seed + part), seed + part, 600)


# ---- single cases ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    root = tmp_path_factory.mktemp("where") / "store"
    with open_store(root) as store:
        for i, body in enumerate([b'{"n": "nan", "c": 3}', b'{"n": 150}', b'{"n": 9007199254740993}', b"\xff"]):
            store.put_message(
                Message("Orders", body, keys=[f"k{i}"], properties={"color": "red"} if i else {}, queue_id=0)
            )
    return root


def found(root, text, **options):
    with rocketstore.open(root) as store:
        return [message.keys[0] for message in store.scan(columns="keys").filtered(Where(text, **options)).head(9)]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("n > 100", ["k1", "k2"]),  # a text that is not a number is none, and no error
        ("n::INT > 100", ["k1"]),
        ("n = 9007199254740993", ["k2"]),  # not rounded as a double would be
        ("n = 9007199254740992", []),
        ("color = 'red' AND body_text IS NULL", ["k3"]),
        ("body_json->>'n' = '150'", ["k1"]),
        ("c IS NULL", ["k1", "k2", "k3"]),
        ("len(list_filter(keys, lambda n: n = 'k1')) = 1", ["k1"]),
        ("storeTimestamp > '2020-01-01' AND queueOffset < 1", ["k0"]),
        ("CASE WHEN n > 100 THEN TRUE ELSE color END", ["k1", "k2"]),
        ("coalesce(c, 5) = 5", ["k1", "k2", "k3"]),
        ("octet_length(body) = 1", ["k3"]),
        ("TRUE", ["k0", "k1", "k2", "k3"]),
        ("n = 150 -- only this one", ["k1"]),
    ],
)
def test_a_condition_chooses(small, text, keys):
    assert found(small, text) == keys


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n >", "is not complete"),
        ("n = 1)", "parentheses"),
        ("n == 'x", "character 6: unterminated"),
        ("größe = 1 und tags", "character 11: syntax error"),
        ("n = 1; DROP TABLE x", 'character 6: syntax error at or near ";"'),
        ("n = 1 LIMIT 3", "character 7"),
        ("n = 1) UNION SELECT (TRUE", "not a statement"),
        ("n = 1) OR (TRUE", "parentheses"),
        ("n IN (SELECT n FROM 'x.csv')", "SELECT and ANY are not allowed"),
        ("EXISTS (FROM 'x.csv')", "SELECT and ANY are not allowed"),
        ("(SELECT content FROM read_text('/etc/passwd')) = ''", "SELECT and ANY are not allowed"),
        ("read_text('/etc/passwd') = ''", "table function"),
        ("*", "* is not allowed"),
        ("COLUMNS('a.*') = 1", "* is not allowed"),
        ("$1 = n", "parameter"),
        ("count(*) > 1", "aggregates"),
        ("row_number() OVER () = 1", "window function"),
        ("n, c", "AND"),
        ("", "empty"),
        (" \n", "empty"),
        ("5", "is no condition"),
        ("n + 1", "is no condition"),
        ("n > c", "n::DOUBLE"),
        ("n BETWEEN c AND d", "n::DOUBLE"),
        ("keys = 'a'", "write 'TEXT' IN keys"),
        ("properties = 'a'", "property.NAME"),
        ("n = 1 OR (c = 2 AND tags > 3)", "in (tags > 3): Cannot compare"),
        ("nosuch(n) = 1", "nosuch"),
        ("storeTimestamp > 5", "Cannot compare"),
    ],
)
def test_a_wrong_condition_names_the_place(text, words):
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        Where(text)
    assert "\n" not in str(raised.value).replace(repr(text), "")


def test_a_name_that_no_message_has_is_reported(small):
    condition = Where("queuId = 1 OR n > 5")
    with rocketstore.open(small) as store:
        assert store.scan().filtered(condition).count() == 2
    assert condition.describe_unseen() == [
        "no message has a property or a JSON field 'queuId': did you mean 'queueId'?"
    ]


def test_times_in_a_condition_have_the_time_zone(small):
    with rocketstore.open(small) as store:
        first = store.scan().head(1)[0].store_time
    text = f"storeTimestamp >= '{first:%Y-%m-%d %H:%M:%S}'"
    assert found(small, text) == ["k0", "k1", "k2", "k3"]
    assert found(small, text, tz="Asia/Shanghai") == ["k0", "k1", "k2", "k3"]
    assert found(small, text, tz="America/New_York") == []


def test_the_text_of_a_condition_names_its_time_zone():
    assert repr(Where("1 < 2")) == "<Where '1 < 2'>"
    assert repr(Where("1 < 2", tz="Asia/Shanghai")) == "<Where '1 < 2', tz=Asia/Shanghai>"


def test_a_limit_counts_messages_that_meet_the_condition(small):
    with rocketstore.open(small) as store:
        scan = store.scan(limit=1).filtered(Where("n = 9007199254740993"))
        assert [batch.keys.to_pylist() for batch in scan] == [[["k2"]]]


def test_a_condition_is_one_more_condition_of_count(small):
    with rocketstore.open(small) as store:
        assert store.count("topic", where="n > 100").messages == 2


@pytest.mark.parametrize("text", [5, None, b"1 < 2", ["1 < 2"]])
def test_a_condition_that_is_no_text_is_refused(text):
    with pytest.raises(TypeError, match="a condition as text was expected"):
        Where(text)
