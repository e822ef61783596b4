"""A scan of a topic that has 1 % of the messages, by its queues, against a scan of the whole log."""

import shutil
import time

import numpy as np
import pyarrow as pa
import pytest

import rocketstore
from rocketstore import StoreConfig

MESSAGES, PART, GOAL = 500_000, 100_000, 8.0
COLUMNS = ["phy_offset", "topic", "tags", "keys", "body"]


@pytest.fixture(scope="module")
def store(scratch):
    """A store of ten common topics and a rare one, with bodies of 1,000 bytes."""
    root = scratch / "topics"
    with rocketstore.open(root, "a", config=StoreConfig(mapped_file_size_commit_log=128 << 20)) as writer:
        for begin in range(0, MESSAGES, PART):
            writer.put_messages(messages(range(begin, begin + PART)))
    with rocketstore.open(root) as store:
        yield store
    shutil.rmtree(root)


def messages(numbers):
    topics = ["Rare" if number % 100 == 0 else f"Topic{number % 10}" for number in numbers]
    bodies = [b"%09d " % number * 100 for number in numbers]
    return pa.table({"topic": topics, "body": pa.array(bodies, pa.binary())})


def read(store, plan):
    return np.concatenate([batch.phy_offset for batch in store.scan(topic="Rare", columns=COLUMNS, plan=plan)])


def seconds_of_scan(store):
    begin = time.perf_counter()
    read(store, "scan")
    return time.perf_counter() - begin


def test_both_ways_give_the_same_messages(store):
    assert "to which the queues lead" in store.scan(topic="Rare").explain()
    assert np.array_equal(read(store, "auto"), read(store, "scan"))


def test_scan_of_a_topic_of_1_percent(pairs, store):
    name = "scan of a topic of 1 % of the log, 1,000 B bodies"
    pairs(name, MESSAGES, lambda: read(store, "auto"), lambda: seconds_of_scan(store), "scan of the whole log", GOAL)
