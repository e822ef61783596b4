"""Writers of the data source and of its builds change no directory of another store, and hold its lock if they may."""

import shutil

import pytest
from support.places import contents, make_backup, make_live
from support.profiles import SMALL
from support.waiting import wait_for

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

import pyarrow as pa
from pyspark.sql import types as T

import rocketstore
from rocketstore import StoreConfig, StoreError, StoreLockedError
from rocketstore.config import camel_case
from rocketstore.spark import rebuild_consume_queue, write_index
from rocketstore.spark.build.directories import working_directories
from rocketstore.spark.source import sink
from rocketstore.spark.source.sink import writer_of

OPTIONS = {camel_case(name): str(size) for name, size in SMALL.items()}
SCHEMA = T.StructType([T.StructField("topic", T.StringType()), T.StructField("body", T.BinaryType())])


@pytest.fixture
def live(tmp_path):
    return make_live(tmp_path / "live")


@pytest.fixture
def backup(live, tmp_path):
    return make_backup(live, tmp_path / "backup", "commitlog")


def writer(root, **options):
    return writer_of(SCHEMA, {"path": str(root), **OPTIONS, **options}, False)


def bodies(root):
    with rocketstore.open(root, config=StoreConfig(**SMALL)) as store:
        return [message.body for batch in store.scan() for message in batch]


def test_the_sink_refuses_the_log_of_another_store_before_a_task_runs(live, backup, tmp_path):
    before = contents(tmp_path)
    for root in (backup, tmp_path / "new"):
        with pytest.raises(StoreError, match="belongs to the store at") as caught:
            writer(root, storePathCommitLog=str(live / "commitlog"))
        assert str(live) in str(caught.value)
        assert str(root) in str(caught.value)
    assert not (tmp_path / "new").exists()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", f"consumequeue/T/0/{0:020}", "index"])
def test_the_sink_refuses_a_link_into_another_store(live, tmp_path, part):
    copy = tmp_path / "copy"
    shutil.copytree(live, copy)
    shutil.rmtree(copy / part) if (copy / part).is_dir() else (copy / part).unlink()
    (copy / part).symlink_to(live / part)
    before = contents(tmp_path)
    with pytest.raises(StoreError, match="belongs to the store at"):
        writer(copy)
    assert contents(tmp_path) == before


def test_with_the_option_the_sink_writes_to_the_other_store_under_its_lock(live, backup, monkeypatch):
    monkeypatch.setattr(sink, "attempt_name", lambda: "000000-0")
    options = {"storePathCommitLog": str(live / "commitlog"), "writeElsewhere": "true"}
    with rocketstore.open(live, "a", config=StoreConfig(**SMALL)), pytest.raises(StoreLockedError, match=str(live)):
        writer(backup, **options)
    job = writer(backup, **options)
    written = job.write(iter([pa.RecordBatch.from_pylist([{"topic": "T", "body": b"more"}])]))
    with rocketstore.open(live, "a", config=StoreConfig(**SMALL)), pytest.raises(StoreLockedError):
        job.commit([written])
    assert bodies(live) == [b"body"]


def test_with_the_option_a_job_is_committed_to_the_other_store(live, backup, monkeypatch):
    monkeypatch.setattr(sink, "attempt_name", lambda: "000000-0")
    job = writer(backup, storePathCommitLog=str(live / "commitlog"), writeElsewhere="true")
    job.commit([job.write(iter([pa.RecordBatch.from_pylist([{"topic": "T", "body": b"more"}])]))])
    assert bodies(live) == [b"body", b"more"]


def test_a_build_makes_its_directory_in_a_store_under_the_lock_of_that_store(live):
    before = contents(live)
    store = rocketstore.open(live, "a", config=StoreConfig(**SMALL))
    with store, pytest.raises(StoreLockedError), working_directories(live / "new", None):
        pass
    assert contents(live) == before
    with working_directories(live / "new", None), pytest.raises(StoreLockedError):
        rocketstore.open(live, "a", config=StoreConfig(**SMALL))


@pytest.mark.spark
def test_no_build_of_spark_writes_into_a_store_that_is_open(spark, live, tmp_path):
    next_file = live / "commitlog" / f"{SMALL['mapped_file_size_commit_log']:020}"
    shutil.copytree(live, tmp_path / "copy")
    schema = "topic string, key string, offset long, time long"
    frame = spark.createDataFrame([("T", "k", 0, 1_700_000_000_000)], schema)
    columns = {"key": "key", "phy_offset": "offset", "store_timestamp": "time", "topic": "topic"}
    with rocketstore.open(live, "a", config=StoreConfig(**SMALL)):
        wait_for(lambda: next_file.exists() and next_file.stat().st_size)  # a thread of the store makes it
        before = contents(live)
        with pytest.raises(StoreLockedError):
            rebuild_consume_queue(spark, tmp_path / "copy", live / "new", config=StoreConfig(**SMALL))
        with pytest.raises(StoreLockedError):
            write_index(frame, live / "new", **columns)
        assert contents(live) == before
    assert list(live.glob(".new*")) == []
