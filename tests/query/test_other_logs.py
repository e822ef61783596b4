"""Scans of tiered storage and of compacted topics: planned first, and complete also where units are damaged."""

import pickle
import shutil
import struct
import threading

import pytest
from support import states

import rocketstore
from rocketstore import Message, StoreConfig

BROKER = "24e289d7_LabCluster/lab"


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return states.unpack("tiered", tmp_path_factory.mktemp("states"))


@pytest.fixture(scope="module")
def compacted(tmp_path_factory):
    return states.unpack("compaction", tmp_path_factory.mktemp("states"))


@pytest.fixture
def root(golden, tmp_path):
    return states.copy_tiered(golden, tmp_path)


def open_tiered(root):
    return rocketstore.open(
        root, config=StoreConfig(tiered_store_file_path=str(root.parent / "tiered-data")), tiered=True
    )


def places(batches):
    return [(each.topic, each.queue_id, each.queue_offset) for batch in batches for each in batch]


def units_of(root, queue):
    [*files] = sorted(
        (root.parent / "tiered-data" / BROKER / queue / "CONSUME_QUEUE").iterdir(), key=lambda p: p.name[8:]
    )
    return files


@pytest.mark.parametrize("field", [">q", ">8xi"])
@pytest.mark.parametrize("value", [0x7F, 0x80])
def test_damaged_units_hide_and_repeat_no_message(root, field, value):
    with open_tiered(root) as store:
        expected = sorted(places(store.scan()))
    for path in units_of(root, "Lake/0"):
        data = bytearray(path.read_bytes())
        at = struct.calcsize(field) - struct.calcsize(field[0] + field[-1])
        for start in range(0, len(data), 20):
            data[start + at] = value
        path.write_bytes(data)
    with open_tiered(root) as store:
        assert sorted(places(store.scan())) == expected


def test_conditions_may_be_iterators(golden):
    with open_tiered(golden) as store:
        found = store.scan(topic=iter(["Creek"]), queue_ids=iter([0]), key=iter(["grp-1"]))
        assert found.count() == found.count() == len(store.query_message("Creek", "grp-1", 1000)) > 0


def test_a_message_that_leaves_the_log_during_a_scan_is_not_repeated(root):
    with open_tiered(root) as store:
        scan = iter(store.scan(batch_size=1))
        found = [next(scan)]
        for path in (root / "consumequeue" / "Lake" / "0").iterdir():
            path.unlink()
        assert len(places([*found, *scan])) == 730


def test_a_plan_is_read_elsewhere_without_listing(golden, compacted, monkeypatch):
    with open_tiered(golden) as store, rocketstore.open(compacted, compacted=True) as other:
        plans = pickle.loads(pickle.dumps([store.plan_other_logs(), other.plan_other_logs()]))
        counts = [store.scan().count() - store.commit_log.scan().count(), other.scan().count()]
        counts[1] -= other.leave_out_compacted(other.commit_log.scan()).count()

    def refuse(*args):
        raise AssertionError("a directory is listed")

    monkeypatch.setattr("os.scandir", refuse)
    found = [sum(scan.count() for log in plan for scan in log.scans({})) for plan in plans]
    assert found == counts


def test_a_compacted_topic_is_scanned_where_its_units_are_damaged(compacted, tmp_path):
    root = shutil.copytree(compacted, tmp_path / "store")
    with rocketstore.open(root, compacted=True) as store:
        expected = sorted(places(store.scan()))
    for path in (root / "compaction" / "compactionCq").rglob("*"):
        if path.is_file() and path.stat().st_size:
            data = bytearray(path.read_bytes())
            data[0] = 0x40
            path.write_bytes(data)
    with rocketstore.open(root, compacted=True) as store:
        assert sorted(places(store.scan())) == expected


def test_a_queue_without_compacted_files_is_scanned_in_the_log(compacted, tmp_path):
    root = shutil.copytree(compacted, tmp_path / "store")
    with rocketstore.open(root, compacted=True) as store:
        queue = sorted(store.find_compacted_queues())[0]
    shutil.rmtree(root / "compaction" / "compactionCq" / queue.topic / str(queue.queue_id))
    with rocketstore.open(root, compacted=True) as store, rocketstore.open(root) as log:
        expected = log.scan(topic=queue.topic, queue_ids=queue.queue_id).count()
        assert expected > 0
        assert store.scan(topic=queue.topic, queue_ids=queue.queue_id).count() == expected
        key = next(key for batch in log.scan(topic=queue.topic) for each in batch for key in each.keys)
        found = [(each.queue_id, each.queue_offset) for each in store.query_message(queue.topic, key, 1000)]
        rows = [each for batch in store.scan(topic=queue.topic, key=key) for each in batch]
        assert sorted(found) == sorted((each.queue_id, each.queue_offset) for each in rows)


@pytest.mark.parametrize("name", ["golden", "compacted"])
def test_following_begins_in_the_other_logs(name, request):
    root = request.getfixturevalue(name)
    opened = open_tiered(root) if name == "golden" else rocketstore.open(root, compacted=True)
    with opened as store:
        expected = sorted(places(store.scan()))
        assert sorted(places(store.follow_batches(poll=None))) == expected
        requests = list(store.follow(poll=None))
        assert sorted((each.topic, each.queue_id, each.queue_offset) for each in requests) == expected
        assert [each.phy_offset for each in requests[-6:]] == sorted(each.phy_offset for each in requests[-6:])
        assert places(store.follow_batches(0, poll=None)) == places(store.commit_log.scan(0))
        stop = threading.Event()
        stop.set()
        assert list(store.follow(stop=stop)) == []


def test_followed_messages_of_a_compacted_topic_come_once(compacted, tmp_path):
    root = shutil.copytree(compacted, tmp_path / "store")
    with rocketstore.open(root, compacted=True) as store:
        queue = sorted(store.find_compacted_queues())[0]
        followed = store.follow_batches(poll=None)
        found = [next(followed)]
        sizes = StoreConfig(mapped_file_size_commit_log=1 << 20, max_hash_slot_num=1000, max_index_num=4000)
        with rocketstore.open(root, "a", config=sizes) as writer:
            writer.put_message(Message(queue.topic, b"new", keys=["new"], queue_id=queue.queue_id))
            writer.put_message(Message(queue.topic, b"without a key", queue_id=queue.queue_id))
        found += followed
        bodies = [each.body for batch in found for each in batch if (each.topic, each.queue_id) == queue]
        assert bodies[-1] == b"new"
        assert len({*places(found)}) == len(places(found)) == store.scan().count() + 1
