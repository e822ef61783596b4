"""rocketstore's MessageStore against RocketMQ's: reads by queue, by offset, by id and by key."""

import random

import pytest

from interop import stores
from interop.cases import LONG_MAX
from interop.store_checks import (
    check_keys,
    check_reads,
    expected_message,
    expected_rows,
    fields_of,
    fingerprint,
    is_indexed,
    java_queues,
    java_records,
    key_queries,
    open_store,
)

pytestmark = pytest.mark.interop

CLEAN = [(release, profile) for release, profile, crash in stores.STORES if not crash]
NAMES = (
    "topic",
    "queue_id",
    "queue_offset",
    "phy_offset",
    "size",
    "sys_flag",
    "store_timestamp",
    "properties",
    "raw_body",
)


@pytest.fixture(params=CLEAN, ids="-".join)
def store(request, store_of):
    return store_of(*request.param, crash=False)


# ---- by queue --------------------------------------------------------------------------------------------


def test_a_queue_is_read_with_java_s_statuses_and_next_offsets(store, seed):
    before = fingerprint(store.root)
    check_reads(store, random.Random(f"{seed} {store.root.name}"), 400)
    assert fingerprint(store.root) == before


def test_a_queue_is_read_to_its_end_without_limits(store):
    for queue in java_queues(store, load=True):
        with open_store(store) as ours:
            found = ours.get_message(queue["topic"], queue["queueId"], queue["min"], 10_000)
        assert [message.phy_offset for message in found.messages] == [unit["pos"] for unit in queue["units"]]
        assert found.next_begin_offset == queue["max"]


# ---- by offset and id ------------------------------------------------------------------------------------


def test_messages_are_looked_up_by_offset_and_by_id(store):
    records = java_records(store)
    requests = [{"op": "look_message", "offset": row["message"]["commitLogOffset"]} for row in records]
    answers = store.java.read_store(store.root, store.options, requests)
    with open_store(store) as ours:
        for answer in answers:
            wanted = {name: value for name, value in expected_message(answer).items() if name in NAMES}
            assert fields_of(ours.look_message_by_offset(answer["commitLogOffset"]), NAMES) == wanted
            assert fields_of(ours.query_message_by_id(answer["msgId"]), NAMES) == wanted


# ---- by key ----------------------------------------------------------------------------------------------


def test_keys_are_found_as_java_does_and_verified_on_the_record(store, seed):
    """Corner 70."""
    check_keys(store, random.Random(f"{seed} {store.root.name}"), 300)


def test_many_keys_at_once_are_found_as_one_by_one(store, seed):
    rng, expected = random.Random(seed), expected_rows(java_records(store))
    queries = key_queries(rng, expected, 100)
    with open_store(store) as ours:
        found = ours.query_messages([query[0] for query in queries], [query[1] for query in queries])
        assert found.complete.all()
        for i, (topic, key, *_) in enumerate(queries):
            one = ours.query_message(topic, key)
            assert [message.phy_offset for message in found[i]] == [message.phy_offset for message in one.messages]


def test_unique_keys_are_found(store):
    wanted = {}  # a batch of releases up to 5.3.3 gives its own to all its messages
    for row in reversed(expected_rows(java_records(store))):
        if row["uniq_key"] and is_indexed(row):
            wanted.setdefault((row["topic"], row["uniq_key"]), []).append(row["phy_offset"])
    with open_store(store) as ours:
        for (topic, uniq_key), phy_offsets in list(wanted.items())[:50]:
            found = ours.query_message_by_unique_key(topic, uniq_key)
            assert [message.phy_offset for message in found.messages] == phy_offsets


@pytest.mark.parametrize("profile", stores.OF_RELEASES["5.5.1"])
def test_tags_are_found_as_java_does(store_of, profile):
    store = store_of("5.5.1", profile, crash=False)
    expected = [row for row in expected_rows(java_records(store)) if is_indexed(row) and row["tags"]]
    pairs = sorted({(row["topic"], row["tags"]) for row in expected})
    requests = [
        {
            "op": "query_message",
            "topic": topic,
            "key": tags,
            "maxNum": 64,
            "begin": 0,
            "end": LONG_MAX,
            "indexType": "T",
        }
        for topic, tags in pairs
    ]
    answers = store.java.read_store(store.root, store.options, requests)
    with open_store(store) as ours:
        for (topic, tags), answer in zip(pairs, answers, strict=True):
            wanted = [row["phy_offset"] for row in reversed(expected) if (row["topic"], row["tags"]) == (topic, tags)]
            found = [message.phy_offset for message in ours.query_message_by_tag(topic, tags).messages]
            assert found == wanted
            assert set(answer["phyOffsets"]) >= set(found[:64])
