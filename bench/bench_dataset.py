"""DuckDB's SQL and polars on a store as a dataset, against the same query on a scan of all columns."""

import shutil
import time

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rocketstore
from rocketstore import StoreConfig

MESSAGES, PART, TOPICS, GOAL = 1_000_000, 100_000, 10, 5.0
QUERY = "SELECT sum(queueOffset), sum(size), min(phyOffset) FROM {} WHERE topic = 'Topic3'"


@pytest.fixture(scope="module")
def store(scratch):
    """A store of ten topics, whose messages have a key, a tag and bodies of some 200 bytes."""
    root = scratch / "dataset"
    with rocketstore.open(root, "a", config=StoreConfig(mapped_file_size_commit_log=256 << 20)) as writer:
        for begin in range(0, MESSAGES, PART):
            writer.put_messages(messages(np.arange(begin, begin + PART)))
    with rocketstore.open(root) as store:
        yield store
    shutil.rmtree(root)


def messages(numbers):
    texts = pa.array(numbers).cast(pa.string())
    topics, tags = pa.array([f"Topic{i}" for i in range(TOPICS)]), pa.array(["paid", "sent", "open"])
    return pa.table(
        {
            "topic": topics.take(pa.array(numbers % TOPICS)),
            "tags": tags.take(pa.array(numbers % 3)),
            "keys": pa.ListArray.from_arrays(np.arange(len(numbers) + 1, dtype=np.int32), texts),
            "body": pa.array([b"%d " % number * 28 for number in numbers.tolist()], pa.binary()),
        }
    )


def by_dataset(store):
    with duckdb.connect() as connection:
        connection.register("messages", store.dataset())
        return connection.sql(QUERY.format("messages")).fetchall()


def by_scan(store):
    """Return the answer of a query on a stream of all columns."""
    with duckdb.connect() as connection:
        connection.register("messages", pa.RecordBatchReader.from_stream(store.scan(threads=2)))
        return connection.sql(QUERY.format("messages")).fetchall()


def by_polars(store):
    frame = rocketstore.scan_polars(store.path).filter(pl.col("topic") == "Topic3")
    row = frame.select(pl.col("queueOffset").sum(), pl.col("size").sum(), pl.col("phyOffset").min()).collect()
    return row.rows()


def seconds(work, store):
    begin = time.perf_counter()
    work(store)
    return time.perf_counter() - begin


def test_all_ways_give_the_same_answer(store):
    assert by_dataset(store) == by_scan(store) == by_polars(store)


@pytest.mark.parametrize(("work", "goal"), [(by_dataset, GOAL), (by_polars, None)], ids=["DuckDB", "polars"])
def test_three_columns_of_a_topic(pairs, store, work, goal, request):
    name = f"three columns of a topic, {request.node.callspec.id}"
    pairs(name, MESSAGES, lambda: work(store), lambda: seconds(by_scan, store), "DuckDB, all columns", goal)
