"""Stores at URIs in Spark: tables, streams, lookups and builds say what they say of the local copy."""

import contextlib
import dataclasses
import io
import json
import os
import pickle
import random
import shutil
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")

from pyspark import cloudpickle
from pyspark.sql import functions as F
from support import stores
from support.puts import config_of, files_under, open_store
from support.rebuilt import BATCHES, CONFIG, KINDS, make_log, of_batches
from support.remote import BUCKET, T0, CountedFileSystem, counted, made_store, s3_server, small_blocks, upload
from support.repetitions import only_some_quick
from support.spark_reads import read_table
from support.unfinished import kill_at_append, make_pieces
from test_spark_stream import flat, needs_limits, new_reader, put, read_batch, stream_all

import rocketstore
from rocketstore import RemotePath, StoreConfig, rebuild
from rocketstore.disk.remote import remote_path
from rocketstore.disk.storage import to_path
from rocketstore.query.query_messages import query_messages as query_by_key
from rocketstore.rebuild.build import Build
from rocketstore.rebuild.rebuild import Rebuilder, RebuildOptions
from rocketstore.spark import (
    build_index,
    query_messages,
    rebuild_consume_queue,
    register,
    select_phy_offset,
    write_index,
)
from rocketstore.spark.build import splits
from rocketstore.spark.build import tasks as build_tasks
from rocketstore.spark.build.splits import LogReader
from rocketstore.spark.lookup.cache import index_cache, store_cache
from rocketstore.spark.lookup.plans import KeyIndexPlan, plan_index, plan_store
from rocketstore.spark.lookup.udfs import Lookup, find
from rocketstore.spark.source.sink import writer_of
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.survey import survey_store

fsspec = pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")

TABLES = ("messages", "consumequeue", "index", "offsets")
NAMES = ["rich-5.5.0", "batch-5.5.0", "crash-5.3.3", "lmq-5.5.0", "cqext-5.3.3"]
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in stores.NAMES if name not in NAMES]
LONG_MAX = 2**63 - 1


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    directory = tmp_path_factory.mktemp("golden")
    return lambda name: directory / name if (directory / name).exists() else stores.unpack(name, directory)


@pytest.fixture(scope="module")
def rich(golden):
    return golden("rich-5.5.0")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_store(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def memory(tmp_path):
    """A place of this process, as a URI."""
    yield f"memory://{tmp_path.name}"
    with contextlib.suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm(tmp_path.name, recursive=True)


@pytest.fixture
def no_believing(monkeypatch):
    """Lists of directories are asked for each time."""
    monkeypatch.setattr(remote_path, "LISTED", 0.0)


def uri_of(root):
    """A URI by which local files are read in ranges."""
    return f"local://{root}"


def all_offsets(root, **options):
    return read_table(root, columns="phyOffset", **options)["phyOffset"].to_pylist()


# ---- tables ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "table"),
    only_some_quick(
        [*product(NAMES, TABLES)],
        ("rich-5.5.0", "messages"),
        ("batch-5.5.0", "consumequeue"),
        ("crash-5.3.3", "messages"),
        ("lmq-5.5.0", "offsets"),
        ("cqext-5.3.3", "consumequeue"),
        ("rich-5.5.0", "index"),
    ),
)
def test_a_table_of_a_remote_store_is_that_of_the_local_one(golden, name, table, monkeypatch):
    local = read_table(golden(name), table=table)
    small_blocks(monkeypatch)
    assert read_table(uri_of(golden(name)), table=table).equals(local)


OPTIONS = [
    {"maxPartitionBytes": "3k", "columns": "topic,queueId,queueOffset,phyOffset"},
    {"minPartitions": "7", "includeHeaders": "true", "verifyCrc": "true"},
    {"subscribe": "T0,T1", "keys": "key-3 key-9"},
    {"subscribe": "T0,T1", "tags": "TagA", "queueIds": "0"},
    {"assign": '{"T1": [0, 1]}', "startingOffsets": '{"T1": {"0": 3, "1": 5}}', "endingOffsets": '{"T1": {"0": 9}}'},
    {"startingTimestamp": f"{T0 + 20_000}", "endingTimestamp": f"{T0 + 40_000}"},
    {"startingPhyOffset": "7000", "endingPhyOffset": "40000", "schemaStyle": "kafka"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
def test_options_choose_the_same_messages(made, memory, options):
    upload(fsspec.filesystem("memory"), made, memory)
    found = read_table(memory, **options)
    assert found.equals(read_table(made, **options))
    assert found.num_rows


def test_a_uri_that_leads_through_a_cache_is_read(made, memory, tmp_path):
    upload(fsspec.filesystem("memory"), made, memory)
    for table in TABLES:
        assert read_table(f"simplecache::{memory}", table=table).equals(read_table(made, table=table))


def test_corrupt_bytes_of_a_remote_log_are_told_of(made, tmp_path):
    root = shutil.copytree(made, tmp_path / "store")
    log = min((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    at = all_offsets(made)[5]
    data[at : at + 8] = b"xxxxxxxx"
    log.write_bytes(data)
    assert all_offsets(uri_of(root), mode="DROPMALFORMED") == [*all_offsets(made)[:5], *all_offsets(made)[6:]]
    with pytest.raises(rocketstore.CorruptFileError):
        read_table(uri_of(root))


def test_a_store_that_is_not_there_is_an_error_that_names_it(memory):
    with pytest.raises(FileNotFoundError, match=memory.removeprefix("memory://")):
        read_table(memory)
    with pytest.raises(ValueError, match="foo"):
        read_table("foo://bucket/store")


def test_a_relative_path_is_refused_and_a_file_uri_is_local(made):
    with pytest.raises(ValueError, match="must be absolute, or a URI"):
        read_table("store")
    assert read_table(f"file://{made}").equals(read_table(made))


# ---- streams -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rich-5.5.0", "crash-5.3.3"])
def test_a_stream_has_the_messages_of_a_remote_store(golden, name):
    root = golden(name)
    assert stream_all(uri_of(root)) == [all_offsets(root)]
    assert flat(stream_all(uri_of(root), maxPartitionBytes="2k")) == all_offsets(root)


@needs_limits
def test_a_stream_of_a_remote_store_has_limits(rich):
    limits = {"maxBytesPerTrigger": "10k", "maxOffsetsPerTrigger": "20", "maxFilesPerTrigger": "1"}
    for name, value in limits.items():
        assert stream_all(uri_of(rich), **{name: value}) == stream_all(rich, **{name: value})


def test_a_stream_continues_as_a_remote_store_grows(tmp_path, no_believing):
    with open_store(tmp_path, mapped_file_size_commit_log=4096) as writer:
        put(writer, 20)
        writer.flush()
        reader, schema = new_reader(uri_of(tmp_path), columns="body")
        start = reader.initialOffset()
        for first in (20, 21, 60):
            put(writer, first, first)
            writer.flush()
            end = reader.latestOffset()
            found = read_batch(reader, schema, start, end)
            assert found["body"].to_pylist() == [b"body %d" % i for i in range(first, 2 * first)]
            start = end
        reader.stop()


def test_the_end_of_a_remote_log_is_found_with_small_reads(tmp_path, no_believing, monkeypatch):
    small_blocks(monkeypatch)
    options = {"mapped_file_size_commit_log": 1 << 20}
    with open_store(tmp_path, **options) as writer, rocketstore.open(counted(tmp_path)) as store:
        put(writer, 20)
        writer.flush()
        log, fs = store.commit_log, store.path.fs
        read = []
        for moves_on in (True, True, True, False, False):
            fs.reads.clear()
            assert log.look().records_end == writer.commit_log.max_phy_offset
            read.append(fs.bytes_read)
            if moves_on:
                put(writer, 1)
                writer.flush()
        assert max(read) < 1 << 18


def test_records_behind_damage_of_a_remote_log_are_found_as_it_grows(tmp_path, no_believing, monkeypatch):
    with open_store(tmp_path) as writer, rocketstore.open(counted(tmp_path)) as store:
        put(writer, 20)
        writer.flush()
        log = store.commit_log
        before = log.look().records_end
        put(writer, 20)
        writer.flush()
        after = writer.commit_log.max_phy_offset
        with min((tmp_path / "commitlog").iterdir()).open("r+b") as file:
            file.seek(before)
            file.write(b"damaged!")
        assert [log.look().records_end for _ in range(2)][-1] == after


# ---- lookups -----------------------------------------------------------------------------------------------


def planned_store(place):
    """The plan of queries by key in a store, as a task gets it."""
    return pickle.loads(pickle.dumps(plan_store(survey_store(place))))


def planned_index(place):
    """The plan of lookups in an index, as a task gets it."""
    return pickle.loads(pickle.dumps(plan_index(to_path(place), None)))


def looked_up(place, verified, topic="T1", keys=("key-1", "all", "none")):
    plan = planned_store(place) if verified else planned_index(place)
    found = find(Lookup(plan, topic, 1000, 0, LONG_MAX), (list(keys),))
    return found.values.tolist(), found.offsets.tolist()


@pytest.mark.parametrize("verified", [True, False])
def test_keys_are_looked_up_in_a_remote_store(made, memory, verified):
    upload(fsspec.filesystem("memory"), made, memory)
    part = "" if verified else "/index"
    expected = looked_up(f"{made}{part}", verified)
    assert expected[0]
    for place in (f"{memory}{part}", f"local://{made}{part}", to_path(f"{memory}{part}")):
        assert looked_up(place, verified) == expected
    file = min((made / "index").iterdir())
    assert looked_up(f"{memory}/index/{file.name}", False) == looked_up(str(file), False)


def test_a_new_plan_of_a_remote_index_has_its_changes(made, memory, no_believing):
    fs = fsspec.filesystem("memory")
    upload(fs, made, memory)
    cache, path = index_cache(), f"{memory}/index"
    index = cache.open(planned_index(path))
    assert cache.open(planned_index(path)) is index
    name = index.files[0].path.name
    data = bytearray((made / "index" / name).read_bytes())
    data[7] ^= 1
    fs.pipe_file(f"{path}/{name}", bytes(data))
    again = cache.open(planned_index(path))
    assert again is not index
    assert again.files[0].header.begin_timestamp == index.files[0].header.begin_timestamp ^ 1
    fs.rm_file(f"{path}/{name}")
    assert len(cache.open(planned_index(path)).files) == len(index.files) - 1


def test_a_new_plan_of_a_remote_store_has_the_index_that_came(made, memory, no_believing):
    fs = fsspec.filesystem("memory")
    upload(fs, made / "commitlog", f"{memory}/commitlog")
    cache = store_cache()
    store = cache.open(planned_store(memory))
    assert cache.open(planned_store(memory)) is store
    upload(fs, made / "index", f"{memory}/index")
    again = cache.open(planned_store(memory))
    assert len(query_by_key(again.look(None), "T1", ["key-1"], 64, 0, LONG_MAX, None, 100, 1).phy_offsets) == 1
    assert cache.open(planned_store(memory)) is again


def test_a_remote_index_is_not_listed_in_a_task(made):
    path = counted(made)
    plans = planned_index(path / "index"), planned_store(path)
    for cache, plan in zip((index_cache(), store_cache()), plans, strict=True):
        fs = plan.files.path.fs if isinstance(plan, KeyIndexPlan) else plan.log.directories[0].fs
        first = cache.open(plan)
        assert fs.lists == []
        fs.reads.clear()
        assert all(cache.open(plan) is first for _ in range(100))
        assert fs.lists == fs.reads == []


def test_a_lookup_lists_nothing_beside_the_store(made, no_believing):
    path = counted(made)
    for _ in range(2):
        found = query_by_key(
            plan_store(survey_store(path)).open().look(None), "T1", ["key-1"], 64, 0, LONG_MAX, None, 100, 1
        )
        assert found.complete.all()
    assert not [place for place in path.fs.lists if not place.startswith(str(made))]


# ---- builds ------------------------------------------------------------------------------------------------


@pytest.fixture
def tasks(monkeypatch):
    """Spark's tasks in this process, one after the other; each gets what it needs pickled, as from Spark."""

    def run(spark, task, count, row_type):
        copies = [cloudpickle.dumps(task) for _ in range(count)]
        return [row for i in range(count) for row in cloudpickle.loads(copies[i])(i, f"{i:06}-{i}")]

    for module in (build_tasks, splits):
        monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(splits, "MIN_SPLIT", 5000)
    monkeypatch.setattr(splits, "SPLITS", 3)
    monkeypatch.setattr(LogReader.__new__, "__defaults__", (700,))


def serial(root, out, config):
    rebuild(root, out=out, config=config, tz="UTC")
    return files_under(out, ".")


def built(store, out, config, **options):
    """What Spark builds of a store, index and queues, by name."""
    build_index(None, store, out / "index", config=config, tz="UTC", **options)
    rebuild_consume_queue(None, store, out / "queues", config=config)
    found = {f"index/{path.name}": path.read_bytes() for path in (out / "index").iterdir()}
    queues = (path for path in (out / "queues").rglob("*") if path.is_file())
    return found | {str(path.relative_to(out / "queues")): path.read_bytes() for path in queues}


@pytest.mark.parametrize(
    ("name", "mode"),
    only_some_quick(
        [*product(["plain", "inner_batches", "many_keys"], ["auto", "rescan"])],
        ("inner_batches", "auto"),
        ("many_keys", "rescan"),
    ),
)
def test_builds_of_a_remote_log_are_those_of_the_local_one(tasks, tmp_path, memory, seed, name, mode):
    root = make_log(tmp_path / "store", KINDS[name](random.Random(f"{seed} {name}")))
    if name == "inner_batches":
        of_batches(root, dict.fromkeys(BATCHES, "BatchCQ"))
    upload(fsspec.filesystem("memory"), root, memory)
    found = built(memory, tmp_path / "built", CONFIG, mode=mode)
    assert found == serial(root, tmp_path / "serial", CONFIG)
    assert found


@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_builds_of_golden_stores(tasks, tmp_path, golden, name, monkeypatch):
    known = {field.name for field in dataclasses.fields(StoreConfig)}
    config = StoreConfig(**{key: value for key, value in stores.settings(name).items() if key in known})
    small_blocks(monkeypatch)
    try:
        expected = serial(golden(name), tmp_path / "serial", config)
    except (rocketstore.StoreError, ValueError) as error:
        with pytest.raises(type(error)):
            built(uri_of(golden(name)), tmp_path / "built", config)
        assert not list((tmp_path / "built").iterdir())
        return
    assert built(uri_of(golden(name)), tmp_path / "built", config) == expected


class TotalFileSystem(CountedFileSystem):
    """Counts what all its copies read."""

    protocol = "total"
    total = 0

    def cat_file(self, path, start=None, end=None, **options):
        TotalFileSystem.total += end - start
        return super().cat_file(path, start, end, **options)


def test_a_log_is_read_once_with_spills_and_twice_without(tasks, tmp_path, made, monkeypatch):
    small_blocks(monkeypatch)
    monkeypatch.setattr(LogReader.__new__, "__defaults__", (16384,))
    size = sum(path.stat().st_size for path in (made / "commitlog").iterdir())
    read = []
    for mode in ("auto", "rescan"):
        TotalFileSystem.total = 0
        build_index(None, RemotePath(TotalFileSystem(), str(made)), tmp_path / mode, mode=mode, tz="UTC")
        read.append(TotalFileSystem.total / size)
    assert 1 <= read[0] < 1.5
    assert read[1] > 2


@pytest.mark.parametrize("name", stores.NAMES)
def test_sizes_of_a_remote_store_are_known_as_of_the_local_one(golden, name):
    def known(where):
        try:
            return survey_store(where).sizes.config
        except ValueError as error:
            return str(error).replace("file://", "")

    assert known(uri_of(golden(name))) == known(golden(name))


def test_sizes_are_known_by_what_a_writer_left(made, memory):
    upload(fsspec.filesystem("memory"), made, memory)
    assert survey_store(memory).sizes.config == survey_store(made).sizes.config
    assert survey_store(memory).sizes.config.max_index_num == config_of().max_index_num


def looked_at(where, config):
    """Where a log ends, and what a recovery would do to it."""

    def rebuilder():
        begun = begin_entry("rebuild into a new directory", where, config)
        return Rebuilder.of(begun, Build(True, True, None, False), RebuildOptions())

    with rebuilder().open_log()[0].log as log:
        store, repair = rebuilder().open_log()
        store.log.close()
        steps = [(step.path.name, *step[1:]) for step in repair.steps]
        return repair.end, repair.last_phy_offset, steps, len(log.file_run.files)


@pytest.mark.parametrize("tail", ["none", "torn", "saved", "in the middle of a write"])
def test_the_end_of_a_remote_log_is_found(made, memory, tmp_path, tail):
    root = shutil.copytree(made, tmp_path / "store")
    if tail == "in the middle of a write":
        parts = [[[{"topic": "T", "body": b"b" * n} for n in range(5)]] * 3]
        kill_at_append(root, "job", make_pieces(root, "job", parts, None), 1, T0 + 10**6, torn=True)
    log = max((root / "commitlog").iterdir())
    with rocketstore.open(made) as store:
        end = store.commit_log.max_phy_offset
    at, data = end - int(log.name), bytearray(log.read_bytes())
    if tail in ("torn", "saved"):
        data[at : at + 50] = bytes(data[:30]) + bytes(10) + bytes(data[:10])
        log.write_bytes(data)
        (root / "abort").touch()
    if tail == "saved":
        (root / "rocketstore-cut").mkdir()
        (root / "rocketstore-cut" / f"{T0:013}-{end:020}").write_bytes(data[at : at + 50])
    upload(fsspec.filesystem("memory"), root, memory)
    expected = looked_at(root, None)
    assert looked_at(memory, None) == looked_at(uri_of(root), None) == expected
    kinds = {"none": set(), "torn": {"save", "zero"}, "saved": {"save", "zero"}, "in the middle of a write": {"undo"}}
    assert kinds[tail] <= {step[1] for step in expected[2]}
    assert expected[2] or tail == "none"


def test_a_remote_store_without_a_log_is_an_error(made, memory, tmp_path):
    upload(fsspec.filesystem("memory"), made / "consumequeue", f"{memory}/consumequeue")
    with pytest.raises(rocketstore.StoreError, match="no commitlog"):
        rebuild_consume_queue(None, memory, tmp_path / "out", config=config_of())
    (tmp_path / "store" / "commitlog" / "directory").mkdir(parents=True)
    shutil.copytree(made / "consumequeue", tmp_path / "store" / "consumequeue")
    with pytest.raises(rocketstore.StoreError, match="the commit log is gone"):
        rebuild_consume_queue(None, uri_of(tmp_path / "store"), tmp_path / "out", config=config_of())


# ---- writing -----------------------------------------------------------------------------------------------

WRITERS = {
    "df.write": lambda uri, root: writer_of(None, {"path": uri}, False),
    "an index": lambda uri, root: build_index(None, root, f"{uri}/out"),
    "spills": lambda uri, root: build_index(None, root, root.parent / "out", mode="spill", scratch=uri),
    "queues": lambda uri, root: rebuild_consume_queue(None, root, f"{uri}/out"),
    "spills of queues": lambda uri, root: rebuild_consume_queue(None, root, root.parent / "out", scratch=uri),
    "any index": lambda uri, root: write_index(None, f"{uri}/out", key="k", phy_offset="p", store_timestamp="t"),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_writes_refuses_a_uri(write, made, memory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = shutil.copytree(made, tmp_path / "local")
    before = files_under(tmp_path, ".")
    with pytest.raises(io.UnsupportedOperation, match=f"{tmp_path.name}.* is remote: a local path is"):
        write(memory, root)
    assert files_under(tmp_path, ".") == before
    assert not fsspec.filesystem("memory").exists(memory)


# ---- in Spark ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket(spark, rich, made):
    """Stores on a server of S3, which driver and workers know by fsspec's configuration."""
    pytest.importorskip("s3fs", reason="needs s3fs, from the test group")
    with s3_server() as url:
        options = {"key": "key", "secret": "secret", "endpoint_url": url, "client_kwargs": {"region_name": "eu-west-1"}}
        place = Path(os.environ["FSSPEC_CONFIG_DIR"], "s3.json")
        place.parent.mkdir()
        place.write_text(json.dumps({"s3": options}))
        fsspec.config.conf["s3"] = options
        fs = fsspec.filesystem("s3")
        fs.mkdir(BUCKET)
        upload(fs, rich, f"{BUCKET}/rich")
        upload(fs, made, f"{BUCKET}/made")
        yield f"s3://{BUCKET}"
        del fsspec.config.conf["s3"]
        type(fs).close_session(fs.loop, fs.s3)
        type(fs).clear_instance_cache()
        shutil.rmtree(place.parent)


@pytest.mark.spark
@pytest.mark.parametrize("table", only_some_quick([*TABLES], "messages"))
def test_spark_reads_a_table_of_a_store_on_a_server_of_s3(spark, bucket, rich, table):
    register(spark)
    options = {"table": table, **({"maxPartitionBytes": "9k"} if table == "messages" else {})}
    found = spark.read.format("rocketstore").options(**options).load(f"{bucket}/rich").toArrow().to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, read_table(rich, table=table).to_pylist()))


@pytest.mark.spark
def test_a_view_of_spark_reads_a_store_on_a_server_of_s3(spark, bucket, rich):
    register(spark)
    spark.sql(f"CREATE TEMPORARY VIEW remote_messages USING rocketstore OPTIONS (path '{bucket}/rich')")
    assert spark.sql("SELECT count(*) FROM remote_messages").first()[0] == read_table(rich).num_rows


@pytest.mark.slow
@pytest.mark.spark
def test_spark_streams_a_store_on_a_server_of_s3(spark, bucket, made, tmp_path):
    register(spark)
    stream = spark.readStream.format("rocketstore").option("startingOffsets", "earliest").load(f"{bucket}/made")
    writer = stream.select("phyOffset").writeStream.format("parquet").option("checkpointLocation", f"{tmp_path}/at")
    query = writer.trigger(availableNow=True).start(f"{tmp_path}/out")
    assert query.awaitTermination(120)
    found = sorted(row.phyOffset for row in spark.read.parquet(f"{tmp_path}/out").collect())
    assert found == all_offsets(made)


@pytest.mark.slow
@pytest.mark.spark
def test_spark_looks_keys_up_on_a_server_of_s3(spark, bucket, made):
    rows = [(f"T{i % 3}", f"key-{i}") for i in range(70)]
    df = spark.createDataFrame(rows, "topic string, key string")
    found = []
    for where in (str(made), f"{bucket}/made", to_path(f"{bucket}/made")):
        offsets = df.select("key", select_phy_offset(where, F.col("topic"), "key").alias("offsets")).collect()
        unverified = df.select(select_phy_offset(where, F.col("topic"), "key", verify=False, engine="pandas")).collect()
        messages = query_messages(spark, where, df, topic=F.col("topic"), key="key", columns=["phyOffset", "body"])
        found.append((sorted(offsets), unverified, sorted(map(str, messages.collect()))))
    assert found[0] == found[1] == found[2]
    assert sum(len(row.offsets) for row in found[0][0]) == len(found[0][2]) == 60


@pytest.mark.slow
@pytest.mark.spark
def test_spark_builds_of_a_store_on_a_server_of_s3(spark, bucket, made, tmp_path):
    found = {}
    for where in (f"{bucket}/made", str(made)):
        out = tmp_path / f"{len(found)}"
        out.mkdir()
        index = build_index(spark, where, out / "index", tz="UTC")
        queues = rebuild_consume_queue(spark, where, out / "queues")
        found[where] = files_under(out, "."), index.items, queues.items
    first, second = found.values()
    assert first == second
    assert first[1:] == (240, 60)


@pytest.mark.spark
def test_spark_is_reported_that_a_uri_is_not_written_to(spark, bucket):
    register(spark)
    df = spark.createDataFrame([("T", b"body")], "topic string, body binary")
    with pytest.raises(Exception, match="is remote: a local path is needed"):
        df.write.format("rocketstore").mode("append").save(f"{bucket}/new")
    assert not fsspec.filesystem("s3").exists(f"{BUCKET}/new")
