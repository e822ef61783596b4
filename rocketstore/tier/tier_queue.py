"""TierQueue: the units of one queue in a tier."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import ClassVar, NamedTuple, overload

import numpy as np

from rocketstore.disk.closable import Closable
from rocketstore.disk.file_run_reader import FileRunReader, RunFile
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.layout import UNIT
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.queue.queue_source import Boundary, OffsetBounds
from rocketstore.queue.time_search import find_time
from rocketstore.queue.unit_run import READ_UNITS
from rocketstore.queue.units import ConsumeQueueUnits, CqUnit
from rocketstore.text_values import Time, epoch_ms
from rocketstore.tier.segments import open_segments


class TierUnits(NamedTuple):
    """Units of one queue in a tier, as the driver of a distributed job planned them, for a task that reads them.

    Attributes: files: the segments of the units. begin, end: queue offsets.
    """

    directory: StorePath
    files: list[RunFile]
    begin: int
    end: int

    def read(self, most: int) -> Iterator[ConsumeQueueUnits]:
        """Yield the units, ``most`` at most at once. Raises: OSError."""
        with closing(open_segments(self.directory, self.files)) as files:
            for begin in range(self.begin, self.end, most):
                yield read_units(files, begin, min(begin + most, self.end))


def read_units(files: FileRunReader, begin: int, end: int) -> ConsumeQueueUnits:
    """Read the units of a range of queue offsets, as far as the segments have them."""
    size = max(end - begin, 0) * UNIT.itemsize
    data, position = b"", begin * UNIT.itemsize
    while len(data) < size and (part := files.pread(position + len(data), size - len(data))):
        data += part
    units = np.frombuffer(data, UNIT, len(data) // UNIT.itemsize)
    columns = units["phy_offset"].astype(np.int64), units["size"].astype(np.int32)
    return ConsumeQueueUnits(begin, *columns, units["tags_code"].astype(np.int64))


class KnownBounds(NamedTuple):
    """Where the units of listed segments begin and end, queue offsets."""

    files: list[RunFile]
    begin: int
    end: int


class TierQueue(Closable):
    """The units of one queue in a tier, by queue offset. They lead into ``log``, a log of this queue alone.

    The unit of queue offset n is at position n * 20, also if the queue does not begin at 0. The queue ends where a
    segment is missing, and before zeros at its end.

    Attributes: directory. log. stop_offset: a queue offset; messages from there on are left out.
    Source: FlatConsumeQueueFile, FlatAppendFile.
    """

    has_batches: ClassVar[bool] = False
    has_gaps: ClassVar[bool] = False
    is_compacted: ClassVar[bool] = False
    leftover_units: ClassVar[int] = 0
    unit_size: ClassVar[int] = UNIT.itemsize

    def __init__(self, files: FileRunReader, log: CommitLog, stop_offset: int = LONG_MAX) -> None:
        """Parameters: files: the segments of the units."""
        self.directory: StorePath = files.directories[0]
        self.log = log
        self.stop_offset = stop_offset
        self._files = files
        self._known: KnownBounds | None = None

    @property
    def _bounds(self) -> tuple[int, int]:
        """The first queue offset, and the one after the last. They are found again if the segments are listed again."""
        files = self._files.files
        if self._known is None or self._known.files is not files:
            self._known = KnownBounds(files, *self._find_bounds(files))
        return self._known.begin, max(min(self._known.end, self.stop_offset), self._known.begin)

    @property
    def _begin(self) -> int:
        return self._bounds[0]

    @property
    def _end(self) -> int:
        return self._bounds[1]

    def _find_bounds(self, files: list[RunFile]) -> tuple[int, int]:
        """Return the bounds of the units that are in adjacent segments, without zeros at the end.

        Only the last unit is read, unless it is all zeros.
        Returns: the first queue offset, and the queue offset after the last one.
        """
        if not files:
            return 0, 0
        begin = end = files[0].file_from_offset
        for file in files:
            if file.file_from_offset != end:
                break
            end = file.end_offset
        first = -(-begin // self.unit_size)
        last = max(end // self.unit_size, first)
        if first == last or self._is_written(last - 1):
            return first, last
        return first, first + bisect.bisect_left(range(first, last), True, key=lambda at: not self._is_written(at))

    def _is_written(self, queue_offset: int) -> bool:
        return are_written(read_units(self._files, queue_offset, queue_offset + 1))

    def until(self, stop_offset: int) -> TierQueue:
        """Return the part of this queue before a queue offset."""
        part = TierQueue(self._files, self.log, stop_offset)
        part._known = self._known
        return part

    # ---- units ---------------------------------------------------------------------------------------------

    @property
    def min_queue_offset(self) -> int:
        return self._begin

    @property
    def max_queue_offset(self) -> int:
        return self._end

    @property
    def bounds(self) -> OffsetBounds:
        """Where the queue begins and ends, and the number of messages."""
        begin, end = self._bounds
        return OffsetBounds(begin, end, end - begin)

    def __len__(self) -> int:
        return self._end - self._begin

    @overload
    def __getitem__(self, key: int) -> CqUnit: ...
    @overload
    def __getitem__(self, key: slice) -> ConsumeQueueUnits: ...
    def __getitem__(self, key: int | slice) -> CqUnit | ConsumeQueueUnits:
        """Return the unit of a queue offset, or the units of a range; below 0 they count from the end.

        Raises: IndexError; CorruptFileError as ``parts``.
        """
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise ValueError(f"step {key.step}: units are read one after the other")
            start = self._begin if key.start is None else operator.index(key.start)
            stop = self._end if key.stop is None else operator.index(key.stop)
            start, stop = (bound + self._end if bound < 0 else bound for bound in (start, stop))
            return join_units(list(self.parts(start, stop)) or [self._read(start, start)])
        start = operator.index(key)
        units = self._read(start + self._end if start < 0 else start, (start + self._end if start < 0 else start) + 1)
        if not len(units):
            raise IndexError(f"{self.directory}: no unit {key}: queue offsets are {self._begin} to {self._end - 1}")
        return units[0]

    def _read(self, begin: int, end: int) -> ConsumeQueueUnits:
        """Read the units of a range of queue offsets, as far as the queue has them."""
        first, last = self._bounds
        try:
            return read_units(self._files, max(begin, first), min(end, last))
        except FileNotFoundError:  # the segment has expired since it was listed
            self._files.list_again()
            raise

    def place_of(self, queue_offset: int) -> tuple[StorePath, int]:
        """Return the segment that has a unit, and its place in it, bytes; the directory without such a segment."""
        position = queue_offset * self.unit_size
        file = self._files.find(position)
        return (self.directory, position) if file is None else (file.path, position - file.file_from_offset)

    def plan(self, begin: int, end: int) -> TierUnits:
        """Plan to read the units of a range of queue offsets elsewhere."""
        return TierUnits(self.directory, self._files.files, max(begin, self._begin), min(end, self._end))

    def __iter__(self) -> Iterator[CqUnit]:
        for units in self.parts():
            yield from units

    def parts(self, begin: int = 0, end: int = LONG_MAX, *, backwards: bool = False) -> Iterator[ConsumeQueueUnits]:
        """Yield the units of a range of queue offsets, ``READ_UNITS`` at most at once.

        Raises: CorruptFileError for a part of zeros. A segment with a hole may seem to have any number of units.
        """
        first, last = max(begin, self._begin), min(end, self._end)
        begins = range(first, last, READ_UNITS)
        for at in reversed(begins) if backwards else begins:
            units = self._read(at, min(at + READ_UNITS, last))
            if not are_written(units):
                raise CorruptFileError(*self.place_of(at), "units", f"{len(units)} units are zeros")
            yield units

    def count_bytes(self, begin: int, end: int) -> int:
        """Return the bytes of the records of the units whose queue offsets are from ``begin`` to before ``end``.

        Raises: CorruptFileError as ``parts``.
        """
        return sum(int(units.sizes.sum(dtype=np.int64)) for units in self.parts(begin, end))

    # ---- parts and times -----------------------------------------------------------------------------------

    def file_range(self, queue_offset: int) -> tuple[int, int] | None:
        """Return the bounds of the queue, which is read as if it were one file; None outside of them."""
        return (self._begin, self._end) if self._begin <= queue_offset < self._end else None

    def offset_after_missing_file(self, queue_offset: int) -> int:
        return self._end

    def get_offset_by_time(self, timestamp: Time, boundary: Boundary = "lower", *, exact_times: bool = False) -> int:
        """Find the queue offset of a store time, within min and max. Parameters: as of ``ConsumeQueue``.

        Without ``exact_times`` the search is binary and assumes that store times never go back.
        Source: FlatMessageFile.getQueueOffsetByTimeAsync.
        """
        time, is_lower = epoch_ms(timestamp, "timestamp"), boundary == "lower"
        if exact_times:
            parts = self.parts(backwards=not is_lower)
            every = (find_time(units, self.log, time, is_lower=is_lower) for units in parts)
            found = next((found for found in every if found is not None), None)
            return found if found is not None else self._end if is_lower else self._begin
        offsets = range(self._begin, self._end)
        if is_lower:
            return self._begin + bisect.bisect_left(offsets, time, key=self.read_time)
        found = self._begin + bisect.bisect_right(offsets, time, key=self.read_time) - 1
        is_message = found >= self._begin and self.read_time(found) >= 0
        return found if is_message else self._begin

    def read_time(self, queue_offset: int) -> int:
        """Return the store time of a message, epoch ms; -1 if its record cannot be read."""
        units = self._read(queue_offset, queue_offset + 1)
        if not len(units) or not are_sound(units):
            return -1
        return self.log.pickup_store_timestamp(int(units.phy_offsets[0]), int(units.sizes[0]))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.directory)!r}>"

    def close(self) -> None:
        self._files.close()
        self.log.close()


def join_units(parts: Sequence[ConsumeQueueUnits]) -> ConsumeQueueUnits:
    """Return the units of one or more parts, in order."""
    names = ("queue_offsets", "phy_offsets", "sizes", "tags_codes")
    columns = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return parts[0] if len(parts) == 1 else ConsumeQueueUnits(*columns)


def are_written(units: ConsumeQueueUnits) -> bool:
    """Return whether any unit is not zeros. Holes in files read as zeros."""
    return bool(units.sizes.any() or units.phy_offsets.any())


def are_sound(units: ConsumeQueueUnits) -> bool:
    return bool((units.phy_offsets >= 0).all() and (units.sizes > 0).all())
