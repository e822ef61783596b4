"""``rocketstore import``: exported rows are imported again, each row once, also after a kill."""

import base64
import csv
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import cut_store, damages, stores
from support.cli import COMMAND, assert_one_line, golden, on_terminal, rows, run, start
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.config import camel_case
from rocketstore.kernels.message_columns import MESSAGE_FIELDS

RICH = "rich-5.5.0"
FORMATS = ["parquet", "arrow", "jsonl", "csv"]
NEW = [name for name in stores.NAMES if not name.endswith("5.3.3")]
OLD = [pytest.param(name, marks=pytest.mark.slow) for name in stores.NAMES if name.endswith("5.3.3")]
PLACES = {"phyOffset", "msgId", "size", "bodyCrc", "sysFlag", "queueOffset"}  # columns about the log


def import_(source, store, *options):
    result = run("import", source, store, *options)
    assert (result.exit_code, result.stdout) == (0, "")
    assert re.fullmatch(rf"{store}: has all rows of {source} \([0-9,]+ rows?\)\n", result.stderr)
    return store


def export(store, target):
    result = run("export", store, target, "--containers")
    assert result.exit_code == 0, result.stderr
    return target


def messages(store):
    found = run("cat", store)
    return rows(found, exit_code=0 if found.stdout else 1)


def without(row, *names):
    return {name: value for name, value in row.items() if name not in {*PLACES, *names}}


def write_json(path, messages):
    path.write_text("".join(json.dumps(row) + "\n" for row in messages), "utf-8")
    return path


def write_rows(path, rows):
    """A file of rows in the format that its name says."""
    if path.suffix == ".jsonl":
        return write_json(path, rows)
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerow(rows[0])
            csv.writer(file).writerows((row["topic"], row["body"], json.dumps(row["keys"])) for row in rows)
        return path
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    import pyarrow.parquet

    table = pa.Table.from_pylist(rows)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


def bodies(store):
    with rocketstore.open(store) as opened:
        return [message.body.decode() for batch in opened.scan() for message in batch]


@pytest.fixture
def broker_conf(tmp_path):
    """Makes a broker's file with the settings of a golden store."""

    def make(name):
        lines = [f"{camel_case(key)}={str(value).lower()}\n" for key, value in stores.settings(name).items()]
        path = tmp_path / f"{name}.conf"
        path.write_text("".join(lines))
        return path

    return make


@pytest.fixture
def lines(tmp_path):
    """A file of 300 messages in two topics."""
    return write_json(
        tmp_path / "in.jsonl", [{"topic": f"T{n % 2}", "body": f"message {n}", "keys": [f"k{n}"]} for n in range(300)]
    )


# ---- round trips -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", [RICH, "batch-5.5.0", "cut-5.5.0"])
def test_exported_messages_are_imported_again(name, form, tmp_path, broker_conf):
    if form in ("parquet", "arrow"):
        pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    source = export(golden(name), tmp_path / f"out.{form}")
    store = import_(source, tmp_path / "store", "--keep-times", "--broker-conf", broker_conf(name))
    found, expected = messages(store), messages(golden(name))
    assert list(map(without, found)) == list(map(without, expected))
    flags = [(row["sysFlag"] & ~1, row["queueOffset"]) for row in expected]
    if not name.startswith("cut"):
        assert [(row["sysFlag"], row["queueOffset"]) for row in found] == flags


def test_inner_batches_behind_plain_messages_of_their_topic_need_its_type_from_the_old_store(tmp_path):
    rows = [Message("B", b"plain", queue_id=0)] * 4100  # more than are put at once
    with rocketstore.open(tmp_path / "old", "a", config=StoreConfig.small()) as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        store.put_messages(rows)
        store.put_message(Message.batch("B", [Message("B", b"a"), Message("B", b"b")], queue_id=0))
    source = export(tmp_path / "old", tmp_path / "out.jsonl")
    for options in ([], ["--resume"]):
        result = run("import", source, tmp_path / "new", "--small", *options)
        assert_one_line(result, "topic 'B'", "has no types of topics", "copy config/topics.json")
    (tmp_path / "typed" / "config").mkdir(parents=True)
    shutil.copy(tmp_path / "old" / "config" / "topics.json", tmp_path / "typed" / "config")
    store = import_(source, tmp_path / "typed", "--small")
    with rocketstore.open(store) as opened:
        assert opened.consume_queue("B", 0).max_queue_offset == 4102


@pytest.mark.parametrize("name", NEW + OLD)
def test_with_bodies_as_they_were_stored_the_files_have_the_same_bytes(name, tmp_path, broker_conf):
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow, from the extra 'arrow'")
    with rocketstore.open(golden(name)) as store:
        table = store.scan(columns=list(MESSAGE_FIELDS), containers=True).to_arrow()
    pq.write_table(table, tmp_path / "in.parquet")
    made = import_(tmp_path / "in.parquet", tmp_path / "store", "--keep-times", "--broker-conf", broker_conf(name))
    if name.startswith("cut"):  # offsets begin at 0
        with rocketstore.open(made) as store:
            found = store.scan(columns=["size", "body_crc", "raw_body", "sys_flag", "properties"]).to_arrow()
        assert found.combine_chunks().equals(table.select(found.column_names).combine_chunks())
        return
    for path in sorted((made / "commitlog").iterdir()):
        assert path.read_bytes() == (golden(name) / "commitlog" / path.name).read_bytes()


def test_without_keep_times_messages_are_new_in_the_same_queues(tmp_path):
    source = export(golden(RICH), tmp_path / "out.jsonl")
    before = time.time_ns() // 1_000_000
    found = messages(import_(source, tmp_path / "store", "--small"))
    expected = messages(golden(RICH))
    assert all(row["storeTimestamp"] >= before for row in found)
    assert {row["storeHost"] for row in found} == {"127.0.0.1:10911"}
    assert [without(row, "storeTimestamp", "storeHost") for row in found] == [
        without(row, "storeTimestamp", "storeHost") for row in expected
    ]


def test_topic_and_body_are_enough(lines, tmp_path):
    found = messages(import_(lines, tmp_path / "store", "--small"))
    assert [(row["topic"], row["body"], row["keys"]) for row in found] == [
        (f"T{n % 2}", f"message {n}", [f"k{n}"]) for n in range(300)
    ]
    assert {row["queueId"] for row in found} == {0, 1, 2, 3}
    answer = rows(run("query", tmp_path / "store", "--topic", "T1", "--key", "k7"))
    assert [row["body"] for row in answer] == ["message 7"]


def test_a_store_that_exists_continues(lines, tmp_path):
    store = import_(lines, import_(lines, tmp_path / "store", "--small"))
    assert bodies(store) == [f"message {n}" for n in range(300)] * 2


TEXTS = ["", "a", "é\U0001f680", "\"'\\", "a,b\r\nc", "\rx", "\n", "\0", "\ufeffx", "\u2028", "null", " ", "\x01"]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_any_text_comes_back(form, tmp_path, seed):
    rng = random.Random(seed)
    put = []
    with rocketstore.open(tmp_path / "a", "a", config=StoreConfig(**SMALL)) as store:
        for _ in range(300):
            text = "".join(rng.choices(TEXTS, k=3))
            body = rng.choice([text.encode(), rng.randbytes(rng.randrange(20))])
            tags, keys = rng.choice([None, "x", 'a"b']), rng.choice([(), ["k"], ['k"', "\ufeff,"]])
            put.append(Message("T\ufeff", body, tags=tags, keys=keys, properties={"p": f"{text}."}, queue_id=0))
        store.put_messages(put)
    made = import_(export(tmp_path / "a", tmp_path / f"out.{form}"), tmp_path / "b", "--small", "--keep-times")
    with rocketstore.open(made) as store:
        found = [message for batch in store.scan() for message in batch]
    assert [(m.body, m.tags, m.keys, m.properties) for m in found] == [
        (m.raw_body, m.tags, m.keys, m.properties) for m in put
    ]


def test_raw_bodies_are_base64_in_text(tmp_path):
    (row,) = [row for row in messages(golden(RICH)) if row["sysFlag"] & 0x701 == 0x301][:1]
    with rocketstore.open(golden(RICH)) as store:
        message = store.look_message_by_offset(row["phyOffset"])
    row["rawBodyBase64"] = base64.b64encode(message.raw_body).decode()
    made = import_(write_json(tmp_path / "in.jsonl", [row]), tmp_path / "store", "--small")
    with rocketstore.open(made) as store:
        (found,) = next(iter(store.scan(columns=["raw_body", "sys_flag", "body"])))
    assert (found.raw_body, found.sys_flag, found.body) == (message.raw_body, message.sys_flag, message.body)


@pytest.mark.parametrize("form", ["json", "csv", "arrow"])
def test_standard_input(form, tmp_path):
    data = b'{"topic": "T", "body": "x"}\n\n{"topic": "T", "body": "y"}\n'
    if form == "csv":
        data = b"\xef\xbb\xbftopic,body\nT,x\nT,y\n"
    if form == "arrow":
        pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
        table = pa.table({"topic": ["T", "T"], "body": ["x", "y"]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data = sink.getvalue().to_pybytes()
    path = tmp_path / "data"
    path.write_bytes(data)
    with path.open("rb") as file:
        process = start("import", "-", tmp_path / "store", "--format", form, "--small", stdin=file)
        assert process.communicate(timeout=60) == ("", f"{tmp_path / 'store'}: has all rows of - (2 rows)\n")
    assert process.returncode == 0
    assert bodies(tmp_path / "store") == ["x", "y"]
    assert not (tmp_path / "store" / "config" / "rocketstore-import.json").exists()


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_standard_input_that_is_closed_is_an_error(form, tmp_path):
    command = [*COMMAND, "import", "-", str(tmp_path / "new"), "--format", form]
    answer = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "Error: -: standard input is closed: use < FILE\n"
    assert list(tmp_path.iterdir()) == []


def test_standard_input_of_an_arrow_file_says_what_to_give(tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    for source in (export(golden(RICH), tmp_path / "a.arrow"), write_json(tmp_path / "b", [GOOD])):
        with source.open("rb") as file:
            process = start("import", "-", tmp_path / "store", "--format", "arrow", "--small", stdin=file)
            error = process.communicate(timeout=60)[1]
        assert process.returncode == 1
        assert error.startswith("Error: -: is not an Arrow stream (")
        assert "; export writes an Arrow file: give its path" in error


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_without_rows_makes_a_store_without_messages(form, tmp_path):
    source = tmp_path / f"out.{form}"
    run("export", golden(RICH), source, "--topic", "nope")
    assert messages(import_(source, tmp_path / "store", "--small")) == []


# ---- where it goes -----------------------------------------------------------------------------------------


def test_sizes_are_given_by_options_or_by_the_brokers_file(lines, tmp_path, broker_conf):
    store = import_(lines, tmp_path / "a", "--small", "--log-file-size", 4096, "--slots", 50, "--items", 100)
    assert {path.stat().st_size for path in (store / "commitlog").iterdir()} == {4096}
    assert {path.stat().st_size for path in (store / "index").iterdir()} == {40 + 50 * 4 + 100 * 20}
    store = import_(lines, tmp_path / "d", "--small", "--log-file-size", "64k")
    assert {path.stat().st_size for path in (store / "commitlog").iterdir()} == {65536}
    store = import_(lines, tmp_path / "b", "--broker-conf", broker_conf(RICH))
    assert {path.stat().st_size for path in (store / "commitlog").iterdir()} == {131072}
    assert {path.stat().st_size for path in (import_(lines, tmp_path / "c", "--small") / "commitlog").iterdir()} == {
        1 << 20
    }


def test_small_leaves_an_old_store_its_sizes_and_names_them(lines, tmp_path):
    store = import_(lines, tmp_path / "store", "--log-file-size", "2M", "--slots", 50, "--items", 100)
    result = run("import", lines, store, "--small")
    assert result.exit_code == 0
    kept = "mapped_file_size_commit_log=2097152, max_hash_slot_num=50, max_index_num=100"
    assert (
        f"{store}: the store keeps its own sizes, which are not those of StoreConfig.small(): {kept}" in result.stderr
    )
    assert len(messages(store)) == 600


def test_sizes_that_a_store_has_not_are_an_error(lines, tmp_path):
    store = import_(lines, tmp_path / "store", "--small")
    result = run("import", lines, store, "--log-file-size", 4096)
    assert_one_line(result, "mapped_file_size_commit_log: 4096 by the given size", "(--log-file-size)")
    assert len(messages(store)) == 300


@pytest.mark.parametrize("options", [
    ["--small", "--broker-conf", "{conf}"], ["--slots", "5"], ["--log-file-size", "0"], ["--log-file-size", "2G"],
    ["--log-file-size", "x"], ["--format", "xml"],
])  # fmt: skip
def test_wrong_options_are_wrong_usage(options, lines, tmp_path, broker_conf):
    conf = str(broker_conf(RICH))
    result = run("import", lines, tmp_path / "store", *[option.format(conf=conf) for option in options])
    assert result.exit_code == 2
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("options", ["in.dat", "-", "- --format parquet", "- --format csv --resume"])
def test_a_source_must_say_what_it_is(options, tmp_path):
    (tmp_path / "in.dat").write_bytes(b"")
    source, *others = options.replace("in.dat", str(tmp_path / "in.dat")).split()
    result = run("import", source, tmp_path / "store", *others)
    assert result.exit_code == 2
    assert not (tmp_path / "store").exists()


def test_a_store_that_is_written_by_another_is_left_alone(lines, tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig(**SMALL)):
        assert_one_line(run("import", lines, tmp_path / "store"), "lock")
    assert messages(tmp_path / "store") == []


def test_no_store_is_made_among_other_files(lines, tmp_path):
    store = import_(lines, tmp_path / "store", "--small")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").touch()
    for directory in (store / "index", store / "commitlog", store / "consumequeue", tmp_path / "docs"):
        before = sorted(directory.rglob("*"))
        assert_one_line(run("import", lines, directory, "--small"), directory, "is not a store, and is not empty")
        assert sorted(directory.rglob("*")) == before


@pytest.mark.parametrize("name", [None, "config", "lock", "lost+found"])
def test_a_store_is_made_in_a_directory_that_has_no_other_files(name, lines, tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    if name:
        (store / name).touch() if name == "lock" else (store / name).mkdir()
    assert len(messages(import_(lines, store, "--small"))) == 300


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow"])
def test_a_source_that_is_no_file_makes_no_store(form, tmp_path):
    (tmp_path / "in").mkdir()
    assert_one_line(run("import", tmp_path / "in", tmp_path / "store", "--format", form), "in", "Is a directory")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("source", ["/dev/full", "/dev/null"])
def test_a_device_is_no_source(source, tmp_path):
    """The first never ends, and has no line."""
    assert_one_line(run("import", source, tmp_path / "new", "--format", "json"), source, "standard input")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", FORMATS)
def test_a_pipe_by_its_name_is_not_waited_for(form, tmp_path):
    source = tmp_path / f"in.{form}"
    os.mkfifo(source)
    assert_one_line(run("import", source, tmp_path / "store"), source, "is not a regular file", "standard input")
    assert not (tmp_path / "store").exists()


def test_a_source_that_is_not_there_makes_no_store(tmp_path):
    assert_one_line(run("import", tmp_path / "no.jsonl", tmp_path / "store"), "no.jsonl", "No such file")
    assert not (tmp_path / "store").exists()


# ---- refusals ----------------------------------------------------------------------------------------------


def assert_refused(source, store, *words, stored=0):
    result = run("import", source, store, "--small")
    assert_one_line(result, source, *words, f"({stored:,} rows stored)")
    assert len(messages(store)) == stored


GOOD = {"topic": "T", "body": "x"}


@pytest.mark.parametrize(("row", "words"), [
    ({"body": "x"}, ["topic and body are missing"]),
    ({"topic": None, "body": "x"}, ["topic and body are missing"]),
    ({"topic": "T"}, ["topic and body are missing"]),
    ({"topic": 5, "body": "x"}, ["column topic: must be a string, not 5"]),
    ({"topic": "T", "body": {}}, ["column body: must be a string, not {}"]),
    (GOOD | {"bodyBase64": "eA=="}, ["columns body, bodyBase64"]),
    ({"topic": "T", "bodyBase64": "e"}, ["column bodyBase64"]),
    (GOOD | {"rawBodyBase64": "eA=="}, ["rawBody", "sysFlag"]),
    (GOOD | {"rawBody": "x", "sysFlag": 0}, ["rawBodyBase64"]),
    (GOOD | {"tag": "x"}, ["columns tag: are none of topic"]),
    (GOOD | {"queueId": "1"}, ["column queueId: must be an integer, not '1'"]),
    (GOOD | {"queueId": 1.5}, ["column queueId"]),
    (GOOD | {"queueId": True}, ["column queueId"]),
    (GOOD | {"queueId": 2**31}, ["column queueId: 2147483648 does not fit 32 bits"]),
    (GOOD | {"bornTimestamp": "2026-01-01"}, ["column bornTimestamp: must be an integer"]),
    (GOOD | {"keys": "a"}, ["column keys: must be a list of strings"]),
    (GOOD | {"keys": ["a b"]}, ["a key must have no spaces"]),
    (GOOD | {"properties": {"a": 1}}, ["column properties: must be a string, not 1"]),
    (GOOD | {"properties": {"TAGS": "a"}, "tags": "b"}, ["TAGS", "'a'", "'b'"]),
    ({"topic": "T", "body": "\ud800"}, ["column body", "surrogates"]),
    (GOOD | {"bornHost": "here"}, ["'here'", "must be an address and a port"]),
    (GOOD | {"queueId": -1}, ["queue_id=-1"]),
    (GOOD | {"topic": "a/b"}, ["'a/b'"]),
    (GOOD | {"properties": {"a": "x" * 40000}}, ["PROPERTIES_SIZE_EXCEEDED"]),
    ({"topic": "T", "body": "x" * (5 << 20)}, ["MESSAGE_ILLEGAL"]),
])  # fmt: skip
def test_a_row_that_cannot_be_is_an_error_with_its_line(row, words, tmp_path):
    source = write_json(tmp_path / "in.jsonl", [GOOD, GOOD, row, GOOD])
    result = run("import", source, tmp_path / "store", "--small")
    assert_one_line(result, f"{source}, line 3: ", *words)
    assert ("--resume" in result.stderr) == ("(2 rows" in result.stderr)
    stored = len(messages(tmp_path / "store"))
    assert f"({stored} rows stored)" in result.stderr
    assert stored in (0, 2)


@pytest.mark.parametrize("line", [b"{", b"[1]", b"\xff", b'"x"', b"[" * 100_000])
def test_a_line_that_is_no_object_is_an_error(line, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"topic": "T", "body": ""}\n' + line + b"\n")
    assert_refused(source, tmp_path / "store", "line 2")


@pytest.mark.parametrize(("data", "words"), [
    (b"", ["line 1", "must name the columns, at least topic and body"]),
    (b"\nT,a\n", ["line 1", "must name the columns, at least topic and body"]),
    (b"topic\nT\n", ["line 1", "topic and body are missing"]),
    (b"topic,body,x\nT,a,b\n", ["line 1", "columns x: are none of"]),
    (b"topic,body,body\nT,a,b\n", ["line 1", "columns body: are there more than once"]),
    (b"topic,body\nT,a\nT\n", ["line 3", "has 1 fields, where the first line has 2"]),
    (b"topic,body\nT,a\nT,b,c\n", ["line 3", "has 3 fields"]),
    (b'topic,body\nT,a\nT,"b\n', ["line 3"]),
    (b'topic,body\nT,"a\n\nb"\nT,\xff\n', ["line 5", "utf-8"]),
    (b"topic,body,queueId\nT,a,x\n", ["line 2", "column queueId: must be an integer, not 'x'"]),
    (b"topic,body,queueId\nT,a,1_0\n", ["line 2", "column queueId: must be an integer, not '1_0'"]),
    ("topic,body,queueId\nT,a,\u00a07\n".encode(), ["line 2", r"must be an integer, not '\xa07'"]),
    ("topic,body,bornTimestamp\nT,a,٣\n".encode(), ["line 2", "column bornTimestamp: must be an integer, not '٣'"]),
    (b"topic,body,keys\nT,a,a b\n", ["line 2", 'column keys: must be a list of strings as JSON, like ["a", "b"], not',
                                     "not 'a b'"]),
    (b"topic,body,properties\nT,a,x\n", ["line 2", "properties: must be an object of strings as JSON", "not 'x'"]),
    (b"topic,body\n,a\n", ["line 2", "topic and body are missing"]),
])  # fmt: skip
def test_a_line_of_csv_that_cannot_be_is_an_error(data, words, tmp_path):
    source = tmp_path / "in.csv"
    source.write_bytes(data)
    assert_refused(source, tmp_path / "store", *words)


def test_a_row_of_a_table_that_cannot_be_is_an_error_with_its_number(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow, from the extra 'arrow'")
    import pyarrow as pa

    source, topics = tmp_path / "in.parquet", ["T"] * 10_000
    pq.write_table(pa.table({"topic": [*topics, None], "body": ["x"] * 10_001}), source)
    assert_refused(source, tmp_path / "a", "column topic, row 10000: is null", stored=8192)
    pq.write_table(pa.table({"topic": [*topics, "a/b"], "body": ["x"] * 10_001}), source)
    assert_refused(source, tmp_path / "b", "row 10000", "'a/b'", stored=10_000)
    pq.write_table(pa.table({"topic": topics, "body": ["x"] * 10_000, "keys": [["a b"]] * 10_000}), source)
    assert_refused(source, tmp_path / "c", "row 0", "a key must have no spaces")
    pq.write_table(pa.table({"topic": topics, "body": list(range(10_000))}), source)
    assert_refused(source, tmp_path / "d", "column body: string is needed, not int64")


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_file_of_another_format_is_an_error(form, tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    source = tmp_path / f"in.{form}"
    source.write_text("no table")
    assert_one_line(run("import", source, tmp_path / "store"), source)
    assert not (tmp_path / "store").exists()


def test_keep_times_needs_them(lines, tmp_path):
    result = run("import", lines, tmp_path / "store", "--small", "--keep-times")
    assert_one_line(result, f"{lines}, line 1: column storeTimestamp", "(0 rows stored)")


# ---- each row once -----------------------------------------------------------------------------------------


@pytest.fixture
def broken(monkeypatch):
    """Has an import end, as if it were killed, when it saves its state for the n-th time, before or after that."""
    from rocketstore.cli.transfer import import_ as module

    def import_some(saves, before, *arguments):
        count, replace = 0, module.replace_file

        def replace_some(*parts):
            nonlocal count
            count += 1
            if count == saves and before:
                raise RuntimeError("killed")
            replace(*parts)
            if count == saves:
                raise RuntimeError("killed")

        with monkeypatch.context() as patch:
            patch.setattr(module, "replace_file", replace_some)
            patch.setattr(module, "SAVE_SECONDS", 0)
            with pytest.raises(RuntimeError, match="killed"):
                run("import", *arguments)

    monkeypatch.setattr("rocketstore.cli.transfer.sources.MAX_ROWS", 50)
    return import_some


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("saves", [1, 2, 3, 7, 8])
def test_a_killed_import_continues_and_stores_each_row_once(saves, before, broken, lines, tmp_path):
    store = tmp_path / "store"
    broken(saves, before, lines, store, "--small")
    stored = min(saves - 1, 6) * 50
    assert bodies(store) == [f"message {n}" for n in range(stored)]
    is_done = saves == 8 and not before
    if stored and not is_done:
        assert_one_line(run("import", lines, store), "rows", str(lines), "--resume", "--force")
    result = run("import", lines, store, "--resume")
    assert result.exit_code == 0
    assert result.stderr == f"{store}: has all rows of {lines} (300 rows)\n"
    assert bodies(store) == [f"message {n}" for n in range(300)]


@pytest.mark.parametrize("saves", [2, 3])
def test_messages_that_others_put_meanwhile_are_not_mistaken_for_rows(saves, broken, lines, tmp_path):
    store = tmp_path / "store"
    broken(saves, True, lines, store, "--small")
    for again in (2, 1):
        with rocketstore.open(store, "a") as opened:
            opened.put_message(Message("T0", b"of others"))
        broken(again, True, lines, store, "--resume")
    assert run("import", lines, store, "--resume").exit_code == 0
    found = bodies(store)
    assert found.count("of others") == 2
    assert [body for body in found if body != "of others"] == [f"message {n}" for n in range(300)]


def test_rows_that_are_all_alike_are_counted(broken, tmp_path):
    source = write_json(tmp_path / "in.jsonl", [GOOD] * 300)
    broken(4, True, source, tmp_path / "store", "--small")
    import_(source, tmp_path / "store", "--resume")
    assert len(messages(tmp_path / "store")) == 300


def test_a_source_whose_stored_rows_were_changed_is_not_continued(broken, lines, tmp_path):
    store = tmp_path / "store"
    broken(3, False, lines, store, "--small")
    assert_one_line(run("import", lines, store, "--resume", "--keep-times"), "100 rows", "--force")
    lines.write_text(lines.read_text().replace("message 70", "message x"))
    assert_one_line(run("import", lines, store, "--resume"), lines, "only the first 70 of 100 stored rows", "--force")
    write_json(lines, [GOOD] * 20)
    assert_one_line(run("import", lines, store, "--resume"), lines, "only the first 0 of 100 stored rows", "--force")
    assert len(messages(store)) == 100
    import_(lines, store, "--force")
    assert len(messages(store)) == 120


@pytest.mark.parametrize("form", FORMATS)
def test_rows_that_are_corrected_are_continued(form, tmp_path, monkeypatch):
    monkeypatch.setattr("rocketstore.cli.transfer.sources.MAX_ROWS", 50)
    store, source = tmp_path / "store", tmp_path / f"in.{form}"
    rows = [{"topic": "T", "body": f"message {n}", "keys": [f"k{n}"]} for n in range(300)]
    for bad in (70, 170, 170, None):
        write_rows(source, [row | {"topic": "a/b"} if n == bad else row for n, row in enumerate(rows)])
        result = run("import", source, store, "--small", "--resume")
        if bad is not None:
            assert_one_line(result, source, f"({bad} rows stored)", "--resume")
            with rocketstore.open(store, "a") as opened:
                opened.put_message(Message("T", b"of others"))
    assert (result.exit_code, result.stderr) == (0, f"{store}: has all rows of {source} (300 rows)\n")
    found = bodies(store)
    assert found.count("of others") == 3
    assert [body for body in found if body != "of others"] == [f"message {n}" for n in range(300)]


def test_a_source_that_was_changed_after_a_kill_is_not_continued(broken, lines, tmp_path):
    store = tmp_path / "store"
    broken(3, True, lines, store, "--small")
    lines.write_text(lines.read_text().replace("message 299", "message x"))
    assert_one_line(run("import", lines, store, "--resume"), lines, "after a kill", "more than 50 rows", "--force")
    assert len(messages(store)) == 100


@pytest.mark.parametrize("stored", [0, 1])
def test_an_import_that_stored_nothing_is_not_in_the_way_of_another(stored, tmp_path):
    store = tmp_path / "store"
    if stored:
        import_(write_json(tmp_path / "in.jsonl", [GOOD]), store, "--small")
    source = tmp_path / "a.txt"
    source.write_text("topic,body\nT,x\n")
    assert_one_line(run("import", source, store, "--format", "json", "--small"), "line 1", "(0 rows stored)")
    import_(source, store, "--format", "csv")
    assert len(messages(store)) == stored + 1


def test_a_file_that_cannot_grow_is_named_and_the_import_continued(tmp_path):
    source, store = many(tmp_path / "in.jsonl"), tmp_path / "store"
    import_(write_json(tmp_path / "one.jsonl", [GOOD]), store, "--small", "--log-file-size", "1M")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, limits[1]))
    try:
        result = run("import", source, store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_one_line(result, store, "File too large", "--resume")
    import_(source, store, "--resume")
    assert bodies(store) == ["x", *(str(n) for n in range(MANY))]


def test_resume_and_force_are_wrong_usage_together(lines, tmp_path):
    assert run("import", lines, tmp_path / "store", "--resume", "--force").exit_code == 2
    assert not (tmp_path / "store").exists()


def test_another_store_than_the_state_says_is_refused(broken, lines, tmp_path):
    store = tmp_path / "store"
    broken(3, False, lines, store, "--small")
    for part in (store / "commitlog", store / "consumequeue", store / "index"):
        part.rename(tmp_path / part.name)
    (store / "checkpoint").unlink()
    assert_one_line(run("import", lines, store, "--resume"), store, "the import stopped at", "--force")


def test_a_state_that_is_damaged_is_an_error(broken, lines, tmp_path):
    store = tmp_path / "store"
    broken(3, False, lines, store, "--small")
    path = store / "config" / "rocketstore-import.json"
    state = json.loads(path.read_text())
    changes = [{"asked": 5}, {"asked": {}}, {"rows": "x"}, {"rows": -5}, {"rows": 10**30}, {"phy_offset": None}]
    damaged = ["{", "[]", "{}", "[" * 100_000, *(json.dumps(state | change) for change in changes)]
    for text in [*damaged, json.dumps(state | {"stage": 3}), json.dumps(state | {"more": 1})]:
        path.write_text(text)
        for options in ([], ["--resume"]):
            assert_one_line(run("import", lines, store, *options), path, "JSON", "--force starts again")
    import_(lines, store, "--force")


def test_an_import_that_is_done_is_not_done_again_by_resume_alone(lines, tmp_path):
    store = import_(lines, tmp_path / "store", "--small", "--resume")
    result = run("import", lines, store, "--resume")
    assert (result.exit_code, result.stderr) == (0, f"{store}: has all rows of {lines} (300 rows)\n")
    other = write_json(tmp_path / "other.jsonl", [GOOD])
    assert len(messages(import_(other, store, "--resume"))) == 301
    assert len(messages(import_(other, store))) == 302


def test_an_import_that_is_done_continues_where_its_source_grew(lines, tmp_path):
    store = import_(lines, tmp_path / "store", "--small")
    with lines.open("a") as file:
        file.write('{"topic": "T", "body": "message 300"}\n')
    assert run("import", lines, store, "--resume").stderr == f"{store}: has all rows of {lines} (301 rows)\n"
    lines.write_text(lines.read_text().replace("message 70", "message x"))
    assert_one_line(run("import", lines, store, "--resume"), lines, "only the first 70 of 301 stored rows", "--force")
    assert bodies(store) == [f"message {n}" for n in range(301)]


def test_a_row_that_is_refused_leaves_those_before_it_and_nothing_twice(tmp_path):
    source = write_json(tmp_path / "in.jsonl", [GOOD] * 70 + [GOOD | {"topic": "a/b"}] + [GOOD] * 9)
    assert_refused(source, tmp_path / "store", "line 71", stored=70)
    assert_one_line(run("import", source, tmp_path / "store", "--resume"), "line 71", "(70 rows stored)")
    assert len(messages(tmp_path / "store")) == 70


MANY = 20_000


def many(path, count=MANY):
    return write_json(path, [{"topic": "T", "body": f"{n}", "keys": [f"{n}"]} for n in range(count)])


def wait_for_state(process, store):
    state, until = store / "config" / "rocketstore-import.json", time.monotonic() + 60
    while not state.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)


def test_ctrl_c_leaves_a_sound_store_and_says_how_far_it_came(tmp_path):
    source, store = many(tmp_path / "in.jsonl"), tmp_path / "store"
    process = start("import", source, store, "--small")
    wait_for_state(process, store)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    count = json.loads((store / "config" / "rocketstore-import.json").read_text())["rows"]
    assert err == f"{store}: has {count:,} rows of {source}; run the same command with --resume to continue\n"
    assert not (store / "abort").exists()
    assert bodies(store) == [str(n) for n in range(count)]
    import_(source, store, "--resume")
    assert bodies(store) == [str(n) for n in range(MANY)]


def kill_and_resume(tmp_path, seed, rounds):
    rng = random.Random(seed)
    source, store = many(tmp_path / "in.jsonl"), tmp_path / "store"
    options = ["--small", "--log-file-size", str(1 << 18)]
    for _ in range(rounds):
        process = start("import", source, store, "--resume", *options, env=os.environ)
        wait_for_state(process, store)
        time.sleep(rng.random() * 0.4)
        process.kill()
        process.communicate(timeout=60)
    assert run("import", source, store, "--resume", *options).exit_code == 0
    assert bodies(store) == [str(n) for n in range(MANY)]


def test_after_kill_9_each_row_is_stored_once(tmp_path, seed):
    kill_and_resume(tmp_path, seed, 2)


@pytest.mark.slow
def test_after_many_kills_each_row_is_stored_once(tmp_path, seed):
    for n in range(6):
        (tmp_path / str(n)).mkdir()
        kill_and_resume(tmp_path / str(n), seed + n, 5)


def test_progress_is_shown_on_a_terminal_alone(lines, tmp_path):
    status, text = on_terminal("import", lines, tmp_path / "store", "--small")
    assert status == 0
    assert "import 300 rows" in text
    assert Path(tmp_path / "store").is_dir()


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_with_raw_bodies_makes_the_same_files(form, tmp_path, broker_conf):
    assert run("export", golden(RICH), tmp_path / f"out.{form}", "--raw-body").exit_code == 0
    made = import_(tmp_path / f"out.{form}", tmp_path / "store", "--keep-times", "--broker-conf", broker_conf(RICH))
    for path in sorted((made / "commitlog").iterdir()):
        assert path.read_bytes() == (golden(RICH) / "commitlog" / path.name).read_bytes()


@pytest.fixture
def short_lines(monkeypatch):
    """Lines of at most 1,000 bytes; the limit of the module csv is one of the whole process."""
    limit = csv.field_size_limit()
    monkeypatch.setattr("rocketstore.cli.transfer.sources.MAX_LINE", 1000)
    yield
    csv.field_size_limit(limit)


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_line_that_is_too_long_is_refused_by_its_size(form, tmp_path):
    good = {"jsonl": '{"topic": "T", "body": "x"}\n', "csv": "topic,body\nT,x\n"}[form]
    long = {"jsonl": '{"topic": "T", "body": "' + "x" * 1000 + '"}\n', "csv": "T," + "x" * 1000 + "\n"}[form]
    source = tmp_path / f"rows.{form}"
    source.write_text(good + long)
    line = len((good + long).splitlines())
    result = run("import", source, tmp_path / "store")
    assert result.exit_code == 1
    assert f"{source}, line {line}: has more than 1,000 bytes" in result.stderr


@pytest.mark.slow
def test_a_line_of_3_gib_is_refused_before_it_is_in_memory(tmp_path):
    source = tmp_path / "rows.jsonl"
    with source.open("wb") as file:
        file.write(b'{"topic": "T", "body": "')
        file.truncate(3 << 30)
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({5 << 29}, {5 << 29}))"
    script = f"{limit}; import sys; sys.argv[0] = 'rocketstore'; from rocketstore.cli import main; main()"
    command = [sys.executable, "-c", script, "import", str(source), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{source}, line 1: has more than 1,073,741,824 bytes" in done.stderr


def test_an_import_names_the_old_records_that_it_saved_and_refuses_damage(tmp_path):
    root = cut_store.store_of(tmp_path / "store", 30)
    end = cut_store.cut_off(root, 10)
    damaged = shutil.copytree(root, tmp_path / "damaged")
    begin, position, size = cut_store.offsets_of(damaged)[4]
    damages.change_log(damaged, begin, position, bytes(size))
    (tmp_path / "rows.jsonl").write_text('{"topic":"T0","body":"new"}\n')
    sizes = write_conf(tmp_path)
    process = start("import", tmp_path / "rows.jsonl", root, "--broker-conf", sizes)  # it sets logging up
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    (saved,) = (root / "rocketstore-cut").iterdir()
    assert f"a broker cut the log at {end}" in errors
    assert f"saved in {saved}" in errors
    refused = run("import", tmp_path / "rows.jsonl", damaged, "--broker-conf", sizes)
    assert refused.exit_code == 1
    assert f"rocketstore recover {damaged} --cut-at-damage" in refused.stderr


def write_conf(directory):
    conf = directory / "broker.conf"
    conf.write_text(
        "mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=200\nmaxHashSlotNum=97\nmaxIndexNum=400\n"
    )
    return conf
