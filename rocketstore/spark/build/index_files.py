"""Build index files in Spark tasks, one file in each task.

Index file k gets the items from k * M to (k + 1) * M of all runs, where M = index_num - 1. The file also needs the item
before these, for its header. No task depends on another one, so that each can be repeated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_file import IndexFile
from rocketstore.rebuild.files import name_index_files
from rocketstore.spark.build.directories import BuildDirectories, publish
from rocketstore.spark.build.spill import ENTRY, Slice, slices_of
from rocketstore.spark.build.tasks import read_task, run_all, write_tasks


class IndexForm(NamedTuple):
    """The properties that all files of an index share. Attributes: compat: the RocketMQ release to write as."""

    geometry: IndexGeometry
    compat: str


def plan_files(runs: Sequence[Any], capacity: int, *, is_followed: bool = False) -> list[list[Slice]]:
    """Return the slices of each index file: its items, and the item before them.

    Parameters: runs: in order; each has ``items``, its number of items. capacity: items of a file. is_followed: whether
    a message without items follows the last item. That message begins a new file if the last file is full.
    """
    total = sum(run.items for run in runs)
    count = -(-total // capacity) + (is_followed and total % capacity == 0)
    bounds = ((max(k * capacity - 1, 0), min((k + 1) * capacity, total)) for k in range(count))
    return list(slices_of(runs, bounds))


def build_files(
    spark: SparkSession,
    plans: list[list[Slice]],
    read: Callable[[list[Slice]], Iterator[np.ndarray]],
    form: IndexForm,
    directories: BuildDirectories,
) -> int:
    """Build each planned file in a task of its own. Return the number of items in all files."""
    directory = directories.work / "index-tasks"
    count = write_tasks(directory, plans)

    def build(number: int, attempt: str) -> int:
        return build_file(number, read_task(directory, number), read, form, directories, attempt)

    return run_all(spark, build, count)


def build_file(
    number: int,
    slices: list[Slice],
    read: Callable[[list[Slice]], Iterator[np.ndarray]],
    form: IndexForm,
    directories: BuildDirectories,
    attempt: str,
) -> int:
    """Build one index file under a temporary name, and rename it when it is complete. Return its number of items.

    Two attempts of one task write the same bytes, so that the second rename does no harm.

    Parameters: read: returns the items of slices in blocks with the fields of ENTRY. No block is empty.
    """
    name = f"{number:020}"
    temporary = directories.attempts / f"{name}-{attempt}"
    blocks = read(slices)
    first = next(blocks, np.empty(0, ENTRY))
    before, first = first[: number > 0], first[number > 0 :]
    try:
        with IndexFile.create(
            temporary,
            hash_slot_num=form.geometry.hash_slot_num,
            index_num=form.geometry.index_num,
            end_phy_offset=int(before["phy_offset"].sum()),
            end_timestamp=int(before["store_timestamp"].sum()),
            compat=form.compat,
        ) as index:
            for items in itertools.chain([first], blocks):
                index.put_key_hashes(items["key_hash"], items["phy_offset"], items["store_timestamp"])
            planned = sum(stop - start for _, start, stop in slices) - len(before)
            if len(index) != planned:
                raise RuntimeError(f"{temporary}: {len(index)} items put, where {planned} were planned")
        temporary.rename(directories.files / name)
    finally:
        temporary.unlink(missing_ok=True)
    return planned


def publish_index(directories: BuildDirectories, out: Path, zone: tzinfo | None) -> None:
    """Give the index files their names, and rename their directory to ``out``."""
    finished, named = directories.work / "done", directories.work / "named"
    directories.files.rename(finished)  # late attempts can no longer add files
    name_index_files(finished, named, zone)
    publish(named, out)
