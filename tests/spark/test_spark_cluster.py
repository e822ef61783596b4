"""A standalone cluster: the answers and bytes of one process, through executors and drivers that are killed.

``make test-cluster`` runs these tests, and all others of Spark on the cluster. ``support.spark_cluster`` is the
cluster, and ``support/worker_faults`` has the faults.
"""

import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from support import states
from support.puts import files_under
from support.spark_cluster import Cluster, settings, wait_until, worker_python
from support.spark_reads import environment_of_classic, read_table

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.config import camel_case
from rocketstore.spark import build_index, query_messages, read, rebuild_consume_queue, register, write_index
from rocketstore.spark.build import rebuild_consume_queue as build_queues
from rocketstore.spark.build import splits

SIZES = {
    "mapped_file_size_commit_log": 1 << 18,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 500,
    "max_index_num": 2001,
}
CONFIG = StoreConfig(**SIZES)
OPTIONS = {camel_case(name): str(size) for name, size in SIZES.items()}
MESSAGES = 6000
PARTS = {"maxPartitionBytes": "128k", "batchSize": "200"}
TABLES = ["messages", "consumequeue", "index", "offsets"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of some files of each kind."""
    root = tmp_path_factory.mktemp("cluster") / "store"
    with rocketstore.open(root, "a", config=CONFIG) as written:
        for i in range(MESSAGES):
            keys = [f"k{i}", f"k{i % 100}"]
            written.put_message(Message(f"T{i % 3}", b"%d" % i * 30, keys=keys, tags="ab"[i % 2], queue_id=i % 4))
    return root


@pytest.fixture(scope="module")
def serial(store):
    """What one process builds of the store's log."""
    root = store.with_name("serial")
    rocketstore.rebuild(store, out=root, config=CONFIG, tz="UTC")
    return root


@pytest.fixture
def session(spark, cluster):
    """The session. At the end, the cluster has its executors again."""
    register(spark)
    yield spark
    cluster.claimed()
    spark.range(4).mapInArrow(lambda batches: batches, "id long").collect()


def source(spark, root, **options):
    return spark.read.format("rocketstore").options(**options).load(str(root))


def save(frame, root, **options):
    frame.write.format("rocketstore").mode("append").options(**OPTIONS, **options).save(str(root))


def rows(spark, count, parts=6, first=0):
    frame = spark.range(first, first + count, 1, parts)
    return frame.selectExpr("'T' AS topic", "CAST(CAST(id AS string) AS binary) AS body", "0 AS queueId")


def bodies(root):
    with rocketstore.open(root) as store:
        return [int(message.body) for batch in store.scan() for message in batch]


def leftovers(root):
    """What a job left in a store, or beside it."""
    names = {path.name for path in root.glob("rocketstore-*")} - {"rocketstore-transactions"}
    return names | {path.name for path in root.parent.glob(".*")}


def check_store(root, numbers):
    """A store has these rows in order, nothing else, and its queues and index are right."""
    assert bodies(root) == list(numbers)
    assert leftovers(root) == set()
    assert rocketstore.verify(root).ok


# ---- what is read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_those_of_one_process(session, store, table):
    expected = read_table(store, table=table)
    options = PARTS if table == "messages" else {}
    assert source(session, store, table=table, **options).toArrow().equals(expected)
    assert read(session, store, table=table, **options).toArrow().equals(expected)
    assert len(expected)


@pytest.mark.parametrize("name", ["tiered", "compaction"])
def test_messages_of_other_logs_are_those_of_one_process(session, name, tmp_path):
    root = states.unpack(name, tmp_path)
    options = {"compacted": "true"} if name == "compaction" else {"tier": f"{tmp_path}/tiered-data"}
    expected = read_table(root, **options)
    assert source(session, root, **options).toArrow().equals(expected)
    assert read(session, root, **options).toArrow().equals(expected)


BROKERS = ["dledger", "rocksdb-cq", "rocksdb-index", "cqext", "batchcq", "lmq", "multipath", "default"]


@pytest.mark.parametrize("name", BROKERS)
def test_stores_of_brokers_are_those_of_one_process(session, name, root_of):
    pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")
    root = root_of(name)
    for table in ["messages", "offsets", "consumequeue"]:
        expected = read_table(root, table=table)
        assert source(session, root, table=table).toArrow().equals(expected)
        assert read(session, root, table=table).toArrow().equals(expected)


# ---- an executor is killed, a task fails or is slow --------------------------------------------------------

SLOW = "sleep 600"  # a second attempt of the task ends the job sooner


@pytest.fixture
def fails(cluster):
    """A function that asks for a fault, for a ``with`` block in which the fault happens.

    The block does not wait for a slow task.
    """

    @contextlib.contextmanager
    def expect(function, fault):
        cluster.ask_for_fault(function, fault)
        begin = time.monotonic()
        yield
        assert cluster.claimed() == [function]
        assert fault != SLOW or time.monotonic() - begin < 600

    return expect


@pytest.mark.parametrize("way", [source, read])
@pytest.mark.parametrize("fault", ["kill", "raise", SLOW])
def test_rows_are_complete_after_a_fault_in_reading(session, fails, store, way, fault):
    with fails("spark.source.messages:read_part", fault):
        table = way(session, store, **PARTS).toArrow()
    assert table.equals(read_table(store))


@pytest.mark.parametrize("table", TABLES[1:])
def test_other_tables_are_complete_after_a_kill(session, fails, store, table):
    with fails("spark.source.tables:TableReader.read", "kill"):
        rows = source(session, store, table=table).toArrow()
    assert rows.equals(read_table(store, table=table))


@pytest.mark.parametrize("fault", ["kill", SLOW])
def test_each_message_of_a_query_is_found_once_after_a_fault(session, fails, store, fault):
    keys = session.range(0, 40, 1, 4).selectExpr("concat('T', id % 3) AS topic", "concat('k', id) AS key")
    with fails("spark.lookup.query_messages:find_batch", fault):
        found = query_messages(session, store, keys, topic=keys.topic, key="key", columns=["phyOffset"]).collect()
    with rocketstore.open(store) as opened:
        expected = [
            (row.topic, row.key, message.phy_offset)
            for row in keys.collect()
            for message in opened.query_messages(row.topic, [row.key])[0]
        ]
    assert sorted((row.topic, row.key, row.message.phyOffset) for row in found) == sorted(expected)
    assert len(expected) >= 40


WRITES = [*itertools.product(["add", "finish"], ["kill", "raise", SLOW]), ("finish", "after kill")]


@pytest.mark.parametrize(("function", "fault"), WRITES)
def test_rows_are_stored_once_after_a_fault_in_a_write(session, fails, tmp_path, function, fault):
    with fails(f"jobs.prepared_rows:PreparedRowsWriter.{function}", fault):
        save(rows(session, 600), tmp_path / "store")
    save(rows(session, 60, first=600), tmp_path / "store")
    check_store(tmp_path / "store", range(660))


@pytest.fixture
def small_tasks(monkeypatch):
    """Builds of the small store have several tasks in each stage."""
    monkeypatch.setattr(splits, "MIN_SPLIT", 1)
    monkeypatch.setattr(build_queues, "TASK_UNITS", 1000)


STAGES = [
    ("rescan", "spark.build.build_index:count_items", "kill"),
    ("rescan", "spark.build.build_index:count_items", SLOW),
    ("rescan", "spark.build.build_index:rescan", "kill"),
    ("rescan", "spark.build.build_index:rescan", SLOW),
    ("spill", "spark.build.build_index:spill_items", "kill"),
    ("spill", "spark.build.build_index:spill_items", SLOW),
    ("spill", "spark.build.spill:read_entries", "kill"),
    ("spill", "spark.build.index_files:build_file", "after kill"),
]


@pytest.mark.parametrize(("mode", "stage", "fault"), STAGES)
def test_index_files_are_the_same_bytes_after_a_fault_in_a_stage(
    session, fails, small_tasks, store, serial, tmp_path, mode, stage, fault
):
    with fails(stage, fault):
        build_index(session, str(store), tmp_path / "index", mode=mode, config=CONFIG, tz="UTC")
    assert files_under(tmp_path, "index") == files_under(serial, "index")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize(
    ("stage", "fault"),
    [("spill_requests", "kill"), ("spill_requests", SLOW), ("build_parts", "after kill"), ("build_parts", SLOW)],
)
def test_queues_are_the_same_bytes_after_a_fault_in_a_stage(
    session, fails, small_tasks, store, serial, tmp_path, stage, fault
):
    with fails(f"spark.build.rebuild_consume_queue:{stage}", fault):
        rebuild_consume_queue(session, str(store), tmp_path / "queues", config=CONFIG)
    assert files_under(tmp_path / "queues", "consumequeue") == files_under(serial, "consumequeue")
    assert [path.name for path in tmp_path.iterdir()] == ["queues"]


@pytest.mark.parametrize("fault", ["after kill", SLOW])
@pytest.mark.parametrize("stage", ["spark.build.spill:write_spill", "spark.build.index_files:build_file"])
def test_a_written_index_is_the_same_bytes_after_a_fault_in_a_stage(session, fails, tmp_path, stage, fault):
    frame = session.range(5000).selectExpr("CAST(id AS string) AS key", "id * 100 AS at", "1700000000000 + id AS time")
    columns = {"key": "key", "phy_offset": "at", "store_timestamp": "time", "topic": "T", "tz": "UTC"}
    sizes = {"hash_slot_num": 500, "index_num": 2001}
    write_index(frame, tmp_path / "one" / "index", **columns, **sizes)
    with fails(stage, fault):
        write_index(frame, tmp_path / "two" / "index", **columns, **sizes)
    assert files_under(tmp_path / "one", "index") == files_under(tmp_path / "two", "index")
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["index"]


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        ("spark.source.stream:read_part", "kill"),
        ("jobs.prepared_rows:PreparedRowsWriter.finish", "kill"),
        ("jobs.prepared_rows:PreparedRowsWriter.finish", SLOW),
    ],
)
def test_a_stream_stores_each_row_once_after_faults(session, fails, store, tmp_path, function, fault):
    frame = session.readStream.format("rocketstore").options(startingOffsets="earliest", **PARTS).load(str(store))
    frame = frame.selectExpr("topic", "CAST(CAST(phyOffset AS string) AS binary) AS body")
    writer = frame.writeStream.format("rocketstore").options(**OPTIONS)
    writer = writer.option("checkpointLocation", f"{tmp_path}/at").trigger(availableNow=True)
    with fails(function, fault):
        assert writer.start(f"{tmp_path}/store").awaitTermination(600)
    check_store(tmp_path / "store", read_table(store)["phyOffset"].to_pylist())


# ---- several jobs ------------------------------------------------------------------------------------------


def test_of_two_jobs_to_a_store_each_is_stored_once_or_fails(session, tmp_path):
    root, failed = tmp_path / "store", []
    save(rows(session, 10), root)

    def write(first):
        register(session)
        try:
            save(rows(session, 300, first=first), root)
        except Exception as error:  # of py4j, or of Spark Connect
            failed.append((first, str(error)))

    threads = [threading.Thread(target=write, args=[first]) for first in (1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("StoreLockedError" in text for _, text in failed), failed
    stored = [first for first in (1000, 2000) if first not in dict(failed)]
    found = bodies(root)
    expected = [range(10), *(range(first, first + 300) for first in stored)]
    assert sorted(found) == sorted(number for part in expected for number in part)
    assert stored
    assert leftovers(root) == set()
    assert rocketstore.verify(root).ok


def cancelled(session, cluster, job):
    """Run a job, and cancel it in a task that has a fault. Return the text of its error, or "" without an error."""
    errors, is_classic = [], hasattr(session, "_jsparkSession")

    def run():
        register(session)
        if is_classic:
            session.sparkContext.setJobGroup("cancelled", "a job of a test", interruptOnCancel=True)
        else:
            session.addTag("cancelled")
        try:
            job()
        except Exception as error:  # of py4j, or of Spark Connect
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: any(".claimed-" in path.name for path in cluster.faults.iterdir()), "no task began")
    if is_classic:
        session.sparkContext.cancelJobGroup("cancelled")
    else:
        assert session.interruptTag("cancelled")
    thread.join(120)
    assert not thread.is_alive()
    return "".join(errors)


def test_a_cancelled_write_stores_nothing_and_the_next_one_works(session, cluster, tmp_path):
    root = tmp_path / "store"
    save(rows(session, 10), root)
    cluster.ask_for_fault("jobs.prepared_rows:PreparedRowsWriter.add", SLOW)
    assert "CANCEL" in cancelled(session, cluster, lambda: save(rows(session, 300, first=1000), root)).upper()
    save(rows(session, 10, first=10), root)
    wait_until(lambda: leftovers(root) == set(), "the cancelled job left files")
    check_store(root, range(20))


@pytest.mark.parametrize("build", [build_index, rebuild_consume_queue])
def test_a_cancelled_build_leaves_nothing_and_the_next_one_works(session, cluster, small_tasks, store, tmp_path, build):
    def job():
        return build(session, str(store), tmp_path / "out", config=CONFIG)

    stages = {build_index: "index_files:build_file", rebuild_consume_queue: "rebuild_consume_queue:build_parts"}
    cluster.ask_for_fault(f"spark.build.{stages[build]}", SLOW)
    assert "CANCEL" in cancelled(session, cluster, job).upper()
    wait_until(lambda: list(tmp_path.iterdir()) == [], "the cancelled job left files")
    assert job().items > MESSAGES - 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# ---- drivers of their own ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_cluster(cluster, tmp_path_factory):
    """A second cluster, since the session of the tests holds all cores of the first."""
    other = Cluster(tmp_path_factory.mktemp("other"))
    yield other
    other.stop()


BEGIN = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from rocketstore.spark import build_index, read, rebuild_consume_queue, register
from test_spark_cluster import CONFIG, OPTIONS, PARTS, rows, save, source
builder = SparkSession.builder.master({url!r}).config(map={settings!r})
spark = builder.getOrCreate()
register(spark)
root = Path(sys.argv[1])
"""
WRITE = """
save(rows(spark, 300, first=int(sys.argv[2])), root)
"""
AGAIN = """
save(rows(spark, 300, first=int(sys.argv[2]) + 300), root)
"""
STREAM = """
frame = spark.readStream.format("rocketstore").options(startingOffsets="earliest", **PARTS).load(sys.argv[2])
frame = frame.selectExpr("topic", "CAST(CAST(phyOffset AS string) AS binary) AS body")
writer = frame.writeStream.format("rocketstore").options(**OPTIONS).option("checkpointLocation", sys.argv[3])
writer.trigger(availableNow=True).start(str(root)).awaitTermination()
"""
ALL = """
from support.spark_reads import read_table
for way in (source, read):
    assert way(spark, sys.argv[2], **PARTS).toArrow().equals(read_table(sys.argv[2]))
save(rows(spark, 300), root)
build_index(spark, sys.argv[2], root.with_name("index"), config=CONFIG, tz="UTC")
rebuild_consume_queue(spark, sys.argv[2], root.with_name("queues"), config=CONFIG)
print("done")
"""


def run_driver(cluster, directory, code, *arguments, environment=None, **more):
    """Run a driver in a process of its own. Return the finished process."""
    directory.mkdir(exist_ok=True)
    script = directory / "driver.py"
    known = settings(**{"spark.local.dir": str(directory / "local"), **more})
    script.write_text(BEGIN.format(url=cluster.url, settings=known) + code)
    variables = environment_of_classic(**cluster.environment()) | (environment or {})
    variables.pop("SPARK_CONNECT_MODE_ENABLED", None)
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, env=variables, cwd=directory, capture_output=True, text=True, timeout=400)


def test_a_write_whose_driver_is_killed_in_its_commit_is_undone(other_cluster, tmp_path):
    root = tmp_path / "store"
    assert run_driver(other_cluster, tmp_path / "driver", WRITE, root, 0).returncode == 0
    other_cluster.ask_for_fault("jobs.intent:WriteIntent.fulfil")
    killed = run_driver(other_cluster, tmp_path / "driver", WRITE, root, 1000)
    assert killed.returncode != 0
    assert other_cluster.claimed() == ["jobs.intent:WriteIntent.fulfil"]
    done = run_driver(other_cluster, tmp_path / "driver", WRITE, root, 300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert bodies(root) == list(range(600))
    assert not (root / "rocketstore-intent.json").exists()
    assert rocketstore.verify(root).ok


def test_rows_are_stored_once_if_all_executors_are_killed_in_the_commit(other_cluster, tmp_path):
    root = tmp_path / "store"
    other_cluster.ask_for_fault("jobs.intent:WriteIntent.fulfil", "kill executors")
    done = run_driver(other_cluster, tmp_path / "driver", WRITE + AGAIN, root, 0)
    assert done.returncode == 0, done.stderr[-3000:]
    assert other_cluster.claimed() == ["jobs.intent:WriteIntent.fulfil"]
    check_store(root, range(600))


@pytest.mark.parametrize("function", ["jobs.intent:WriteIntent.fulfil", "spark.source.sink:StoreSink.append_rows"])
def test_a_stream_whose_driver_is_killed_stores_each_row_once(other_cluster, store, tmp_path, function):
    root = tmp_path / "store"
    other_cluster.ask_for_fault(function)
    arguments = (root, store, tmp_path / "at")
    assert run_driver(other_cluster, tmp_path / "driver", STREAM, *arguments).returncode != 0
    assert other_cluster.claimed() == [function]
    done = run_driver(other_cluster, tmp_path / "driver", STREAM, *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    check_store(root, read_table(store)["phyOffset"].to_pylist())


def test_workers_use_a_packed_environment(other_cluster, store, serial, tmp_path):
    archive = os.environ.get("ROCKETSTORE_WORKER_ARCHIVE")
    if archive is None:
        pytest.skip("needs an archive of the workers' environment: make test-cluster")
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "environment").symlink_to(Path(worker_python()).parent.parent)
    packed = {"PYSPARK_PYTHON": "./environment/bin/python"}
    archives = {"spark.archives": f"{archive}#environment"}
    arguments = (tmp_path / "store", store)
    done = run_driver(other_cluster, tmp_path / "driver", ALL, *arguments, environment=packed, **archives)
    assert done.stdout.splitlines()[-1:] == ["done"], done.stderr[-3000:]
    check_store(tmp_path / "store", range(300))
    assert files_under(tmp_path, "index") == files_under(serial, "index")
    assert files_under(tmp_path / "queues", "consumequeue") == files_under(serial, "consumequeue")
