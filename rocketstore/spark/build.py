"""Building a directory of index files from a DataFrame.

    keyHash, phyOffset, storeTimestamp (pandas UDF) -> range exchange, sort -> spill files
    -> prefix sum on the driver -> one task for each index file -> rename

Index file k is made of the entries from k * M to (k + 1) * M of all spills, M = index_num - 1, and seeded
with the entry before those. No task depends on another, so any may be tried again.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rocketstore.config import DEFAULT_COMPAT, DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM, Compat
from rocketstore.files.index_file import IndexFile
from rocketstore.spark.lookup import hash_keys
from rocketstore.spark.spill import (
    ORDINAL,
    SPILL_SCHEMA,
    Slice,
    Spill,
    check_order,
    read_entries,
    slices_of,
    write_spill,
)
from rocketstore.store.index_service import index_file_name

__all__ = ["BuildReport", "write_index"]

SWEEPS = 5


@dataclass
class BuildReport:
    """What a build made: paths of index files, oldest first; the items in them; the seconds it took."""

    files: list[Path]
    items: int
    seconds: float

    def __repr__(self) -> str:
        where = f" in {str(self.files[0].parent)!r}" if self.files else ""
        return f"<BuildReport: {self.items:,} items, {len(self.files)} files{where}, {self.seconds:.1f} s>"


class IndexFilePlan(NamedTuple):
    """One index file to build: its name, its entries, and where the file before it ended."""

    name: str
    slices: list[Slice]
    items: int
    end_phy_offset: int
    end_timestamp: int


class Form(NamedTuple):
    """What all files of a build have in common."""

    hash_slot_num: int
    index_num: int
    compat: str


class Places(NamedTuple):
    """The directories of a build: spills; index files that tasks are at; and those that are done."""

    spills: Path
    attempts: Path
    files: Path


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
    """Build the index files of a DataFrame's rows, as one writer would that puts them by ``phy_offset``.

    The rows are read once. ``out`` and ``scratch`` must be the same directories for driver and workers. Each
    task maps one index file, and takes some 100 MB of memory beside it.

    Parameters
    ----------
    df : one row for each index item.
    out : the directory to make. It appears when it is complete; until then work is in a hidden one beside it.
    key : column of strings: the whole ``topic#key``, or the key alone if ``topic`` is given.
    phy_offset : column of integers, bytes in the commit log.
    store_timestamp : column of integers, epoch milliseconds, or of timestamps.
    topic : the topic itself as a str, or a Column of topics, folded in as ``topic#``.
    ordinal : column of integers that orders the rows of one ``phy_offset``; needed if there are such.
    hash_slot_num, index_num, compat : as for ``IndexFile.create``.
    tz : zone of the files' names, local times as a broker's, such as "Asia/Shanghai". Default: the driver's.
    scratch : where to spill 20 bytes a row; default: beside ``out``.

    Returns
    -------
    BuildReport.

    Raises
    ------
    FileExistsError : ``out`` is there and not an empty directory.
    ValueError : a null or a negative offset, with the name of its column; rows that ``phy_offset`` and
        ``ordinal`` do not order; a geometry, compat or tz that cannot be. Nothing is left behind.
    TypeError : a column of another type.

    Source: IndexFile.putKey for each row, and IndexService.getAndCreateLastIndexFile, except that a file is
    named by its first item's time and that no file follows a full one before it has an item.
    """
    started = time.perf_counter()
    out = Path(os.path.realpath(out))
    refuse_existing(out)
    form = checked_form(hash_slot_num, index_num, compat)
    zone = checked_zone(tz)
    items, labels = index_items(
        df, key=key, phy_offset=phy_offset, store_timestamp=store_timestamp, topic=topic, ordinal=ordinal
    )
    with working_places(out, scratch) as places:
        spills = check_order(spill_items(items, places.spills, labels), labels)
        plans = plan_files(spills, index_num - 1, zone)
        build_files(df.sparkSession, plans, form, places)
        publish(places.files, out)
    return BuildReport(
        [out / plan.name for plan in plans], sum(plan.items for plan in plans), time.perf_counter() - started
    )


# ---- arguments ---------------------------------------------------------------------------------------------


def refuse_existing(out: Path) -> None:
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise FileExistsError(errno.EEXIST, "is there already, and is not an empty directory", str(out))


def checked_form(hash_slot_num: int, index_num: int, compat: str) -> Form:
    Compat.of(compat)
    if hash_slot_num < 1 or index_num < 2:
        raise ValueError(f"hash_slot_num={hash_slot_num}, index_num={index_num}: at least 1 and 2 are needed")
    return Form(hash_slot_num, index_num, compat)


def checked_zone(tz: str | None) -> ZoneInfo | None:
    try:
        return None if tz is None else ZoneInfo(tz)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"tz={tz!r}: not a time zone, such as 'UTC' or 'Asia/Shanghai'") from error


def index_items(
    df: DataFrame, *, topic: str | Column | None, ordinal: str | Column | None, **required: str | Column
) -> tuple[DataFrame, dict[str, str]]:
    """Reduce a DataFrame to keyHash, phyOffset, storeTimestamp, ordinal; say what the caller calls these."""
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


# ---- first pass: spill -------------------------------------------------------------------------------------


def spill_items(items: DataFrame, directory: Path, labels: dict[str, str]) -> list[Spill]:
    """Sort the items over all partitions, and have each written to a spill file."""

    def spill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_spill(batches, directory / f"{attempt_name()}.spill", labels)
        if written is not None:
            yield pa.RecordBatch.from_pylist([written._asdict()])

    order = [name for name in ("phyOffset", ORDINAL) if name in items.columns]
    # A range exchange reads its input twice, first for the bounds of the ranges.
    items = items.persist()
    try:
        ordered = items.repartitionByRange(*order).sortWithinPartitions(*order)
        return [Spill(*row) for row in ordered.mapInArrow(spill, SPILL_SCHEMA).collect()]
    finally:
        items.unpersist()


def attempt_name() -> str:
    """Name this attempt of this task, as no other of the application is named."""
    context = TaskContext.get()
    assert context is not None
    return f"{context.partitionId():06}-{context.taskAttemptId()}"


# ---- the driver's part -------------------------------------------------------------------------------------


def plan_files(spills: list[Spill], capacity: int, zone: ZoneInfo | None) -> list[IndexFilePlan]:
    """Cut the entries of all spills into index files of ``capacity`` items, and name them."""
    plans: list[IndexFilePlan] = []
    total = sum(spill.items for spill in spills)
    for start in range(0, total, capacity):
        stop = min(start + capacity, total)
        before = entry(spills, start - 1) if start else (0, 0)
        _, first_timestamp = entry(spills, start)
        name = file_name(first_timestamp, zone, plans[-1].name if plans else "")
        plans.append(IndexFilePlan(name, slices_of(spills, start, stop), stop - start, *before))
    return plans


def entry(spills: list[Spill], ordinal: int) -> tuple[int, int]:
    """Read phyOffset and storeTimestamp of one entry of all spills together."""
    (found,) = read_entries(slices_of(spills, ordinal, ordinal + 1))
    return int(found["phyOffset"][0]), int(found["storeTimestamp"][0])


def file_name(timestamp: int, zone: ZoneInfo | None, last_name: str) -> str:
    """Name a file by its first item's time, and always after ``last_name``."""
    seconds, millis = divmod(timestamp, 1000)
    try:
        moment = datetime.fromtimestamp(seconds, zone).replace(microsecond=1000 * millis)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"store_timestamp {timestamp}: no file can be named by this time") from error
    if moment.year < 1000:
        raise ValueError(f"store_timestamp {timestamp}: no file can be named by a time before the year 1000")
    return index_file_name(moment, last_name)


# ---- second pass: build ------------------------------------------------------------------------------------


def build_files(spark: SparkSession, plans: list[IndexFilePlan], form: Form, places: Places) -> None:
    """Build each planned file in a task of its own."""
    if not plans:
        return

    def build(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            for number in frame["id"]:
                build_file(plans[number], form, places, attempt_name())
            yield frame

    numbers = spark.range(0, len(plans), 1, len(plans))
    built = numbers.mapInPandas(build, "id long").collect()
    if len(built) != len(plans):
        raise RuntimeError(f"{len(built)} of {len(plans)} index files were built")


def build_file(plan: IndexFilePlan, form: Form, places: Places, attempt: str) -> None:
    """Build one index file beside the others, and rename it when it is complete.

    A file that two attempts build has the same bytes twice: whichever is renamed last may stay.
    """
    temporary = places.attempts / f"{plan.name}-{attempt}"
    try:
        with IndexFile.create(
            temporary,
            hash_slot_num=form.hash_slot_num,
            index_num=form.index_num,
            end_phy_offset=plan.end_phy_offset,
            end_timestamp=plan.end_timestamp,
            compat=form.compat,
        ) as index:
            for entries in read_entries(plan.slices):
                index.put_key_hashes(entries["keyHash"], entries["phyOffset"], entries["storeTimestamp"])
            if len(index) != plan.items:
                raise RuntimeError(f"{temporary}: {len(index)} items put, where {plan.items} were planned")
        temporary.rename(places.files / plan.name)
    finally:
        temporary.unlink(missing_ok=True)


# ---- directories -------------------------------------------------------------------------------------------


@contextmanager
def working_places(out: Path, scratch: str | os.PathLike[str] | None) -> Iterator[Places]:
    """Make the directories of a build, hidden beside ``out`` and in ``scratch``; sweep them afterwards."""
    name = f".{out.name}.{uuid.uuid4().hex}"
    work = out.parent / name
    spills = work / "spills" if scratch is None else Path(os.path.realpath(scratch)) / name
    places = Places(spills, work / "attempts", work / "files")
    try:
        for place in places:
            place.mkdir(parents=True)
        yield places
    finally:
        sweep([work, spills])


def sweep(directories: Iterable[Path]) -> None:
    """Remove directories, also under an attempt that has not noticed yet that it is not needed."""
    for _ in range(SWEEPS):
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)


def publish(files: Path, out: Path) -> None:
    """Let the finished directory appear as ``out``."""
    try:
        files.rename(out)
    except OSError as error:
        refuse_existing(out)
        raise error
