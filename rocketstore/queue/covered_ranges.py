"""Find the ranges of the commit log in which every byte is in a record to which a unit leads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rocketstore.disk.ranges import merge_ranges
from rocketstore.limits import LONG_MAX
from rocketstore.queue.queue_source import StoredQueue, offset_range, read_units_between

UNITS_AT_ONCE = 1 << 20
PARTS, MIN_PART = 1024, 1 << 12  # parts of the log that are judged, about; bytes of a part at least


def find_covered_ranges(queues: Iterable[StoredQueue], files: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges of the log in which each record has exactly one unit, physical offsets, ascending.

    A range is left out, although all its records may have units, if other bytes are in the same part of the log.

    Parameters: queues: all queues whose units lead to records of their own. files: where the files of the log begin and
    end, physical offsets. Raises: OSError; StoreError.
    """
    parts = _Parts(files)
    for queue in queues:
        for units in read_units_between(queue, *offset_range(queue), UNITS_AT_ONCE):
            if not parts.add(units.phy_offsets, units.sizes):
                return []
    return parts.find_covered()


class _Parts:
    """Parts of the log, each within one file. A record belongs to the part in which it begins.

    The records of a part follow each other without gap or overlap if the set of their begins with the end of the last
    one, and the set of their ends with the begin of the first one, are equal. The sums of a hash of both are compared.
    """

    def __init__(self, files: Sequence[tuple[int, int]]) -> None:
        size = max(sum(end - begin for begin, end in files) // PARTS, MIN_PART)
        edges = [np.arange(begin, end, size, dtype=np.int64) for begin, end in files]
        self._edges = np.concatenate([*edges, [files[-1][1]]]) if files else np.zeros(1, np.int64)
        count = len(self._edges) - 1
        self._sums = np.zeros(count, np.uint64)
        self._begins = np.full(count, LONG_MAX, np.int64)
        self._ends = np.zeros(count, np.int64)

    def add(self, begins: np.ndarray, sizes: np.ndarray) -> bool:
        """Add the records of a queue, int64[n] and int32[n]. Return False, and add nothing, if they do not ascend."""
        if (sizes <= 0).any() or (begins[1:] <= begins[:-1]).any():
            return False
        places = begins.searchsorted(self._edges)
        begins, ends = begins[places[0] : places[-1]], (begins + sizes)[places[0] : places[-1]]
        places -= places[0]
        present = np.flatnonzero(places[:-1] < places[1:])
        if len(present):
            first, stop = places[present], places[present + 1]
            self._sums[present] += np.add.reduceat(hash_offsets(ends) - hash_offsets(begins), first)
            self._begins[present] = np.minimum(self._begins[present], begins[first])
            self._ends[present] = np.maximum(self._ends[present], ends[stop - 1])
        return True

    def find_covered(self) -> list[tuple[int, int]]:
        present = self._begins < self._ends
        begins, ends = self._begins[present], self._ends[present]
        is_covered = self._sums[present] == hash_offsets(ends) - hash_offsets(begins)
        overlaps = begins[1:] < ends[:-1]
        is_covered[1:] &= ~overlaps
        is_covered[:-1] &= ~overlaps
        return merge_ranges(zip(begins[is_covered].tolist(), ends[is_covered].tolist(), strict=True))


def hash_offsets(phy_offsets: np.ndarray) -> np.ndarray:
    """Return a hash of each offset, uint64[n], so that sums of different sets of offsets differ."""
    hashes = phy_offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    hashes ^= hashes >> np.uint64(32)
    return hashes
