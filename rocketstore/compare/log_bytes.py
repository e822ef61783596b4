"""Compare two commit logs by physical offset: their bytes, and where these differ, their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rocketstore.compare.differences import LISTED, LOG, Difference, Differences, LogRange
from rocketstore.disk.ahead import read_ahead
from rocketstore.disk.ranges import Range, intersect_ranges, merge_ranges
from rocketstore.disk.work_threads import work_threads
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_reader import LARGE_RECORD
from rocketstore.messages.message import Message

PIECE = 1 << 20  # bytes that are compared at once
READ_BLOCK = 8 << 20  # bytes of a log that the system begins to read at once
READ_AHEAD = 32 << 20  # bytes of a log that the system has begun to read before they are compared
THREADS, AHEAD = 2, 8  # pieces that are read at once, and before they are needed
SAME, DIFFERENT, ONLY_IN_A, ONLY_IN_B = "same", "different", "only in a", "only in b"
MESSAGE_COLUMNS = ("topic", "queue_id", "queue_offset", "phy_offset", "keys", "uniq_key")


class Records(NamedTuple):
    """Where records begin and end, physical offsets, int64[n] each, ascending."""

    begins: np.ndarray
    ends: np.ndarray

    def where(self, wanted: np.ndarray) -> Records:
        return Records(self.begins[wanted], self.ends[wanted])

    def ranges(self) -> Iterable[Range]:
        return zip(self.begins.tolist(), self.ends.tolist(), strict=True)


class ViewedLog:
    """A log with the ranges of physical offsets that its files had, up to its last record, when it was opened."""

    def __init__(self, log: CommitLog, phy_range: Range | None = None) -> None:
        """Parameters: phy_range: the physical offsets that are compared; None for all."""
        log.refresh()
        end = log.look(again=True).records_end
        found = ((log.reader.begin_in(file), min(file.end_offset, end)) for file in log.file_run.files)
        self.log = log
        ranges = merge_ranges(part for part in found if part[0] < part[1])
        self.ranges = ranges if phy_range is None else intersect_ranges(ranges, [phy_range])
        self._record_end = 0  # of the last record that was read

    def first_message(self, begin: int, end: int) -> Message | None:
        """Return the first message that begins in a range; None without one."""
        found = self.log.scan(begin, end, on_corrupt="skip", columns=MESSAGE_COLUMNS).head(1)
        return found[0] if len(found) else None

    def read_records(self, begin: int, end: int) -> Records:
        """Return the records with bytes in a range. A record before it must not be larger than LARGE_RECORD."""
        first = self._record_end if begin - LARGE_RECORD <= self._record_end <= begin else begin - LARGE_RECORD
        first = max(first, self.ranges[0][0])
        batches = self.log.scan(first, end, columns=("phy_offset", "size"), on_corrupt="skip")
        found = [np.array([batch.phy_offset, batch.phy_offset + batch.size]) for batch in batches]
        begins, ends = np.concatenate([np.empty((2, 0), np.int64), *found], 1)
        if len(ends):
            before = ends[ends <= begin]
            self._record_end = int(before[-1]) if len(before) else self._record_end
        return Records(begins, ends).where(ends > begin)


class LogComparison:
    """Compares two logs, and keeps the ranges in their order.

    Attributes: ranges: at most LISTED ranges of one state. sizes: bytes in all ranges, by state.
    """

    def __init__(self, a: ViewedLog, b: ViewedLog, differences: Differences) -> None:
        self.a, self.b, self.differences = a, b, differences
        self.ranges: list[LogRange] = []
        self.sizes = dict.fromkeys((SAME, DIFFERENT, ONLY_IN_A, ONLY_IN_B), 0)
        self._state_counts = dict(self.sizes)
        self._compared = 0  # a physical offset: the records that begin before it were compared
        self._open: Difference | None = None  # it may continue in the next piece

    def run(self) -> Iterator[int]:
        """Compare the logs. Yield the number of bytes that were compared, after each step."""
        for state, begin, end in split_ranges(self.a.ranges, self.b.ranges):
            if state == SAME:
                yield from self._compare(begin, end)
                self._close()
            else:
                self._add_missing(state, begin, end)

    def _add_missing(self, state: str, begin: int, end: int) -> None:
        """Add a range that only one of the logs has."""
        self._add_range(state, begin, end)
        kind = "log-only-in-a" if state == ONLY_IN_A else "log-only-in-b"
        difference = Difference(kind, LOG, begin, end)
        if self.differences.is_listed(kind):
            view = self.a if state == ONLY_IN_A else self.b
            message = view.first_message(begin, end)
            difference = difference.with_message(*((message, None) if view is self.a else (None, message)))
        self.differences.add(difference)

    def _compare(self, begin: int, end: int) -> Iterator[int]:
        """Compare a range that both logs have, piece by piece."""
        same_from = begin
        pieces = self._pieces(begin, end)
        work = partial(are_bytes_equal, self.a.log, self.b.log)
        with work_threads(THREADS, "rocketstore-diff") as threads, read_ahead(threads, AHEAD, work, pieces) as results:
            for (place, stop), is_equal in results:
                if not is_equal.result():
                    for first, last in self._compare_records(place, stop):
                        self._add_range(SAME, same_from, first)
                        self._add_range(DIFFERENT, max(first, same_from), last)
                        same_from = max(same_from, last)
                yield stop - place
        self._add_range(SAME, same_from, end)

    def _pieces(self, begin: int, end: int) -> Iterator[Range]:
        """Yield the pieces of a range. Let the system read both logs ahead of them."""
        blocks = iter(range(begin - begin % READ_BLOCK, end, READ_BLOCK))
        block = next(blocks, end)
        for place in range(begin, end, PIECE):
            while block < min(place + READ_AHEAD, end):
                for view in (self.a, self.b):
                    view.log.file_run.read_ahead(np.array([block]), np.array([READ_BLOCK], np.int32))
                block = next(blocks, end)
            yield place, min(place + PIECE, end)

    def _compare_records(self, begin: int, end: int) -> list[Range]:
        """Compare the records of a piece whose bytes differ, and add the differences. Return where they are."""
        a, b = (view.read_records(begin, end) for view in (self.a, self.b))
        bounds = np.concatenate([[begin, end], *a, *b])
        first, last = int(bounds.min()), int(bounds.max())
        places = find_different_bytes(self.a.log, self.b.log, first, last)
        of_records = merge_ranges([*a.ranges(), *b.ranges()])
        fillers = split_places(places[(places >= begin) & (places < end)], of_records)
        changed_a, changed_b = find_changed(a, b, places), find_changed(b, a, places)
        different = merge_ranges([*changed_a.ranges(), *changed_b.ranges()])
        for part in different:
            self._add_different(part, changed_a, changed_b)
        for part_begin, part_end, count in fillers:
            self.differences.add(Difference("log-filler-different", LOG, part_begin, part_end, count))
        self._compared = end
        return merge_ranges([*different, *((first, last) for first, last, _ in fillers)])

    def _add_different(self, part: Range, a: Records, b: Records) -> None:
        """Add records that differ, to the open difference if they follow it. Parameters: a, b: the changed records."""
        begin, end = part
        fresh = [view.begins[(view.begins >= max(begin, self._compared)) & (view.begins < end)] for view in (a, b)]
        count = max(map(len, fresh))
        known = self._open
        if known is not None and known.end is not None and known.number is not None and begin <= known.end:
            self._open = known._replace(end=max(known.end, end), number=known.number + count)
            return
        self._close()
        if not count:
            return
        place = int(min(view[0] for view in fresh if len(view)))
        messages = [view.log.find_message(place) for view in (self.a, self.b)]
        self._open = Difference("log-different", LOG, begin, end, count).with_message(*messages)

    def _close(self) -> None:
        """Add the open difference."""
        if self._open is not None:
            self.differences.add(self._open)
            self._open = None

    def _add_range(self, state: str, begin: int, end: int) -> None:
        """Add a range, or extend the last one if it has the same state or no more are listed."""
        if begin >= end:
            return
        self.sizes[state] += end - begin
        last = self.ranges[-1] if self.ranges else None
        if last is not None and last.state == state and last.end == begin:
            self.ranges[-1] = last._replace(end=end)
        elif self._state_counts[state] < LISTED:
            self._state_counts[state] += 1
            self.ranges.append(LogRange(state, begin, end))


def split_ranges(a: Sequence[Range], b: Sequence[Range]) -> Iterator[tuple[str, int, int]]:
    """Yield the ranges that both logs or one of them has, in order: SAME, ONLY_IN_A or ONLY_IN_B, begin and end."""
    places = sorted({place for part in (*a, *b) for place in part})
    for begin, end in pairwise(places):
        has_a, has_b = (any(part[0] <= begin < part[1] for part in ranges) for ranges in (a, b))
        if has_a or has_b:
            yield SAME if has_a and has_b else ONLY_IN_A if has_a else ONLY_IN_B, begin, end


def read_bytes(log: CommitLog, begin: int, end: int) -> bytes:
    """Read a range of physical offsets that may be in several files. Missing bytes are left out."""
    parts = []
    while begin < end and (data := log.file_run.pread(begin, end - begin)):
        parts.append(data)
        begin += len(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def are_bytes_equal(a: CommitLog, b: CommitLog, begin: int, end: int) -> bool:
    """Return whether two logs have the same bytes in a range. Raises: OSError."""
    data = read_bytes(a, begin, end)
    return len(data) == end - begin and data == read_bytes(b, begin, end)


def find_different_bytes(a: CommitLog, b: CommitLog, begin: int, end: int) -> np.ndarray:
    """Return the physical offsets of a range at which the bytes differ or are missing in one log, int64[n]."""
    found = [np.frombuffer(read_bytes(log, begin, end), np.uint8) for log in (a, b)]
    common = min(map(len, found))
    places = np.flatnonzero(found[0][:common] != found[1][:common])
    return np.concatenate([places, np.arange(common, end - begin)]) + begin


def find_changed(records: Records, others: Records, places: np.ndarray) -> Records:
    """Return the records that the other log does not have with the same bytes at the same place.

    Parameters: places: the physical offsets of all bytes that differ, int64[n], ascending.
    """
    at = np.searchsorted(others.begins, records.begins)
    at_most = np.minimum(at, max(len(others.begins) - 1, 0))
    is_there = np.zeros(len(records.begins), np.bool_)
    if len(others.begins):
        is_there = (others.begins[at_most] == records.begins) & (others.ends[at_most] == records.ends)
    has_same_bytes = np.searchsorted(places, records.begins) == np.searchsorted(places, records.ends)
    return records.where(~(is_there & has_same_bytes))


def split_places(places: np.ndarray, ranges: Sequence[Range]) -> list[tuple[int, int, int]]:
    """Group the places outside of ranges by the gap between ranges in which they are.

    Parameters: places: int64[n], ascending. ranges: sorted and disjoint. Returns: for each gap with places the first
    place, the place behind the last one, and their number.
    """
    begins, ends = np.array(ranges, np.int64).reshape(-1, 2).T
    gaps = np.searchsorted(begins, places, "right")
    is_inside = np.zeros(len(places), np.bool_)
    if len(ends):
        is_inside = (gaps > 0) & (places < ends[gaps - 1])
    outside, gaps = places[~is_inside], gaps[~is_inside]
    cuts = np.flatnonzero(np.diff(gaps)) + 1
    return [(int(part[0]), int(part[-1]) + 1, len(part)) for part in np.split(outside, cuts) if len(part)]
