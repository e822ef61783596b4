"""Find where the messages of a store time begin in the log."""

from __future__ import annotations

from typing import NamedTuple

from rocketstore.disk.ranges import merge_ranges
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.file_times import choose_files, describe_skipped
from rocketstore.preview import show_fields


class PhyOffsetByTime(NamedTuple):
    """Where the messages of a store time begin.

    Attributes: phy_offset: bytes. complete: False if files before it were skipped because of the times of their first
    messages. reasons: the assumption with which they were skipped.
    Source: none.

    Examples:
    >>> rocketstore.open("demo").find_phy_offset_by_time("2020-01-01")
    PhyOffsetByTime(phy_offset=0, complete=True, reasons=[])
    """

    phy_offset: int
    complete: bool
    reasons: list[str]

    def __repr__(self) -> str:
        return show_fields(self)


def find_phy_offset_by_time(log: CommitLog, first_time: int, *, exact_times: bool = False) -> PhyOffsetByTime:
    """Find the first message of a time. ``MessageStore.find_phy_offset_by_time`` has the documentation."""
    log.refresh()
    begin = log.min_phy_offset
    chosen = choose_files(log, begin, LONG_MAX, first_time, LONG_MAX, exact_times=exact_times)
    found = find_message_of_time(log, merge_ranges(chosen.ranges) or [(begin, LONG_MAX)], first_time)
    reasons = describe_skipped([part for part in chosen.skipped if part[0] < found])
    return PhyOffsetByTime(found, not reasons, reasons)


def find_message_of_time(log: CommitLog, ranges: list[tuple[int, int]], first_time: int) -> int:
    """Return the physical offset of the first message in ranges that was stored at a time or later.

    Without such a message, return the end of the last range, or of the log.
    """
    position = 0
    for begin, end in ranges:
        scan = log.scan(begin, end, columns=["phy_offset"], since=first_time, on_corrupt="skip", batch_size=1)
        for batch in scan:
            return int(batch.phy_offset[0])
        position = scan.position
    return position
