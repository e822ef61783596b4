"""RocksConsumeQueue: the units of one queue in RocksDB."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, overload

import numpy as np

from rocketstore.disk.closable import Closable
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.layout import UNIT
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.queue.built_units import BuiltUnits, CompletedUnits
from rocketstore.queue.queue_source import Boundary, OffsetBounds, count_bytes_between, ranges_to_read
from rocketstore.queue.time_search import search_all_units
from rocketstore.queue.units import ConsumeQueueUnits, CqUnit
from rocketstore.text_values import Time, epoch_ms

READ_AT_ONCE = 1 << 14  # units
TIMES_AT_ONCE = 512  # units that a search by time reads


class RocksConsumeQueue(Closable):
    """The units of one queue in RocksDB, by queue offset, as those of a ConsumeQueue.

    Each call reads them as they are now. Queue offsets may be missing: RocketMQ does not write the unit of a record at
    physical offset 0 when it moves queues to RocksDB.

    Source: RocksDBConsumeQueue.
    """

    has_batches: ClassVar[bool] = False
    has_gaps: ClassVar[bool] = True
    is_compacted: ClassVar[bool] = False
    unit_size: ClassVar[int] = UNIT.itemsize  # as a broker counts them. Source: RocksDBConsumeQueue.getUnitSize
    mode: ClassVar[str] = "r"

    def __init__(
        self, units: CompletedUnits, queue: QueueId, commit_log: Any, find_log_end: Callable[[], int | None]
    ) -> None:
        """Parameters: commit_log: into which units lead, or None. find_log_end: as for RocksQueues."""
        self._units = units
        self._queue = queue
        self.log = commit_log
        self.find_log_end = find_log_end

    @property
    def topic(self) -> str:
        return self._queue.topic

    @property
    def queue_id(self) -> int:
        return self._queue.queue_id

    @property
    def database(self) -> RocksDatabase:
        """The RocksDB with all queues."""
        return self._units.database

    @property
    def directory(self) -> StorePath:
        """The directory of the RocksDB."""
        return self.database.path

    def find_built_units(self) -> BuiltUnits | None:
        """Return the last units, which are built from the log because the RocksDB lacks them; None without any."""
        return self._units.find_built_units(self._queue)

    # ---- ends ----------------------------------------------------------------------------------------------

    @property
    def max_queue_offset(self) -> int:
        """The queue offset of the next message: behind the last unit that is noted, and not behind the log's end.

        Source: RocksDBConsumeQueueStore.getMaxOffsetInQueue.
        """
        self._units.refresh()
        return self._find_end(self._find_noted_end())

    @property
    def min_queue_offset(self) -> int:
        """The queue offset of the first unit whose record is in the log. Source: RocksDBConsumeQueueOffsetTable."""
        ends = self._units.find_ends(self._queue)
        if ends.last is None:
            return 0
        first, end = 0 if ends.first is None else max(ends.first.queue_offset, 0), ends.last.queue_offset + 1
        least = 0 if self.log is None else self.log.min_phy_offset
        if ends.first is None or ends.first.phy_offset < least:
            first = self._find_first_at(least, first, end)
        return self._skip_missing(first, end)

    @property
    def bounds(self) -> OffsetBounds:
        """Where the queue begins and ends, and the number of messages."""
        least, end = self.min_queue_offset, self.max_queue_offset
        return OffsetBounds(least, end, max(end - least, 0))

    @property
    def leftover_units(self) -> int:
        """The number of units behind the end of the queue. They lead to records behind the end of the log."""
        noted = self._find_noted_end()
        return noted - self._find_end(noted)

    def _find_noted_end(self) -> int:
        last = self._units.find_ends(self._queue).last
        return 0 if last is None else last.queue_offset + 1

    def _find_end(self, noted: int) -> int:
        log_end = self.find_log_end()
        if log_end is None or noted == 0:
            return noted
        last = self._read(noted - 1, noted)
        if len(last) and last[0].phy_offset < log_end:
            return noted
        return self._find_first_at(log_end, 0, noted)

    def _find_first_at(self, phy_offset: int, begin: int, end: int) -> int:
        """Return the first queue offset whose unit leads to a physical offset or behind it; ``end`` without one."""

        def leads_behind(queue_offset: int) -> bool:
            _, units = self._units.read_units(self._queue, queue_offset, end, limit=1)
            return not len(units) or int(units["phy_offset"][0]) >= phy_offset

        return bisect.bisect_left(range(begin, end), True, key=leads_behind) + begin

    def _skip_missing(self, first: int, end: int) -> int:
        offsets, _ = self._units.read_units(self._queue, first, end, limit=1)
        return int(offsets[0]) if len(offsets) else end

    # ---- units ---------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, key: int) -> CqUnit: ...
    @overload
    def __getitem__(self, key: slice) -> ConsumeQueueUnits: ...
    def __getitem__(self, key: int | slice) -> CqUnit | ConsumeQueueUnits:
        """Return the unit of a queue offset, or the units of a range; below 0 they count from the end.

        Raises: IndexError; CorruptFileError. Source: RocksDBConsumeQueue.iterateFrom.
        """
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise ValueError(f"step {key.step}: units are read one after the other")
            end = self.max_queue_offset
            start = self.min_queue_offset if key.start is None else operator.index(key.start)
            stop = LONG_MAX if key.stop is None else operator.index(key.stop)
            start, stop = (bound + end if bound < 0 else bound for bound in (start, stop))
            return self._read(max(start, 0), min(stop, end))
        end, place = self.max_queue_offset, operator.index(key)
        place += end if place < 0 else 0
        units = self._read(place, min(place + 1, end)) if place >= 0 else ()
        if units:
            return units[0]
        first = self.min_queue_offset
        held = f"queue offsets are {first} to {end - 1}" if first < end else "it has none"
        raise IndexError(f"{self.directory}: no unit {key} of {self.topic}/{self.queue_id}: {held}")

    def __iter__(self) -> Iterator[CqUnit]:
        """Yield the units from ``min_queue_offset`` to the present end."""
        for begin, stop in ranges_to_read(self, self.min_queue_offset, self.max_queue_offset, READ_AT_ONCE):
            yield from self._read(begin, stop)

    def __len__(self) -> int:
        return self.bounds.messages

    def count_bytes(self, begin: int, end: int) -> int:
        """Return the bytes of the records of the units whose queue offsets are from ``begin`` to before ``end``."""
        return count_bytes_between(self, begin, end, READ_AT_ONCE)

    def _read(self, begin: int, end: int) -> ConsumeQueueUnits:
        offsets, units = self._units.read_units(self._queue, begin, end)
        columns = units["phy_offset"].astype(np.int64), units["size"].astype(np.int32)
        return ConsumeQueueUnits(offsets, *columns, units["tags_code"].astype(np.int64))

    def file_range(self, queue_offset: int) -> tuple[int, int] | None:
        """Return the bounds, as queue offsets, of the next units that are read at once; None for none.

        They begin with the first unit at or behind ``queue_offset``.
        """
        end = self.max_queue_offset
        first = self._skip_missing(queue_offset, end) if 0 <= queue_offset < end else end
        return (first, min(first + READ_AT_ONCE, end)) if first < end else None

    def offset_after_missing_file(self, queue_offset: int) -> int:
        """Return 0, as a broker does. Source: RocksDBConsumeQueue.rollNextFile."""
        return 0

    # ---- time ----------------------------------------------------------------------------------------------

    def get_offset_by_time(self, timestamp: Time, boundary: Boundary = "lower", *, exact_times: bool = False) -> int:
        """Find the queue offset of a store time, within min and max. Parameters, raises: as for ConsumeQueue.

        Source: RocksDBConsumeQueueTable.binarySearchInCQByTime, DefaultMessageStore.getOffsetInQueueByTime.
        """
        if boundary not in ("lower", "upper"):
            raise ValueError(f"boundary={boundary!r}: must be 'lower' or 'upper'")
        time = epoch_ms(timestamp, "timestamp")
        first, end, is_lower = self.min_queue_offset, self.max_queue_offset, boundary == "lower"
        if exact_times:
            if self.log is None:
                raise ValueError(f"{self.directory}: open the queue with a commit log to search it by time")
            every = search_all_units(self, self.log, time, is_lower=is_lower)
            found = every if every is not None else end if is_lower else first
        else:
            found = self._search_time(time, first, end, is_lower=is_lower) if end > 0 else 0
        return min(max(found, first), end)

    def _search_time(self, timestamp: int, first: int, end: int, *, is_lower: bool) -> int:
        floor, ceiling = first, end - 1
        last, begin = self._time_at(ceiling), self._time_at(floor)
        if last is not None and last < timestamp:
            return ceiling + is_lower
        if begin is not None and begin > timestamp:
            return floor if is_lower else 0
        low, high, below, above = floor, ceiling, -1, -1
        while high >= low:
            middle = (low + high) // 2
            time = self._time_at(middle)
            if time is None:  # the unit is missing
                low = middle + 1
            elif time < 0:
                return 0
            elif time == timestamp:
                return self._last_of_time(middle, floor, ceiling, timestamp, is_lower=is_lower)
            elif time > timestamp:
                high, above = middle - 1, middle
            else:
                low, below = middle + 1, middle
        return above if is_lower else below

    def _time_at(self, queue_offset: int) -> int | None:
        _, units = self._units.read_units(self._queue, queue_offset, queue_offset + 1)
        return int(units["store_timestamp"][0]) if len(units) else None

    def _last_of_time(self, found: int, floor: int, ceiling: int, timestamp: int, *, is_lower: bool) -> int:
        """Return the first of the units around ``found`` that have its store time, or the last one."""
        while True:
            begin = max(found - TIMES_AT_ONCE, floor) if is_lower else found + 1
            end = found if is_lower else min(found + 1 + TIMES_AT_ONCE, ceiling + 1)
            offsets, units = self._units.read_units(self._queue, begin, end)
            expected = np.arange(begin, end)
            same = np.zeros(len(expected), bool)
            same[offsets - begin] = units["store_timestamp"] == timestamp
            run = same[::-1] if is_lower else same
            count = int(run.argmin()) if not run.all() else len(run)
            found += -count if is_lower else count
            if count < len(run) or not len(run):
                return found

    def close(self) -> None:
        """Do nothing: the queues share one RocksDB, which the store closes."""
