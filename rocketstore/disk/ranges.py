"""Half-open ranges of positions, (begin, end): merge them, and find the first one that overlaps another range."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

END = itemgetter(1)


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges sorted, with those merged that overlap or touch."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def find_overlap(merged: Sequence[tuple[int, int]], begin: int, end: int) -> tuple[int, int] | None:
    """Return the first range that overlaps (begin, end), or None. Parameters: merged: a result of ``merge_ranges``."""
    at = bisect_right(merged, begin, key=END)
    return merged[at] if at < len(merged) and merged[at][0] < end else None
