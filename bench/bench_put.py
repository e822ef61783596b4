"""Putting messages, until all are dispatched, against RocketMQ's DefaultMessageStore.putMessage."""

import os
import shutil
import threading

import numpy as np
import pytest
from keys import TOPIC, digits, splitmix64
from peers import Java

import rocketstore
from rocketstore import Message, StoreConfig

MESSAGES = int(os.environ.get("ROCKETSTORE_BENCH_MESSAGES", "200000"))
SYNC_MESSAGES, THREADS = MESSAGES // 10, 16
FEW = MESSAGES // 100
BATCH = 1000
QUEUES, TAG, START = 4, "TagA", 1_700_000_000_000
BODY_WORDS = 128
WARM_UPS = 2  # of the JVM, besides the rounds that are compared


@pytest.fixture(scope="module")
def java():
    process = Java(MESSAGES, main="PutBench")
    yield process
    process.close()


@pytest.fixture(scope="module")
def texts():
    """Key and body of each message."""
    keys = [row.tobytes().decode() for row in digits(np.arange(MESSAGES))]
    return keys, [make_body(i) for i in range(MESSAGES)]


def make_body(i):
    return splitmix64(np.arange(BODY_WORDS, dtype=np.uint64) + np.uint64(BODY_WORDS * i)).astype(">u8").tobytes()


@pytest.fixture(scope="module")
def messages(texts):
    return [make_message(i, key, body, START + i // 40) for i, (key, body) in enumerate(zip(*texts, strict=True))]


def make_message(i, key, body, born_timestamp=None):
    return Message(TOPIC, body, keys=key, tags=TAG, queue_id=i % QUEUES, born_timestamp=born_timestamp)


class Rounds:
    """Rounds of ours and theirs, each into a new store, which is closed and deleted before the next one."""

    def __init__(self, java, root, config=None):
        self.java = java
        self.root = root
        self.config = config
        self.store = None

    def open(self):
        self.store = rocketstore.open(self.root / "ours", "a", config=self.config)

    def end(self):
        if self.store is not None:
            self.store.close()
            self.store = None
            shutil.rmtree(self.root / "ours")

    def theirs(self, *words):
        """Run a round of theirs; return seconds, and what it has put."""
        self.end()
        name, *counts = words
        seconds, *put = self.java.round(name, self.root / "theirs", *counts)
        shutil.rmtree(self.root / "theirs")
        return seconds, put

    def ours(self, put, *args):
        put(self.store, *args)
        assert self.store.index is not None  # which has all that was put

    def compare(self, put, args, words):
        """Put once on both sides: as many messages, of the same queue offsets and sizes."""
        for _ in range(WARM_UPS):
            self.theirs(*words)
        _, theirs = self.theirs(*words)
        self.open()
        self.ours(put, *args)
        ends = [len(self.store.consume_queue(TOPIC, queue)) for queue in range(QUEUES)]
        weighted = sum(end * (queue + 1) for queue, end in enumerate(ends))
        assert theirs == [sum(ends), self.store.commit_log.max_phy_offset + weighted]
        assert ends == [words[1] // QUEUES] * QUEUES


@pytest.fixture
def rounds(java, scratch):
    rounds = Rounds(java, scratch)
    yield rounds
    rounds.end()


def put_each(store, messages):
    put = store.put_message
    for message in messages:
        put(message)


def build_and_put(store, keys, bodies):
    put = store.put_message
    for i, (key, body) in enumerate(zip(keys, bodies, strict=True)):
        put(make_message(i, key, body))


def put_batches(store, messages):
    for first in range(0, len(messages), BATCH):
        store.put_messages(messages[first : first + BATCH])


def put_from_threads(store, messages):
    parts = [messages[first::THREADS] for first in range(THREADS)]
    threads = [threading.Thread(target=put_each, args=(store, part)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(pairs, rounds, name, goal, put, args, words):
    rounds.compare(put, args, words)
    pairs(
        name,
        words[1],
        lambda: rounds.ours(put, *args),
        lambda: rounds.theirs(*words)[0],
        "putMessage",
        goal=goal,
        before=rounds.open,
    )


def test_both_write_the_same(java, scratch, messages):
    root = scratch / "theirs"
    java.round("put", root, FEW)
    with rocketstore.open(root) as theirs, rocketstore.open(scratch / "ours", "a") as ours:
        times = np.concatenate([batch.store_timestamp for batch in theirs.scan(columns=["store_timestamp"])])
        for message, time in zip(messages[:FEW], times.tolist(), strict=True):
            ours.put_message(message, store_timestamp=time)
        size = ours.commit_log.max_phy_offset
    records = [read(scratch / name / "commitlog" / f"{0:020}", size + 8) for name in ("ours", "theirs")]
    assert records[0] == records[1]
    for queue in range(QUEUES):
        name = f"consumequeue/{TOPIC}/{queue}/{0:020}"
        assert read(scratch / "ours" / name) == read(root / name)
    shutil.rmtree(scratch / "ours")
    shutil.rmtree(root)


def read(path, size=-1):
    with path.open("rb") as file:
        return file.read(size)


def test_put_message(pairs, rounds, messages):
    measure(pairs, rounds, "put_message, 1 KiB bodies", 1, put_each, [messages], ["put", MESSAGES])


def test_put_message_built_for_each_call(pairs, rounds, texts):
    measure(pairs, rounds, "put_message, and the Message is built", 0.5, build_and_put, texts, ["build", MESSAGES])


def test_put_messages(pairs, rounds, messages):
    measure(pairs, rounds, f"put_messages of {BATCH:,}", 4, put_batches, [messages], ["put", MESSAGES])


def test_sync_flush(pairs, rounds, messages):
    rounds.config = StoreConfig(flush_disk_type="SYNC_FLUSH")
    name, words = f"put_message, SYNC_FLUSH, {THREADS} threads", ["sync", SYNC_MESSAGES, THREADS]
    measure(pairs, rounds, name, 1, put_from_threads, [messages[:SYNC_MESSAGES]], words)
