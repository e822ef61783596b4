"""ConsumeQueue: which records of the commit log are the messages of one queue."""

from __future__ import annotations

import bisect
import functools
import io
import mmap
import operator
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast, overload

import numpy as np

from rocketstore.config import DEFAULT_SIZES
from rocketstore.disk.closable import Closable
from rocketstore.disk.durable import make_directory
from rocketstore.disk.mapped_file import check_mode
from rocketstore.disk.mapped_file_queue import RECOVERED_FILES, LogFile, MappedFileQueue, Mappings, Window
from rocketstore.disk.remote.remote_file_queue import open_queue
from rocketstore.disk.storage import identity, is_remote, local_path, scandir, to_path
from rocketstore.errors import CorruptFileError, StoreClosedError, StoreError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.columns import int32_column, int64_column, require_int64
from rocketstore.kernels.consume_queue import (
    count_valid_units,
    decode_units,
    find_unit,
    read_unit,
)
from rocketstore.limits import INT_MAX, INT_MIN, LONG_MAX
from rocketstore.log.end_rule import StoreState
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter, UnitWriter
from rocketstore.queue.queue_end import find_own_end, find_truncated_end

__all__ = [
    "ConsumeQueue",
    "ConsumeQueueUnits",
    "CqUnit",
    "Span",
    "beside_expiry",
    "is_queue_name",
    "queue_offsets_of",
]

PHY_OFFSET = 0  # where it is in a unit
READ_UNITS = 4096
FIRST = operator.itemgetter(0)
F = TypeVar("F", bound=Callable[..., Any])
BEGIN = operator.itemgetter(0)
Span = tuple[int, int]  # units one after the other in one file: where they begin and end, bytes of the run


class CqUnit(NamedTuple):
    """One unit: the queue offset; offset and size of the record, bytes. A filler stands for what was never there.

    In a batch queue the record has ``batch_num`` messages from that queue offset on. Source: CqUnit.
    """

    queue_offset: int
    phy_offset: int
    size: int
    tags_code: int
    is_filler: bool
    batch_num: int = 1
    store_timestamp: int = -1  # epoch milliseconds, of batch units
    compacted_offset: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class ConsumeQueueUnits:
    """Units as columns: int64; sizes, batch_nums and compacted_offsets int32. The last three: batch units only."""

    _queue_offsets: int | np.ndarray  # of the first where one follows the other, or of each
    phy_offsets: np.ndarray
    sizes: np.ndarray
    tags_codes: np.ndarray
    batch_nums: np.ndarray | None = None
    store_timestamps: np.ndarray | None = None
    compacted_offsets: np.ndarray | None = None

    @property
    def queue_offsets(self) -> np.ndarray:
        if isinstance(self._queue_offsets, int):
            return np.arange(self._queue_offsets, self._queue_offsets + len(self), dtype=np.int64)
        return self._queue_offsets

    @property
    def is_filler(self) -> np.ndarray:
        filler: np.ndarray = (self.phy_offsets == 0) & (self.sizes == INT_MAX) & (self.tags_codes == 0)
        return filler

    def __len__(self) -> int:
        return len(self.phy_offsets)

    def __iter__(self) -> Iterator[CqUnit]:
        columns = (self.queue_offsets, self.phy_offsets, self.sizes, self.tags_codes, self.is_filler)
        batches = (self.batch_nums, self.store_timestamps, self.compacted_offsets)
        return map(CqUnit, *(column.tolist() for column in columns + batches if column is not None))


def beside_expiry(method: F) -> F:
    """Call a method of a queue once more if it failed, and the first file has expired since it was listed."""

    @functools.wraps(method)
    def call(self: ConsumeQueue, *args: Any, **options: Any) -> Any:
        first = self._run().files[:1]
        try:
            return method(self, *args, **options)
        except (FileNotFoundError, CorruptFileError):
            if not first or first[0].path.exists():
                raise
            self._run(again=True)
            return method(self, *args, **options)

    return cast("F", call)


class BoundedEnd(NamedTuple):
    """A found end of a queue, and for which files it counts.

    Attributes: files: the files of the queue then. run_end: where their valid units ended, bytes. end: where the queue
    ended, bytes.
    """

    files: Sequence[LogFile]
    run_end: int
    end: int


class ConsumeQueue(Closable):
    """The units of one queue, by queue offset. Made by ``open``; a context manager; a reader pickles as its options.

    It ends where recovery would find the end: before the first invalid unit of the last three files. That is looked
    for again from where it was, so a queue grows as a broker writes. If the end of the commit log is known, a
    queue ends before its first unit that leads behind that end, as for a broker. Units of a write that is not committed
    are left out too.

    Attributes: directory; mode; mappings: those that it shares with other queues, before its files are looked at, else
    None. Source: org.apache.rocketmq.store.ConsumeQueue.
    """

    __slots__ = (
        "_bounded", "_closed", "_commit_log", "_end", "_file_size", "_found_end", "_given_size", "_known", "_queue",
        "_shown_spans", "_writer", "directory", "mappings", "mode",
    )
    directory_name: ClassVar[str] = "consumequeue"  # under the root of a store
    size_name: ClassVar[str] = "mapped_file_size_consume_queue"  # of StoreConfig's fields
    unit_size: ClassVar[int] = 20
    rounded_to: ClassVar[int] = 20  # what the length of every file is a multiple of
    writer_type: ClassVar[type[UnitWriter]] = ConsumeQueueWriter

    def __init__(self, directory: Path, mapped_file_size: int | None, commit_log: Any, mode: str = "r") -> None:
        self.directory = directory
        self.mode = mode
        self.mappings: Mappings | None = None
        self._given_size = mapped_file_size
        self._commit_log = commit_log
        self._queue: MappedFileQueue | None = None
        self._file_size = 0
        self._end = -1
        self._found_end = -1
        self._bounded: BoundedEnd | None = None
        self._shown_spans: tuple[Sequence[LogFile], list[Span]] = ([], [])
        self._known: tuple[Sequence[LogFile], int, list[Span]] | None = None  # files, their end, and what they have
        self._closed = False
        self._writer: Any = None
        if mode != "r":
            self._given_size = self.mapped_file_size or DEFAULT_SIZES[self.size_name]
            self._writer = self.writer_type(directory, self._given_size, keeps_files=True)
            self._writer.recover(zero=True)
            self._queue = None  # an empty last file is gone

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        mode: str = "r",
        *,
        mapped_file_size: int | None = None,
        commit_log: Any = None,
    ) -> Self:
        """Open the queue in a directory ``topic/queueId``. A reader does not look at its files before they are needed.

        Parameters: mode: "r" reads; "r+" also puts, into a queue alone: of a store, ``rocketstore.open`` does all;
        "a" also makes the directory. mapped_file_size: bytes, else what the files show, or of a new queue RocketMQ's
        default. commit_log: has ``min_phy_offset`` and ``pickup_store_timestamp(phy_offset, size)``, -1 for what it
        cannot read; without it nothing has expired.
        Raises: FileNotFoundError; ValueError; CorruptFileError for what cannot be gone on with.
        Source: ConsumeQueue.load, BatchConsumeQueue.load.
        """
        check_mode(mode)
        if mapped_file_size is not None:
            mapped_file_size = operator.index(mapped_file_size)  # one of NumPy overflows
            if mapped_file_size < cls.unit_size:
                raise ValueError(f"mapped_file_size={mapped_file_size}: a unit has {cls.unit_size} bytes")
            mapped_file_size = -(-mapped_file_size // cls.rounded_to) * cls.rounded_to
        path = to_path(directory) if mode == "r" else local_path(directory)
        if mode == "a":
            make_directory(path)
        with scandir(path):
            return cls(path, mapped_file_size, commit_log, mode)

    @property
    def topic(self) -> str:
        return self.directory.parent.name

    @property
    def queue_id(self) -> int:
        """The directory's name. Raises ValueError if that is no number."""
        return int(self.directory.name)

    @property
    def mapped_file_size(self) -> int:
        """The length of a whole file, bytes; 0 where there is none."""
        self._run()
        return self._file_size

    @property
    @beside_expiry
    def max_queue_offset(self) -> int:
        """The queue offset of the next message. Source: ConsumeQueue.getMaxOffsetInQueue."""
        return self._find_end() // 20

    @property
    @beside_expiry
    def min_queue_offset(self) -> int:
        """The queue offset of the first unit that is no filler and leads to what the commit log still has.

        A restarted broker looks in the first file only, and takes a filler if the commit log begins at 0.
        Source: ConsumeQueue.correctMinOffset.
        """
        self._run(again=True)
        held = self._held()
        at = bisect.bisect_left(held, True, key=lambda span: self._find_live(span) < span[1])
        return (self._find_live(held[at]) if at < len(held) else self._find_end()) // 20

    @overload
    def __getitem__(self, key: int) -> CqUnit: ...
    @overload
    def __getitem__(self, key: slice) -> ConsumeQueueUnits: ...
    @beside_expiry
    def __getitem__(self, key: int | slice) -> CqUnit | ConsumeQueueUnits:
        """Give the unit of a queue offset, or those of a range; below 0 they count from the end.

        A range without a start begins at ``min_queue_offset``, another also before it, where files are still there.
        Raises: IndexError; CorruptFileError where a file of the run is missing or was cut.
        Source: ConsumeQueue.iterateFrom, BatchConsumeQueue.iterateFrom.
        """
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise ValueError(f"step {key.step}: units are read one after the other")
            start = self.min_queue_offset if key.start is None else operator.index(key.start)
            stop = LONG_MAX if key.stop is None else operator.index(key.stop)
            end = self._end_after(min(start, stop), stop)
            start, stop = (bound + end if bound < 0 else bound for bound in (start, stop))
            return self._decode(list(self._spans(start, min(stop, end))))
        start = operator.index(key)
        end = self._end_after(start, start + 1)
        start += end if start < 0 else 0
        for span in self._spans(start, min(start + 1, end)):
            return self._unit_at(span[0])
        first = max(self.min_queue_offset, 0)
        held = f"queue offsets are {first} to {end - 1}" if first < end else "it has none"
        raise IndexError(f"{self.directory}: no unit {key}: {held}")

    __iter__ = None  # there may be many queue offsets for one unit: ranges are iterable

    def __len__(self) -> int:
        first = max(self.min_queue_offset, 0)
        return max(self.max_queue_offset - first, 0)

    @beside_expiry
    def get_offset_by_time(self, timestamp: int, boundary: str = "lower") -> int:
        """Find the queue offset of a store time, epoch milliseconds, within min and max.

        Parameters: boundary: "lower": the first message of that time, else the next one; "upper": the last of it,
        else the one before. Raises: ValueError for another boundary, or without a commit log.
        Source: ConsumeQueueStore.getOffsetInQueueByTime.
        """
        if boundary not in ("lower", "upper"):
            raise ValueError(f"boundary={boundary!r}: must be 'lower' or 'upper'")
        require_int64(timestamp=timestamp)
        first = self.min_queue_offset
        return min(max(self._search_time(timestamp, boundary == "lower", first), first), self.max_queue_offset)

    @beside_expiry
    def file_range(self, queue_offset: int) -> tuple[int, int] | None:
        """Give the first queue offset in the file that has this one, and the one after its last; None: no file has it.

        Raises: CorruptFileError for a file that was cut.
        """
        position, held = self._position(queue_offset), self._held()
        at = bisect.bisect_right(held, position, key=FIRST) - 1
        if at < 0 or position >= held[at][1]:
            return None
        return self._offset_at(held[at][0]), self._offset_at(held[at][1])

    # ---- put -----------------------------------------------------------------------------------------------

    def put_unit(self, phy_offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Append the unit of one record. Whether it was: as ``put_units``, and see there."""
        return self.put_units([phy_offset], [size], [tags_code], queue_offset) == 1

    def put_units(self, phy_offsets: Any, sizes: Any, tags_codes: Any, queue_offset: Any) -> int:
        """Append units in order, but none of a record before the last unit's end or of a queue offset that is taken.

        Fillers stand before the first unit of a queue in its first file; a later gap in queue offsets is closed. One
        thread puts at a time.

        Parameters: phy_offsets, int64[n], sizes, int32[n]: of the records, bytes. tags_codes: int64[n], of which
        addresses are those of ext units. queue_offset: of the first unit, and the others follow; or int64[n].
        Returns: how many were appended. Raises: ValueError, TypeError for a row that cannot be, and nothing is
        written; io.UnsupportedOperation in mode "r"; OSError. Source: ConsumeQueue.putMessagePositionInfo.
        """
        return self._put(phy_offsets, sizes, tags_codes, queue_offsets_of(queue_offset, np.ones(len(phy_offsets), int)))

    def _put(self, phy_offsets: Any, sizes: Any, tags_codes: Any, *more: np.ndarray) -> int:
        n = len(phy_offsets)
        columns = int64_column(phy_offsets, "phy_offsets", n), int32_column(sizes, "sizes", n)
        count: int = self._writing().put_units(*columns, int64_column(tags_codes, "tags_codes", n), *more)
        return count

    def flush(self) -> None:
        """Return when all that was put is on the disk. Raises: OSError; io.UnsupportedOperation in mode "r"."""
        self._writing().flush()

    def _writing(self) -> Any:
        if self._writer is None:
            raise io.UnsupportedOperation(f"{self.directory} is open for reading: open it with mode 'a' to put units")
        return self._writer

    # ---- the rest ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, if open for writing, and close the files. Later calls raise StoreClosedError."""
        try:
            if self._writer is not None and not self._closed:
                self._writer.flush()
        finally:
            self._closed = True
            if self._queue is not None:
                self._queue.close()
            if self._writer is not None:
                self._writer.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self._writer is not None:
            raise TypeError(f"{self.directory} is open for writing: only a reader can be pickled")
        return type(self), (self.directory, self._given_size, self._commit_log)

    def __repr__(self) -> str:
        try:
            state = f"{self.min_queue_offset:,} to {self.max_queue_offset:,}"
        except StoreClosedError:  # or its log is
            state = "closed"
        except (StoreError, OSError) as error:
            state = str(error)
        return f"<{type(self).__name__} {str(self.directory)!r}, {state}>"

    # ---- files ---------------------------------------------------------------------------------------------

    def _run(self, *, again: bool = False) -> MappedFileQueue:
        """The files as they were listed last, or ``again`` as they are now."""
        if self._closed:
            raise StoreClosedError(f"{self.directory} is closed")
        if self._queue is None:
            self._queue = open_queue([self.directory], mapped_file_size=self._given_size, mappings=self.mappings)
        elif again:
            self._queue.refresh()
        else:
            return self._queue
        self._file_size = self._queue.mapped_file_size
        for file in self._queue.files:
            if file.file_from_offset % (self._given_size or self.rounded_to) or file.size > self._file_size:
                reason = f"{file.size} bytes from {file.file_from_offset} on: files of {self._file_size} are expected"
                raise CorruptFileError(file.path, file.size, "file size", reason)
        return self._queue

    @property
    @beside_expiry
    def leftover_units(self) -> int:
        """The number of valid units behind the end of the queue. They lead to records behind the end of the log."""
        end, run_end = self._find_end(), self._find_run_end()
        if end == run_end:
            return 0
        behind = [(max(begin, end), stop) for begin, stop in self._spans_until(run_end) if stop > end]
        return sum(stop - begin for begin, stop in behind) // self.unit_size

    def _find_end(self) -> int:
        """Find the end of the queue, bytes: the end of its valid units, or the first one that leads behind the log."""
        run_end, log = self._find_run_end(), self._commit_log
        ending = getattr(log, "ending", None)
        state = StoreState.CRASHED if ending is None else ending.state
        is_bounded = state != StoreState.CRASHED and log.queue.files
        end = self._find_end_by_log(run_end, state) if is_bounded else run_end
        limit = LONG_MAX if ending is None else log.find_limit()
        self._found_end = end if limit == LONG_MAX else self._find_end_before(limit, end)
        return self._found_end

    def _find_end_before(self, limit: int, end: int) -> int:
        """Find the end of those units before ``end`` that lead to records before the physical offset ``limit``."""
        spans = self._spans_until(end)
        if not spans or self._skip_before(spans[-1][0], end, limit) == end:
            return end
        return max(find_truncated_end(spans, limit, self._phy_offset_at, self._skip_before), spans[0][0])

    def _find_end_by_log(self, run_end: int, state: StoreState) -> int:
        """Find the end of the queue by the records that its units lead to."""
        files, known = self._run().files, self._bounded
        if known is None or known.files is not files or known.end != known.run_end or known.run_end > run_end:
            known = None
        elif known.run_end == run_end:
            return run_end
        if is_remote(self.directory):  # a walk over the log would fetch it all: check the last unit's record
            end = run_end if self._is_before_last_file(run_end) else self._find_own_end(run_end)
        else:
            end = self._find_bounded_end(run_end, 0 if known is None else known.end)
            end = self._find_own_end(end) if state == StoreState.RUNNING else end
        self._bounded = BoundedEnd(files, run_end, end)
        return end

    def _find_bounded_end(self, run_end: int, checked: int) -> int:
        """Find the end of the queue. Only units from ``checked`` to ``run_end``, bytes, may lead behind the log."""
        spans, log = self._spans_until(run_end), self._commit_log
        if not spans:
            return run_end
        # Finding the end of the log is slow. It is not needed if all units lead to earlier files of the log.
        place = self._skip_before(max(spans[-1][0], checked), run_end, log.ending.begin())
        if place == run_end or self._skip_before(place, run_end, log_end := log.ending.bound_of_queues()) == run_end:
            return run_end
        return find_truncated_end(spans, log_end, self._phy_offset_at, self._skip_before)

    def _find_own_end(self, end: int) -> int:
        return find_own_end(self._spans_until(end), self.unit_size, self._is_own) if end > 0 else end

    def _is_before_last_file(self, run_end: int) -> bool:
        """Return whether the last unit leads to a record before the last log file that begins with a record."""
        spans = self._spans_until(run_end)
        return not spans or self._phy_offset_at(run_end - self.unit_size) < self._commit_log.ending.begin()

    def _skip_before(self, start: int, stop: int, log_end: int) -> int:
        """Return the position of the first unit that leads to ``log_end`` or behind it; ``stop`` if there is none."""
        while start < stop:
            size = min(stop - start, READ_UNITS * self.unit_size)
            units = Buffer(self._run().pread(start, size), self.directory)
            n = units.size // self.unit_size
            count = count_valid_units(units, 0, n, self.unit_size, log_end - 1)
            start += count * self.unit_size
            if count < n or n == 0:
                break
        return start

    def _phy_offset_at(self, position: int) -> int:
        return int.from_bytes(self._run().pread(position, 8), "big", signed=True)

    def _is_own(self, position: int) -> bool:
        """Whether the unit at a position leads to a record of this queue, or to one that has expired."""
        phy_offset = self._phy_offset_at(position)
        if phy_offset < self._commit_log.min_phy_offset or self._unit_at(position).is_filler:
            return True
        record = self._commit_log.find_message(phy_offset)
        if record is None:
            return False
        light_queues = record.properties.get("INNER_MULTI_DISPATCH", "").split(",")
        return (record.topic, record.queue_id) == (self.topic, self.queue_id) or self.topic in light_queues

    def _spans_until(self, end: int) -> list[Span]:
        """Return the spans of units before ``end`` in each file that has any."""
        spans = self._spans_of_files()
        spans = spans[: bisect.bisect_left(spans, end, key=BEGIN)]
        if spans:
            spans[-1] = spans[-1][0], min(spans[-1][1], end)
        return spans

    def _spans_of_files(self) -> list[Span]:
        """Return where the units begin and end that each file has room for. A queue may have thousands of files."""
        files, spans = self._shown_spans  # which another thread may exchange
        if files is not self._run().files:
            files = self._run().files
            spans = [(file.file_from_offset, self._limit(file)) for file in files if file.size >= self.unit_size]
            self._shown_spans = files, spans
        return spans

    def _find_run_end(self) -> int:
        """Where the valid units end. The files are listed again when one comes, or takes a place, that is not known."""
        files = self._run().files
        file = self._run().find(self._end)
        if file is not None and self._is_same(file) and self._is_at_end(file):
            return self._end
        if files and self._end == self._limit(files[-1]) and self._is_same(files[-1]) and self._is_unit_left():
            following = files[-1].file_from_offset + self._file_size
            if not (self.directory / f"{following:020}").exists():
                return self._end
        files = self._run(again=True).files
        is_within = bool(files) and files[0].file_from_offset <= self._end <= files[-1].end_offset
        if not is_within or not self._is_unit_left():
            self._end = files[-RECOVERED_FILES:][0].file_from_offset if files else 0
        for file in files:
            if self._limit(file) > self._end and not self._is_full(file):
                break
        return self._end

    def _is_same(self, file: LogFile) -> bool:
        """Whether the file with its name is the one that was listed."""
        try:
            return identity(file.path) == file.identity
        except FileNotFoundError:
            return False

    def _is_at_end(self, file: LogFile) -> bool:
        """Whether the last unit is valid, and no other in this file follows it."""
        begin, end = self._end - self.unit_size, self._end + self.unit_size
        page = self._end - (self._end - file.file_from_offset) % mmap.PAGESIZE
        # Behind the units there is a hole, and on a full tmpfs a look at one through a mapping kills the process. In
        # one page with the last unit there is none, and nearly always the two are looked at together.
        if page <= begin and end <= min(page + mmap.PAGESIZE, self._limit(file)):
            valid = self._count_valid(*self._units_of((begin, end)))
            if valid <= self.unit_size:
                return valid == self.unit_size
        return self._is_unit_left() and not self._is_full(file)

    def _is_unit_left(self) -> bool:
        """Whether the last unit was not cut off, as a recovery or a new queue in the place of this one does."""
        begin = self._end - self.unit_size
        if self._run().find(begin) is None:
            return True
        return self._count_valid(*self._units_of((begin, self._end))) > 0

    def _is_full(self, file: LogFile) -> bool:
        """Move the end over the valid units of a file. Whether it has no room for more."""
        start, limit = max(self._end, file.file_from_offset), self._limit(file)
        n = valid = 1
        while start < limit and n == valid:
            units = Buffer(self._run().pread(start, min(limit - start, READ_UNITS * self.unit_size)), file.path)
            n = units.size // self.unit_size
            valid = self._count_valid(units, 0, n) // self.unit_size
            start += valid * self.unit_size
            if n == 0:
                break
        if start > file.file_from_offset:
            self._end = max(start, self._end)
        return self._end >= limit

    def _count_valid(self, buffer: Buffer, pos: int, n: int) -> int:
        """The length of the valid units before the first invalid one, bytes."""
        return int(count_valid_units(buffer, pos, n, self.unit_size)) * self.unit_size

    def _limit(self, file: LogFile) -> int:
        """Where the last unit ends that a file has room for."""
        return file.file_from_offset + file.size // self.unit_size * self.unit_size

    def _held(self) -> list[Span]:
        """The valid units of each file that has any. They are looked for again when files or end are others."""
        end, files = self._find_end(), self._run().files
        known = self._known  # which another thread may exchange
        if known is None or known[0] is not files or known[1] != end:
            known = self._known = files, end, self._held_until(end, files)
        return known[2]

    def _held_until(self, end: int, files: Sequence[LogFile]) -> list[Span]:
        files = [file for file in files if file.file_from_offset < end]
        for file in files:
            if file.size < self.unit_size:
                raise self._missing(file.file_from_offset)
        return [(file.file_from_offset, min(self._limit(file), end)) for file in files]

    def _spans(self, begin: int, end: int) -> Iterator[Span]:
        """The units of a range of queue offsets, file by file."""
        run = self._run()
        files = run.files
        if not files or end <= max(begin, 0):
            return
        position = max(self._position(max(begin, 0)), files[0].file_from_offset)
        stop = self._position(end - 1) + self.unit_size
        while position < stop:
            file = run.find(position)
            limit = -1 if file is None else self._limit(file)
            if file is None or position >= limit:
                raise self._missing(position)
            yield position, min(limit, stop)
            position = limit
            if file.file_from_offset + self._file_size - position < self.unit_size:
                position = file.file_from_offset + self._file_size

    def _units_of(self, span: Span) -> tuple[Any, int, int]:
        """What kernels take: the buffer, the position in it, and the number of units."""
        window: Window | None = self._run().read(span[0], span[1] - span[0])
        if window is None:
            raise self._missing(span[0])
        return window.buffer, span[0] - window.from_offset, (span[1] - span[0]) // self.unit_size

    def _missing(self, position: int) -> CorruptFileError:
        start = position - position % max(self._file_size, 1)
        reason = "the file is missing or was cut, or mapped_file_size is another"
        return CorruptFileError(self.directory / f"{start:020}", position - start, "file size", reason)

    def _find(self, span: Span, field: int, value: int) -> int:
        """Where the first unit is that is no filler and has at least ``value`` in a field, or the end."""
        return span[0] + find_unit(*self._units_of(span), self.unit_size, field, value) * self.unit_size

    def _find_live(self, span: Span) -> int:
        """Where the first unit is that leads to what the commit log still has, or the end."""
        return self._find(span, PHY_OFFSET, 0 if self._commit_log is None else self._commit_log.min_phy_offset)

    # ---- units ---------------------------------------------------------------------------------------------

    def _position(self, queue_offset: int) -> int:
        return queue_offset * 20

    def _offset_at(self, position: int) -> int:
        return position // 20

    def _end_after(self, first: int, stop: int) -> int:
        """The end, which is not looked for again where a range of queue offsets is within what is known."""
        end = self._found_end
        return end // 20 if first >= 0 and stop * 20 <= end else self.max_queue_offset

    def _unit_at(self, position: int) -> CqUnit:
        window: Window | None = self._run().read(position, 20)
        if window is None:
            raise self._missing(position)
        return CqUnit(position // 20, *read_unit(window.buffer, position - window.from_offset))

    def _decode(self, spans: Sequence[Span]) -> ConsumeQueueUnits:
        n = sum(end - start for start, end in spans) // 20
        # One block: malloc has it ready from the last time more often than three. Columns that begin at multiples of
        # 64 bytes can be written past the cache.
        room = -(-n // 16) * 16
        block = np.empty(20 * room + 64, np.uint8)
        start = -block.__array_interface__["data"][0] % 64
        phy_offsets: np.ndarray = np.ndarray(n, np.int64, block, start)
        tags_codes: np.ndarray = np.ndarray(n, np.int64, block, start + 8 * room)
        sizes: np.ndarray = np.ndarray(n, np.int32, block, start + 16 * room)
        first = 0
        for span in spans:
            buffer, pos, count = self._units_of(span)
            rows = slice(first, first + count)
            decode_units(buffer, pos, phy_offsets[rows], sizes[rows], tags_codes[rows])
            first += count
        return ConsumeQueueUnits(spans[0][0] // 20 if spans else 0, phy_offsets, sizes, tags_codes)

    def _search_time(self, timestamp: int, lower: bool, first: int) -> int:
        """Source: ConsumeQueue.binarySearchInQueueByTime."""
        if self._commit_log is None:
            raise ValueError(f"{self.directory}: open the queue with commit_log to search it by time")
        span = self._span_of_time(timestamp, lower)
        if span is None:
            return 0
        start, units, least = span[0] // 20, self._decode([span]), self._commit_log.min_phy_offset
        low = floor = max(first - start, 0)
        high = ceiling = len(units) - 1
        below = above = -1
        if self._time(units, ceiling) < timestamp:
            return start + ceiling + lower
        if floor <= ceiling and self._time(units, floor) > timestamp:
            return start if lower else 0
        while low <= high:
            middle = (low + high) // 2
            if units.phy_offsets[middle] < least:
                low, below = middle + 1, middle
                continue
            time = self._time(units, middle)
            if time < 0:
                return 0
            if time == timestamp:
                step, last = (-1, floor) if lower else (1, ceiling)
                while middle != last and self._time(units, middle + step) == timestamp:
                    middle += step
                return start + middle
            if time > timestamp:
                high, above = middle - 1, middle
            else:
                low, below = middle + 1, middle
        return start + (above if lower else below)

    def _span_of_time(self, timestamp: int, lower: bool) -> Span | None:
        """Source: MappedFileQueue.getConsumeQueueMappedFileByTime."""
        held = self._held()
        if not lower:
            return next((span for span in reversed(held) if self._time_at(span[0]) <= timestamp), None)
        found = (span for span in held[:-1] if self._time_at(span[1] - 20) >= timestamp)
        return next(found, held[-1] if held else None)

    def _time(self, units: ConsumeQueueUnits, i: int) -> int:
        time: int = self._commit_log.pickup_store_timestamp(int(units.phy_offsets[i]), int(units.sizes[i]))
        return time

    def _time_at(self, position: int) -> int:
        time = self._time(self._decode([(position, position + 20)]), 0)
        return time if time > 0 else -1


def queue_offsets_of(queue_offset: Any, counts: np.ndarray) -> np.ndarray:
    """Give the queue offset of each of n units, int64[n], or of the first and how many messages each has."""
    if np.ndim(queue_offset):
        return int64_column(queue_offset, "queue_offset", len(counts))
    require_int64(queue_offset=operator.index(queue_offset))
    offsets: np.ndarray = queue_offset + np.cumsum(counts, dtype=np.int64) - counts
    return offsets


def is_queue_name(name: str) -> bool:
    """Whether a name is that of a queue's directory: an int as Java writes one.

    Of other numbers, such as 007, RocketMQ loads the directory of the usual name.
    Source: ConsumeQueueStore.loadConsumeQueues.
    """
    return re.fullmatch("0|-?[1-9][0-9]{0,9}", name) is not None and INT_MIN <= int(name) <= INT_MAX
