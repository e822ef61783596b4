"""Messages that are only in tiered storage, against the same messages in a commit log."""

import shutil
import time

import pytest
from conftest import record

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.tier.places import hash_prefix

MESSAGES, BODY = 100_000, 1024
READ_AT_ONCE = 1000
ROUNDS = 5
BROKER = f"{hash_prefix('Cluster')}_Cluster/broker"


@pytest.fixture(scope="module")
def stores(scratch):
    """A store, and another store whose tier has the messages of the first. Both have one queue, and one log file."""
    plain, other, tier = (scratch / name for name in ("plain", "other", "tier"))
    config = StoreConfig(mapped_file_size_commit_log=1 << 28)
    with rocketstore.open(plain, "a", config=config) as store:
        for first in range(0, MESSAGES, READ_AT_ONCE):
            numbers = range(first, first + READ_AT_ONCE)
            store.put_messages([Message("T", b"%d" % n + bytes(BODY), keys=[f"k{n}"], queue_id=0) for n in numbers])
        end = store.commit_log.max_phy_offset
    with rocketstore.open(other, "a", config=config) as store:
        store.put_message(Message("Other", b"in the log"))
    for part, source, size in (
        ("COMMIT_LOG", plain / "commitlog" / f"{0:020}", end),
        ("CONSUME_QUEUE", plain / "consumequeue" / "T" / "0" / f"{0:020}", MESSAGES * 20),
    ):
        directory = tier / BROKER / "T" / "0" / part
        directory.mkdir(parents=True)
        with source.open("rb") as file:  # of one queue alone, so that each record is at the same place in both logs
            (directory / (hash_prefix("0") + f"{0:020}")).write_bytes(file.read(size))
    yield plain, other, tier
    for path in (plain, other, tier):
        shutil.rmtree(path)


def open_both(stores):
    plain, other, tier = stores
    tiered = rocketstore.open(other, config=StoreConfig(tiered_store_file_path=str(tier)), tiered=True)
    return rocketstore.open(plain), tiered


def scan(store):
    assert sum(map(len, store.scan(topic="T"))) == MESSAGES


def read_queue(store):
    for first in range(0, MESSAGES, READ_AT_ONCE):
        assert len(store.get_message("T", 0, first, READ_AT_ONCE)) == READ_AT_ONCE


@pytest.mark.parametrize("work", [scan, read_queue])
def test_tier(benchmark, stores, work):
    plain, tiered = open_both(stores)
    with plain, tiered:
        theirs, ours = [], []
        for _ in range(ROUNDS):
            for store, seconds in ((plain, theirs), (tiered, ours)):
                start = time.perf_counter()
                work(store)
                seconds.append(time.perf_counter() - start)
        ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
        each = [sorted(seconds)[ROUNDS // 2] / MESSAGES * 1e9 for seconds in (ours, theirs)]
        record(f"tiered storage: {work.__name__}", each[0], "a commit log", each[1], ratios)
        benchmark.pedantic(lambda: work(tiered), rounds=1)
