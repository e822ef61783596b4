"""Spill files: the items of an index in order, 20 bytes each, between the two passes of a build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

__all__ = ["ENTRY", "ORDINAL", "Slice", "Spill", "check_order", "read_entries", "slices_of", "write_spill"]

ENTRY = np.dtype([("keyHash", "<i4"), ("phyOffset", "<i8"), ("storeTimestamp", "<i8")])
ORDINAL = "ordinal"
# Entries read at once: enough that IndexFile takes the first block of a full-size file in its stream form.
BLOCK = 1 << 20


class Spill(NamedTuple):
    """What one partition wrote: (phyOffset, ordinal) of its first and last entry; and a problem, or ""."""

    path: str
    items: int
    first_phy_offset: int
    first_ordinal: int
    last_phy_offset: int
    last_ordinal: int
    problem: str

    @property
    def first(self) -> tuple[int, int]:
        return self.first_phy_offset, self.first_ordinal

    @property
    def last(self) -> tuple[int, int]:
        return self.last_phy_offset, self.last_ordinal


SPILL_SCHEMA = (
    "path string, items long, first_phy_offset long, first_ordinal long, "
    "last_phy_offset long, last_ordinal long, problem string"
)


class Slice(NamedTuple):
    """The entries of a spill file from ``start`` to before ``stop``."""

    path: str
    start: int
    stop: int


# ---- writing -----------------------------------------------------------------------------------------------


def write_spill(batches: Iterable[pa.RecordBatch], path: Path, labels: dict[str, str]) -> Spill | None:
    """Write one sorted partition.

    Parameters: batches: columns keyHash, phyOffset, storeTimestamp and, if there are any, ordinal, sorted by
    (phyOffset, ordinal). labels: what the caller calls each column.
    Returns: None if there is no row. With a problem, which names its column, the file is not complete.
    """
    items, first, last, problem = 0, None, None, ""
    with path.open("xb") as file:
        for batch in batches:
            # All batches are read in any case: Spark logs an error when a task leaves some.
            if problem or batch.num_rows == 0:
                continue
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
    """Say why a batch that follows the entry ``last`` cannot be indexed, "" if it can."""
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
    for name in ENTRY.names or ():
        entries[name] = batch.column(name).to_numpy()
    return entries


# ---- reading -----------------------------------------------------------------------------------------------


def check_order(spills: Iterable[Spill], labels: dict[str, str]) -> list[Spill]:
    """Put the spills of all partitions in order.

    Raises: ValueError for what a partition could not index, and for a tie between two neighbours.
    """
    spills = list(spills)
    for spill in spills:
        if spill.problem:
            raise ValueError(spill.problem)
    spills.sort(key=lambda spill: spill.first)
    for before, after in pairwise(spills):
        if before.last == after.first:
            raise ValueError(describe_tie(*after.first, labels))
    return spills


def slices_of(spills: Iterable[Spill], start: int, stop: int) -> list[Slice]:
    """Find the entries from ``start`` to ``stop`` of all spills together."""
    slices, base = [], 0
    for spill in spills:
        low, high = max(start - base, 0), min(stop - base, spill.items)
        if low < high:
            slices.append(Slice(spill.path, low, high))
        base += spill.items
    return slices


def read_entries(slices: Iterable[Slice]) -> Iterator[np.ndarray]:
    """Read slices, one after another, in blocks of ENTRY.

    Raises: FileNotFoundError, OSError if a spill file is not what was written.
    """
    for path, start, stop in slices:
        for at in range(start, stop, BLOCK):
            end = min(at + BLOCK, stop)
            entries = np.fromfile(path, ENTRY, end - at, offset=at * ENTRY.itemsize)
            if len(entries) < end - at:
                raise OSError(f"{path}: ends after {at + len(entries)} entries, where {stop} were written")
            yield entries
