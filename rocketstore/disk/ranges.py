"""Half-open ranges of positions, (begin, end): merge, intersect and divide them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

END = itemgetter(1)
Range = tuple[int, int]


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


def intersect_ranges(a: Sequence[Range], b: Sequence[Range]) -> list[Range]:
    """Return the parts that two sorted lists of ranges share. Parameters: a, b: results of ``merge_ranges``."""
    found = []
    for begin, end in a:
        at = bisect_right(b, begin, key=END)
        while at < len(b) and b[at][0] < end:
            found.append((max(begin, b[at][0]), min(end, b[at][1])))
            at += 1
    return found


def ranges_from_end(begin: int, end: int, size: int) -> Iterator[Range]:
    """Yield the parts of a range for a search from its end. Each part is before the one yielded before it, and 8 times
    as large.

    Parameters: size: of the first part that is yielded, which ends at ``end``.
    """
    while begin < end:
        first = max(begin, end - size)
        yield first, end
        end, size = first, 8 * size
