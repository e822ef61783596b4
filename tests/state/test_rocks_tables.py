"""A broker's tables in RocksDB have the values that the same tables have in files."""

import json
import struct
import sys

import pytest
from support.rocks import make_rocksdb

from rocketstore import BrokerConfig, StoreConfig, StoreError
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.errors import CorruptFileError
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.places import StorePlaces

TOPICS = {
    "Orders": {"topicName": "Orders", "readQueueNums": 4, "writeQueueNums": 8, "perm": 6, "order": True},
    "主题": {"topicName": "主题", "attributes": {"queue.type": "BatchCQ"}, "topicFilterType": "MULTI_TAG"},
}
GROUPS = {"billing": {"groupName": "billing", "retryMaxTimes": 3, "brokerId": 2**40, "consumeEnable": False}}
OFFSETS = {"Orders@billing": {"0": 40, "3": 2**40}, "主题@billing": {"0": 7}, "Orders@audit": {"0": 0}}
VERSION = {"counter": 4, "stateVersion": 0, "timestamp": 1795714713926}


def text(value):
    return json.dumps(value, ensure_ascii=False).encode()


def rows(table):
    return {name.encode(): text(value) for name, value in table.items()}


def offset_rows():
    """Integer keys have no quotes, as fastjson writes them."""
    pairs = {key: ",".join(f"{queue}:{offset}" for queue, offset in queues.items()) for key, queues in OFFSETS.items()}
    return {key.encode(): f'{{"offsetTable":{{{members}}}}}'.encode() for key, members in pairs.items()}


def with_length(name):
    return struct.pack(">h", len(name.encode())) + name.encode()


def make_files(config):
    config.mkdir(parents=True)
    (config / "topics.json").write_bytes(text({"topicConfigTable": TOPICS, "dataVersion": VERSION}))
    (config / "subscriptionGroup.json").write_bytes(text({"subscriptionGroupTable": GROUPS}))
    (config / "consumerOffset.json").write_bytes(text({"offsetTable": OFFSETS}))


def make_version_1(config):
    version = {b"kvDataVersionKey": text(VERSION)}
    make_rocksdb(config / "topics", {"default": rows(TOPICS), "kvDataVersion": version})
    make_rocksdb(config / "subscriptionGroups", {"default": rows(GROUPS), "kvDataVersion": version, "forbidden": {}})
    make_rocksdb(config / "consumerOffsets", {"default": offset_rows(), "kvDataVersion": version})


def make_single(config):
    versions = {f"{name}Version": {b"kvDataVersionKey": text(VERSION)} for name in ("topic", "subscriptionGroup")}
    tables = {"topic": rows(TOPICS), "subscriptionGroup": rows(GROUPS), "consumerOffset": offset_rows()}
    make_rocksdb(config / "metadata", {"default": {}, **tables, **versions})


def version_2_rows():
    made = {}
    for table, beans in ((3, TOPICS), (4, GROUPS)):
        made[struct.pack(">BhB", 1, table, 1) + b"data_version"] = bytes(24)
        for name, bean in beans.items():
            made[struct.pack(">BhB", 1, table, 2) + with_length(name)] = b"\x01" + text(bean)
    for table, added in ((1, 0), (2, 1000)):  # consumer offsets, and pull offsets, which are others
        for key, queues in OFFSETS.items():
            topic, _, group = key.partition("@")
            for queue_id, offset in queues.items():
                place = with_length(group) + b"\x01" + with_length(topic) + b"\x01" + struct.pack(">i", int(queue_id))
                made[struct.pack(">BhB", 1, table, 2) + place] = struct.pack(">q", offset + added)
    return made


def make_version_2(config):
    make_rocksdb(config / "rdb", {"default": version_2_rows()})


FORMATS = {"version 1": make_version_1, "single": make_single, "version 2": make_version_2}


@pytest.mark.parametrize("name", FORMATS)
def test_tables_in_rocksdb_are_those_in_files(tmp_path, name):
    make_files(tmp_path / "files" / "config")
    FORMATS[name](tmp_path / "rocks" / "config")
    expected, found = BrokerConfig.open(tmp_path / "files"), BrokerConfig.open(tmp_path / "rocks")
    assert found.topics == expected.topics
    assert found.subscription_groups == expected.subscription_groups
    assert found.consumer_offsets == expected.consumer_offsets
    assert found.problems == []
    tables = open_tables(StorePlaces.of(tmp_path / "rocks"))
    assert tables.read_topics() == expected.topics
    assert tables.read_declared_topics() == ({*TOPICS} if name != "version 2" else set())
    assert tables.check() == []


@pytest.mark.parametrize("name", FORMATS)
def test_files_beside_tables_in_rocksdb_are_not_read(tmp_path, name):
    make_files(tmp_path / "config")
    for file in (tmp_path / "config").iterdir():
        file.write_text("{")
    FORMATS[name](tmp_path / "config")
    found = BrokerConfig.open(tmp_path)
    assert {*found.topics} == {*TOPICS}
    assert found.problems == []
    config = StoreConfig(other={"storeType": "default"})
    if name != "version 2":  # configManagerVersion does not ask for the type of the store
        assert BrokerConfig.open(tmp_path, config).topics == {}


def test_a_row_that_cannot_be_decoded_is_a_problem_and_the_others_are_read(tmp_path):
    bad = {b"Bad": b"{", b"Worse": b"[" * 100_000, b"\xff": b"{}", b"Null": b"null"}
    make_rocksdb(tmp_path / "config" / "topics", {"default": rows(TOPICS) | bad})
    make_rocksdb(
        tmp_path / "config" / "consumerOffsets",
        {"default": offset_rows() | {b"T@g": b"7", b"U@g": b'{"offsetTable":{"x":1}}'}},
    )
    found = BrokerConfig.open(tmp_path)
    assert {*found.topics} == {*TOPICS}
    assert [(path.name, what.split(" ")[0]) for path, what in found.problems] == [
        *(("topics", repr(key)) for key in sorted(bad)),
        *(("consumerOffsets", repr(key)) for key in (b"T@g", b"U@g")),
    ]
    assert found.consumer_offsets["audit"] == {"Orders": {0: 0}}


def test_a_forbidden_row_that_cannot_be_decoded_is_a_problem_and_left_out(tmp_path):
    forbidden = {b"g1": b'{"Orders":1}', b"g2": b"{", b"\xff": b"{}"}
    make_rocksdb(tmp_path / "config" / "subscriptionGroups", {"default": rows(GROUPS), "forbidden": forbidden})
    tables = open_tables(StorePlaces.of(tmp_path))
    root = tables.read_json("subscriptionGroup.json")
    assert {*root["subscriptionGroupTable"]} == {*GROUPS}
    assert root["forbiddenTable"] == {"g1": {"Orders": 1}}
    assert [problem.what.split(" ")[0] for problem in tables.check()] == ["b'g2'", r"b'\xff'"]


def test_a_table_that_is_read_in_part_is_not_given_as_json(tmp_path, monkeypatch):
    make_version_1(tmp_path / "config")
    tables, read = open_tables(StorePlaces.of(tmp_path)), RocksDatabase.read

    def fail_later(database, family, *ranges, **options):
        yield from read(database, family, *ranges, **options)
        if family == "forbidden":
            raise CorruptFileError(database.path, 0, "RocksDB", "a block is damaged")

    monkeypatch.setattr(RocksDatabase, "read", fail_later)
    assert tables.read_json("topics.json") is not None
    assert tables.read_json("subscriptionGroup.json") is None
    assert [problem.what for problem in tables.check()] == ["the consumer groups cannot be read: a block is damaged"]


@pytest.mark.parametrize("cut", range(1, 12))
def test_keys_of_version_2_that_are_cut_are_problems(tmp_path, cut):
    made = version_2_rows()
    key = next(key for key in made if key.startswith(struct.pack(">BhB", 1, 1, 2)))
    made[key[:-cut]] = made.pop(key)
    make_rocksdb(tmp_path / "config" / "rdb", {"default": made})
    found = BrokerConfig.open(tmp_path)
    assert [path.name for path, _ in found.problems] == ["rdb"]
    assert {*found.topics} == {*TOPICS}


def test_a_damaged_rocksdb_is_a_problem_that_names_it(tmp_path):
    make_version_1(tmp_path / "config")
    (tmp_path / "config" / "topics" / "CURRENT").write_text("MANIFEST-999999\n")
    found = BrokerConfig.open(tmp_path)
    assert [path for path, _ in found.problems] == [tmp_path / "config" / "topics"]
    assert found.topics == {}
    assert {*found.subscription_groups} == {*GROUPS}
    with pytest.raises(StoreError, match="topics cannot be read"):
        open_tables(StorePlaces.of(tmp_path)).read_topics(must_be_good=True)


def test_without_rocksdict_the_problems_name_the_extra(tmp_path, monkeypatch):
    make_version_1(tmp_path / "config")
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    problems = BrokerConfig.open(tmp_path).problems
    assert [path.name for path, _ in problems] == ["topics", "subscriptionGroups", "consumerOffsets"]
    assert all("rocketstore[rocksdb]" in what for _, what in problems)
