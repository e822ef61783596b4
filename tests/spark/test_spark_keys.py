"""The option ``keys``: by the index in several tasks, with the rows of a scan, whatever the index lacks."""

import random
from dataclasses import replace

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")
pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")

from support.remote import counted
from support.repetitions import only_some_quick
from support.spark_reads import read_table, reader_of

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.spark.source import keys as spark_keys
from rocketstore.spark.source.keys import KeysPart
from rocketstore.spark.source.messages import LogPart, MessagesReader
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import default_schema, table_schema

CONFIG = StoreConfig(mapped_file_size_commit_log=4096, max_hash_slot_num=7, max_index_num=12)
KEYS = [f"k{i}" for i in range(12)]


def reader_at(path, **options):
    """A reader of a store on a file system of the test's own."""
    given = {"path": path.path, "columns": "phyOffset", **options}
    parsed = replace(ReadOptions.parse(given, streaming=False), path=path)
    return MessagesReader(parsed, table_schema(parsed, default_schema(parsed)))


def put(store, draw, n):
    for _ in range(n):
        keys = draw.sample(KEYS, draw.randrange(4))
        store.put_message(Message(draw.choice(["T", "U"]), bytes(draw.randrange(300)), keys=keys))


def damage(root, draw):
    """Change the index, so that it lacks items in one of the ways in which it may. Return the kind of change."""
    files = sorted((root / "index").iterdir())
    file = draw.choice(files)
    kind = draw.choice(["none", "lost file", "copied file", "noise in items", "noise in header", "no index"])
    data = bytearray(file.read_bytes())
    if kind == "lost file":
        file.unlink()
    elif kind == "copied file":
        (file.parent / f"{int(file.name) + 1}").write_bytes(data)
    elif kind == "noise in items":
        at = draw.randrange(40, len(data) - 20)
        data[at : at + 8] = draw.randbytes(8)
        file.write_bytes(data)
    elif kind == "noise in header":
        at = draw.randrange(16, 36)
        data[at] ^= 1 << draw.randrange(8)
        file.write_bytes(data)
    elif kind == "no index":
        for other in files:
            other.unlink()
    return kind


def offsets_of(reader, parts):
    return [at for part in parts for batch in reader.read(part) for at in batch["phyOffset"].to_pylist()]


@pytest.mark.parametrize("case", only_some_quick(range(12), *range(4)))
def test_keys_of_a_remote_store_give_the_rows_of_a_scan(tmp_path, seed, case):
    draw = random.Random(seed * 100 + case)
    with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
        put(store, draw, 60)
    if draw.random() < 0.4:
        with rocketstore.open(tmp_path, "a", config=replace(CONFIG, message_index_enable=False)) as store:
            put(store, draw, draw.choice([1, 20]))
        with rocketstore.open(tmp_path, "a", config=CONFIG) as store:
            put(store, draw, draw.choice([0, 20]))
    kind = damage(tmp_path, draw)
    for topics, wanted in (("T", KEYS[:2]), ("T,U", KEYS[2:3]), ("U", ["none"])):
        rows = read_table(tmp_path, columns="phyOffset,topic,keys").to_pylist()
        expected = [row["phyOffset"] for row in rows
                    if row["topic"] in topics.split(",") and set(wanted) & set(row["keys"])]  # fmt: skip
        reader = reader_at(counted(tmp_path), subscribe=topics, keys=" ".join(wanted))
        assert offsets_of(reader, reader.partitions()) == expected, kind


def test_a_remote_plan_of_keys_reads_headers_and_one_head_of_each_index_file(tmp_path):
    config = replace(CONFIG, mapped_file_size_commit_log=1 << 20, max_hash_slot_num=500, max_index_num=501)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        store.put_messages([Message("T", bytes(3000), keys=[f"k{i}"]) for i in range(5000)])
    files = {file.name for file in (tmp_path / "index").iterdir()}
    path = counted(tmp_path)
    reader = reader_at(path, subscribe="T", keys="k7 k4321")
    parts = reader.partitions()
    assert sum(isinstance(part, KeysPart) for part in parts) == len(files) == 10
    of_index = [end - begin for name, begin, end in path.fs.reads if name in files]
    of_log = [end - begin for name, begin, end in path.fs.reads if len(name) == 20]
    assert of_index == [40] * len(files)
    assert len(of_log) <= 2 * len(files) + 30  # the others find the end of the log
    assert sum(of_log) <= 600_000
    assert len(offsets_of(reader, parts)) == 2


def test_a_message_that_a_task_finds_by_its_key_costs_one_read(tmp_path, monkeypatch):
    config = replace(CONFIG, mapped_file_size_commit_log=16 << 20, max_hash_slot_num=5000, max_index_num=5001)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        store.put_messages([Message("T", bytes(1000), keys=[f"k{i}"]) for i in range(4000)])
    monkeypatch.setattr(spark_keys.IndexHoles, "compare", lambda *_: None)  # it reads samples of the log
    path = counted(tmp_path)
    reader = reader_at(path, subscribe="T", keys="k7 k1500 k3000")
    (part, *_) = reader.partitions()
    path.fs.reads.clear()
    assert len(offsets_of(reader, [part])) == 3
    assert len([name for name, _, _ in path.fs.reads if len(name) == 20]) <= 4  # and the last message of the file


def test_many_messages_of_a_key_are_read_in_several_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr(spark_keys, "NEAR", 1)
    monkeypatch.setattr(spark_keys, "RANGES", 30)
    with rocketstore.open(tmp_path, "a", config=replace(CONFIG, max_index_num=1000)) as store:
        for i in range(200):
            store.put_message(Message("T", b"x", keys=["even" if i % 2 == 0 else "odd"]))
    for options, tasks in (({}, 4), ({"minPartitions": "10"}, 10)):
        reader, _ = reader_of(tmp_path, subscribe="T", keys="odd", columns="phyOffset", **options)
        parts = reader.partitions()
        assert len(parts) == tasks
        assert all(isinstance(part, LogPart) for part in parts)
        assert len(offsets_of(reader, parts)) == 100


def test_a_query_by_key_verifies_and_returns_a_message_with_one_read(tmp_path):
    config = replace(CONFIG, mapped_file_size_commit_log=16 << 20, max_hash_slot_num=5000, max_index_num=5001)
    with rocketstore.open(tmp_path, "a", config=config) as store:
        store.put_messages([Message("T", bytes(1000), keys=[f"k{i}"]) for i in range(9000)])
    path = counted(tmp_path)
    with rocketstore.open(path) as store:
        store.query_messages("T", ["k1"])
        of_log = [end - begin for name, begin, end in path.fs.reads if len(name) == 20]
        assert len(of_log) <= 60  # 9 MiB of log: they find its end, and compare its messages with the index
        path.fs.reads.clear()
        found = store.query_messages("T", ["k7", "k1500", "k3000"])
        assert found.messages.keys.to_pylist() == [["k7"], ["k1500"], ["k3000"]]
        begins = [begin for name, begin, _ in path.fs.reads if len(name) == 20]
        assert sorted(begin for begin in begins if begin in found.phy_offsets) == sorted(found.phy_offsets)
        assert len(begins) <= 15  # the others look for new records at the end of the log
