"""Lines of JSON and CSV are those of Python's ``json`` and ``csv``, for all text and all bytes."""

import csv
import io
import json
import random
import sys
import threading
import zlib
from itertools import accumulate

import numpy as np
import pytest
from reference.commit_log import write_file
from reference.record import build_record
from support.text_reference import csv_text, json_text, with_body

import rocketstore
from rocketstore.kernels.text_lines import TextLines, find_utf8
from rocketstore.kernels.value_columns import BinaryColumn, ListColumn, MapColumn, StringColumn
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.text_lines import batch_lines
from rocketstore.messages.text_rows import row_names

FORMS = {"json": {}, "csv": {"is_csv": True}, "csv-safe": {"is_csv": True, "is_safe": True}}
REFERENCE = {"json": json_text, "csv": csv_text, "csv-safe": lambda row: csv_text(row, is_safe=True)}
TEXTS = [
    "",
    "a",
    "plain",
    '"',
    "\\",
    '""',
    "a,b",
    "a\nb",
    "a\r\nb",
    "\r",
    "\t",
    "\0",
    "\x1f",
    "\x7f",
    "\x80",
    "\x9f",
    "\xa0",
    "\xad",
    "é",
    "\u2028",
    "\u2029",
    "\u200b",
    "\ufeff",
    "\ufffd",
    "\uffff",
    "\U0001f600",
    "\U000e0001",
    "\U0010ffff",
    "\U0001f468\u200d\U0001f469",
    "日本語",
    "é a",
    "日 本",
    "\u3000",
    "=1+1",
    "+1",
    "-1",
    "@x",
    "'",
    "\uff1d1",
    "\uff0b",
    "\uff0d",
    "\uff20",
    "\uff1c",
    "\uff21",
    '=1,"',
    '{"a": "b\\n"}',
    "null",
    "NaN",
    "a" * 7,
    "a" * 8,
    "a" * 9,
    "a" * 63,
    'ab"' * 40,
    "\x01" * 100,
    "é" * 50,
]
BYTES = [
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\x80",
    b"\xfb",
    b"\xf8=",
    b"abc\xff",
    b"\x80" * 7,
    b"\xf8" * 100,
]
NUMBERS = [0, 1, -1, 9, 10, 99, 100, 101, 999_999, 2**31 - 1, -(2**31)]
LARGE_NUMBERS = [*NUMBERS, 2**63 - 1, -(2**63), 10**18, -(10**18) + 1]


def strings(values, kind=StringColumn):
    data = [b"" if value is None else value if isinstance(value, bytes) else value.encode() for value in values]
    valid = np.array([value is not None for value in values], np.bool_)
    offsets = np.array([0, *accumulate(map(len, data))], np.int32)
    return kind(offsets, np.frombuffer(b"".join(data), np.uint8), None if valid.all() else valid)


def lists(values):
    return ListColumn(np.array([0, *accumulate(map(len, values))], np.int32), strings([v for vs in values for v in vs]))


def maps(values):
    offsets = np.array([0, *accumulate(map(len, values))], np.int32)
    return MapColumn(offsets, strings([k for v in values for k in v]), strings([t for v in values for t in v.values()]))


def random_text(rng):
    if rng.random() < 0.5:
        return rng.choice(TEXTS)
    points = (rng.choice((0x80, 0x800, 0x10000, 0x110000)) for _ in range(rng.randrange(40)))
    return "".join(chr(rng.randrange(most)) for most in points).encode("utf-8", "replace").decode()


def random_batch(rng, count):
    """Return a batch of hostile values."""

    def some(make):
        return [make() for _ in range(count)]

    def text_or_none():
        return rng.choice((None, random_text(rng)))

    columns = {
        "topic": strings(some(lambda: random_text(rng))),
        "queue_id": np.array(some(lambda: rng.choice(NUMBERS)), np.int32),
        "queue_offset": np.array(some(lambda: rng.choice(LARGE_NUMBERS)), np.int64),
        "tags": strings(some(text_or_none)),
        "keys": lists(some(lambda: [random_text(rng) for _ in range(rng.randrange(3))])),
        "properties": maps(some(lambda: {random_text(rng): random_text(rng) for _ in range(rng.randrange(3))})),
        "body": strings(some(lambda: rng.choice((None, random_text(rng), rng.choice(BYTES)))), BinaryColumn),
        "body_error": strings(some(text_or_none)),
        "raw_body": strings(some(lambda: rng.choice(BYTES) + random_text(rng).encode()), BinaryColumn),
    }
    return MessageBatch(columns, count)


def rows_of(batch):
    """Return the rows of a batch of ``random_batch`` as the lines should have them."""
    columns = {
        name: getattr(batch, name).tolist()
        if isinstance(getattr(batch, name), np.ndarray)
        else getattr(batch, name).to_pylist()
        for name in batch.names
    }
    names = {"queue_id": "queueId", "queue_offset": "queueOffset", "body_error": "bodyError", "raw_body": "rawBody"}
    return [
        with_body({names.get(name, name): value for name, value in zip(columns, row, strict=True)})
        for row in zip(*columns.values(), strict=True)
    ]


def lines_of(batch, names, form):
    return b"".join(map(bytes, batch_lines(batch, names, **FORMS[form])))


@pytest.mark.parametrize("form", FORMS)
def test_hostile_values_are_written_as_python_writes_them(form, seed):
    rng = random.Random(seed)
    for count in (0, 1, 3, 500):
        batch = random_batch(rng, count)
        rows = rows_of(batch)
        names = list(rows[0]) if rows else ["topic"]
        assert lines_of(batch, names, form) == "".join(map(REFERENCE[form], rows)).encode()
        rng.shuffle(names)
        some = names[: rng.randrange(1, len(names) + 1)]
        chosen = "".join(REFERENCE[form]({name: row[name] for name in some}) for row in rows)
        assert lines_of(batch, some, form) == chosen.encode()


@pytest.mark.parametrize("form", FORMS)
def test_each_character_is_written_as_python_writes_it(form):
    points = [*range(0xD800), *range(0xE000, 0x20000), *range(0x20000, sys.maxunicode + 1, 61), sys.maxunicode]
    texts = ["".join(map(chr, points[at : at + 997])) for at in range(0, len(points), 997)]
    texts += [f"{chr(point)} x" for point in range(0x3000)] + [f"12345{chr(point)}7" for point in range(0x300)]
    batch = MessageBatch({"topic": strings(texts), "keys": lists([[text] for text in texts])}, len(texts))
    expected = "".join(REFERENCE[form]({"topic": text, "keys": [text]}) for text in texts)
    assert lines_of(batch, ["topic", "keys"], form) == expected.encode()


@pytest.mark.parametrize("form", FORMS)
def test_a_single_empty_field_is_not_an_empty_line(form):
    batch = MessageBatch({"tags": strings([None, "", "a"])}, 3)
    assert (
        lines_of(batch, ["tags"], form) == "".join(REFERENCE[form]({"tags": tag}) for tag in (None, "", "a")).encode()
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "body",
    [
        b"x" * (1 << 20),
        b'"' * (1 << 20),
        b"\0" * (1 << 20),
        "日".encode() * (1 << 18),
        b"\xff" * (1 << 20),
        b"a" * ((1 << 14) - 1) + "\u2028é".encode() * 3,
    ],
)
def test_large_bodies_come_whole(form, body):
    batch = MessageBatch({"body": strings([body, b"", body], BinaryColumn), "keys": lists([[], [body.hex()], []])}, 3)
    rows = [with_body({"keys": keys, "body": value}) for keys, value in zip(batch.keys, batch.body, strict=True)]
    texts = list(map(bytes, batch_lines(batch, list(rows[0]), **FORMS[form])))
    assert b"".join(texts) == "".join(map(REFERENCE[form], rows)).encode()
    assert all(text.endswith(b"\n") for text in texts)


def test_lines_come_in_parts_so_that_ctrl_c_is_seen():
    batch = MessageBatch({"topic": strings(["t" * 100] * 20_000)}, 20_000)
    sizes = [len(text) for text in batch_lines(batch, ["topic"])]
    assert len(sizes) > 4
    assert max(sizes) < 1 << 19


@pytest.mark.parametrize("form", FORMS)
def test_messages_of_a_store_are_those_of_message_rows(form, tmp_path):
    bodies = [b"text", b"\xff\0", "é\u2028".encode(), b"", zlib.compress(b"zlib"), b"no zlib"]
    records, at = [], 0
    for n, body in enumerate(bodies):
        properties = f'TAGS\1t{n}\2KEYS\1a b\2A\1"\n\2A\1again\2'.encode()
        records.append(build_record("T", body, properties=properties, phy_offset=at, sys_flag=int(n > 3)))
        at += len(records[-1])
    write_file(tmp_path / "commitlog", 0, b"".join(records).ljust(1 << 16, b"\0"))
    with rocketstore.open(tmp_path) as store:
        with pytest.warns(UserWarning, match="1 message has a body"):
            batch = store.scan().head(10)
        rows = [with_body(message.to_dict()) for message in batch]
    assert list(rows[0]) == row_names()
    assert [row["bodyError"] is None for row in rows] == [True] * 5 + [False]
    assert lines_of(batch, row_names(), form) == "".join(map(REFERENCE[form], rows)).encode()
    assert lines_of(batch[::-1], row_names(), form) == "".join(map(REFERENCE[form], rows[::-1])).encode()


def test_the_lines_can_be_parsed(seed):
    batch = random_batch(random.Random(seed), 300)
    rows = rows_of(batch)
    names = list(rows[0])
    assert [json.loads(line) for line in lines_of(batch, names, "json").splitlines()] == rows
    parsed = list(csv.reader(io.StringIO(lines_of(batch, names, "csv").decode(), newline="")))
    assert [row[0] for row in parsed] == [row["topic"] for row in rows]
    assert [json.loads(row[names.index("properties")]) for row in parsed] == [row["properties"] for row in rows]


# ---- columns that contradict themselves --------------------------------------------------------------------


@pytest.mark.parametrize("offsets", [[0, 5], [-1, 2], [2, 1], [3, 4]])
def test_offsets_outside_of_the_data_are_refused(offsets):
    bounds, data = np.array(offsets, np.int32), np.frombuffer(b"ab", np.uint8)
    for column in (
        StringColumn(bounds, data),
        BinaryColumn(bounds, data),
        ListColumn(bounds, strings(["a", "b"])),
        MapColumn(bounds, strings(["a"] * 2), strings(["b"] * 2)),
    ):
        for is_csv in (False, True):
            with pytest.raises(ValueError, match="row 0: the offsets lie outside of the data"):
                TextLines(["x"], [column], 1, is_csv=is_csv).write(0)
    with pytest.raises(ValueError, match="row 0: the offsets lie outside of the data"):
        find_utf8(bounds, data)


def test_text_that_is_not_utf_8_is_refused_in_json():
    column = StringColumn(np.array([0, 1, 3], np.int32), np.frombuffer(b"a\xc3a", np.uint8))
    with pytest.raises(ValueError, match="row 1: a text is not UTF-8"):
        TextLines(["x"], [column], 2).write(0)


def test_columns_have_names_and_the_same_length():
    column = np.zeros(2, np.int32)
    for names, columns, rows in ([], [], 0), (["a"], [column, column], 2), (["a"], [column], 3):
        with pytest.raises(ValueError, match="column"):
            TextLines(names, columns, rows)
    lines = TextLines(["a", "b"], [column, None], 2)
    assert (lines.write(1), bytes(lines)) == (2, b'{"a": 0, "b": null}\n')
    assert (lines.write(2), bytes(lines)) == (2, b"")
    with memoryview(lines), pytest.raises(BufferError, match="in use"):
        lines.write(0)
    for row in (-1, 3):
        with pytest.raises(IndexError, match="of 2"):
            lines.write(row)


def test_a_second_thread_gets_no_text_that_is_being_written():
    lines = TextLines(["x"], [strings(['"' * (16 << 20)])], 1)
    thread = threading.Thread(target=lines.write, args=(0,))
    thread.start()
    is_refused = False
    while thread.is_alive() and not is_refused:
        try:
            memoryview(lines).release()
        except BufferError as error:
            is_refused = "another thread writes" in str(error)
    assert is_refused
    with pytest.raises(BufferError, match="another thread writes lines"):
        lines.write(1)
    thread.join()
    assert bytes(lines) == b'{"x": "' + b'\\"' * (16 << 20) + b'"}\n'


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_masked_number_is_null(dtype):
    column = np.ma.MaskedArray(np.array([7, 8, 9], dtype), [False, True, False])
    for is_csv, expected in ((False, b'{"x": 7}\n{"x": null}\n{"x": 9}\n'), (True, b'7\n""\n9\n')):
        lines = TextLines(["x"], [column], 3, is_csv=is_csv)
        assert lines.write(0) == 3
        assert bytes(lines) == expected
