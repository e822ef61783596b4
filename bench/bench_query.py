"""Verified queries by key of many messages against a loop over RocketMQ's queryMessage."""

import shutil

import numpy as np
import pyarrow.compute as pc
import pytest
from keys import TOPIC, lookup_numbers
from peers import Java
from store_files import START, message_keys, write_store

import rocketstore
from rocketstore import IndexService, StoreConfig
from rocketstore.limits import LONG_MAX

LOOKUPS = 100_000
LOOKUP_SEED = 7
LONG_RANGE, SHORT_RANGE = (0, LONG_MAX), (START + 5000, START + 10_000)  # all, and a quarter of the store
DEFAULT = 5_000_000, 20_000_000
# Of which the messages of the store fill fifty files.
SMALL = 20_000, 58_000
REQUEST_COLUMNS = ("topic", "uniq_key", "keys", "tags", "phy_offset", "store_timestamp", "sys_flag")


@pytest.fixture(scope="module", params=[DEFAULT, SMALL], ids=["one index file", "50 index files"])
def geometry(request):
    return request.param


@pytest.fixture(scope="module")
def java(geometry):
    process = Java(*geometry, main="StoreBench")
    yield process
    process.close()


@pytest.fixture(scope="module")
def root(scratch, geometry):
    """A store of 1 GiB with 1 KiB bodies, and its index."""
    root = scratch / f"query-{geometry[1]}"
    write_store(root, 1024)
    slots, items = geometry
    with (
        rocketstore.open(root) as store,
        IndexService.open(root / "index", "a", hash_slot_num=slots, index_num=items) as index,
    ):
        for batch in store.scan(columns=REQUEST_COLUMNS):
            index.build_indexes(requests(batch))
    yield root
    shutil.rmtree(root)


def requests(batch):
    texts = batch.to_arrow()
    return {
        "topic": texts["topic"],
        "uniq_key": texts["uniqKey"],
        "keys": pc.binary_join(texts["keys"], " "),
        "tags": texts["tags"],
        **{name: batch.columns[name] for name in ("phy_offset", "store_timestamp", "sys_flag")},
    }


@pytest.fixture(scope="module")
def store(root, geometry):
    slots, items = geometry
    with rocketstore.open(root, config=StoreConfig(max_hash_slot_num=slots, max_index_num=items)) as store:
        yield store


@pytest.fixture(scope="module")
def messages(store):
    return sum(len(batch) for batch in store.scan(columns=["phy_offset"]))


@pytest.fixture(scope="module")
def keys(messages):
    return message_keys(lookup_numbers(LOOKUPS, LOOKUP_SEED, messages))


def check(java, root, store, messages, keys, bounds):
    """Both find the same entries of the index; of these ours leaves out what only has the key's hash."""
    _, count, checksum = java.round("query", root, LOOKUPS, LOOKUP_SEED, messages, *bounds)
    entries = store.index.query_offsets(TOPIC, keys, 32, *bounds)
    assert (len(entries.values), int(entries.values.sum()) & LONG_MAX) == (count, checksum)
    found = store.query_messages(TOPIC, keys, 32, *bounds)
    assert found.complete.all()
    return found


@pytest.mark.parametrize("threads", [1, 2])
def test_query_messages(pairs, java, root, store, messages, keys, geometry, threads):
    found = check(java, root, store, messages, keys, LONG_RANGE)
    assert (np.diff(found.offsets) == 1).all()
    pairs(
        f"query_messages, verified, index files: {len(store.index.files)}, threads: {threads}",
        LOOKUPS,
        lambda: store.query_messages(TOPIC, keys, 32, threads=threads),
        lambda: java.round("query", root, LOOKUPS, LOOKUP_SEED, messages, *LONG_RANGE)[0],
        "queryMessage",
        goal=10,
    )


def test_query_messages_of_a_time(pairs, java, root, store, messages, keys, geometry):
    """After the queries that prove which index files have messages of the time. See docs/performance.md."""
    check(java, root, store, messages, keys, SHORT_RANGE)
    for _ in range(4):
        store.query_messages(TOPIC, keys, 32, *SHORT_RANGE)
    pairs(
        f"query_messages of a quarter of the time, index files: {len(store.index.files)}",
        LOOKUPS,
        lambda: store.query_messages(TOPIC, keys, 32, *SHORT_RANGE),
        lambda: java.round("query", root, LOOKUPS, LOOKUP_SEED, messages, *SHORT_RANGE)[0],
        "queryMessage",
    )
