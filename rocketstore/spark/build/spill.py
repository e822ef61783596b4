"""Write and read spill files. They hold ordered entries between the two passes of a build, 20 bytes for an item."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rocketstore.messages.arrow_import import check_buffers

ENTRY = np.dtype([("key_hash", "<i4"), ("phy_offset", "<i8"), ("store_timestamp", "<i8")])
COLUMNS = ("keyHash", "phyOffset", "storeTimestamp")
ORDINAL = "ordinal"
# Entries to read at once. The first block is large enough for the streaming put of IndexFile.
BLOCK = 1 << 20


class Spill(NamedTuple):
    """The spill file of one partition.

    Attributes: first_..., last_...: of its first and its last entry. problem: why the rows cannot be indexed, or "".
    """

    path: str
    items: int
    first_phy_offset: int
    first_ordinal: int
    last_phy_offset: int
    last_ordinal: int
    problem: str

    @property
    def run(self) -> Run:
        return Run(self.path, 0, self.items)

    @property
    def first(self) -> tuple[int, int]:
        return self.first_phy_offset, self.first_ordinal

    @property
    def last(self) -> tuple[int, int]:
        return self.last_phy_offset, self.last_ordinal


class Run(NamedTuple):
    """Entries in a file. Attributes: start: the number of the first entry, from 0. items: the number of entries."""

    path: str
    start: int
    items: int


class Slice(NamedTuple):
    """The items of a run from ``start`` to before ``stop``. Attributes: run: a ``Run``, or any type with ``items``."""

    run: Any
    start: int
    stop: int


# ---- writing ---------------------------------------------------------------------------------------------


def write_spill(batches: Iterable[pa.RecordBatch], path: Path, labels: dict[str, str]) -> Spill | None:
    """Write one sorted partition.

    Parameters: batches: columns keyHash, phyOffset, storeTimestamp and perhaps ordinal, sorted by (phyOffset, ordinal).
    labels: the caller's name of each column.
    Returns: None without rows. If the result has a problem, the file is incomplete.
    """
    items, first, last, problem = 0, None, None, ""
    with path.open("xb") as file:
        for batch in batches:
            # Read all batches even after a problem. Otherwise Spark logs an error.
            if problem or batch.num_rows == 0:
                continue
            check_buffers(batch, pa, full=False)
            problem = find_problem(batch, last, labels)
            items += batch.num_rows
            if not problem:
                entries_of(batch).tofile(file)
                offsets, ordinals = order_of(batch)
                first = first or (int(offsets[0]), int(ordinals[0]))
                last = int(offsets[-1]), int(ordinals[-1])
    if items == 0:
        path.unlink()
        return None
    return Spill(str(path), items, *(first or (0, 0)), *(last or (0, 0)), problem)


def find_problem(batch: pa.RecordBatch, last: tuple[int, int] | None, labels: dict[str, str]) -> str:
    """Return why a batch after the entry ``last`` cannot be indexed; "" if it can be."""
    for name in batch.schema.names:
        if batch.column(name).null_count:
            return f"{labels[name]} has nulls"
    offsets, ordinals = order_of(batch)
    if offsets[0] < 0:
        return f"{labels['phyOffset']} is negative: {offsets[0]}"
    if last is not None:
        offsets, ordinals = np.append(last[0], offsets), np.append(last[1], ordinals)
    ties = (offsets[1:] == offsets[:-1]) & (ordinals[1:] == ordinals[:-1])
    if not ties.any():
        return ""
    row = int(ties.argmax())
    return describe_tie(int(offsets[row]), int(ordinals[row]), labels)


def describe_tie(phy_offset: int, ordinal: int, labels: dict[str, str]) -> str:
    if ORDINAL in labels:
        return f"two rows have {phy_offset} in {labels['phyOffset']} and {ordinal} in {labels[ORDINAL]}"
    return (
        f"two rows have {phy_offset} in {labels['phyOffset']}: "
        "give ordinal=, a column that orders the keys of a message"
    )


def order_of(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    offsets = batch.column("phyOffset").to_numpy()
    if ORDINAL in batch.schema.names:
        return offsets, batch.column(ORDINAL).to_numpy()
    return offsets, np.zeros(len(offsets), np.int64)


def entries_of(batch: pa.RecordBatch) -> np.ndarray:
    entries = np.empty(batch.num_rows, ENTRY)
    for field, column in zip(ENTRY.names or (), COLUMNS, strict=True):
        entries[field] = batch.column(column).to_numpy()
    return entries


# ---- reading ---------------------------------------------------------------------------------------------


def check_order(spills: Iterable[Spill], labels: dict[str, str]) -> list[Spill]:
    """Return the spills of all partitions in order.

    Raises: ValueError if a spill has a problem, or if two spills overlap.
    """
    spills = list(spills)
    for spill in spills:
        if spill.problem:
            raise ValueError(spill.problem)
    spills.sort(key=lambda spill: spill.first)
    for before, after in pairwise(spills):
        if before.last == after.first:
            raise ValueError(describe_tie(*after.first, labels))
        if before.last > after.first:  # Spark computed some rows again, with another result
            span = f"{labels['phyOffset']} from {after.first_phy_offset} to {before.last_phy_offset}"
            raise ValueError(f"{span} is in two partitions: the DataFrame has other rows each time that it is read")
    return spills


def slices_of(runs: Sequence[Any], bounds: Iterable[tuple[int, int]]) -> Iterator[list[Slice]]:
    """Yield, for each pair of bounds, the slices of the items between them. Items of all runs are counted together."""
    ends = np.cumsum([run.items for run in runs], dtype=np.int64).tolist()
    for start, stop in bounds:
        slices = []
        for number in range(bisect_right(ends, start), len(ends)):
            run, base = runs[number], ends[number] - runs[number].items
            if base >= stop:
                break
            if run.items:
                slices.append(Slice(run, max(start - base, 0), min(stop - base, run.items)))
        yield slices


def read_entries(slices: Iterable[Slice], dtype: np.dtype[np.void] = ENTRY) -> Iterator[np.ndarray]:
    """Yield the entries of slices in blocks. Raises: OSError if a spill file is missing or too short."""
    for run, start, stop in slices:
        for at in range(run.start + start, run.start + stop, BLOCK):
            end = min(at + BLOCK, run.start + stop)
            entries = np.fromfile(run.path, dtype, end - at, offset=at * dtype.itemsize)
            if len(entries) < end - at:
                raise OSError(f"{run.path}: ends after {at + len(entries)} entries, where {end} were written")
            yield entries
