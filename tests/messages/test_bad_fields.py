"""Hosts, times and properties that no broker writes: the message stays in the answers of every reader."""

import json
import struct

import pytest
from reference.commit_log import write_file
from reference.record import build_record
from support.cli import rows, run
from support.profiles import SMALL

import rocketstore
from rocketstore import StoreConfig

BODIES = [b"first", b"second", b"third"]
BORN_TIME, BORN_HOST, BORN_PORT, STORE_TIME, STORE_PORT = 40, 48, 52, 56, 68  # bytes in a record
KEY = b"KEYS\x01k\x02"
LONGEST = b"\x7f" + b"\xff" * 7
CASES = {
    "born port -1": {BORN_PORT: b"\xff" * 4},
    "born port 70000": {BORN_PORT: struct.pack(">i", 70000)},
    "no born host": {BORN_HOST: bytes(8)},
    "all ones": {BORN_HOST: b"\xff" * 8},
    "store port -1": {STORE_PORT: b"\xff" * 4},
    "least store port": {STORE_PORT: b"\x80\x00\x00\x00"},
    "born time": {BORN_TIME: LONGEST},
    "store time": {STORE_TIME: LONGEST},
    "names that are no UTF-8": b"\xff\xfe\x01\xff\x02" + KEY,
    "no separator": KEY + b"zzz",
    "no name": b"\x01value\x02" + KEY,
    "two separators": b"a\x01b\x01c\x02" + KEY,
    "empty": b"\x02\x02\x02" + KEY,
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def root(request, tmp_path):
    """A store of three messages. The second one has the field."""
    log = b""
    for number, body in enumerate(BODIES):
        is_bad = number == 1
        properties = request.param if is_bad and isinstance(request.param, bytes) else KEY
        fields = {"properties": properties, "phy_offset": len(log), "queue_offset": number}
        record = bytearray(build_record("T", body, **fields))
        for position, data in request.param.items() if is_bad and isinstance(request.param, dict) else ():
            record[position : position + len(data)] = data
        log += bytes(record)
    root = tmp_path / "store"
    write_file(root / "commitlog", 0, log.ljust(65536, b"\0"))
    rocketstore.rebuild(root, config=StoreConfig(**SMALL))
    return root


def test_commands_have_the_message(root):
    get, query = ["get", root, "T", 0, 0, "--limit", 9], ["query", root, "--topic", "T", "--key", "k"]
    for command in (["cat", root], get, query):
        found = rows(run(*command))
        assert sorted(row["body"] for row in found) == ["first", "second", "third"], command
        assert len({row["msgId"] for row in found}) == 3


def test_the_message_is_found_by_its_id_and_its_place(root):
    with rocketstore.open(root) as store:
        messages = [message for batch in store.scan() for message in batch]
        assert [message.body for message in messages] == BODIES
        for message in messages:
            assert store.query_message_by_id(message.msg_id).body == message.body
            found = store.look_message_by_offset(message.phy_offset)
            for name in ("body", "born_host", "store_host", "born_timestamp", "store_timestamp", "properties"):
                assert getattr(found, name) == getattr(message, name)


@pytest.mark.parametrize("form", ["json", "csv", "arrow", "parquet"])
def test_exports_have_the_message(root, form, tmp_path):
    target = tmp_path / "all"
    result = run("export", root, target, "--format", form)
    assert result.exit_code == 0, result.stderr
    assert "3 messages" in result.stderr
    if form == "json":
        assert [json.loads(line)["queueOffset"] for line in target.read_text().splitlines()] == [0, 1, 2]


def test_tables_have_the_message(root):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    pytest.importorskip("pandas", reason="needs pandas, from the extra 'pandas'")
    with rocketstore.open(root) as store:
        assert store.scan().to_arrow().column("body").to_pylist() == BODIES
        assert store.scan().to_pandas()["body"].tolist() == BODIES


def test_tables_of_spark_have_the_message(root):
    pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")
    from support.spark_reads import read_table

    for options in ({}, {"keys": "k", "subscribe": "T"}, {"includeHeaders": "true"}):
        assert read_table(root, **options).column("body").to_pylist() == BODIES, options
    assert read_table(root, schemaStyle="kafka").column("value").to_pylist() == BODIES


def test_a_salvage_keeps_the_message(root, tmp_path):
    report = rocketstore.salvage(root, tmp_path / "saved", config=StoreConfig(**SMALL))
    assert (report.records, report.lost) == (3, ())
