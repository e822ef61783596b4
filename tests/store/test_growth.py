"""Work grows at most as n log n with files, queues, units, items, entries and bytes, on hostile stores, too."""

import contextlib
import json
import os
import shutil
import time

import numpy as np
import pytest
from support import growth

import rocketstore
from rocketstore import IndexService, Message, StoreConfig, StoreError
from rocketstore.disk.file_run_reader import SETTLED
from rocketstore.recovery import plan_index
from rocketstore.recovery.index import find_sound_items
from rocketstore.verify.queues.ranges import Ranges

FEW, MANY = 80, 320
HUGE = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 101,
    "max_index_num": 100_000,
}
LOG_FILES = {"mapped_file_size_commit_log": 256}
QUEUE_FILES = {"mapped_file_size_consume_queue": 20}
INDEX_FILES = {"max_index_num": 3, "max_hash_slot_num": 3}
ALL_FILES = LOG_FILES | QUEUE_FILES | INDEX_FILES


class Store:
    """A store and what it was written with."""

    def __init__(self, root, messages, **sizes):
        self.root, self.config = root, StoreConfig(**HUGE | sizes)
        with rocketstore.open(root, "a", config=self.config) as store:
            store.put_messages(messages)

    def open(self, mode="r"):
        return rocketstore.open(self.root, mode, config=self.config)

    def log_files(self):
        return sorted((self.root / "commitlog").iterdir())

    def queue_files(self):
        return sorted((self.root / "consumequeue/T/0").iterdir())

    def index_files(self):
        return sorted((self.root / "index").iterdir())

    def settle(self):
        """Make all directories and files look old: readers look at one again as long as it may still change."""
        then = time.time() - 3 * SETTLED / 1e9
        for directory, _, names in os.walk(self.root):
            for path in (directory, *(os.path.join(directory, name) for name in names)):  # noqa: PTH118
                os.utime(path, (then, then))

    def copy(self):
        """Return a copy that an operation may change."""
        other = object.__new__(Store)
        other.root, other.config = self.root.with_name("copy"), self.config
        shutil.rmtree(other.root, ignore_errors=True)
        shutil.copytree(self.root, other.root)
        return other


def keyed(n, *, topic="T{0}", queue_id="0", key="k{0}"):
    return [
        Message(topic.format(i), b"body", keys=[key.format(i)], tags="a", queue_id=int(queue_id.format(i)))
        for i in range(n)
    ]


# ---- hostile and large stores ------------------------------------------------------------------------------


def many_topics(root, n):
    return Store(root, keyed(n))


def many_queues_of_a_topic(root, n):
    return Store(root, keyed(n, topic="T", queue_id="{0}"))


def many_files_of_all_kinds(root, n):
    return Store(root, keyed(n, topic="T"), **ALL_FILES)


def one_chain_of_items(root, n):
    return Store(root, keyed(20 * n, topic="T", key="k"), max_hash_slot_num=1)


def damaged_units(root, n):
    store = Store(root, keyed(n, topic="T"), **ALL_FILES)
    for path in store.queue_files()[1::2]:
        path.write_bytes(path.read_bytes()[:11] + b"\7" + bytes(8))
    return store


def missing_queue_files(root, n):
    store = Store(root, keyed(n, topic="T"), **ALL_FILES)
    for path in store.queue_files()[1::2]:
        path.unlink()
    return store


def items_that_lead_behind_the_log(root, n):
    store = Store(root, keyed(n, topic="T"), **ALL_FILES)
    for path in store.index_files()[1::2]:
        data = bytearray(path.read_bytes())
        data[40 + 12 : 40 + 12 + 40] = b"\1" * 40
        path.write_bytes(data)
    return store


def index_files_that_are_none(root, n):
    store = Store(root, keyed(2 * n, topic="T"), **INDEX_FILES)
    for path in store.index_files()[1:]:
        path.write_bytes(b"\7" * 30)
    return store


def items_between_records(root, n):
    """The items of all records but the first lead one byte beside them, in as many files of the log."""
    store = Store(root, keyed(n, topic="T"), **LOG_FILES, max_hash_slot_num=3)
    (path,) = store.index_files()
    data = bytearray(path.read_bytes())
    for ordinal in range(4, int.from_bytes(data[36:40], "big")):  # a message has three items
        place = 40 + 4 * 3 + 20 * ordinal + 4
        data[place : place + 8] = (int.from_bytes(data[place : place + 8], "big") + 1).to_bytes(8, "big")
    path.write_bytes(data)
    return store


def missing_log_files(root, n):
    store = Store(root, keyed(n, topic="T"), **LOG_FILES)
    for path in store.log_files()[1:-1:2]:
        path.unlink()
    return store


def log_files_made_ahead(root, n):
    store = Store(root, keyed(3, topic="T"), **LOG_FILES)
    for number in range(3, n):
        (root / "commitlog" / f"{256 * number:020}").write_bytes(bytes(256))
    return store


def queue_files_of_zeros(root, n):
    store = Store(root, keyed(3, topic="T"), **QUEUE_FILES)
    for number in range(3, n):
        (root / "consumequeue/T/0" / f"{20 * number:020}").write_bytes(bytes(20))
    return store


def damaged_records(root, n):
    store = Store(root, keyed(n, topic="T"))
    with store.open() as reader:
        offsets = [at for batch in reader.scan() for at in batch.phy_offset.tolist()]
    with store.log_files()[0].open("r+b") as file:
        for at in offsets[1:-1:2]:
            file.seek(at + 4)
            file.write(bytes(4))
    return store


def stray_files_and_directories(root, n):
    store = Store(root, keyed(5))
    for name in (".", "commitlog", "consumequeue", "consumequeue/T0", "consumequeue/T0/0", "index", "config"):
        (root / name).mkdir(exist_ok=True)
        for number in range(n):
            (root / name / f"stray{number}").touch()
    for number in range(n):
        (root / "consumequeue" / f"d{number}" / "0").mkdir(parents=True)
    return store


def many_entries_of_config_files(root, n):
    store = Store(root, keyed(5))
    (root / "config").mkdir(exist_ok=True)
    topic = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    tables = {
        "topics": {"topicConfigTable": {f"T{i}": {"topicName": f"T{i}", **topic} for i in range(n)}},
        "consumerOffset": {"offsetTable": {f"T{i % 5}@g{i}": {"0": 1} for i in range(n)}},
        "subscriptionGroup": {"subscriptionGroupTable": {f"g{i}": {"groupName": f"g{i}"} for i in range(n)}},
        "delayOffset": {"offsetTable": {str(i): 1 for i in range(n)}},
    }
    for name, table in tables.items():
        (root / "config" / f"{name}.json").write_text(json.dumps(table))
    return store


STORES = [
    many_topics,
    many_queues_of_a_topic,
    many_files_of_all_kinds,
    one_chain_of_items,
    damaged_units,
    missing_queue_files,
    items_that_lead_behind_the_log,
    index_files_that_are_none,
    items_between_records,
    missing_log_files,
    log_files_made_ahead,
    queue_files_of_zeros,
    damaged_records,
    stray_files_and_directories,
    many_entries_of_config_files,
]


# ---- operations --------------------------------------------------------------------------------------------


def read_all(store):
    """What ``ls``, ``info`` and ``lag`` read, and export and cat."""
    with store.open() as reader:
        reader.summary()
        list(reader.consumer_lag())
        assert sum(map(len, reader.scan(on_corrupt="skip"))) > 0
        for queue in reader.queues():
            with contextlib.suppress(StoreError):
                len(reader.consume_queue(*queue)[:])


def read_one_by_one(store):
    with store.open() as reader:
        for batch in reader.scan(on_corrupt="skip"):
            for at in batch.phy_offset.tolist():
                assert reader.look_message_by_offset(at) is not None
        for topic, queue_id in reader.queues():
            with contextlib.suppress(StoreError):
                for at in range(reader.consume_queue(topic, queue_id).max_queue_offset):
                    reader.get_message(topic, queue_id, at, 1)


def infer_sizes(store):
    with contextlib.suppress(StoreError, ValueError), rocketstore.open(store.root) as reader:
        reader.summary()


def query(store):
    with store.open() as reader, contextlib.suppress(StoreError):
        reader.query_message("T", "k", 10)
        reader.query_messages("T", ["k", "k1", "k2"])


def use_index(store):
    with contextlib.suppress(StoreError, ValueError), IndexService.open(store.root / "index") as index:
        index.refresh()
        index.query_offset("T", "k1", 10)


def verify(store):
    assert rocketstore.verify(store.root, config=store.config, threads=2).messages > 0


def open_to_write(store):
    store = store.copy()
    (store.root / "abort").touch()
    with contextlib.suppress(StoreError, ValueError), store.open("a") as writer:
        writer.put_messages(keyed(5, topic="T"))
        writer.delete_expired_files(before_phy_offset=writer.commit_log.max_phy_offset)


def recover(policy):
    def operation(store):
        store = store.copy()
        (store.root / "abort").touch()
        with contextlib.suppress(StoreError, ValueError):
            rocketstore.recover(store.root, policy=policy, dry_run=True, config=store.config)
            rocketstore.recover(store.root, policy=policy, config=store.config)

    operation.__name__ = f"recover_{policy}"
    return operation


def rebuild(store):
    store = store.copy()
    with contextlib.suppress(StoreError, ValueError):
        rocketstore.rebuild(store.root, config=store.config)


def salvage(store):
    out = store.root.with_name("salvaged")
    shutil.rmtree(out, ignore_errors=True)
    assert rocketstore.salvage(store.root, out, config=store.config).records > 0


READ = [read_all, read_one_by_one, infer_sizes, query, use_index, verify]
CHANGE = [open_to_write, recover("complete"), recover("broker"), rebuild, salvage]


def built(tmp_path, build, n):
    store = build(tmp_path / str(n) / "store", n)
    store.settle()
    return store


ONCE_QUADRATIC = [  # with the smallest size at which the square was seen
    (read_all, index_files_that_are_none, 40),
    (query, many_files_of_all_kinds, 40),
    (query, index_files_that_are_none, 40),
    (verify, damaged_units, 40),
    (verify, items_that_lead_behind_the_log, 40),
    (verify, damaged_records, 80),
]
ONCE_QUADRATIC_WITH_MORE = [(read_one_by_one, damaged_units, 250), (recover("complete"), damaged_units, 120)]
LIKELY = [(open_to_write, many_topics, 40), (salvage, damaged_records, 40), (rebuild, many_queues_of_a_topic, 20)]


@pytest.mark.parametrize(
    ("operation", "build", "n"),
    ONCE_QUADRATIC + LIKELY + [pytest.param(*case, marks=pytest.mark.slow) for case in ONCE_QUADRATIC_WITH_MORE],
    ids=lambda f: getattr(f, "__name__", f),
)
def test_work_grows_with_the_size_of_a_store_and_not_with_its_square(tmp_path, operation, build, n):
    growth.assert_grows_at_most_linearly(operation, built(tmp_path, build, n), built(tmp_path, build, 4 * n))


def test_one_message_is_read_without_a_look_at_all_files(tmp_path):
    def read(reader):
        for at in range(12):
            assert reader.get_message("T", 0, at, 1).messages
            assert reader.look_message_by_offset(reader.consume_queue("T", 0)[at].phy_offset) is not None
        assert reader.query_message_by_id(reader.get_message("T", 0, 3, 1).messages[0].msg_id) is not None

    calls = []
    for n in (40, 160):
        with built(tmp_path, many_files_of_all_kinds, n).open() as reader:
            read(reader)
            calls.append(growth.count_calls(read, reader))
    assert calls[1] <= 1.2 * calls[0] + 100, calls


def test_recovery_reads_an_index_file_twice_however_many_log_files_its_items_miss(tmp_path, monkeypatch):
    store = built(tmp_path, items_between_records, 40)
    looks = []

    def look(path, *arguments, **options):
        looks.append(path)
        return find_sound_items(path, *arguments, **options)

    monkeypatch.setattr(plan_index, "find_sound_items", look)
    (store.root / "abort").touch()
    rocketstore.recover(store.root, config=store.config)
    assert 0 < len(looks) <= 4
    with store.open() as reader:
        assert [len(reader.query_message("T", f"k{i}").messages) for i in range(40)] == [1] * 40


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*there is no queue of topic 'T'")  # of a store with other topics
@pytest.mark.parametrize("build", STORES, ids=lambda f: f.__name__)
def test_every_operation_grows_with_the_size_of_a_store(tmp_path, build):
    few, many = built(tmp_path, build, FEW), built(tmp_path, build, MANY)
    for operation in READ + CHANGE:
        growth.assert_grows_at_most_linearly(operation, few, many)


# ---- bytes of the log --------------------------------------------------------------------------------------

HEAD = (200).to_bytes(4, "big") + bytes.fromhex("DAA320A7")
BLANK = (1 << 20).to_bytes(4, "big") + bytes.fromhex("CBD43194")
GARBAGE = {"zeros": bytes(8), "heads": HEAD, "blanks": BLANK, "noise": bytes(range(256)), "half a magic": b"\xcb\xda"}


@pytest.mark.parametrize("pattern", GARBAGE)
def test_time_to_find_records_grows_with_the_bytes_that_are_none(tmp_path, pattern):
    def build(n):
        store = Store(tmp_path / str(n) / "store", keyed(50, topic="T"), mapped_file_size_commit_log=n + (1 << 16))
        with store.log_files()[0].open("r+b") as file:
            file.seek(1000)
            file.write(GARBAGE[pattern] * (n // len(GARBAGE[pattern])))
        return store

    for operation in (salvage, verify):
        growth.assert_time_grows_at_most_linearly(operation, build(1 << 20), build(1 << 22))
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()


# ---- parts -------------------------------------------------------------------------------------------------


def test_gaps_of_a_set_are_found_without_a_look_at_all_of_its_ranges():
    def gaps(n):
        ranges = Ranges()
        ranges.add_all(np.arange(0, 2 * n, 2))
        found = [list(ranges.gaps(at, at + 2)) for at in range(0, 2 * n, 2)]
        assert found == [[(at + 1, at + 2)] for at in range(0, 2 * n, 2)]
        assert ranges.end == 2 * n - 1

    growth.assert_time_grows_at_most_linearly(gaps, 5_000, 20_000)


def test_gaps_are_the_numbers_that_are_not_in_the_set():
    ranges = Ranges()
    for begin, end in ((20, 25), (3, 5), (5, 6), (10, 12), (11, 15), (30, 30)):
        ranges.add(begin, end)
    inside = {3, 4, 5, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24}
    for begin in range(32):
        for end in range(begin, 32):
            gaps = [number for first, last in ranges.gaps(begin, end) for number in range(first, last)]
            assert gaps == [number for number in range(begin, end) if number not in inside]
    assert ranges.end == 30


def test_a_put_looks_at_no_index_file_that_is_full(tmp_path):
    def put(n):
        with IndexService.open(tmp_path / str(n), "a", hash_slot_num=3, index_num=3) as index:
            columns = {"topic": ["T"], "keys": ["k"], "uniq_key": [None], "tags": [None], "sys_flag": [0]}
            for at in range(n):
                index.build_indexes(columns | {"phy_offset": [at], "store_timestamp": [at]})
            assert len(index.files) >= n // 2
            assert len(index._files.written) < 20
            index.flush()
        with IndexService.open(tmp_path / str(n), "a", hash_slot_num=3, index_num=3) as index:
            n_files = len(index.files)
            assert len(index.delete_expired_file(n)) == n_files - 1
            assert len(index.files) == 1

    growth.assert_grows_at_most_linearly(put, 50, 200)
