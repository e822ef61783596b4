"""Where a broker ends a queue whose file also has units of records behind the end of the log."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

__all__ = ["find_own_end", "find_truncated_end"]

Span = tuple[int, int]  # the valid units of one file: where they begin and end, bytes of the run


def find_truncated_end(
    spans: Sequence[Span], log_end: int, read_phy_offset: Callable[[int], int], skip: Callable[[int, int, int], int]
) -> int:
    """Return where the units of a queue end that a broker keeps when its log ends at ``log_end``, bytes.

    A broker goes back over the files whose first unit leads to ``log_end`` or behind it, and ends the queue in the
    first other file before the first such unit. Without another file the queue is empty and begins again at 0.
    RocketMQ also takes the first unit of the last file for valid if it is zeros; that unit does not count here.

    Parameters: spans: files with valid units, in order. read_phy_offset: gives the physical offset in the unit at a
    position. skip: gives the position of the first unit, from one position up to another, whose physical offset is not
    before a limit; the second position if there is none.
    Source: ConsumeQueue.truncateDirtyLogicFiles, BatchConsumeQueue.truncateDirtyLogicFiles.
    """
    for begin, end in reversed(spans):
        if read_phy_offset(begin) < log_end:
            return skip(begin, end, log_end)
    return 0


def find_own_end(spans: Sequence[Span], unit_size: int, is_own: Callable[[int], bool]) -> int:
    """Return where the units end that lead to records of their queue, bytes; 0 if no unit does.

    A broker that cut its queue leaves the old units in the file. When its log grows again, they lead to other records.

    Parameters: spans: as above. is_own: whether the unit at a position leads to a record of the queue.
    """
    for begin, end in reversed(spans):
        if is_own(end - unit_size):
            return end
        if is_own(begin):
            units = range(begin, end, unit_size)
            return units[bisect.bisect_left(units, True, key=lambda position: not is_own(position))]
    return 0
