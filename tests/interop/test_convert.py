"""A broker, and RocketMQ's own classes, read what convert and split make, and a start changes none of it."""

import random
import shutil

import pytest
from support import brokers
from support.broker_tables import extend_topics

from interop import store_checks
from interop.broker import Broker
from interop.conftest import Written
from interop.test_rebuild_formats import GROUP, TOPIC, check_broker
from interop.test_recovery import config_of
from interop.test_salvage import PROFILES, files, plain
from rocketstore import convert, split

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore:.*messageDelayLevel is assumed")]

LOG_SIZE = 96 << 10
SIZES = {
    "mapped_file_size_commit_log": 64 << 10,
    "mapped_file_size_consume_queue": 4000,
    "max_hash_slot_num": 500,
    "max_index_num": 3000,
}
OF_BROKER = {
    "mappedFileSizeCommitLog": 64 << 10,
    "mappedFileSizeConsumeQueue": 4000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 3000,
}


@pytest.fixture(params=PROFILES, ids="-".join)
def case(request, store_of, tmp_path):
    """A store of RocketMQ's classes, and the same store with larger files of the log."""
    release, profile = request.param
    store = store_of(release, profile, maxIndexNum=5000, mappedFileSizeCommitLog=LOG_SIZE)
    settings = {**store.options["config"], "mappedFileSizeCommitLog": 2 * LOG_SIZE}
    options = {**store.options, "config": settings}
    old = shutil.copytree(store.root, tmp_path / "old")
    extend_topics(
        old, dict.fromkeys(store.options["batchTopics"], 4), dict.fromkeys(store.options["batchTopics"], "BatchCQ")
    )
    convert(old, tmp_path / "new", mapped_file_size_commit_log=2 * LOG_SIZE, config=config_of(store, release))
    return store, Written(store.java, tmp_path / "new", options, store.messages, [])


def test_rocketmq_reads_all_messages_at_their_queue_offsets(case, seed):
    store, new = case
    expected, rows = (store_checks.expected_rows(store_checks.java_records(each)) for each in (store, new))
    assert [(*at(row), plain(row)) for row in rows] == [(*at(row), plain(row)) for row in expected]
    store_checks.check_queues(new)
    store_checks.check_reads(new, random.Random(seed), 150)
    store_checks.check_keys(new, random.Random(seed), 60)


def at(row):
    return row["topic"], row["queue_id"], row["queue_offset"]


def test_a_start_of_rocketmq_changes_nothing(case):
    store, new = case
    before = files(new.root)
    store.java.recover(new.root, new.options)
    after = files(new.root)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == set()


@pytest.mark.parametrize("name", ["default", "dledger", "rocksdb-cq", "config-v2"])
def test_a_broker_continues_where_the_old_one_stopped(client, tmp_path, name):
    root = brokers.unpack(name, tmp_path)
    out = tmp_path / "out"
    convert(root, out, **SIZES)
    with Broker(client, out, [TOPIC], tmp_path, **OF_BROKER) as broker:
        check_broker(client, name)
        progress = brokers.progress(name, GROUP)
        lags = {(row["topic"], row["queueId"]): row for row in client.stats([GROUP])[0]}
        assert {queue: lags[queue]["consumerOffset"] for queue in progress} == {
            queue: lag.consumer_offset for queue, lag in progress.items()
        }
        broker.stop()


def test_a_broker_serves_the_store_of_one_topic(client, tmp_path):
    root = brokers.unpack("default", tmp_path)
    split(root, tmp_path / "out", topic=TOPIC)
    convert(tmp_path / "out" / TOPIC, tmp_path / "small", **SIZES)
    with Broker(client, tmp_path / "small", [TOPIC], tmp_path, **OF_BROKER) as broker:
        check_broker(client, "default")
        broker.stop()
