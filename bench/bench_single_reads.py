"""One query by key and one read by queue offset in a warm store that does not change, against a fixed goal."""

import os
import random
import shutil

import pytest

import rocketstore
from rocketstore import Message, StoreConfig

MESSAGES, INDEX_FILES, READS = 140_000, 7, 2000
QUERY_GOAL, GET_GOAL = 100e-6, 50e-6  # seconds
AGED = 1_700_000_000  # seconds; files that are long unchanged


@pytest.fixture(scope="module")
def store(scratch):
    """A store of seven index files and four queues. Nothing writes to it."""
    root = scratch / "single"
    items = MESSAGES * 2 // INDEX_FILES + 10  # a key and a unique key for each message
    with rocketstore.open(root, "a", config=StoreConfig(max_hash_slot_num=items, max_index_num=items)) as writer:
        for begin in range(0, MESSAGES, 10_000):
            writer.put_messages(
                [
                    Message("Orders", b"%d " % i * 30, keys=[f"k{i}"], uniq_key=f"U{i}", queue_id=i % 4)
                    for i in range(begin, begin + 10_000)
                ]
            )
    assert len(list((root / "index").iterdir())) == INDEX_FILES
    for path in (root, *root.rglob("*")):
        os.utime(path, (AGED, AGED))
    with rocketstore.open(root) as store:
        yield store
    shutil.rmtree(root)


def test_query_message_by_one_key(pairs, store):
    draw = random.Random(1)
    keys = [f"k{draw.randrange(MESSAGES)}" for _ in range(READS)]

    def ours():
        for key in keys:
            (message,) = store.query_message("Orders", key)
            assert message.keys == [key]

    pairs("query_message by one key", READS, ours, lambda: READS * QUERY_GOAL, "the goal", goal=1)


def test_get_message_of_one_message(pairs, store):
    draw = random.Random(2)
    places = [(draw.randrange(4), draw.randrange(MESSAGES // 4)) for _ in range(READS)]

    def ours():
        for queue_id, place in places:
            (message,) = store.get_message("Orders", queue_id, place, 1)
            assert message.queue_offset == place

    pairs("get_message of one message", READS, ours, lambda: READS * GET_GOAL, "the goal", goal=1)
