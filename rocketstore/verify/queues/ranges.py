"""Ranges: a set of numbers, for example the units of a queue that belong to a record."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from rocketstore.disk.ranges import merge_ranges
from rocketstore.limits import LONG_MAX

END = itemgetter(1)


class Ranges:
    """A set of numbers, given as half-open ranges that are mostly in order."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        self._is_sorted = True
        self._bounds: np.ndarray | None = None  # the begin and end of all ranges, once they are needed

    def add(self, begin: int, end: int) -> None:
        """Add the numbers from ``begin``, inclusive, to ``end``, exclusive."""
        self._bounds = None
        last_begin, last_end = self._ranges[-1] if self._ranges else (begin, begin)
        if self._ranges and last_begin <= begin <= last_end:
            self._ranges[-1] = last_begin, max(end, last_end)
        else:
            self._is_sorted = self._is_sorted and last_end <= begin
            self._ranges.append((begin, end))

    def add_all(self, numbers: np.ndarray) -> None:
        """Add a sorted array."""
        if len(numbers):
            breaks = np.flatnonzero(np.diff(numbers) > 1)
            firsts, lasts = numbers[[0, *(breaks + 1)]].tolist(), numbers[[*breaks, -1]].tolist()
            for first, last in zip(firsts, lasts, strict=True):
                self.add(first, last + 1)

    def sorted(self) -> list[tuple[int, int]]:
        """Return the ranges in order; no two of them touch."""
        if not self._is_sorted:
            self._ranges, self._is_sorted = merge_ranges(self._ranges), True
        return self._ranges

    def gaps(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges between ``begin`` and ``end`` that are not in the set."""
        ranges = self.sorted()
        at = bisect_right(ranges, begin, key=END)
        while begin < end:
            first, last = ranges[at] if at < len(ranges) else (end, end)
            if begin < min(first, end):
                yield begin, min(first, end)
            begin, at = max(begin, last), at + 1

    def are_in(self, numbers: np.ndarray) -> np.ndarray:
        """Return which of some numbers, int64[n], are in the set, bool[n]."""
        if self._bounds is None:
            # A damaged queue offset may make a range that ends beyond a long. No unit is there.
            self._bounds = np.array([min(bound, LONG_MAX) for part in self.sorted() for bound in part], np.int64)
        inside: np.ndarray = np.searchsorted(self._bounds, numbers, "right") % 2 == 1
        return inside

    @property
    def end(self) -> int:
        """The number after the greatest of the set, -1 if the set is empty."""
        ranges = self.sorted()
        return ranges[-1][1] if ranges else -1
