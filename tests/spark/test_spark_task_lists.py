"""No task of Spark lists a directory of the store: each kind of task runs on a file system whose listing fails."""

import contextlib
import os
import pickle
import random
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")
pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from support.puts import config_of
from support.rebuilt import CONFIG, KINDS, make_log
from support.remote import counted, made_store
from support.spark_reads import data_source, read_table, reader_of

import rocketstore
from rocketstore import Message
from rocketstore.disk.storage import is_remote
from rocketstore.limits import LONG_MAX
from rocketstore.spark import build_index, rebuild_consume_queue
from rocketstore.spark.build import splits
from rocketstore.spark.build import tasks as build_tasks
from rocketstore.spark.lookup import query_messages as query
from rocketstore.spark.lookup import udfs
from rocketstore.spark.lookup.cache import index_cache, store_cache
from rocketstore.spark.lookup.plans import plan_index, plan_store
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.schemas import default_schema, table_schema
from rocketstore.spark.source.sink import writer_of
from rocketstore.spark.source.tables import TABLE_READERS
from rocketstore.survey.survey import survey_store

TOPICS = '{"dataVersion":{},"offsetTable":{"T0@group":{0:3}}}'


@contextlib.contextmanager
def no_lists(root):
    """Fail each listing of a local directory from ``root`` on down."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("scandir", "listdir"):
            patch.setattr(os, name, partial(list_outside, root, getattr(os, name)))
        yield


def list_outside(root, list_directory, path="."):
    """List a directory, which must not be in ``root``."""
    if not isinstance(path, int) and Path(path).is_relative_to(root):
        raise AssertionError(f"{path} is listed")
    return list_directory(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = made_store(tmp_path_factory.mktemp("made") / "store")
    (root / "config" / "consumerOffset.json").write_text(TOPICS)
    return root


def read_without_lists(root, reader, parts):
    """The rows that tasks read."""
    sent = pickle.loads(pickle.dumps((reader, parts)))
    with no_lists(root):
        return [row for part in sent[1] for batch in sent[0].read(part) for row in batch.to_pylist()]


# ---- the source --------------------------------------------------------------------------------------------

SOURCES = [
    {"table": "messages"},
    {"table": "messages", "subscribe": "T0", "keys": "key-3 key-9"},
    {"table": "index"},
    {"table": "consumequeue"},
    {"table": "offsets"},
    {"table": "offsets", "columns": "topic,queueId,group,consumerOffset"},
]


@pytest.mark.parametrize("options", SOURCES, ids=str)
def test_a_task_of_a_table_lists_nothing(made, options):
    expected = read_table(made, **options).to_pylist()
    assert expected
    reader = reader_of(made, **options)[0]
    assert read_without_lists(made, reader, reader.partitions()) == expected


@pytest.mark.parametrize("table", ["consumequeue", "index", "offsets"])
def test_a_task_of_a_table_of_a_remote_store_lists_nothing(made, table):
    expected = read_table(made, table=table).to_pylist()
    path = counted(made)
    options = ReadOptions(path=path, table=table)
    reader = TABLE_READERS[table](options, table_schema(options, default_schema(options)))
    parts = pickle.loads(pickle.dumps(reader.partitions()))
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert rows == expected
    for part in parts:
        for place in part.parts:
            directory = place.file.path if table == "index" else place.plan.directory
            assert is_remote(directory)
            assert directory.fs.lists == []


def test_a_task_of_a_stream_lists_nothing(made):
    source = data_source(made)
    stream = source.streamReader(source.schema())
    begin, end = {"v": 1, "phyOffset": 0}, stream.initialOffset()
    rows = read_without_lists(made, reader_of(made)[0], stream.partitions(begin, end))
    stream.stop()
    assert len(rows) == 60


# ---- lookups -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["store", "index", "file"])
def test_a_task_of_select_phy_offset_lists_nothing(made, place, monkeypatch):
    monkeypatch.setattr(udfs, "open_store", store_cache().open)
    monkeypatch.setattr(udfs, "open_index", index_cache().open)
    file = min((made / "index").iterdir())
    places = {"index": made / "index", "file": file}
    plan = plan_store(survey_store(made)) if place == "store" else plan_index(places[place], None)
    lookup = pickle.loads(pickle.dumps(udfs.Lookup(plan, "T1", 100, 0, LONG_MAX)))
    with no_lists(made):
        found = [udfs.look_up_arrow(lookup, (pa.array(["key-1", "all"]),)).to_pylist() for _ in range(2)]
    assert found[0] == found[1]
    assert len(found[0][1]) > 2


def test_a_task_of_query_messages_lists_nothing(made, monkeypatch):
    monkeypatch.setattr(query, "open_store", store_cache().open)
    options = ReadOptions(path=made, max_batch_bytes=LONG_MAX)
    schema = table_schema(options, default_schema(options))
    sent = pickle.loads(pickle.dumps(query.Query(plan_store(survey_store(made)), options, schema, "T1", True)))
    asked = pa.record_batch({"key": ["key-1", "none"], "row": [{"i": 0}, {"i": 1}]})
    with no_lists(made):
        rows = [row for batch in query.find_batch(sent, asked) for row in batch.to_pylist()]
    assert [(row["row"]["i"], row["message"] is None, row["complete"]) for row in rows] == [
        (0, False, True),
        (1, True, True),
    ]


# ---- builds ------------------------------------------------------------------------------------------------


@pytest.fixture
def built(tmp_path, monkeypatch, seed):
    """A store. Tasks run in this process, and cannot list it."""
    root = make_log(tmp_path / "store", KINDS["plain"](random.Random(f"{seed}")))

    def run(spark, task, count, row_type):
        sent = [cloudpickle.dumps(task) for _ in range(count)]
        with no_lists(root):
            return [row for i in range(count) for row in cloudpickle.loads(sent[i])(i, f"{i:06}-{i}")]

    for module in (build_tasks, splits):
        monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(splits, "MIN_SPLIT", 5000)
    return root


@pytest.mark.parametrize("mode", ["rescan", "spill"])
def test_a_task_of_build_index_does_not_list_the_store(built, tmp_path, mode):
    assert build_index(None, built, tmp_path / "index", config=CONFIG, mode=mode).items > 0


def test_a_task_of_rebuild_consume_queue_does_not_list_the_store(built, tmp_path):
    assert rebuild_consume_queue(None, built, tmp_path / "queues", config=CONFIG).items > 0


# ---- the sink ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transaction", [{}, {"txnAppId": "app", "txnVersion": "1"}], ids=str)
def test_a_task_of_the_sink_does_not_list_the_store(tmp_path, transaction, monkeypatch):
    monkeypatch.setattr("rocketstore.spark.source.sink.attempt_name", lambda: "000000-1")
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=config_of()) as store:
        store.put_message(Message("T", b"first"))
    schema = StructType([StructField("topic", StringType()), StructField("body", BinaryType())])
    writer = writer_of(schema, {"path": str(root), **transaction}, False)
    task = pickle.loads(pickle.dumps(writer))
    with no_lists(root):
        written = task.write(iter([pa.record_batch({"topic": ["T"], "body": [b"second"]})]))
    writer.commit([written])
    with rocketstore.open(root) as store:
        assert [message.body for batch in store.scan() for message in batch] == [b"first", b"second"]
