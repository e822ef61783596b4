"""Where a broker ends a queue whose file also has units of records behind the end of the log."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

__all__ = ["find_own_end", "find_truncated_end"]

Span = tuple[int, int]  # the valid units of one file: where they begin and end, bytes of the run


def find_truncated_end(
    spans: Sequence[Span], log_end: int, read_phy_offset: Callable[[int], int], skip: Callable[[int, int, int], int]
) -> int:
    """Return the end of the units that a broker keeps in a queue when its log ends at ``log_end``, bytes.

    From the last file back, a broker drops each file whose first unit leads to ``log_end`` or behind it. In the next
    file it ends the queue before the first unit that does. If no file is left, the queue is empty and begins at 0.
    RocketMQ also accepts a first unit of zeros in the last file. Here that unit does not count.

    Parameters: spans: files with valid units, in order. read_phy_offset: returns the physical offset in the unit at a
    position. skip: called with a begin, an end and a limit, returns the position of the first unit in that range whose
    physical offset is not before the limit, or the end of the range.
    Source: ConsumeQueue.truncateDirtyLogicFiles, BatchConsumeQueue.truncateDirtyLogicFiles.
    """
    for begin, end in reversed(spans):
        if read_phy_offset(begin) < log_end:
            return skip(begin, end, log_end)
    return 0


def find_own_end(spans: Sequence[Span], unit_size: int, is_own: Callable[[int], bool]) -> int:
    """Return the end of the units that lead to records of their own queue, bytes; 0 without such units.

    A broker that cut its queue leaves the old units in the file. When its log grows again, they lead to other records.

    Parameters: spans: files with valid units, in order. is_own: returns whether the unit at a position leads to a
    record of the queue.
    """
    for begin, end in reversed(spans):
        if is_own(end - unit_size):
            return end
        if is_own(begin):
            units = range(begin, end, unit_size)
            return units[bisect.bisect_left(units, True, key=lambda position: not is_own(position))]
    return 0
