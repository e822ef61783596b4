"""Bodies as text: body_text and body_json are those that Python's decoder and parser find, in tables and messages."""

import random

import numpy as np
import pytest
from support.puts import open_store
from support.text_reference import body_texts

import rocketstore
from rocketstore import Message
from rocketstore.kernels.json_text import MOST_LEVELS, find_json
from rocketstore.kernels.message_columns import TEXTS_OF_BODY
from rocketstore.kernels.value_columns import BinaryColumn
from rocketstore.messages.body_text import body_text_columns, find_charset

SEEDS = [
    '{"a":1,"b":[true,false,null,-1.5e+3,"x\\u00e9\\ud83d\\ude00"]}',
    "[]",
    "{}",
    " 0 ",
    "-0.1E5",
    '"\\"\\\\\\/\\b\\f\\n\\r\\t"',
    '[[[]],{"":{}}]',
    '"é😀"',
    "[1, 2 ,3]\n",
]
PARTS = [
    *'{}[]",:0123456789.-+eE\\utfnrlasbx \n\t\x01\x7fé',
    "\\ud83d",
    "\\ude00",
    "true",
    "NaN",
    "Infinity",
    ",]",
    "\ufeff",
]


def draw_text(rng):
    """Return a text of JSON with up to four changes."""
    chars = [*rng.choice(SEEDS)]
    for _ in range(rng.randrange(5)):
        at = rng.randrange(len(chars) + 1)
        chars[at : at + rng.randrange(2)] = rng.choice([[], [rng.choice(PARTS)]])
    return "".join(chars)


def column_of(bodies):
    offsets = np.cumsum([0, *(len(body or b"") for body in bodies)]).astype(np.int32)
    valid = np.array([body is not None for body in bodies], np.bool_)
    return BinaryColumn(offsets, np.frombuffer(b"".join(body or b"" for body in bodies), np.uint8), valid)


@pytest.mark.parametrize("charset", ["utf-8", "gbk", "utf-16-le", "shift_jis"])
def test_texts_and_json_are_those_of_python(charset, seed):
    rng = random.Random(seed)
    bodies = [draw_text(rng).encode(charset, "ignore") for _ in range(2000)]
    bodies += [rng.randbytes(rng.randrange(5)) for _ in range(200)] + [None] * 20
    rng.shuffle(bodies)
    made = body_text_columns(column_of(bodies), TEXTS_OF_BODY, charset)
    assert [*zip(*made.values(), strict=True)] == [body_texts(body, charset) for body in bodies]
    assert bytes(made["body_json"].data).decode()  # null rows have no bytes that are not UTF-8


@pytest.mark.parametrize("bracket", ["[]", "{}"])
def test_json_may_have_so_many_levels(bracket):
    def nested(levels):
        begin = bracket[0] if bracket == "[]" else '{"":'
        return (begin * (levels - 1) + bracket + bracket[1] * (levels - 1)).encode()

    texts = [nested(MOST_LEVELS), nested(MOST_LEVELS + 1), b"[" * 2_000_000]
    column = column_of(texts)
    assert find_json(column.offsets, column.data).tolist() == [True, False, False]


@pytest.mark.parametrize("offsets", [[0, 5], [-1, 2], [2, 1]])
def test_offsets_outside_of_the_data_are_refused(offsets):
    with pytest.raises(ValueError, match="row 0: the offsets lie outside"):
        find_json(np.array(offsets, np.int32), np.zeros(4, np.uint8))


@pytest.mark.parametrize(
    ("name", "known"), [("GBK", "gbk"), ("utf8", "utf-8"), ("GB18030", "gb18030"), ("cp1252", "cp1252")]
)
def test_a_charset_has_the_name_that_python_gives_it(name, known):
    assert find_charset(name) == known


@pytest.mark.parametrize(("name", "hint"), [("gkb", "did you mean 'gbk'"), ("base64", "give a charset"), ("", "give")])
def test_an_unknown_charset_is_refused_in_one_sentence(name, hint):
    with pytest.raises(ValueError, match=f"charset={name!r}: there is no such charset: {hint}"):
        find_charset(name)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "store"
    with open_store(path) as store:
        for body in ('{"a": "中"}'.encode(), '{"a": "中"}'.encode("gbk"), b"plain", b"\xff"):
            store.put_message(Message("T", body, queue_id=0))
        store.put_message(Message("T", b"[1]" * 99 + b"\xff", queue_id=0, compress="zlib"))
    return path


def test_scans_and_messages_have_the_texts_that_are_requested(root):
    with rocketstore.open(root) as store:
        scan = store.scan(columns=TEXTS_OF_BODY)
        batch = scan.head(9)
        assert batch.body_text.to_pylist() == ['{"a": "中"}', None, "plain", None, None]
        assert batch.body_json.to_pylist() == ['{"a": "中"}', None, None, None, None]
        assert [(m.body_text, m.body_json) for m in batch] == [*zip(batch.body_text, batch.body_json, strict=True)]
        assert [m.body_text for m in store.scan().head(9)] == batch.body_text.to_pylist()
        assert "body_text" not in store.scan().head(1).names
        gbk = store.scan(columns=["phy_offset", *TEXTS_OF_BODY], charset="gbk").head(9)
        assert gbk.body_json.to_pylist()[1] == '{"a": "中"}'
        found = store.commit_log.get_messages(gbk.phy_offset, columns=TEXTS_OF_BODY, charset="gbk")
        assert [m.body_text for m in found] == found.body_text.to_pylist() == gbk.body_text.to_pylist()


def test_a_body_that_cannot_be_decoded_has_no_text(root, monkeypatch):
    with rocketstore.open(root) as store:
        batch = store.scan(columns=[*TEXTS_OF_BODY, "body", "raw_body", "sys_flag"]).head(9)
        broken = Message.of_fields({"raw_body": b"no zlib", "sys_flag": batch[4].sys_flag, "phy_offset": 0})
    assert (broken.body_text, broken.body_json) == (None, None)
    assert "body_text" not in dir(broken)
