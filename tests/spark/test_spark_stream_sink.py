"""Streams into stores: each batch is stored once, through repeated batches, late attempts and killed drivers."""

import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import types as T
from support.spark_reads import environment_of_classic

import rocketstore
from rocketstore import StoreConfig, StoreLockedError
from rocketstore.config import camel_case
from rocketstore.jobs.intent import WriteIntent
from rocketstore.jobs.transactions import last_version
from rocketstore.spark import register
from rocketstore.spark.source import stream_sink
from rocketstore.spark.source.stream_sink import stream_writer_of
from rocketstore.store import write_job

SMALL = {"mapped_file_size_commit_log": 1 << 20, "max_hash_slot_num": 97, "max_index_num": 3000}
OPTIONS = {camel_case(name): str(size) for name, size in SMALL.items()}
SCHEMA = T.StructType([T.StructField("topic", T.StringType()), T.StructField("body", T.BinaryType())])
QUERY = "5f3c2a70-0000-4000-8000-000000000001"


def bodies(root):
    with rocketstore.open(root) as store:
        return [message.body for batch in store.scan() for message in batch]


def leftovers(root):
    return sorted(path.name for path in root.glob("rocketstore-*") if path.name != "rocketstore-transactions")


def batch(*rows):
    return pa.record_batch({"topic": ["T"] * len(rows), "body": pa.array(rows, pa.binary())})


# ---- without Spark -----------------------------------------------------------------------------------------


@pytest.fixture
def in_task(monkeypatch):
    """A function that makes the next write a task of a partition and a batch."""

    def become(partition, number, query=QUERY):
        known = {stream_sink.QUERY_ID: query, stream_sink.BATCH_ID: str(number)}
        attempts = itertools.count()
        context = SimpleNamespace(partitionId=lambda: partition, getLocalProperty=known.get)
        context.taskAttemptId = lambda: next(attempts)
        monkeypatch.setattr(stream_sink.TaskContext, "get", lambda: context)

    return become


def writer(root, **options):
    """As Spark makes it to plan a batch, and again for its commit."""
    return stream_writer_of(SCHEMA, {"path": str(root), "checkpointLocation": "/at", **OPTIONS, **options}, False)


def test_partitions_of_a_batch_are_put_in_their_order(tmp_path, in_task):
    messages, planned = [], writer(tmp_path)
    for partition in (2, 0, 1):
        in_task(partition, 0)
        task = pickle.loads(pickle.dumps(planned))
        messages.append(task.write(iter([batch(b"%d" % partition)] if partition != 1 else [])))
    writer(tmp_path).commit([*messages, None], 0)
    assert bodies(tmp_path) == [b"0", b"2"]
    assert leftovers(tmp_path) == []
    assert last_version(tmp_path, QUERY) == 0


def test_a_repeated_batch_is_stored_once(tmp_path, in_task):
    in_task(0, 0)
    first = writer(tmp_path).write(iter([batch(b"first")]))
    again = writer(tmp_path).write(iter([batch(b"again")]))  # of another driver, whose predecessor may still run
    writer(tmp_path).commit([again], 0)
    writer(tmp_path).commit([first], 0)
    third = writer(tmp_path).write(iter([batch(b"third")]))
    assert third.rows is None
    writer(tmp_path).commit([third], 0)
    assert (bodies(tmp_path), leftovers(tmp_path)) == ([b"again"], [])


def test_a_batch_whose_driver_was_killed_in_its_commit_is_stored_once(tmp_path, in_task, monkeypatch):
    in_task(0, 0)
    first = writer(tmp_path).write(iter([batch(b"0")]))
    with monkeypatch.context() as killed:
        killed.setattr(write_job, "undo", lambda *_: None)
        killed.setattr(WriteIntent, "fulfil", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            writer(tmp_path).commit([first], 0)
    assert "rocketstore-intent.json" in leftovers(tmp_path)
    again = writer(tmp_path).write(iter([batch(b"0")]))
    writer(tmp_path).commit([again], 0)
    assert (bodies(tmp_path), leftovers(tmp_path)) == ([b"0"], [])


def test_an_attempt_that_ends_after_the_commit_leaves_nothing(tmp_path, in_task):
    in_task(0, 0)

    def rows():
        yield batch(b"late")
        in_task(0, 0)
        winner = writer(tmp_path).write(iter([batch(b"winner")]))
        writer(tmp_path).commit([winner], 0)
        assert len(leftovers(tmp_path)) == 0

    with pytest.raises(FileNotFoundError):  # its file was removed
        writer(tmp_path).write(rows())
    assert (bodies(tmp_path), leftovers(tmp_path)) == ([b"winner"], [])


def test_a_commit_removes_what_killed_attempts_of_older_batches_left(tmp_path, in_task):
    for number in (0, 7, 10, 12):
        (tmp_path / f"rocketstore-write-{QUERY}-{number}-plan").mkdir(parents=True)
        (tmp_path / f"rocketstore-write-{QUERY}-{number}-plan" / "000000-0.tmp").write_bytes(b"killed")
    in_task(0, 10)
    writer(tmp_path).commit([writer(tmp_path).write(iter([batch(b"ten")]))], 10)
    assert leftovers(tmp_path) == [f"rocketstore-write-{QUERY}-12-plan"]


def test_an_abort_removes_the_rows_of_the_batch(tmp_path, in_task):
    in_task(0, 3)
    written = writer(tmp_path).write(iter([batch(b"0")]))
    assert leftovers(tmp_path) == [f"rocketstore-write-{written.job}"]
    writer(tmp_path).abort([None, written], 3)
    assert leftovers(tmp_path) == []
    assert last_version(tmp_path, QUERY) == -1


def test_a_bad_row_is_named_and_leaves_nothing(tmp_path, in_task):
    in_task(4, 0)
    with pytest.raises(ValueError, match=r"partition 4, row 1: .*cannot be the name of a directory"):
        writer(tmp_path).write(iter([batch(b"0"), pa.record_batch({"topic": ["a/b"], "body": [b"1"]})]))
    assert leftovers(tmp_path) == []


def test_queries_have_numbers_of_their_own(tmp_path, in_task):
    for query in ("one", "two"):
        in_task(0, 0, query)
        writer(tmp_path).commit([writer(tmp_path).write(iter([batch(query.encode())]))], 0)
    assert bodies(tmp_path) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"txnAppId": "a"}, "option txnAppId: a stream has the id of its query"),
        ({"txnversion": "1"}, "option txnversion: a stream has the id of its query"),
        ({"triggerInterval": "1"}, "option 'triggerInterval' is unknown: the options of writing are path, storeTime"),
        ({"path": "relative"}, "must be the absolute path"),
    ],
    ids=str,
)
def test_wrong_options_are_refused(tmp_path, options, reason):
    with pytest.raises(ValueError, match=reason):
        writer(tmp_path, **options)


def test_output_mode_complete_is_refused(tmp_path):
    with pytest.raises(ValueError, match="output mode complete: a store can only be appended to"):
        stream_writer_of(SCHEMA, {"path": str(tmp_path)}, True)


def test_a_store_that_is_open_is_refused(tmp_path):
    with (
        rocketstore.open(tmp_path, "a", config=StoreConfig(**SMALL)),
        pytest.raises(StoreLockedError, match="has the store open"),
    ):
        writer(tmp_path)


# ---- in Spark ----------------------------------------------------------------------------------------------


def stream_of(spark, checkpoint, **options):
    """Return the writer of a stream of 40 rows a batch, in two partitions."""
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=40, numPartitions=2).load()
    frame = source.selectExpr("'T' AS topic", "CAST(CAST(value AS string) AS binary) AS body")
    sink = frame.writeStream.format("rocketstore").option("checkpointLocation", str(checkpoint))
    return sink.options(**OPTIONS, **options)


def run(spark, root, checkpoint, batches):
    """Run a stream until it has committed so many batches, stop it, and let it continue with one batch.

    A query that is stopped in a batch leaves files, which the query removes when it continues.
    """
    query = stream_of(spark, checkpoint).start(str(root))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (query.lastProgress or {}).get("batchId", -1) < batches - 1:
        if query.exception():
            raise query.exception()
        time.sleep(0.1)
    query.stop()
    assert stream_of(spark, checkpoint).trigger(availableNow=True).start(str(root)).awaitTermination(120)


@pytest.mark.spark
def test_a_stream_of_spark_is_stored_once_through_restarts(spark, tmp_path):
    register(spark)
    root, checkpoint = tmp_path / "store", tmp_path / "at"
    for batches in (2, 4):
        run(spark, root, checkpoint, batches)
        assert leftovers(root) == []
        last = checkpoint / "commits" / str(last_batch(checkpoint))
        last.unlink()  # as after a crash between the commit of the store and Spark's
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    found = sorted(map(int, bodies(root)))
    assert found == list(range(len(found)))
    assert len(found) >= 160


@pytest.mark.spark
def test_an_error_of_the_sink_ends_the_stream_with_its_reason(spark, tmp_path):
    register(spark)
    query = stream_of(spark, tmp_path / "at", txnAppId="a").start(str(tmp_path / "store"))
    with pytest.raises(StreamingQueryException, match="a stream has the id of its query"):
        query.awaitTermination(120)


DRIVER = """
import sys
sys.path[:0] = {paths}
from pathlib import Path
from pyspark.sql import SparkSession
from rocketstore.spark import register
from test_spark_stream_sink import run
from support.spark_settings import QUICK
scratch = {scratch!r}
addresses = dict.fromkeys(("spark.driver.bindAddress", "spark.driver.host"), "127.0.0.1")
settings = {{**QUICK, **addresses, "spark.local.dir": scratch}}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
register(spark)
print("started", flush=True)
run(spark, Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
"""


@pytest.mark.slow
@pytest.mark.spark
def test_rows_are_stored_once_through_kills_of_the_driver(tmp_path, seed):
    root, checkpoint, draw = tmp_path / "store", tmp_path / "at", random.Random(seed)
    script = tmp_path / "driver.py"
    tests = Path(__file__).parent
    script.write_text(DRIVER.format(paths=[str(tests), str(tests.parent)], scratch=str(tmp_path / "scratch")))
    environment = environment_of_classic(PYSPARK_PYTHON=sys.executable, PYTHONPATH=os.pathsep.join(sys.path))
    for kill in (True, True, True, False):
        done = -1 if not (checkpoint / "commits").exists() else last_batch(checkpoint)
        command = [sys.executable, script, root, checkpoint, str(1000 if kill else done + 3)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True) as driver:
            assert driver.stdout.readline() == b"started\n"
            if kill:
                wait_until(lambda seen=done: (checkpoint / "commits").exists() and last_batch(checkpoint) > seen)
                time.sleep(draw.uniform(0, 1))
                os.killpg(driver.pid, signal.SIGKILL)
            assert driver.wait(120) == (-signal.SIGKILL if kill else 0)
    found = sorted(map(int, bodies(root)))
    assert found == list(range(len(found)))
    assert len(found) >= 40 * 6
    assert leftovers(root) == []


def last_batch(checkpoint):
    return max((int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal()), default=-1)


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
