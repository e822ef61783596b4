"""Every store that a real broker left is read as its own client read it, or the unread parts are named."""

import contextlib
import json
import os
import shutil
import struct
import sys
import tempfile

import pytest
from support import brokers

import rocketstore
from rocketstore import Message, StoreConfig, StoreError, UnsupportedFormatError
from rocketstore.disk.rocksdb.reader_program import find_missing_reader
from rocketstore.dispatch import built_queues
from rocketstore.queue.rocks_consume_queue import RocksConsumeQueue
from rocketstore.survey.survey import survey_store

QUEUES_IN_ROCKSDB = {"rocksdb-cq", "rocksdb-cq-separate", "lite-rocksdb", "rocksdb-migrated"}
CONFIG_IN_ROCKSDB = {"config-v2", *QUEUES_IN_ROCKSDB}
QUEUES_IN_BOTH = {"rocksdb-double", "rocksdb-lmq"}
READ = brokers.NAMES
WITH_LAG = [name for name in READ if brokers.truth(name).get("progress")]
WITHOUT_POP = (
    "rocksdb-cq",
    "rocksdb-cq-separate",
    "rocksdb-index",
    "rocksdb-lmq",
    "rocksdb-trans-only",
)  # no pop consumer was there
HALF_TOPICS = ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC")  # the broker went on checking
INNER_HEAD = struct.Struct(">iiiii")  # size, magic code, CRC, flag, bytes of the body
COMPACTED = "Kv"
needs_rocksdict = pytest.mark.skipif(
    find_missing_reader() is not None, reason="needs rocksdict, of the extra 'rocksdb'"
)
SIZES = StoreConfig(max_hash_slot_num=1000, max_index_num=4000, mapped_file_size_consume_queue=2000)


@pytest.fixture
def open_store(root_of):
    def opened(name):
        return rocketstore.open(root_of(name), config=config_of(name, root_of(name)))

    return opened


def config_of(name, root):
    if name != "multipath":
        return None
    return StoreConfig(store_path_commit_log=",".join(str(root / f"cl{number}") for number in range(3)))


def messages_of(store, topic, queue_ids):
    """All messages of some queues of a topic, by queue id and queue offset."""
    found = {}
    for queue_id in sorted(queue_ids):
        offset = store.get_message(topic, queue_id, 0).min_offset
        while (read := store.get_message(topic, queue_id, offset, 1000)).status == "FOUND":
            found |= {(queue_id, message.queue_offset): message for message in read.messages}
            offset = read.next_begin_offset
    return found


def cells_by_place(topic, messages):
    """The cells of messages as the client pulls them, by queue id and queue offset."""
    found = {place: brokers.cells_of(message) for place, message in messages.items()}
    if topic.startswith("%LMQ%"):  # the client gives each message the id of the light queue
        return {(0, offset): {**row, "queueId": 0} for (_, offset), row in found.items()}
    return found


def inner_messages(batch):
    """Flag, body and properties of each message of an inner batch, decoded by hand."""
    data, position = batch.body, 0
    while position < len(data):
        size, _, _, flag, body_size = INNER_HEAD.unpack_from(data, position)
        body_begin = position + INNER_HEAD.size
        end = body_begin + body_size
        (properties_size,) = struct.unpack_from(">h", data, end)
        text = data[end + 2 : end + 2 + properties_size].decode()
        pairs = (pair.split("\x01") for pair in text.split("\x02") if pair)
        yield flag, data[body_begin:end], dict(pairs)
        position += size


def test_every_store_is_read():
    assert len(brokers.NAMES) == 24
    assert len(WITH_LAG) == 19


@needs_rocksdict
@pytest.mark.parametrize("name", [name for name in READ if name != "batchcq"])
def test_messages_are_those_that_the_client_pulled(open_store, name):
    with open_store(name) as store:
        for topic in brokers.truth(name)["topics"]:
            expected = brokers.rows(name, topic)
            messages = messages_of(store, topic, {queue_id for queue_id, _ in expected})
            found = cells_by_place(topic, messages)
            if topic in HALF_TOPICS:
                found = {place: found[place] for place in expected}
            assert found == expected


def test_messages_of_inner_batches_are_those_that_the_client_pulled(open_store):
    expected = brokers.rows("batchcq", "Bcq")
    found = {}
    with open_store("batchcq") as store:
        for (queue_id, offset), batch in messages_of(store, "Bcq", {queue_id for queue_id, _ in expected}).items():
            is_batch = "INNER_NUM" in batch.properties
            inner = [*inner_messages(batch)] if is_batch else [(batch.flag, batch.body, dict(batch.properties))]
            assert len(inner) == int(batch.properties.get("INNER_NUM", 1))
            for number, (flag, body, properties) in enumerate(inner):
                place = batch.phy_offset, batch.store_timestamp, batch.born_timestamp, f"/{batch.store_host}"
                found[queue_id, offset + number] = (*place, flag, body, properties["KEYS"], properties["UNIQ_KEY"])
    names = ("phyOffset", "storeTimestamp", "bornTimestamp", "storeHost", "flag", "body")
    assert found == {
        place: (*(row[name] for name in names), row["properties"]["KEYS"], row["msgId"])
        for place, row in expected.items()
    }


@pytest.mark.parametrize("name", brokers.NAMES)
def test_keys_lead_to_the_messages_that_a_query_found(open_store, name):
    with open_store(name) as store:
        for words, places in brokers.truth(name).get("keys", {}).items():
            topic, _, key = words.partition(" ")
            found = store.query_message(topic, key)
            expected = [tuple(place) for place in places]
            got = [(one.topic, one.queue_id, one.queue_offset, one.phy_offset) for one in found.messages]
            assert sorted(got) == sorted(expected)
            assert found.complete


@needs_rocksdict
@pytest.mark.filterwarnings("ignore:.*no group 'GP' in")
@pytest.mark.parametrize("name", WITH_LAG)
def test_lag_is_what_mqadmin_told(open_store, name):
    with open_store(name) as store:
        for group in brokers.truth(name)["progress"]:
            expected = brokers.progress(name, group)
            assert len(expected) == (0 if group == "GP" and name in WITHOUT_POP else 4)
            lags = {(lag.topic, lag.queue_id): lag for lag in store.consumer_lag(group)}
            assert {
                queue: brokers.Lag(lag.max_offset, lag.consumer_offset)
                for queue, lag in lags.items()
                if queue in expected
            } == expected
            assert all(lag.problem is None and lag.lag == lag.max_offset - lag.consumer_offset for lag in lags.values())


# ---- formats that are not read -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(QUEUES_IN_ROCKSDB))
def test_without_rocksdict_queues_are_built_from_the_log(open_store, monkeypatch, tmp_path, name):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with open_store(name) as store:
        for topic in brokers.truth(name)["topics"]:
            expected = brokers.rows(name, topic)
            found = cells_by_place(topic, messages_of(store, topic, {queue_id for queue_id, _ in expected}))
            # The RocksDB of a store that was migrated lacks the record at offset 0, by a fault of RocketMQ's.
            assert {place: found[place] for place in expected} == expected
        (note,) = store.summary().notes
        assert "the queues are in RocksDB" in note
        assert 'pip install "rocketstore[rocksdb]". They are built from the log' in note
    assert list(tmp_path.iterdir()) == []


@needs_rocksdict
@pytest.mark.parametrize("name", sorted(QUEUES_IN_ROCKSDB))
def test_queues_that_are_built_from_the_log_are_those_in_rocksdb(root_of, monkeypatch, name):
    with rocketstore.open(root_of(name)) as store:
        expected = {queue: units_of(store, queue) for queue in store.queues()}
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with rocketstore.open(root_of(name)) as store:
        found = {queue: units_of(store, queue) for queue in store.queues()}
    if name == "rocksdb-migrated":
        found = {queue: [unit for unit in units if unit[1] > 0] for queue, units in found.items()}
    assert found == expected


def units_of(store, queue):
    """Queue offset, physical offset, size and code of the tags of each unit."""
    return [unit[:4] for unit in store.consume_queue(*queue)]


def test_without_rocksdict_queues_of_a_long_or_damaged_log_are_refused(root_of, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    root = shutil.copytree(root_of("rocksdb-cq"), tmp_path / "store")
    for name in ("MAX_LOG", "MAX_UNITS"):
        with monkeypatch.context() as patch, rocketstore.open(root) as store:
            patch.setattr(built_queues, name, 10)
            for call in (store.queues, lambda store=store: store.get_message("Plain", 0, 0)):
                with pytest.raises(UnsupportedFormatError, match=r"\[rocksdb\].*cannot be built.* more than 10"):
                    call()
            assert store.summary()[:3] == (None, None, None)
    shutil.rmtree(root / "commitlog")
    with rocketstore.open(root) as store, pytest.raises(UnsupportedFormatError, match=r"the queues are in RocksDB"):
        store.queues()


@needs_rocksdict
def test_light_queues_that_are_only_in_rocksdb_are_read_beside_queues_in_files(open_store):
    with open_store("rocksdb-lmq") as store:
        assert {("%LMQ%a", 0), ("%LMQ%b", 0), ("Plain", 3)} <= {*store.queues()}
        assert len(store.consume_queue("%LMQ%a", 0)) == len(brokers.rows("rocksdb-lmq", "%LMQ%a")) == 20
        assert store.formats.problems() == []


def test_messages_whose_units_are_only_in_a_brokers_memory_are_read_and_noted(root_of, tmp_path):
    rocks = pytest.importorskip("support.rocks")
    root = shutil.copytree(root_of("rocksdb-migrated"), tmp_path / "store")
    shutil.rmtree(root / "consumequeue")
    checkpoint = struct.pack(">i", 16) + b"\x01CHECKPOINT_TOPIC\x01max\x01" + bytes(4)
    rocks.make_rocksdb(root / "consumequeue", {"default": {}, "offset": {checkpoint: struct.pack(">q", 980)}})
    with rocketstore.open(root, config=SIZES) as store:
        (note,) = store.summary().notes
        assert "96 units of the messages from byte 980 of the log on are built from the log" in note


@needs_rocksdict
def test_a_brokers_own_file_says_which_queues_are_read(root_of, tmp_path):
    conf = tmp_path / "broker.conf"
    lines = ("storeType=default", False), ("brokerName=a", False), ("storeType=defaultRocksDB", True)
    for line, is_in_rocksdb in lines:  # a file without storeType means files
        conf.write_text(f"{line}\n")
        config = StoreConfig.from_broker_conf(conf)
        for name in ("rocksdb-migrated", "rocksdb-double"):
            with rocketstore.open(root_of(name), config=config) as store:
                assert isinstance(store.consume_queue("Plain", 0), RocksConsumeQueue) == is_in_rocksdb


def test_writers_refuse_a_broker_that_writes_queues_to_files_and_rocksdb(root_of, tmp_path):
    root, conf = root_of("rocksdb-double"), tmp_path / "broker.conf"
    for line in ("brokerName=a", "rocksdbCQDoubleWriteEnable=true"):
        conf.write_text(f"{line}\n")
        formats = survey_store(root, StoreConfig.from_broker_conf(conf)).formats
        with pytest.raises(UnsupportedFormatError) if "Double" in line else contextlib.nullcontext():
            formats.require_written_queues()


@needs_rocksdict
@pytest.mark.parametrize("name", sorted(CONFIG_IN_ROCKSDB))
def test_topics_and_offsets_in_rocksdb_are_read_and_older_files_are_not(open_store, name):
    with open_store(name) as store:
        config = store.broker_config
        assert config.problems == []
        assert {*brokers.truth(name)["topics"]} & {"Plain", "Orders", "Par"} <= {*store.topic_configs}
        assert store.topic_configs == config.topics
        progress = {group: brokers.progress(name, group) for group in brokers.truth(name).get("progress", {})}
        for group, queues in progress.items():
            for (topic, queue_id), lag in queues.items():
                assert config.consumer_offsets[group][topic][queue_id] == lag.consumer_offset
        assert ("G8" in config.consumer_offsets) == (name == "rocksdb-migrated")


@pytest.mark.parametrize("name", sorted(CONFIG_IN_ROCKSDB))
def test_without_rocksdict_offsets_and_topics_are_named_and_older_files_are_not_read(open_store, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with open_store(name) as store:
        assert store.topic_configs == {}
        config = store.broker_config
        assert config.consumer_offsets == config.topics == config.subscription_groups == {}
        assert {problem.path.parent.name for problem in config.problems} == {"config"}
        assert all("rocketstore[rocksdb]" in problem.what for problem in config.problems)
        with pytest.raises(StoreError, match=r"consumer offsets are in this RocksDB.*rocketstore\[rocksdb\]"):
            list(store.consumer_lag())


def everything(root):
    return {path: path.is_file() and path.read_bytes() for path in root.rglob("*")}


@pytest.mark.parametrize("name", sorted({"dledger"} | CONFIG_IN_ROCKSDB | QUEUES_IN_BOTH))
def test_writers_refuse_what_they_do_not_write(root_of, name):
    root = root_of(name)
    before = everything(root)
    for call in (
        lambda: rocketstore.open(root, "a"),
        lambda: rocketstore.recover(root),
        lambda: rocketstore.recover(root, policy="broker"),
        lambda: rocketstore.recover(root, dry_run=True),
    ):
        with pytest.raises(UnsupportedFormatError, match=r"RocksDB|DLedger"):
            call()
    assert everything(root) == before


@pytest.mark.filterwarnings("ignore:.*messageDelayLevel is assumed")  # units in RocksDB are not read
@pytest.mark.parametrize("name", ["rocksdb-cq", "rocksdb-cq-separate", "rocksdb-migrated"])
def test_rebuild_makes_queues_of_files_and_says_how_the_broker_must_be_started(root_of, tmp_path, name):
    root = shutil.copytree(root_of(name), tmp_path / name)
    report = rocketstore.rebuild(root, config=SIZES)
    first, second = report.notes
    assert "storeType=default" in first
    assert "stay behind in RocksDB" in second
    assert str(root / "config" / "topics") in second
    conf = tmp_path / "broker.conf"
    conf.write_text("storeType=default\n")
    with rocketstore.open(root, config=StoreConfig.from_broker_conf(conf)) as store:
        for topic in brokers.truth(name)["topics"]:
            expected = brokers.rows(name, topic)
            found = messages_of(store, topic, {queue_id for queue_id, _ in expected})
            # The RocksDB of a store that was migrated lacks the record at offset 0, by a fault of RocketMQ's.
            assert {place: brokers.cells_of(found[place]) for place in expected} == expected


# ---- where consumers get something else --------------------------------------------------------------------


@pytest.mark.parametrize(("name", "word"), [("compaction", "compacted"), ("tiered", "tier")])
def test_messages_that_consumers_get_from_elsewhere_are_reported(open_store, name, word):
    with open_store(name) as store:
        (text,) = store.summary().notes
        assert word in text
        assert store.summary().problems == []
    with open_store("default") as store:
        assert store.summary().notes == []


# ---- verify ------------------------------------------------------------------------------------------------


@needs_rocksdict
@pytest.mark.parametrize("name", brokers.NAMES)
def test_verify_finds_no_damage_and_names_what_it_does_not_check(root_of, name):
    report = rocketstore.verify(root_of(name), config=config_of(name, root_of(name)))
    found = {(finding.kind, finding.path.name) for finding in report.findings}
    assert report.ok
    assert not {kind for kind, _ in found} & {"foreign-file", "queue-missing", "queue-wrong-root", "config-bak-used"}
    unchecked = {path for kind, path in found if kind == "not-checked"}
    assert unchecked == {
        "rocksdb-index": {"rocksdbstore"},
        "rocksdb-timer": {"rocksdbstore"},
        "rocksdb-trans-only": {"rocksdbstore"},
        "tiered": {"tiered_index_file"},
    }.get(name, set())


def test_a_log_that_no_configuration_names_is_found_by_its_files(root_of, caplog):
    root = root_of("multipath")
    report = rocketstore.verify(root)
    (finding,) = (finding for finding in report.findings if finding.kind == "log-elsewhere")
    assert (finding.path.name, finding.severity) == ("commitlog", "warning")
    assert "cl0" in finding.detail
    assert (report.ok, report.messages) == (True, 714)
    with rocketstore.open(root) as found, rocketstore.open(root, config=config_of("multipath", root)) as given:
        assert found.summary() == given.summary()
        assert found.scan().to_arrow().equals(given.scan().to_arrow())
    with pytest.raises(ValueError, match="by its files in cl0: to write, give its directories: storePathCommitLog=/"):
        rocketstore.recover(root, dry_run=True)


@pytest.mark.parametrize("topics", ["simple", "missing"])
def test_verify_finds_queues_of_batches_of_a_topic_that_topics_json_has_not_so(root_of, tmp_path, topics):
    root = shutil.copytree(root_of("batchcq"), tmp_path / "batchcq")
    path = root / "config" / "topics.json"
    table = json.loads(path.read_text())
    if topics == "simple":
        table["topicConfigTable"]["Bcq"]["attributes"] = {}
    else:
        del table["topicConfigTable"]["Bcq"]
    path.write_text(json.dumps(table))
    report = rocketstore.verify(root)
    assert "queue-wrong-root" in {finding.kind for finding in report.findings}
    assert not report.ok


@pytest.mark.parametrize("name", ["epochFileCheckpoint.bak", "brokerIdentity.bak", "brokerIdentity-temp"])
def test_verify_knows_the_files_of_a_controllers_broker(root_of, tmp_path, name):
    root = shutil.copytree(root_of("master"), tmp_path / "master")
    (root / name).write_text("1")
    assert rocketstore.verify(root).findings == []


def test_a_pipe_in_the_place_of_a_database_neither_hangs_nor_stops_a_reader(root_of, tmp_path):
    root = shutil.copytree(root_of("default"), tmp_path / "default")
    for name in ("MANIFEST-000005", "000004.log"):
        (root / "rocksdbstore" / name).unlink()
        os.mkfifo(root / "rocksdbstore" / name)
    (root / "rocksdbstore" / "000001.sst").symlink_to("000001.sst")
    (root / "config" / "rdb").symlink_to("rdb")
    assert rocketstore.verify(root).ok
    with rocketstore.open(root) as store:
        assert store.formats.index_database is None
        assert store.formats.is_plain


def test_a_store_that_a_broker_left_is_continued(root_of, tmp_path):
    root = shutil.copytree(root_of("default"), tmp_path / "default")
    with pytest.warns(UserWarning, match="mappedFileSizeCommitLog=1048576 is assumed"):
        store = rocketstore.open(root, "a", config=SIZES)
    with store:
        expected = brokers.truth("default")["topics"]["Plain"]["about"]["range0"][1]
        assert store.put_message(Message("Plain", b"more", queue_id=0)).queue_offset == expected
