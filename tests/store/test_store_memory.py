"""Memory: how much of it reading takes, on a log of 50 GiB and on 70,000 queues."""

import functools
import random
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from reference.java import java_hash
from reference.record import build_record
from support.subprocesses import anonymous_memory, in_subprocess

import rocketstore

MIB, GIB = 1 << 20, 1 << 30
LIMIT = 256 * MIB
TOPIC, QUEUES, BODY = "TopicTest", 8, 1000
T0 = 1_700_000_000_000

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures in /proc: only on Linux")


# ---- measuring ---------------------------------------------------------------------------------------------


class Peak:
    """The most anonymous memory of the process, looked at each millisecond."""

    def __init__(self, what):
        self.what = what

    def __enter__(self):
        self.bytes = anonymous_memory()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.done.wait(0.001):
            self.bytes = max(self.bytes, anonymous_memory())

    def __exit__(self, *exc):
        self.done.set()
        self.thread.join()
        print(f"{self.what}: {self.bytes / MIB:.0f} MiB")
        if exc == (None, None, None):
            assert self.bytes <= LIMIT, f"{self.what}: {self.bytes / MIB:.0f} MiB of anonymous memory"


@pytest.fixture
def root():
    """A directory that goes at once: pytest keeps its own for three runs, and these have many files."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "store"


# ---- stores ------------------------------------------------------------------------------------------------


def write_fields(rows, pos, values):
    """Write a big-endian number into each record."""
    rows[:, pos : pos + values.itemsize] = values.view(np.uint8).reshape(len(rows), -1)


def records(phy_offset, numbers, topics=None, body=BODY):
    """Records one after the other as uint8[n, size]: number i is in queue i % QUEUES, and has the key k<i>."""
    template = build_record(TOPIC, bytes(body), properties={"KEYS": "k00000000", "TAGS": "TagA"}, body_crc=crc(body))
    rows = np.tile(np.frombuffer(template, np.uint8), (len(numbers), 1))
    write_fields(rows, 12, (numbers % QUEUES).astype(">i4"))
    write_fields(rows, 20, (numbers // QUEUES).astype(">i8"))
    write_fields(rows, 28, (phy_offset + rows.shape[1] * np.arange(len(numbers))).astype(">i8"))
    write_fields(rows, 56, (T0 + numbers).astype(">i8"))
    digits = template.index(b"k00000000") + 1
    for place in range(8):
        rows[:, digits + 7 - place] = ord("0") + numbers // 10**place % 10
    return rows


@functools.cache
def crc(body):
    return int.from_bytes(build_record(TOPIC, bytes(body))[8:12], "big")


def write_units(path, file_size, phy_offsets, size):
    units = np.zeros((len(phy_offsets), 20), np.uint8)
    write_fields(units, 0, phy_offsets.astype(">i8"))
    write_fields(units, 8, np.full(len(units), size, ">i4"))
    write_fields(units, 12, np.full(len(units), java_hash("TagA"), ">i8"))
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.write(units.tobytes())
        file.truncate(file_size)


def make_large_log(root, files, per_file, per_large_file):
    """A store of sparse files of 1 GiB: records at the beginning of each, and a blank to its end. Its messages' number.

    The first file, one in the middle and the last have more records.
    """
    (root / "commitlog").mkdir(parents=True)
    offsets, done = [], 0
    for number in range(files):
        count = per_large_file if number in (0, files // 2, files - 1) else per_file
        rows = records(number * GIB, np.arange(done, done + count))
        end = rows.size
        with (root / "commitlog" / f"{number * GIB:020d}").open("wb") as file:
            file.write(rows.data)
            file.write(np.array([GIB - end, 0xCBD43194], ">u4").tobytes())
            file.truncate(GIB)
        offsets.append(number * GIB + rows.shape[1] * np.arange(count))
        done += count
    phy_offsets = np.concatenate(offsets)
    for queue in range(QUEUES):
        path = root / "consumequeue" / TOPIC / str(queue) / f"{0:020d}"
        write_units(path, 6_000_000, phy_offsets[queue::QUEUES], rows.shape[1])
    with rocketstore.IndexService.open(root / "index", "a", hash_slot_num=50_000, index_num=200_000) as index:
        keys = [f"k{number:08d}" for number in range(done)]
        index.build_indexes(
            {
                "topic": TOPIC,
                "keys": keys,
                "tags": ["TagA"] * done,
                "phy_offset": phy_offsets,
                "store_timestamp": T0 + np.arange(done),
            }
        )
    return done


def make_many_queues(root, topics, queues):
    """A store of one message in each queue of many topics, and a consumer group of all of them."""
    n = topics * queues
    template = build_record("T0000", b"x")
    rows = np.tile(np.frombuffer(template, np.uint8), (n, 1))
    number = np.arange(n)
    write_fields(rows, 12, (number % queues).astype(">i4"))
    phy_offsets = rows.shape[1] * number
    write_fields(rows, 28, phy_offsets.astype(">i8"))
    digits = template.index(b"T0000") + 1
    for place in range(4):
        rows[:, digits + 3 - place] = ord("0") + number // queues // 10**place % 10
    (root / "commitlog").mkdir(parents=True)
    with (root / "commitlog" / f"{0:020d}").open("wb") as file:
        file.write(rows.data)
        file.truncate(GIB)
    for i, phy_offset in enumerate(phy_offsets):
        path = root / "consumequeue" / f"T{i // queues:04d}" / str(i % queues) / f"{0:020d}"
        write_units(path, 6_000_000, phy_offset.reshape(1), rows.shape[1])
    table = ",".join(
        f'"T{topic:04d}@G":{{{",".join(f"{queue}:0" for queue in range(queues))}}}' for topic in range(topics)
    )
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_text(f'{{"offsetTable":{{{table}}}}}')


# ---- a large log -------------------------------------------------------------------------------------------


def read_large_log(root, messages):
    """Open it, and read it in every way."""
    n, rng = int(messages), random.Random(1)
    with Peak("open and repr"):
        store = rocketstore.open(root)
        assert f"{n:,} messages" in repr(store)
        assert store.summary().messages == n
    with store:
        for threads in (1, 2):
            with Peak(f"scan of all fields, {threads} threads"):
                assert sum(len(batch) for batch in store.scan(verify_crc=True, threads=threads)) == n
            with Peak(f"scan of few fields, {threads} threads"):
                columns = ["phy_offset", "keys", "topic"]
                assert sum(len(batch) for batch in store.scan(columns=columns, threads=threads)) == n
        with Peak("random messages"):
            phy_offsets = np.concatenate([batch.phy_offset for batch in store.scan(columns=["phy_offset"])])
            for _ in range(20):
                chosen = np.array(rng.choices(phy_offsets.tolist(), k=2000))
                assert store.commit_log.get_messages(chosen).phy_offset.tolist() == chosen.tolist()
            for offset in chosen[:500].tolist():
                assert store.look_message_by_offset(offset).phy_offset == offset
        with Peak("queues"):
            for topic, queue_id in store.queues():
                length = len(store.consume_queue(topic, queue_id))
                for _ in range(50):
                    first = rng.randrange(length)
                    found = store.get_message(topic, queue_id, first, 100, tag="TagA")
                    assert found.messages.queue_offset[0] == first
                assert store.get_offset_by_time(topic, T0 + 500, queue_id) in (500 // QUEUES, 500 // QUEUES + 1)
        with Peak("queries"):
            numbers = rng.sample(range(n), min(n, 5000))
            found = store.query_messages(TOPIC, [f"k{number:08d}" for number in numbers])
            assert found.phy_offsets.tolist() == phy_offsets[numbers].tolist()
            assert found.complete.all()
            assert len(found.messages) == len(numbers)
            assert len(store.query_message(TOPIC, f"k{n:08d}").messages) == 0
            assert len(store.query_message_by_tag(TOPIC, "TagA", 100).messages) == 100
            assert store.get_phy_offset_by_time(T0 + n // 2) == phy_offsets[n // 2]


def test_a_log_of_50_files_of_1_gib_is_read_in_256_mib(root):
    in_subprocess(read_large_log, root, make_large_log(root, 50, 50, 500), timeout=600)


@pytest.mark.slow
def test_a_log_with_files_of_100_mib_of_messages_is_read_in_256_mib(root):
    in_subprocess(read_large_log, root, make_large_log(root, 50, 2000, 90_000), timeout=600)


# ---- many queues -------------------------------------------------------------------------------------------


def read_many_queues(root, queues):
    n = int(queues)
    with Peak("open and repr"):
        store = rocketstore.open(root)
        assert f"{n:,} queues" in repr(store)
    with store:
        with Peak("all queues"):
            for topic, queue_id in store.queues():
                queue = store.consume_queue(topic, queue_id)
                assert (queue.min_queue_offset, queue.max_queue_offset) == (0, 1)
        with Peak("lag"):
            assert sum(row.lag for row in store.consumer_lag()) == n
        with Peak("messages"):
            for topic, queue_id in list(store.queues())[:: max(n // 500, 1)]:
                (message,) = store.get_message(topic, queue_id, 0).messages
                assert (message.topic, message.queue_id) == (topic, queue_id)


def test_a_store_of_1500_queues_is_read_in_256_mib(root):
    make_many_queues(root, 15, 100)
    in_subprocess(read_many_queues, root, 1500, timeout=600)


@pytest.mark.slow
def test_a_store_of_70_000_queues_is_read_in_256_mib(root):
    make_many_queues(root, 700, 100)
    in_subprocess(read_many_queues, root, 70_000, timeout=600)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
