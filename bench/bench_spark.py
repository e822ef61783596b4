"""Spark: reading a store against reading Parquet, lookups against a UDF that does nothing, builds against serial ones.

At the end it says what ten terabytes would take, from the rates of this run.
"""

import os
import shutil
from collections.abc import Iterator
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import rows, seconds_of
from keys import TOPIC, arrow_keys, lookup_numbers
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from spark_settings import local_settings
from store_files import message_keys, write_log, write_store

from rocketstore import CommitLog, StoreConfig, rebuild
from rocketstore import open as open_store
from rocketstore.config import DEFAULT_SIZES
from rocketstore.spark import build_index, register, select_phy_offset
from rocketstore.spark import read as fast_read

READ_SIZE = int(os.environ.get("ROCKETSTORE_BENCH_READ_SIZE", str(1 << 30)))
BUILD_SIZE = int(os.environ.get("ROCKETSTORE_BENCH_BUILD_SIZE", str(8 << 30)))
LOOKUPS = int(os.environ.get("ROCKETSTORE_BENCH_LOOKUPS", "2000000"))
BODY_SIZE = 200
SEVEN = "topic,queueId,queueOffset,phyOffset,storeTimestamp,uniqKey,body"
NARROW = "queueId,queueOffset,phyOffset"
PARTITION = "512m"  # a task for each core, as for two files of 1 GiB
LOOKUP_ROUNDS, BUILD_ROUNDS = 9, 3
ITEMS = 2_000_000
CORES = 2
TEN_TB, ITEMS_OF_MESSAGE = 10e12, 3
SEVEN_NAME = "Spark: read seven columns"
BUILD_NAME = f"Spark: build_index, {{}}, {BUILD_SIZE / (1 << 30):g} GiB"


@pytest.fixture(scope="module")
def spark(scratch):
    settings = local_settings(scratch, "spark") | {
        "spark.driver.memory": "4g",
        "spark.sql.session.timeZone": "UTC",
        # What README.md says of reading: it costs the workers' sockets, and checks of each value.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.driver.extraJavaOptions": "-Darrow.enable_unsafe_memory_access=true "
        "-Darrow.enable_null_check_for_get=false",
    }
    session = SparkSession.builder.master(f"local[{CORES}]").config(map=settings).getOrCreate()
    register(session)
    yield session
    session.stop()


def drain(df):
    df.write.format("noop").mode("overwrite").save()


# ---- reading -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(scratch):
    """A log file of messages of some 400 bytes; how many there are."""
    root = scratch / "read"
    yield root, write_store(root, BODY_SIZE, READ_SIZE)
    shutil.rmtree(root)


def read(spark, root, **options):
    return spark.read.format("rocketstore").options(maxPartitionBytes=PARTITION, **options).load(str(root))


def test_read_seven_columns(speeds, spark, store):
    root, messages = store
    seven = read(spark, root, columns=SEVEN)
    with CommitLog.open(root / "commitlog") as log:
        ends = [batch.phy_offset[-1] for batch in log.scan(columns=["phy_offset"])]
    assert seven.agg(F.count("body"), F.max("phyOffset")).first() == (messages, ends[-1])
    speeds(SEVEN_NAME, messages, lambda: drain(seven), READ_SIZE, goal=0.8)


def test_read_all_columns_against_parquet(pairs, spark, store, scratch):
    root, messages = store
    everything = read(spark, root)
    parquet = scratch / "read.parquet"
    everything.write.option("compression", "none").mode("overwrite").parquet(str(parquet))
    theirs = spark.read.parquet(str(parquet))
    totals = [F.bit_xor(F.xxhash64(*theirs.columns)), F.count("body")]
    assert theirs.agg(*totals).first() == everything.agg(*totals).first()
    assert theirs.count() == messages
    pairs(
        "Spark: read all columns",
        messages,
        lambda: drain(everything),
        lambda: seconds_of(lambda: drain(theirs)),
        "Parquet",
        goal=0.6,
    )


@pytest.mark.parametrize(("columns", "name", "goal"), [(None, "all", 0.85), (SEVEN, "seven", 0.8)])
@pytest.mark.parametrize("verify_crc", [None, False])
def test_fast_read_against_parquet(pairs, spark, store, scratch, columns, name, goal, verify_crc):
    """By ``rocketstore.spark.read``, with the default checks, and without checks of the CRC as Parquet does."""
    root, messages = store
    ours = fast_read(spark, root, columns=columns, maxPartitionBytes=PARTITION, verifyCrc=verify_crc)
    parquet = scratch / "read.parquet"
    if not parquet.exists():
        read(spark, root).write.option("compression", "none").parquet(str(parquet))
    theirs = spark.read.parquet(str(parquet)).select(*ours.columns)
    totals = [F.bit_xor(F.xxhash64(*theirs.columns)), F.count("body")]
    assert theirs.agg(*totals).first() == ours.agg(*totals).first()
    pairs(
        f"Spark: read {name} columns by spark.read{'' if verify_crc is None else ', no CRC'}",
        messages,
        lambda: drain(ours),
        lambda: seconds_of(lambda: drain(theirs)),
        "Parquet",
        goal=goal if verify_crc is False else None,
    )


def test_read_three_narrow_columns_against_all(pairs, spark, store):
    root, messages = store
    narrow, everything = read(spark, root, columns=NARROW), read(spark, root)
    assert narrow.distinct().count() == messages
    pairs(
        "Spark: read three narrow columns",
        messages,
        lambda: drain(narrow),
        lambda: seconds_of(lambda: drain(everything)),
        "all",
        goal=3,
    )


# ---- lookups -----------------------------------------------------------------------------------------------


def test_lookup_by_arrow_udf(pairs, spark, index, keys, scratch):
    """Against an Arrow UDF that looks nothing up, and gives lists of the same shape."""
    numbers = lookup_numbers(LOOKUPS, 11, len(keys))
    asked = keys_frame(spark, scratch / "asked.parquet", arrow_keys(numbers))
    found = asked.select("key", select_phy_offset(index.path, TOPIC, "key").alias("found"))
    expected = index.select_phy_offsets(arrow_keys(numbers), topic=TOPIC)
    total = found.select(F.sum(F.size("found")), F.sum(F.aggregate("found", F.lit(0).cast("long"), lambda a, b: a + b)))
    assert total.first() == (len(expected.values), int(expected.values.sum()))

    def idle_lists(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:  # local: workers do not find this module
        for batch in batches:
            yield pa.ListArray.from_arrays(np.arange(len(batch) + 1, dtype=np.int32), np.arange(len(batch)))

    idle = asked.select("key", F.arrow_udf(idle_lists, "array<bigint>")("key"))
    pairs(
        "Spark: look keys up by hash",
        LOOKUPS,
        lambda: drain(found),
        lambda: seconds_of(lambda: drain(idle)),
        "idle UDF",
        goal=0.8,
        rounds=LOOKUP_ROUNDS,
    )


def test_verified_lookup(pairs, spark, store, scratch):
    root, messages = store
    rebuild(root, consume_queue=False, config=StoreConfig(**DEFAULT_SIZES))
    some = message_keys(lookup_numbers(LOOKUPS // 4, 11, messages))
    asked = keys_frame(spark, scratch / "verified.parquet", some)
    found = asked.select("key", select_phy_offset(root, TOPIC, "key").alias("found"))
    with open_store(root) as serial:
        expected = serial.query_messages(TOPIC, some).phy_offsets
        assert found.select(F.sum(F.size("found")), F.sum(F.col("found")[0])).first() == (
            len(expected),
            int(expected.sum()),
        )
        pairs(
            "Spark: look keys up, verified",
            len(some),
            lambda: drain(found),
            lambda: seconds_of(lambda: serial.query_messages(TOPIC, some)),
            "serial",
        )


def keys_frame(spark, path, keys):
    """Keys in eight files, in memory."""
    path.mkdir()
    step = len(keys) // 8 + 1
    for part, start in enumerate(range(0, len(keys), step)):
        pq.write_table(pa.table({"key": keys[start : start + step]}), path / f"{part}.parquet")
    frame = spark.read.parquet(str(path)).cache()
    frame.count()
    return frame


# ---- builds ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def log_root(scratch):
    """A store of a log alone: each message has a key, a unique key and a tag; how many there are."""
    root = scratch / "build"
    yield root, write_log(root, BUILD_SIZE)
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def config():
    return StoreConfig(**DEFAULT_SIZES | {"max_index_num": ITEMS, "max_hash_slot_num": ITEMS // 4})


@pytest.fixture(scope="module")
def outs(scratch):
    """Directories, each new."""
    made = (scratch / f"out-{number}" for number in count())
    return lambda: next(made)


@pytest.mark.parametrize(("mode", "goal"), [("spill", 1 / 2), ("rescan", 1 / 3)])
def test_build_index(pairs, spark, log_root, config, outs, mode, goal):
    root, messages = log_root
    serial, built = outs(), outs()
    rebuild(root, out=serial, consume_queue=False, threads=1, config=config)
    build_index(spark, str(root), str(built), mode=mode, config=config)
    ours, theirs = sorted(built.iterdir()), sorted((serial / "index").iterdir())
    assert len(ours) >= min(8, BUILD_SIZE >> 30)
    assert [path.read_bytes() for path in ours] == [path.read_bytes() for path in theirs]
    shutil.rmtree(built)

    def serially():
        shutil.rmtree(serial)
        return seconds_of(lambda: rebuild(root, out=serial, consume_queue=False, threads=1, config=config))

    pairs(
        BUILD_NAME.format(mode),
        ITEMS_OF_MESSAGE * messages,
        lambda: build_index(spark, str(root), str(built), mode=mode, config=config),
        serially,
        "serial",
        goal=goal,
        before=lambda: shutil.rmtree(built, ignore_errors=True),
        rounds=BUILD_ROUNDS,
    )
    shutil.rmtree(built)
    shutil.rmtree(serial)


def test_rebuild_with_two_threads(pairs, log_root, config, outs):
    root, messages = log_root
    serial, built = outs(), outs()

    def build(out, threads):
        shutil.rmtree(out, ignore_errors=True)
        rebuild(root, out=out, consume_queue=False, threads=threads, config=config)

    pairs(
        f"serial: rebuild of the index, threads=2, {BUILD_SIZE / (1 << 30):g} GiB",
        ITEMS_OF_MESSAGE * messages,
        lambda: build(built, 2),
        lambda: seconds_of(lambda: build(serial, 1)),
        "threads=1",
        rounds=BUILD_ROUNDS,
    )
    shutil.rmtree(built)
    shutil.rmtree(serial)


# ---- ten terabytes -----------------------------------------------------------------------------------------


def test_what_ten_terabytes_would_take(capsys, log_root):
    """From the rates of this run, on 200 cores that read 100 MB/s each."""
    measured, spill = {row["name"]: row for row in rows}, BUILD_NAME.format("spill")
    if not {SEVEN_NAME, spill} <= measured.keys():
        pytest.skip("needs the rates of the other rows")
    items = ITEMS_OF_MESSAGE * TEN_TB * log_root[1] / BUILD_SIZE
    seconds = {
        "reading": TEN_TB / 100e6,
        "seven columns into Spark": TEN_TB * CORES / (measured[SEVEN_NAME]["ratio"] * 1e9),
        "build_index, spill": items * CORES * measured[spill]["ours_ns"] / 1e9,
    }
    with capsys.disabled():
        print(
            f"\n10 TB of log on 200 cores: {items:.3g} items, {items / 19_999_999:,.0f} index files, "
            f"{20 * items / 1e12:.2f} TB spilled"
        )
        for what, core_seconds in seconds.items():
            print(f"  {what:24} {core_seconds / 200:8,.0f} s")
