"""Build the index files of the rows of a DataFrame.

keyHash, phyOffset, storeTimestamp (Arrow UDF) -> range exchange, sort -> spill files
-> prefix sum on the driver -> one task for each index file -> rename
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rocketstore.compat import DEFAULT_COMPAT, Compat
from rocketstore.config import DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM
from rocketstore.index.geometry import checked_geometry
from rocketstore.index.index_directory import index_paths
from rocketstore.spark.build.directories import BuildReport, new_place, working_directories
from rocketstore.spark.build.index_files import IndexForm, build_files, plan_files, publish_index
from rocketstore.spark.build.spill import ORDINAL, Spill, check_order, read_entries, write_spill
from rocketstore.spark.build.tasks import attempt_name, schema_of
from rocketstore.spark.lookup.udfs import hash_keys
from rocketstore.text_values import find_time_zone


def write_index(
    df: DataFrame,
    out: str | os.PathLike[str],
    *,
    key: str | Column,
    phy_offset: str | Column,
    store_timestamp: str | Column,
    topic: str | Column | None = None,
    ordinal: str | Column | None = None,
    hash_slot_num: int = DEFAULT_HASH_SLOT_NUM,
    index_num: int = DEFAULT_INDEX_NUM,
    compat: str = DEFAULT_COMPAT,
    tz: str | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> BuildReport:
    """Build the index files of the rows of a DataFrame, as a single writer does that puts rows by ``phy_offset``.

    The rows are read once. ``out`` and ``scratch`` must be the same directories for driver and workers. Each task maps
    one index file, and needs about 100 MB of memory besides.

    Parameters
    ----------
    df : one row for each index item.
    out : the new directory. It appears when it is complete. Until then the files are in a hidden directory beside it.
    key : column of strings: the whole ``topic#key``, or the key alone if ``topic`` is given.
    phy_offset : column of integers, bytes in the commit log.
    store_timestamp : column of integers, epoch milliseconds, or of timestamps.
    topic : the topic itself as a str, or a Column of topics. The key to hash is then ``topic#key``.
    ordinal : column of integers that orders rows with the same ``phy_offset``. Required if there are such rows.
    hash_slot_num, index_num, compat : as for ``IndexFile.create``.
    tz : time zone of the names of the files, for example "Asia/Shanghai". Default: the zone of the driver.
    scratch : directory for the spill files, 20 bytes a row. Default: beside ``out``.

    Returns
    -------
    BuildReport.

    Raises
    ------
    FileExistsError : ``out`` exists and is not an empty directory.
    ValueError : a null or a negative offset, with the name of its column; rows that ``phy_offset`` and ``ordinal`` do
        not order; an invalid geometry, compat or tz.
    TypeError : a column of another type; a geometry that is not of integers.

    After an error, no file of the build remains.

    Source: IndexFile.putKey for each row, and IndexService.getAndCreateLastIndexFile, except that a file is named by
    the time of its first item, and that a new file is begun only for an item.
    """
    started = time.perf_counter()
    out = new_place(out)
    Compat.of(compat)  # raises ValueError for an unknown release
    form = IndexForm(checked_geometry(hash_slot_num, index_num), compat)
    zone = find_time_zone(tz)
    items, labels = index_items(
        df, key=key, phy_offset=phy_offset, store_timestamp=store_timestamp, topic=topic, ordinal=ordinal
    )
    with working_directories(out, scratch) as directories:
        spills = check_order(spill_items(items, directories.spills, labels), labels)
        plans = plan_files([spill.run for spill in spills], form.geometry.index_num - 1)
        count = build_files(df.sparkSession, plans, read_entries, form, directories)
        publish_index(directories, out, zone)
    return BuildReport(index_paths(out), count, time.perf_counter() - started)


# ---- columns ---------------------------------------------------------------------------------------------


def index_items(
    df: DataFrame, *, topic: str | Column | None, ordinal: str | Column | None, **required: str | Column
) -> tuple[DataFrame, dict[str, str]]:
    """Return the columns keyHash, phyOffset, storeTimestamp and ordinal, and the caller's names of them for errors."""
    given = {**required, **({} if ordinal is None else {ORDINAL: ordinal})}
    columns = {role: F.col(column) if isinstance(column, str) else column for role, column in given.items()}
    labels = {role: f"{role} (column {c!r})" if isinstance(c, str) else role for role, c in given.items()}
    topics = {} if topic is None or isinstance(topic, str) else {"topic": topic}
    source = df.select(*(column.alias(role) for role, column in {**columns, **topics}.items()))
    types = {field.name: field.dataType for field in source.schema.fields}
    for role, kind in types.items():
        check_type(role, kind, labels.get(role, role))
    items = source.select(
        hash_keys(F.col("topic") if topics else topic, "key").alias("keyHash"),
        F.col("phy_offset").cast("long").alias("phyOffset"),
        epoch_millis("store_timestamp", types["store_timestamp"]).alias("storeTimestamp"),
        *([] if ordinal is None else [F.col(ORDINAL).cast("long")]),
    )
    names = {
        "keyHash": f"{labels['key']} or topic" if topics else labels["key"],
        "phyOffset": labels["phy_offset"],
        "storeTimestamp": labels["store_timestamp"],
        **({} if ordinal is None else {ORDINAL: labels[ORDINAL]}),
    }
    return items, names


def check_type(role: str, kind: T.DataType, label: str) -> None:
    wanted: tuple[type[T.DataType], ...] = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
    if role in ("key", "topic"):
        wanted = (T.StringType,)
    elif role == "store_timestamp":
        wanted = (*wanted, T.TimestampType)
    if not isinstance(kind, wanted):
        names = ", ".join(each.__name__ for each in wanted)
        raise TypeError(f"{label}: one of {names} was expected, not {kind}")


def epoch_millis(name: str, kind: T.DataType) -> Column:
    return F.unix_millis(name) if isinstance(kind, T.TimestampType) else F.col(name).cast("long")


# ---- first pass: spill -----------------------------------------------------------------------------------


def spill_items(items: DataFrame, directory: Path, labels: dict[str, str]) -> list[Spill]:
    """Sort the items over all partitions, and write each partition to a spill file."""

    def spill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_spill(batches, directory / f"{attempt_name()}.spill", labels)
        if written is not None:
            yield pa.RecordBatch.from_pylist([written._asdict()])

    order = [name for name in ("phyOffset", ORDINAL) if name in items.columns]
    # A range exchange reads its input twice: the first pass finds the bounds of the ranges.
    items = items.persist()
    try:
        ordered = items.repartitionByRange(*order).sortWithinPartitions(*order)
        return [Spill(*row) for row in ordered.mapInArrow(spill, schema_of(Spill)).collect()]
    finally:
        items.unpersist()
