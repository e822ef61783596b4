"""A scan of a topic that has 1 % of the messages, by its queues, against a scan of the whole log."""

import os
import shutil
import time

import numpy as np
import pyarrow as pa
import pytest

import rocketstore
from rocketstore import StoreConfig

MESSAGES, PART, GOAL, COLD_GOAL = 500_000, 100_000, 8.0, 20.0
COLUMNS = ["phy_offset", "topic", "tags", "keys", "body"]


@pytest.fixture(scope="module")
def root(scratch):
    """A store of ten common topics and a rare one, with bodies of 1,000 bytes. A tenth of Topic1 has a rare tag."""
    root = scratch / "topics"
    with rocketstore.open(root, "a", config=StoreConfig(mapped_file_size_commit_log=128 << 20)) as writer:
        for begin in range(0, MESSAGES, PART):
            writer.put_messages(messages(range(begin, begin + PART)))
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def store(root):
    with rocketstore.open(root) as store:
        yield store


def messages(numbers):
    topics = ["Rare" if number % 100 == 0 else f"Topic{number % 10}" for number in numbers]
    bodies = [b"%09d " % number * 100 for number in numbers]
    tags = ["rare" if number % 100 == 1 else "often" for number in numbers]
    return pa.table({"topic": topics, "tags": tags, "body": pa.array(bodies, pa.binary())})


def read(store, plan, columns=COLUMNS, **conditions):
    conditions = {"topic": "Rare", "columns": columns} | conditions
    return np.concatenate([batch.phy_offset for batch in store.scan(plan=plan, **conditions)])


def seconds_of_scan(store, **conditions):
    begin = time.perf_counter()
    read(store, "scan", **conditions)
    return time.perf_counter() - begin


def drop_cache(root):
    """Let the system forget log and queues."""
    for path in [*root.glob("commitlog/*"), *root.glob("consumequeue/*/*/*")]:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_again(root, plan):
    """Read a store that was just opened."""
    with rocketstore.open(root) as store:
        return read(store, plan)


def seconds_from_disk(root):
    drop_cache(root)
    begin = time.perf_counter()
    read_again(root, "scan")
    return time.perf_counter() - begin


@pytest.mark.parametrize("conditions", [{}, {"topic": "Topic1", "tag": "rare"}], ids=["topic", "tag"])
def test_both_ways_give_the_same_messages(store, conditions):
    assert "to which the queues lead" in store.scan(**{"topic": "Rare"} | conditions).explain()
    assert np.array_equal(read(store, "auto", **conditions), read(store, "scan", **conditions))


@pytest.mark.parametrize(
    ("name", "conditions"),
    [
        ("a topic of 1 % of the log", {}),
        ("a topic of 1 % of the log, all columns", {"columns": None}),
        ("a tag of 1 % of the log in a common topic", {"topic": "Topic1", "tag": "rare"}),
    ],
)
def test_scan_of_a_rare_topic_or_tag(pairs, store, name, conditions):
    ours, theirs = lambda: read(store, "auto", **conditions), lambda: seconds_of_scan(store, **conditions)
    pairs(f"scan of {name}, 1,000 B bodies", MESSAGES, ours, theirs, "scan of the whole log", GOAL)


def test_first_scan_of_a_rare_topic_from_a_cold_cache(pairs, root):
    name = "first scan of a topic of 1 % of the log, cold cache"
    theirs, drop = lambda: seconds_from_disk(root), lambda: drop_cache(root)
    pairs(name, MESSAGES, lambda: read_again(root, "auto"), theirs, "scan of the whole log", COLD_GOAL, drop)
