"""Build the index of a store from its commit log: count items, sum them up, and build each file in one task."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from rocketstore.config import StoreConfig
from rocketstore.disk.storage import is_remote, to_path
from rocketstore.dispatch.request_chunks import RequestChunk, RequestChunks
from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_directory import index_paths
from rocketstore.rebuild.build import Build
from rocketstore.rebuild.rebuild import Rebuilder, RebuildOptions
from rocketstore.recovery.settings import warn_of
from rocketstore.spark.build.directories import BuildReport, new_place, working_directories
from rocketstore.spark.build.index_files import IndexForm, build_files, plan_files, publish_index
from rocketstore.spark.build.spill import ENTRY, Slice, read_entries
from rocketstore.spark.build.splits import LogReader, SplitPlan, read_log
from rocketstore.survey.requirements import begin_entry
from rocketstore.text_values import find_time_zone

MODES = ("auto", "rescan", "spill")


class ItemRun(NamedTuple):
    """The items of a part of the log.

    Attributes: begin, end: physical offsets of the part. items: their number. last_phy_offset: of the last record;
    last_item_offset: of the last record with an item; -1 without one. path: of the spill file, or "". start: the number
    of the first item in the spill file.
    """

    begin: int
    end: int
    items: int
    last_phy_offset: int
    last_item_offset: int
    path: str
    start: int


def build_index(
    spark: SparkSession,
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    mode: str = "auto",
    scratch: str | os.PathLike[str] | None = None,
    config: StoreConfig | None = None,
    tz: str | None = None,
) -> BuildReport:
    """Build the index of a store from its commit log. The files are those of ``rebuild``. The store is only read.

    All workers must be able to read the log. ``out`` and ``scratch`` must be the same directories for driver and
    workers. Each task maps one index file.

    Parameters
    ----------
    store : the root of the store, or its URI. No broker and no rocketstore may write to it meanwhile.
    out : the new directory of index files. It appears when it is complete. Until then the files are in a hidden
        directory beside it.
    mode : "rescan" reads the log twice. "spill" reads it once, and writes 20 bytes for each item to ``scratch``. "auto"
        chooses "spill" for a remote log, and otherwise "rescan".
    scratch : directory for the spill files. Default: beside ``out``.
    config, tz : as for ``rebuild``.

    Returns
    -------
    BuildReport.

    Raises
    ------
    FileExistsError : ``out`` exists and is not an empty directory.
    ValueError : an unknown size, mode or tz; a configuration that turns the index off.
    CorruptFileError : the log is damaged before its tail.
    StoreLockedError, StoreError, OSError.

    After an error, no file of the build remains.

    Source: IndexService.buildIndex for each message.
    """
    started = time.perf_counter()
    out = new_place(out)
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}: must be one of {', '.join(map(repr, MODES))}")
    if mode == "auto":
        mode = "spill" if is_remote(to_path(store)) else "rescan"
    options = RebuildOptions(zone=find_time_zone(tz))
    survey = begin_entry("spark build_index", store, config)
    rebuilder = Rebuilder.of(survey, Build(False, True, None, False), options)
    sizes = rebuilder.config
    form = IndexForm(IndexGeometry(sizes.max_hash_slot_num, sizes.max_index_num), sizes.compat)
    opened, repair = rebuilder.open_log(last_file=True)
    with opened.log, working_directories(out, scratch) as directories:
        reader = LogReader(opened.log, sizes, opened.log.min_phy_offset, repair.end)

        def spill(reader: LogReader, chunks: RequestChunks, attempt: str) -> Iterator[ItemRun]:
            yield from spill_items(chunks, directories.spills / f"{attempt}.spill")

        def count_split(reader: LogReader, chunks: RequestChunks, attempt: str) -> Iterator[ItemRun]:
            return count_items(chunks)

        read = spill if mode == "spill" else count_split
        runs = read_log(spark, reader, read, ItemRun, directories.work / "split-tasks")
        last_item = max((run.last_item_offset for run in runs), default=-1)
        is_followed = any(run.last_phy_offset > last_item for run in runs)
        plans = plan_files(runs, form.geometry.index_num - 1, is_followed=is_followed)
        if mode == "rescan":
            plans = [planned(reader, spanned(plan)) for plan in plans]
        items = build_files(spark, plans, read_entries if mode == "spill" else rescan, form, directories)
        publish_index(directories, out, options.zone)
    notes = warn_of(rebuilder.unreadable, rebuilder.root)
    return BuildReport(index_paths(out), items, time.perf_counter() - started, notes)


def count_items(chunks: RequestChunks) -> Iterator[ItemRun]:
    """Yield the run of each chunk, without a spill file."""
    return map(run_of, chunks)


def spill_items(chunks: RequestChunks, path: Path) -> Iterator[ItemRun]:
    """Write the items of all chunks to one file. Yield their run."""
    runs = []
    with path.open("xb") as file:
        for chunk in chunks:
            entries = np.empty(len(chunk.items), ENTRY)
            for name in ENTRY.names or ():
                entries[name] = chunk.items[name]
            entries.tofile(file)
            runs.append(run_of(chunk))
    if runs:
        _, _, items, last_phy_offsets, last_item_offsets, _, _ = zip(*runs, strict=True)
        last = max(last_phy_offsets), max(last_item_offsets)
        yield ItemRun(runs[0].begin, runs[-1].end, sum(items), *last, str(path), 0)


def run_of(chunk: RequestChunk) -> ItemRun:
    last_phy_offset = -1 if chunk.last is None else chunk.last[0]
    last_item_offset = int(chunk.items["phy_offset"][-1]) if len(chunk.items) else -1
    return ItemRun(chunk.begin, chunk.end, len(chunk.items), last_phy_offset, last_item_offset, "", 0)


def spanned(slices: list[Slice]) -> list[Slice]:
    """Merge the slices of a file into one slice for ``scan_items``, since a file may have thousands of slices."""
    if not slices:
        return []
    (first, start, _), last = slices[0], slices[-1].run
    run = first._replace(end=last.end, items=sum(run.items for run, _, _ in slices))
    return [Slice(run, start, start + sum(stop - begin for _, begin, stop in slices))]


class PlannedRun(NamedTuple):
    """A part of the log that a task reads again. Attributes: begin, end: physical offsets. items: their number."""

    begin: int
    end: int
    items: int
    plan: SplitPlan


def planned(reader: LogReader, slices: list[Slice]) -> list[Slice]:
    """Return the slices of a file, each with the plan of the log that a task needs to read it."""
    return [
        one._replace(run=PlannedRun(one.run.begin, one.run.end, one.run.items, reader.plan(one.run.begin, one.run.end)))
        for one in slices
    ]


def rescan(slices: list[Slice]) -> Iterator[np.ndarray]:
    """Read the items of planned slices from the log again."""
    if slices:
        reader = slices[0].run.plan.open()
        with reader.log:
            yield from scan_items(reader, slices)


def scan_items(reader: LogReader, slices: list[Slice]) -> Iterator[np.ndarray]:
    """Read the items of contiguous slices from the log again."""
    if not slices:
        return
    skip, left = slices[0].start, sum(stop - start for _, start, stop in slices)
    for chunk in reader.chunks(slices[0].run.begin, slices[-1].run.end):
        items = chunk.items[skip : skip + left]
        skip = max(skip - len(chunk.items), 0)
        left -= len(items)
        if len(items):
            yield items
