"""What all builds have in common: their tasks, their directories, the making of index files; and write_index.

    keyHash, phyOffset, storeTimestamp (Arrow UDF) -> range exchange, sort -> spill files
    -> prefix sum on the driver -> one task for each index file -> rename

Index file k is made of the items from k * M to (k + 1) * M of all runs, M = index_num - 1, and seeded
with the item before those. No task depends on another, so any may be tried again.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rocketstore.compat import DEFAULT_COMPAT, Compat
from rocketstore.config import DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM
from rocketstore.disk.durable import sync_path
from rocketstore.disk.storage import local_path
from rocketstore.index.geometry import checked_geometry
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_file import IndexFile
from rocketstore.layout.places import lock_owner_of
from rocketstore.rebuild.files import name_index_files, zone_of
from rocketstore.spark.build.spill import (
    ENTRY,
    ORDINAL,
    Slice,
    Spill,
    check_order,
    read_entries,
    slices_of,
    write_spill,
)
from rocketstore.spark.build.task_files import read_task, write_tasks
from rocketstore.spark.lookup.udfs import hash_keys

__all__ = ["BuildReport", "write_index"]

SWEEPS = 5
SQL_TYPES = {int: "long", str: "string"}
Row = TypeVar("Row", bound=Any)


@dataclass
class BuildReport:
    """What a build made: paths of files, oldest first; the items, or units, in them; the seconds it took."""

    files: list[Path]
    items: int
    seconds: float

    def __repr__(self) -> str:
        where = f" in {os.path.commonpath([path.parent for path in self.files])!r}" if self.files else ""
        return f"<BuildReport: {self.items:,} items, {len(self.files)} files{where}, {self.seconds:.1f} s>"


class Form(NamedTuple):
    """What all files of an index have in common."""

    hash_slot_num: int
    index_num: int
    compat: str


class Places(NamedTuple):
    """The directories of a build: all of it; spills; files that tasks are at; and those that are done."""

    work: Path
    spills: Path
    attempts: Path
    files: Path


class Built(NamedTuple):
    """What a task made."""

    number: int
    items: int


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
    TypeError : a column of another type, a geometry that is no integer.

    Source: IndexFile.putKey for each row, and IndexService.getAndCreateLastIndexFile, except that a file is
    named by its first item's time and that no file follows a full one before it has an item.
    """
    started = time.perf_counter()
    out = new_place(out)
    form = checked_form(hash_slot_num, index_num, compat)
    zone = zone_of(tz)
    items, labels = index_items(
        df, key=key, phy_offset=phy_offset, store_timestamp=store_timestamp, topic=topic, ordinal=ordinal
    )
    with working_places(out, scratch) as places:
        spills = check_order(spill_items(items, places.spills, labels), labels)
        plans = plan_files([spill.run for spill in spills], form.index_num - 1)
        count = build_files(df.sparkSession, plans, read_entries, form, places)
        publish_index(places, out, zone)
    return BuildReport(index_paths(out), count, time.perf_counter() - started)


# ---- arguments ---------------------------------------------------------------------------------------------


def new_place(path: str | os.PathLike[str]) -> Path:
    """Give the place of a directory to make. Raises: FileExistsError; io.UnsupportedOperation if it is remote."""
    place = real_path(path)
    refuse_existing(place)
    return place


def real_path(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(local_path(path)))


def refuse_existing(out: Path) -> None:
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise FileExistsError(errno.EEXIST, "is there already, and is not an empty directory", str(out))


def checked_form(hash_slot_num: int, index_num: int, compat: str) -> Form:
    Compat.of(compat)
    return Form(*checked_geometry(hash_slot_num, index_num), compat)


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
        return [Spill(*row) for row in ordered.mapInArrow(spill, schema_of(Spill)).collect()]
    finally:
        items.unpersist()


# ---- tasks -------------------------------------------------------------------------------------------------


def run(
    spark: SparkSession, task: Callable[[int, str], Iterable[Row]], count: int, row_type: type[Row]
) -> list[Row]:
    """Call ``task`` with each number below ``count`` and the attempt's name, in a Spark task each.

    Returns: the rows, tuples of ``row_type``, that these calls give, in the order of the numbers.
    """

    def run_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                rows = [row._asdict() for row in task(number, attempt_name())]
                if rows:
                    yield pa.RecordBatch.from_pylist(rows)

    if not count:
        return []
    rows = spark.range(0, count, 1, count).mapInArrow(run_numbers, schema_of(row_type)).collect()
    return [row_type(*row) for row in rows]


def schema_of(row_type: type[Any]) -> str:
    return ", ".join(f"{name} {SQL_TYPES[kind]}" for name, kind in get_type_hints(row_type).items())


def attempt_name() -> str:
    """Name this attempt of this task, as no other of the application is named; outside of a task, as no other."""
    context = TaskContext.get()
    if context is None:
        return f"driver-{uuid.uuid4().hex}"
    return f"{context.partitionId():06}-{context.taskAttemptId()}"


def run_all(spark: SparkSession, make: Callable[[int, str], int], count: int) -> int:
    """Call ``make`` as ``run`` does; it gives how many items it made. Returns: all items.

    Raises: RuntimeError unless all tasks are done.
    """

    def build(number: int, attempt: str) -> Iterator[Built]:
        yield Built(number, make(number, attempt))

    built = run(spark, build, count, Built)
    if [one.number for one in built] != list(range(count)):
        raise RuntimeError(f"{len(built)} of {count} tasks are done")
    return sum(one.items for one in built)


# ---- index files -------------------------------------------------------------------------------------------


def plan_files(runs: Sequence[Any], capacity: int, *, is_followed: bool = False) -> list[list[Slice]]:
    """Cut the items of all runs into index files of ``capacity`` items, each with the last item before it.

    Parameters: is_followed: a message without items comes after them: it opens a file if it finds none with room.
    """
    total = sum(run.items for run in runs)
    count = -(-total // capacity) + (is_followed and total % capacity == 0)
    bounds = ((max(k * capacity - 1, 0), min((k + 1) * capacity, total)) for k in range(count))
    return list(slices_of(runs, bounds))


def build_files(
    spark: SparkSession,
    plans: list[list[Slice]],
    read: Callable[[list[Slice]], Iterator[np.ndarray]],
    form: Form,
    places: Places,
) -> int:
    """Build each planned file in a task of its own. Returns: the items in them."""
    directory = places.work / "index-tasks"
    count = write_tasks(directory, plans)

    def build(number: int, attempt: str) -> int:
        return build_file(number, read_task(directory, number), read, form, places, attempt)

    return run_all(spark, build, count)


def build_file(
    number: int,
    slices: list[Slice],
    read: Callable[[list[Slice]], Iterator[np.ndarray]],
    form: Form,
    places: Places,
    attempt: str,
) -> int:
    """Build one index file beside the others, and rename it when it is complete. Returns: the items in it.

    A file that two attempts build has the same bytes twice: whichever is renamed last may stay.
    Parameters: read: gives the items of slices in blocks, none of them empty, with the fields of ENTRY.
    """
    name = f"{number:020}"
    temporary = places.attempts / f"{name}-{attempt}"
    blocks = read(slices)
    first = next(blocks, np.empty(0, ENTRY))
    before, first = first[: number > 0], first[number > 0 :]
    try:
        with IndexFile.create(
            temporary,
            hash_slot_num=form.hash_slot_num,
            index_num=form.index_num,
            end_phy_offset=int(before["phy_offset"].sum()),
            end_timestamp=int(before["store_timestamp"].sum()),
            compat=form.compat,
        ) as index:
            for items in itertools.chain([first], blocks):
                index.put_key_hashes(items["key_hash"], items["phy_offset"], items["store_timestamp"])
            planned = sum(stop - start for _, start, stop in slices) - len(before)
            if len(index) != planned:
                raise RuntimeError(f"{temporary}: {len(index)} items put, where {planned} were planned")
        temporary.rename(places.files / name)
    finally:
        temporary.unlink(missing_ok=True)
    return planned


def publish_index(places: Places, out: Path, zone: ZoneInfo | None) -> None:
    """Give the index files their names, and let their directory appear as ``out``."""
    done, named = places.work / "done", places.work / "index"
    places.files.rename(done)  # an attempt that ends now finds no place for its file
    name_index_files(done, named, zone)
    publish(named, out)


# ---- directories -------------------------------------------------------------------------------------------


@contextmanager
def working_places(out: Path, scratch: str | os.PathLike[str] | None) -> Iterator[Places]:
    """Make the directories of a build, hidden beside ``out`` and in ``scratch``; sweep them afterwards."""
    name = f".{out.name}.{uuid.uuid4().hex}"
    work = out.parent / name
    spills = work / "spills" if scratch is None else real_path(scratch) / name
    places = Places(work, spills, work / "attempts", work / "files")
    try:
        with lock_owner_of(out):
            for place in places:
                place.mkdir(parents=True, exist_ok=True)
            yield places
    finally:
        sweep([work, spills])


def sweep(directories: Iterable[Path]) -> None:
    """Remove directories, also under an attempt that has not noticed yet that it is not needed."""
    for _ in range(SWEEPS):
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)


def publish(files: Path, out: Path) -> None:
    """Let the finished directory appear as ``out``, with all names in it on the disk."""
    for directory in (files, *(path for path in files.rglob("*") if path.is_dir())):
        sync_path(directory)
    try:
        files.rename(out)
    except OSError as error:
        refuse_existing(out)
        raise error
    sync_path(out.parent)
