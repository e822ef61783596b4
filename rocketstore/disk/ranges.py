"""Half-open ranges of positions, (begin, end): merged, and searched for what overlaps another range."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

__all__ = ["find_overlap", "merge_ranges"]

END = itemgetter(1)


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same positions as few ranges that do not touch, in order."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def find_overlap(merged: Sequence[tuple[int, int]], begin: int, end: int) -> tuple[int, int] | None:
    """Return the first range that has positions in common with one, or None. Parameters: merged: of merge_ranges."""
    at = bisect_right(merged, begin, key=END)
    return merged[at] if at < len(merged) and merged[at][0] < end else None
