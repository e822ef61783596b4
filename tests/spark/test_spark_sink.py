"""Writing DataFrames into stores: what put_messages makes of the same rows, all of it or nothing."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.profiles import SEVERAL_FILES

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pyarrow as pa
from pyspark.sql import types as T
from support.puts import files_under, index_files
from support.spark_reads import environment_of_classic, read_table

import rocketstore
from rocketstore import CorruptFileError, Message, StoreConfig, StoreLockedError
from rocketstore.config import camel_case
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.jobs.intent import WriteIntent, intent_path, prepared_path
from rocketstore.jobs.prepared_rows import read_blocks
from rocketstore.jobs.transactions import last_version
from rocketstore.spark import register
from rocketstore.spark.source import sink
from rocketstore.spark.source.data_source import require_python
from rocketstore.spark.source.sink import writer_of
from rocketstore.store import write_job

TIME = 1_700_000_000_000
OPTIONS = {camel_case(name): str(size) for name, size in SEVERAL_FILES.items()}
DDL = (
    "topic string, body binary, keys array<string>, tags string, properties map<string,string>, queueId int, "
    "bornTimestamp timestamp"
)
ROWS = [
    (
        ("Orders", "Audit")[i % 2],
        b"body %d" % i,
        [f"k{i}", "all"][: i % 3],
        "AB"[i % 2] if i % 5 else None,
        {"n": str(i)} if i % 4 else None,
        None if i % 3 else i % 2,
        1_600_000_000 + i,
    )
    for i in range(100)
]


def message_of(row):
    topic, body, keys, tags, properties, queue_id, born = row
    return Message(
        topic, body, keys=keys, tags=tags, properties=properties, queue_id=queue_id, born_timestamp=born * 1000
    )


def serial(root, rows):
    with rocketstore.open(root, "a", config=StoreConfig(**SEVERAL_FILES)) as store:
        store.put_messages([message_of(row) for row in rows], store_timestamp=TIME)
    return contents(root)


def contents(root):
    return files_under(root), index_files(root)


def leftovers(root):
    return sorted(path.name for path in root.glob("rocketstore-*"))


def all_messages(root):
    with rocketstore.open(root) as store:
        return [message for batch in store.scan() for message in batch]


# ---- without Spark -------------------------------------------------------------------------------------------


@pytest.fixture
def as_attempt(monkeypatch):
    """A function that makes the next write an attempt of a task."""

    def become(partition, attempt):
        monkeypatch.setattr(sink, "attempt_name", lambda: f"{partition:06}-{attempt}")

    become(0, 0)
    return become


ARROW = pa.schema({"topic": pa.string(), "body": pa.binary(), "queueId": pa.int32()})


def fields(*names):
    kinds = {
        "topic": T.StringType(),
        "body": T.BinaryType(),
        "queueId": T.IntegerType(),
        "flag": T.IntegerType(),
        "brokerName": T.StringType(),
        "keys": T.StringType(),
        "other": T.LongType(),
        "BODY": T.BinaryType(),
    }
    return T.StructType([T.StructField(name, kinds[name]) for name in names])


def batch(*rows):
    return pa.RecordBatch.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in rows], ARROW)


def write(root, as_attempt, parts, **options):
    """A job whose tasks write these batches each."""
    writer = writer_of(fields(*ARROW.names), {"path": str(root), **OPTIONS, **options}, False)
    messages = []
    for partition, batches in enumerate(parts):
        as_attempt(partition, partition + 100)
        messages.append(writer.write(iter(batches)))
    return writer, messages


def test_partitions_are_put_in_their_order_and_a_null_queue_is_the_next(tmp_path, as_attempt):
    parts = [[batch(("T", b"0", None))], [], [batch(("T", b"1", 7)), batch(("T", b"2", None))]]
    writer, messages = write(tmp_path / "store", as_attempt, parts, storeTimestamp=str(TIME))
    writer.commit(messages[::-1])
    found = all_messages(tmp_path / "store")
    assert [(message.body, message.queue_id) for message in found] == [(b"0", 0), (b"1", 7), (b"2", 1)]
    assert {message.store_timestamp for message in found} == {TIME}
    assert leftovers(tmp_path / "store") == []


def test_prepared_rows_of_attempts_that_lost_are_deleted_and_not_put(tmp_path, as_attempt):
    writer, messages = write(tmp_path, as_attempt, [[batch(("T", b"0", 0))]])
    as_attempt(0, 7)
    writer.write(iter([batch(("T", b"again", 0))]))
    (prepared_path(tmp_path, writer.job) / "000001-9.tmp").write_bytes(b"of a task that was killed")
    writer.commit(messages)
    assert [message.body for message in all_messages(tmp_path)] == [b"0"]
    assert leftovers(tmp_path) == []


def test_an_aborted_job_leaves_nothing_and_late_attempts_of_it_neither(tmp_path, as_attempt):
    writer, messages = write(tmp_path / "store", as_attempt, [[batch(("T", b"0", 0))]])
    writer.abort([*messages, None])
    assert not (tmp_path / "store").exists()
    with pytest.raises(FileNotFoundError):
        writer.write(iter([batch(("T", b"late", 0))]))
    assert list(tmp_path.iterdir()) == []


def test_an_abort_keeps_the_prepared_rows_of_a_write_that_could_not_be_undone(tmp_path, as_attempt):
    writer, messages = write(tmp_path, as_attempt, [[batch(("T", b"0", 0))]])
    held = HeldDirectory(tmp_path)
    WriteIntent(writer.job, 0, 1000, TIME, False, [messages[0].rows]).save(held)
    held.close()
    writer.abort(messages)
    assert leftovers(tmp_path) == ["rocketstore-intent.json", f"rocketstore-write-{writer.job}"]


def spark_bodies(root):
    return read_table(root, columns="body")["body"].to_pylist()


def test_rows_of_a_job_are_read_when_all_are_there(tmp_path, as_attempt, monkeypatch):
    writer, messages = write(tmp_path / "store", as_attempt, [[batch(("T", b"%d" % i, 0))] for i in range(3)])
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig(**SEVERAL_FILES)) as store:
        store.put_message(Message("T", b"before"))
    seen = []

    def look_and_read(directory, piece):
        seen.append((len(all_messages(tmp_path / "store")), spark_bodies(tmp_path / "store")))
        return read_blocks(directory, piece)

    monkeypatch.setattr(write_job, "read_blocks", look_and_read)
    writer.commit(messages)
    assert seen == [(1, [b"before"])] * 3
    assert spark_bodies(tmp_path / "store") == [b"before", b"0", b"1", b"2"]


def test_rows_of_a_job_that_was_killed_in_its_commit_are_read_once_they_stay(tmp_path, as_attempt, monkeypatch):
    writer, messages = write(tmp_path, as_attempt, [[batch(("T", b"%d" % i, 0))] for i in range(3)])
    monkeypatch.setattr(write_job, "undo", lambda *_: None)

    def read_one(directory, piece):
        if piece != messages[0].rows:
            raise OSError("killed")
        return read_blocks(directory, piece)

    monkeypatch.setattr(write_job, "read_blocks", read_one)
    with pytest.raises(OSError, match="killed"):
        writer.commit(messages)
    assert all_messages(tmp_path) == spark_bodies(tmp_path) == []
    intent = intent_path(tmp_path).rename(tmp_path / "intent")  # a broker does not know it
    with rocketstore.open(tmp_path, "a") as store:
        store.put_message(Message("T", b"of a broker"))
    intent.rename(intent_path(tmp_path))
    assert spark_bodies(tmp_path) == [b"0", b"of a broker"]
    intent_path(tmp_path).write_bytes(b"[]")
    with pytest.raises(CorruptFileError, match="remove it to keep the log unchanged"):
        spark_bodies(tmp_path)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([("T", b"", -3)], "partition 4, column queueId, row 2: -3 must not be negative"),
        ([(None, b"", 0)], "partition 4, column topic, row 2: is null"),
        ([("T", None, 0)], "partition 4, column body, row 2: is null"),
        ([("a/b", b"", None)], "partition 4, row 2: .*cannot be the name of a directory"),
        ([("T", b"", 0), ("T", bytes(5000), 0)], "partition 4, row 3: .*do not fit a file of 4096"),
    ],
)
def test_a_bad_row_is_named(tmp_path, as_attempt, rows, reason):
    writer = writer_of(fields(*ARROW.names), {"path": str(tmp_path), **OPTIONS}, False)
    as_attempt(4, 1)
    good = ("T", b"", None)
    with pytest.raises(ValueError, match=reason):
        writer.write(iter([batch(good), batch(good, *rows)]))
    assert list(prepared_path(tmp_path, writer.job).iterdir()) == []


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["topic"], "topic and body are missing, or one"),
        (["topic", "body", "other"], "columns other: are none of"),
        (["topic", "body", "body"], "columns body: are there more than once"),
        (["topic", "body", "BODY"], "columns body: are there more than once"),
    ],
)
def test_columns_that_no_message_has_are_refused_before_anything_is_done(tmp_path, names, reason):
    with pytest.raises(ValueError, match=reason):
        writer_of(fields(*names), {"path": str(tmp_path / "store")}, False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"path": "relative"}, "must be the absolute path"),
        ({"path": "memory://store"}, "is remote: a local path is needed"),
        ({}, "option path: give the directory of a store, as in save"),
        (
            {"path": "/x", "topics": "T"},
            "option 'topics' is unknown: the options of writing are path, storeTimestamp, ",
        ),
        ({"path": "/x", "storeTimestamp": "then"}, "must be 'now', 'given' or epoch ms"),
        ({"path": "/x", "storeTimestamp": str(2**63)}, "must be 'now', 'given' or epoch ms"),
        ({"path": "/x", "storeTimestamp": "Given"}, "the column storeTimestamp is missing"),
        ({"path": "/x", "MAXINDEXNUM": "many"}, "option maxIndexNum='many': 'many' must be an integer"),
        ({"path": "/x", "compat": "3.0"}, "must be a RocketMQ release"),
        ({"path": "/x", "txnAppId": "app"}, "options txnAppId and txnVersion: give both, or none"),
        ({"path": "/x", "TXNVERSION": "1"}, "options txnAppId and txnVersion: give both, or none"),
        (
            {"path": "/x", "txnAppId": "app", "txnVersion": "-1"},
            "txnVersion='-1': the version of a transaction must be",
        ),
        ({"path": "/x", "txnAppId": "app", "txnVersion": "1.5"}, "txnVersion='1.5': must be an integer"),
        (
            {"path": "/x", "txnAppId": "", "txnVersion": "1"},
            "the id of an application must be a string that is not empty",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        writer_of(fields("topic", "body"), options, False)


def test_an_option_that_is_none_was_not_given(tmp_path):
    options = {"path": str(tmp_path), "storeTimestamp": None, "maxIndexNum": None}
    writer = writer_of(fields("topic", "body"), options, False)
    assert (writer.sink.store_timestamp, writer.sink.config.max_index_num) == (None, 20_000_000)


def test_a_job_of_a_transaction_that_was_committed_stores_nothing(tmp_path, as_attempt):
    root = tmp_path / "store"
    for version, body in [(1, b"one"), (1, b"again"), (2, b"two"), (0, b"late"), (2, b"again")]:
        parts = [[batch(("T", body, 0))], [batch(("T", body, 1))]]
        writer, messages = write(root, as_attempt, parts, txnAppId="app", txnVersion=str(version))
        assert writer.is_repeated == (body not in (b"one", b"two"))
        writer.commit(messages)
        assert last_version(root, "app") >= version
        assert leftovers(root) == ["rocketstore-transactions"]
    assert [message.body for message in all_messages(root)] == [b"one", b"one", b"two", b"two"]


def test_of_two_jobs_of_a_transaction_at_once_one_is_stored(tmp_path, as_attempt):
    jobs = [write(tmp_path, as_attempt, [[batch(("T", b"%d" % i, 0))]], txnAppId="a", txnVersion="1") for i in range(2)]
    for writer, messages in jobs:
        writer.commit(messages)
    assert [message.body for message in all_messages(tmp_path)] == [b"0"]
    assert leftovers(tmp_path) == ["rocketstore-transactions"]


def test_the_python_of_the_workers_that_the_driver_has_not_is_named_by_register(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = SimpleNamespace(_sc=SimpleNamespace(pythonExec="./environment/bin/python"))
    with pytest.raises(FileNotFoundError, match="make a link there, such as") as caught:
        register(session)
    assert caught.value.filename == "./environment/bin/python"
    (tmp_path / "environment").symlink_to(sys.prefix)
    require_python("./environment/bin/python")


def test_overwriting_is_refused(tmp_path):
    with pytest.raises(ValueError, match="mode overwrite: a store can only be appended to"):
        writer_of(fields("topic", "body"), {"path": str(tmp_path)}, True)


def test_a_store_that_is_open_is_refused_before_and_after_the_tasks(tmp_path, as_attempt):
    writer, messages = write(tmp_path, as_attempt, [[batch(("T", b"0", 0))]])
    with rocketstore.open(tmp_path, "a", config=StoreConfig(**SEVERAL_FILES)):
        with pytest.raises(StoreLockedError):
            writer_of(fields("topic", "body"), {"path": str(tmp_path)}, False)
        with pytest.raises(StoreLockedError):
            writer.commit(messages)
    writer.commit(messages)
    assert [message.body for message in all_messages(tmp_path)] == [b"0"]


def test_a_store_is_written_as_it_was_last_but_for_what_options_say(tmp_path):
    rocketstore.open(tmp_path, "a", config=StoreConfig(**SEVERAL_FILES, compat="4.9.3")).close()
    config = writer_of(
        fields("topic", "body"), {"path": str(tmp_path), "flushDiskType": "SYNC_FLUSH"}, False
    ).sink.config
    assert (config.compat, config.flush_disk_type, config.max_index_num) == ("4.9.3", "SYNC_FLUSH", 40)


def test_names_of_columns_have_any_case(tmp_path, as_attempt):
    schema = T.StructType().add("TOPIC", "string").add("Body", "string")
    writer = writer_of(schema, {"path": str(tmp_path), **OPTIONS}, False)
    writer.commit([writer.write(iter([pa.record_batch({"TOPIC": ["T"], "Body": ["b"]})]))])
    assert [message.body for message in all_messages(tmp_path)] == [b"b"]


@pytest.mark.parametrize("name", ["storeTimestamp", "storeTimestampMs"])
def test_store_times_are_given_in_either_column_but_not_by_one_without_values(tmp_path, as_attempt, name):
    options = {"path": str(tmp_path), **OPTIONS, "storeTimestamp": "given"}
    schemas = [fields("topic", "body").add(name, kind) for kind in (T.NullType(), T.LongType())]
    with pytest.raises(ValueError, match="option storeTimestamp='given': the column storeTimestamp is missing"):
        writer_of(schemas[0], options, False)
    writer = writer_of(schemas[1], options, False)
    writer.commit([writer.write(iter([pa.record_batch({"topic": ["T"], "body": ["b"], name: [TIME]})]))])
    assert [message.store_timestamp for message in all_messages(tmp_path)] == [TIME]


def test_brokers_names_are_no_part_of_messages(tmp_path):
    columns = sink.messages_of(pa.RecordBatch.from_pylist([{"topic": "T", "brokerName": "a"}]), 0)
    assert columns.schema.names == ["topic"]
    writer_of(fields("topic", "body", "brokerName"), {"path": str(tmp_path)}, False)


# ---- with Spark ----------------------------------------------------------------------------------------------


@pytest.fixture
def frame(spark):
    """A function from rows to a DataFrame in three partitions, in their order."""
    from pyspark.sql import functions as F

    register(spark)

    def make(rows, partitions=3):
        ddl = DDL.replace("bornTimestamp timestamp", "born long")
        numbered = [(i, *row) for i, row in enumerate(rows)]
        made = spark.createDataFrame(numbered, f"n long, {ddl}").repartitionByRange(partitions, "n")
        made = made.sortWithinPartitions("n")
        return made.select(
            "topic", "body", "keys", "tags", "properties", "queueId", F.timestamp_seconds("born").alias("bornTimestamp")
        )

    return make


def save(df, root, mode="append", **options):
    df.write.format("rocketstore").mode(mode).options(**OPTIONS | options).save(str(root))


@pytest.mark.spark
def test_a_dataframe_becomes_what_put_messages_makes_of_its_rows(frame, tmp_path):
    expected = serial(tmp_path / "serial", ROWS)
    save(frame(ROWS), tmp_path / "store", storeTimestamp=TIME)
    assert contents(tmp_path / "store") == expected
    assert leftovers(tmp_path / "store") == []
    save(frame(ROWS[:10]), tmp_path / "store", storeTimestamp=TIME)
    assert len(all_messages(tmp_path / "store")) == 110


@pytest.mark.spark
def test_a_bad_row_fails_the_job_with_its_place_and_leaves_nothing(frame, tmp_path):
    rows = [*ROWS[:50], ("a/b", *ROWS[0][1:]), *ROWS[51:]]
    with pytest.raises(Exception, match=r"partition 1, row \d+: .*topic 'a/b' cannot be the name of a directory"):
        save(frame(rows), tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["overwrite", "ignore", "errorifexists"])
def test_other_modes_than_append_are_refused(frame, tmp_path, mode):
    refusals = "can only be appended to|UNSUPPORTED_DATA_SOURCE_SAVE_MODE|UNSUPPORTED_OPERATION"
    with pytest.raises(Exception, match=refusals):
        save(frame(ROWS[:1]), tmp_path / "store", mode)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_a_store_that_a_writer_has_open_is_an_error_that_says_so(frame, tmp_path):
    store = rocketstore.open(tmp_path, "a", config=StoreConfig(**SEVERAL_FILES))
    with store, pytest.raises(Exception, match="has the store open"):
        save(frame(ROWS[:1]), tmp_path)
    assert all_messages(tmp_path) == []
    assert leftovers(tmp_path) == []


RETRIES = """
import os, sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession
import pyarrow as pa
from rocketstore.spark import register
from test_spark_sink import OPTIONS

root, scratch = Path(sys.argv[1]), Path(sys.argv[2])
spark = (SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
         .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
         .config("spark.local.dir", str(scratch)).getOrCreate())
spark.sparkContext.setLogLevel("OFF")
register(spark)

def rows(how, times):
    def make(batches):
        for batch in batches:
            numbers = batch.column("id").to_pylist()
            body = pa.array([b"%d" % number for number in numbers])
            for start in range(0, len(numbers), 10):
                yield pa.RecordBatch.from_arrays([pa.array(["T"] * 10), body.slice(start, 10)], ["topic", "body"])
                context = TaskContext.get()
                if context.partitionId() == 1 and context.attemptNumber() < times:
                    os._exit(1) if how == "dies" else 1 // 0
    return make

for how, times in (("fails", 1), ("dies", 1), ("fails", 3)):
    df = spark.range(0, 400, 1, 4).mapInArrow(rows(how, times), "topic string, body binary")
    try:
        df.write.format("rocketstore").mode("append").options(**OPTIONS).save(str(root))
        print(how, "done", flush=True)
    except Exception as error:
        print(how, "failed", flush=True)
spark.stop()
"""


@pytest.mark.spark
def test_another_thread_writes_when_it_has_registered(spark, frame, tmp_path):
    df = frame(ROWS[:10])
    failed = []

    def write_in_thread():
        try:
            register(spark)
            save(df, tmp_path / "store")
        except Exception as error:
            failed.append(error)

    for _ in range(2):
        thread = threading.Thread(target=write_in_thread)
        thread.start()
        thread.join()
    assert failed == []
    assert len(all_messages(tmp_path / "store")) == 20


@pytest.mark.spark
def test_a_repeated_batch_of_a_dataframe_is_stored_once(frame, tmp_path):
    for version in (3, 3, 4):
        save(frame(ROWS[:10]), tmp_path / "store", txnAppId="query", txnVersion=version)
    assert len(all_messages(tmp_path / "store")) == 20


@pytest.mark.slow
@pytest.mark.spark
def test_tasks_that_fail_or_die_once_are_tried_again_and_leave_nothing(tmp_path):
    tests = str(Path(__file__).parent)
    script = tmp_path / "retries.py"
    script.write_text(RETRIES.format(tests=tests))
    run = subprocess.run(
        [sys.executable, script, tmp_path / "store", tmp_path / "scratch"],
        capture_output=True,
        text=True,
        timeout=200,
        env=environment_of_classic(PYSPARK_PYTHON=sys.executable, PYTHONPATH=os.pathsep.join([tests, *sys.path])),
    )
    assert run.stdout.splitlines() == ["fails done", "dies done", "fails failed"], run.stderr[-3000:]
    bodies = [message.body for message in all_messages(tmp_path / "store")]
    assert bodies == [b"%d" % number for number in range(400)] * 2
    assert leftovers(tmp_path / "store") == []


@pytest.mark.slow
@pytest.mark.spark
def test_a_batch_of_a_stream_that_is_run_again_is_stored_once(spark, frame, tmp_path):
    """As after a crash between the write and the note of Spark's checkpoint."""
    save(frame(ROWS[:10]), tmp_path / "from", storeTimestamp=TIME)

    def copy(batch, batch_id):
        rows = batch.select("topic", "body")
        with (tmp_path / "runs").open("a") as runs:
            runs.write(f"{batch_id}\n")
        save(rows, tmp_path / "to", txnAppId="copy", txnVersion=batch_id)

    for _ in range(2):
        stream = spark.readStream.format("rocketstore").option("startingOffsets", "earliest").load(f"{tmp_path}/from")
        writer = stream.writeStream.foreachBatch(copy).option("checkpointLocation", f"{tmp_path}/at")
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert len(all_messages(tmp_path / "to")) == 10
        commits = sorted((tmp_path / "at" / "commits").iterdir())
        for path in commits:
            path.unlink()  # with its checksum
    assert (tmp_path / "runs").read_text().split() == ["0", "0"]
