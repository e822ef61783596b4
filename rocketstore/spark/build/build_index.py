"""Building a store's index from its commit log: count, prefix sum, one task for each index file."""

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
from rocketstore.index.index_directory import index_paths
from rocketstore.rebuild.build import Build
from rocketstore.rebuild.rebuild import Rebuilder
from rocketstore.spark.build.spill import ENTRY, Slice, read_entries
from rocketstore.spark.build.splits import LogReader, SplitPlan, read_log
from rocketstore.spark.build.write_index import (
    BuildReport,
    Form,
    build_files,
    new_place,
    plan_files,
    publish_index,
    working_places,
)

__all__ = ["build_index"]

MODES = ("auto", "rescan", "spill")


class ItemRun(NamedTuple):
    """What a part of the log gives to the index: where its records begin and end; how many items.

    last_phy_offset: of the last record; last_item_offset: of the last that has an item; -1 if there is none.
    path, start: of the spill file, if there is one, and where the items begin there.
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
    """Build the index of a store from its commit log, file for file as ``rebuild`` does. The store is only read.

    The log must be where all workers can read it, ``out`` and ``scratch`` the same directories for all. A task maps
    one index file.

    Parameters
    ----------
    store : the root of the store, or its URI, which no broker and no rocketstore may be writing.
    out : the directory of index files to make. It appears when it is complete; until then work is in a hidden one
        beside it.
    mode : "rescan" reads the log twice, "spill" once, and writes 20 bytes an item to ``scratch``; "auto" rescans a
        log that is in files of this machine.
    scratch : where to spill; default: beside ``out``.
    config, tz : as for ``rebuild``.

    Returns
    -------
    BuildReport.

    Raises
    ------
    FileExistsError : ``out`` is there and not an empty directory.
    ValueError : a size, mode or tz that cannot be or is not known; an index that the configuration turns off.
    CorruptFileError : the log is damaged before its tail. StoreLockedError, StoreError, OSError. Nothing is left.

    Source: IndexService.buildIndex for each message.
    """
    started = time.perf_counter()
    out = new_place(out)
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}: must be one of {', '.join(map(repr, MODES))}")
    if mode == "auto":
        mode = "spill" if is_remote(to_path(store)) else "rescan"
    rebuilder = Rebuilder.of(store, Build(False, True, None, False), config, tz=tz)
    sizes = rebuilder.config
    form = Form(sizes.max_hash_slot_num, sizes.max_index_num, sizes.compat)
    opened, repair = rebuilder.open_log(last_file=True)
    with opened.log, working_places(out, scratch) as places:
        reader = LogReader(opened.log, sizes, opened.log.min_phy_offset, repair.end)

        def spill(reader: LogReader, pieces: RequestChunks, attempt: str) -> Iterator[ItemRun]:
            yield from spill_items(pieces, places.spills / f"{attempt}.spill")

        def count_split(reader: LogReader, pieces: RequestChunks, attempt: str) -> Iterator[ItemRun]:
            return count_items(pieces, attempt)

        read = spill if mode == "spill" else count_split
        runs = read_log(spark, reader, read, ItemRun, places.work / "split-tasks")
        last_item = max((run.last_item_offset for run in runs), default=-1)
        is_followed = any(run.last_phy_offset > last_item for run in runs)
        plans = plan_files(runs, form.index_num - 1, is_followed=is_followed)
        if mode == "rescan":
            plans = [planned(reader, spanned(plan)) for plan in plans]
        count = build_files(spark, plans, read_entries if mode == "spill" else rescan, form, places)
        publish_index(places, out, rebuilder.zone)
    return BuildReport(index_paths(out), count, time.perf_counter() - started)


def count_items(pieces: RequestChunks, attempt: str) -> Iterator[ItemRun]:
    """Count the items of each piece."""
    return map(run_of, pieces)


def spill_items(pieces: RequestChunks, path: Path) -> Iterator[ItemRun]:
    """Write the items of all pieces to one file."""
    runs = []
    with path.open("xb") as file:
        for piece in pieces:
            entries = np.empty(len(piece.items), ENTRY)
            for name in ENTRY.names or ():
                entries[name] = piece.items[name]
            entries.tofile(file)
            runs.append(run_of(piece))
    if runs:
        _, _, items, last_phy_offsets, last_item_offsets, _, _ = zip(*runs, strict=True)
        last = max(last_phy_offsets), max(last_item_offsets)
        yield ItemRun(runs[0].begin, runs[-1].end, sum(items), *last, str(path), 0)


def run_of(piece: RequestChunk) -> ItemRun:
    last_phy_offset = -1 if piece.last is None else piece.last[0]
    last_item_offset = int(piece.items["phy_offset"][-1]) if len(piece.items) else -1
    return ItemRun(piece.begin, piece.end, len(piece.items), last_phy_offset, last_item_offset, "", 0)


def spanned(slices: list[Slice]) -> list[Slice]:
    """Merge the slices of a file into one, for ``scan_items``, since a log has many pieces."""
    if not slices:
        return []
    (first, start, _), last = slices[0], slices[-1].run
    run = first._replace(end=last.end, items=sum(run.items for run, _, _ in slices))
    return [Slice(run, start, start + sum(stop - begin for _, begin, stop in slices))]


class PlannedRun(NamedTuple):
    """A part of the log that a task reads again. Attributes: begin, end: physical offsets; items: how many it has."""

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
    """Read the items of slices, which follow each other, from the log again."""
    if not slices:
        return
    skip, left = slices[0].start, sum(stop - start for _, start, stop in slices)
    for piece in reader.chunks(slices[0].run.begin, slices[-1].run.end):
        items = piece.items[skip : skip + left]
        skip = max(skip - len(piece.items), 0)
        left -= len(items)
        if len(items):
            yield items
