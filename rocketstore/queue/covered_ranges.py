"""Find the ranges of the commit log in which every byte is in a record to which a unit leads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rocketstore.disk.ranges import merge_ranges
from rocketstore.kernels.consume_queue import hash_offsets, sum_units
from rocketstore.limits import LONG_MAX
from rocketstore.queue.consume_queue import ConsumeQueue

PARTS, MIN_PART = 1024, 1 << 12  # parts of the log that are judged, about; bytes of a part at least


def find_covered_ranges(queues: Iterable[ConsumeQueue], files: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges of the log in which each record has exactly one unit, physical offsets, ascending.

    A range is left out, although all its records may have units, if other bytes are in the same part of the log.

    Parameters: queues: all queues whose units lead to records of their own. files: where the files of the log begin and
    end, physical offsets. Raises: OSError; StoreError.
    """
    if not files:
        return []
    parts = _Parts(files)
    return parts.find_covered() if all(parts.add(queue) for queue in queues) else []


class _Parts:
    """Parts of the log, each within one file. A record belongs to the part in which it begins.

    The records of a part follow each other without gap or overlap if the set of their begins with the end of the last
    one, and the set of their ends with the begin of the first one, are equal. The sums of a hash of both are compared.
    """

    def __init__(self, files: Sequence[tuple[int, int]]) -> None:
        size = max(sum(end - begin for begin, end in files) // PARTS, MIN_PART)
        edges = [np.arange(begin, end, size, dtype=np.int64) for begin, end in files]
        self._edges = np.concatenate([*edges, [files[-1][1]]])
        count = len(self._edges) - 1
        self._sums = np.zeros(count, np.uint64)
        self._begins = np.full(count, LONG_MAX, np.int64)
        self._ends = np.zeros(count, np.int64)

    def add(self, queue: ConsumeQueue) -> bool:
        """Add the records of a queue. Return False if its units are not in the order of the log."""
        after: int | None = -1
        for span in queue.find_spans():
            if after is not None:
                units = *queue.run.map_span(span), queue.unit_size
                after = sum_units(*units, after, self._edges, self._sums, self._begins, self._ends)
        return after is not None

    def find_covered(self) -> list[tuple[int, int]]:
        present = self._begins < self._ends
        begins, ends = self._begins[present], self._ends[present]
        is_covered = self._sums[present] == hash_offsets(ends) - hash_offsets(begins)
        overlaps = begins[1:] < ends[:-1]
        is_covered[1:] &= ~overlaps
        is_covered[:-1] &= ~overlaps
        return merge_ranges(zip(begins[is_covered].tolist(), ends[is_covered].tolist(), strict=True))
