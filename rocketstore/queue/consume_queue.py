"""ConsumeQueue: which records of the commit log are the messages of one queue."""

from __future__ import annotations

import bisect
import functools
import io
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any, ClassVar, Self, TypeVar, cast, overload

import numpy as np

from rocketstore.config import DEFAULT_SIZES
from rocketstore.disk.closable import Closable
from rocketstore.disk.durable import make_directory
from rocketstore.disk.file_run_reader import Mappings, RunFile
from rocketstore.disk.mapped_file import Mode, check_mode
from rocketstore.disk.storage import is_remote, local_path, scandir, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, StoreClosedError, StoreError
from rocketstore.kernels.columns import int32_column, int64_column
from rocketstore.kernels.consume_queue import sum_sizes
from rocketstore.limits import LONG_MAX
from rocketstore.made_by import made_by
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter
from rocketstore.queue.queue_end import QueueEndFinder
from rocketstore.queue.queue_source import Boundary, OffsetBounds, offset_range, ranges_to_read
from rocketstore.queue.time_search import search_all_units, search_units
from rocketstore.queue.unit_run import Span, UnitRun
from rocketstore.queue.unit_writer import UnitWriter
from rocketstore.queue.units import ConsumeQueueUnits, CqUnit, queue_offsets_of
from rocketstore.text_values import Time, epoch_ms

FIRST = operator.itemgetter(0)
ITERATED_UNITS = 4096  # read at once by an iteration
F = TypeVar("F", bound=Callable[..., Any])


def beside_expiry(method: F) -> F:
    """Call a method of a queue once more if it failed because the first listed file has expired."""

    @functools.wraps(method)
    def call(self: ConsumeQueue, *args: Any, **options: Any) -> Any:
        files = self.run.listed_files
        try:
            return method(self, *args, **options)
        except (FileNotFoundError, CorruptFileError):
            files = files or self.run.listed_files
            if not files or files[0].path.exists():
                raise
            self.run.list_again()
            return method(self, *args, **options)

    return cast("F", call)


@made_by("ConsumeQueue.open(path)")
class ConsumeQueue(Closable):
    """The units of one queue, by queue offset. Made by ``open``; a context manager; a reader pickles as its options.

    A queue ends where recovery would find the end: before the first invalid unit of the last three files. Each call
    resumes the search for the end, so a queue grows as a broker writes. If the end of the commit log is known, a queue
    ends before its first unit that leads behind that end, as for a broker. Units of an uncommitted write are left out.
    ``queue[i]`` is the unit of a queue offset, ``queue[i:j]`` are units as columns. The length is in messages.

    Attributes: directory; mode; run: the units by their position in the files.
    Source: org.apache.rocketmq.store.ConsumeQueue.

    Examples:
    >>> queue = rocketstore.open("demo").consume_queue("Orders", 0)
    >>> len(queue), queue[0].phy_offset, queue[10:12].queue_offsets
    (100, 0, array([10, 11]))
    """

    __slots__ = ("_closed", "_commit_log", "_end_finder", "_known_spans", "_writer", "directory", "mode", "run")
    size_name: ClassVar[str] = "mapped_file_size_consume_queue"  # the field of StoreConfig
    run_type: ClassVar[type[UnitRun]] = UnitRun
    writer_type: ClassVar[type[UnitWriter]] = ConsumeQueueWriter
    unit_size: ClassVar[int] = UnitRun.unit_size
    has_batches: ClassVar[bool] = False  # whether a unit stands for many queue offsets
    has_gaps: ClassVar[bool] = False
    is_compacted: ClassVar[bool] = False  # whether older messages of a key are missing

    def __init__(self, run: UnitRun, commit_log: Any, mode: str = "r") -> None:
        self.directory = run.directory
        self.mode = mode
        self.run = run
        self._commit_log = commit_log
        self._end_finder = QueueEndFinder(run, commit_log)
        self._known_spans: tuple[Sequence[RunFile], int, list[Span]] | None = None  # files, end, spans of both
        self._closed = False
        self._writer: Any = None
        if mode != "r":
            size = self.mapped_file_size or DEFAULT_SIZES[self.size_name]
            run.set_size(size)
            self._writer = self.writer_type(local_path(self.directory), size, keeps_files=True)
            self._writer.recover(zero=True)
            run.forget()  # recovery deletes an empty last file

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str] | StorePath,
        mode: Mode = "r",
        *,
        mapped_file_size: int | None = None,
        commit_log: Any = None,
        _mappings: Mappings | None = None,
    ) -> Self:
        """Open the queue in a directory ``topic/queueId``. A reader lists its files when they are first needed.

        Parameters: mode: "r" reads. "r+" also puts into a queue that stands alone; for a store use
        ``rocketstore.open``. "a" also makes the directory. mapped_file_size: bytes; without it, the files show it, and
        a new queue has RocketMQ's default. commit_log: has ``min_phy_offset`` and
        ``pickup_store_timestamp(phy_offset, size)``, -1 for a record that it cannot read; without it nothing has
        expired.
        Raises: FileNotFoundError; ValueError; CorruptFileError for files that cannot be continued.
        Source: ConsumeQueue.load, BatchConsumeQueue.load.
        """
        check_mode(mode)
        path = to_path(directory) if mode == "r" else local_path(directory)
        run = cls.run_type(path, mapped_file_size, _mappings)
        if mode == "a":
            make_directory(local_path(path))
        if is_remote(path) or not path.is_dir():
            with scandir(path):  # raises the error of a directory that is missing
                pass
        return cls(run, commit_log, mode)

    @classmethod
    def of_files(cls, directory: StorePath, files: list[RunFile], mapped_file_size: int, commit_log: Any) -> Self:
        """Open files of a queue that were listed before. The directory is listed only if a file is missing.

        Parameters: mapped_file_size: bytes; 0 without files. commit_log: as for ``open``.
        """
        return cls(cls.run_type(directory, mapped_file_size or None, planned=files), commit_log)

    @property
    def log(self) -> Any:
        """The log into which the units lead, as it was given to ``open``."""
        return self._commit_log

    @property
    def topic(self) -> str:
        return self.directory.parent.name

    @property
    def queue_id(self) -> int:
        """The directory's name. Raises ValueError if that is no number."""
        return int(self.directory.name)

    @property
    def mapped_file_size(self) -> int:
        """The length of a complete file, bytes; 0 without a file."""
        return self.run.file_run.mapped_file_size

    @property
    @beside_expiry
    def max_queue_offset(self) -> int:
        """The queue offset of the next message. Source: ConsumeQueue.getMaxOffsetInQueue."""
        return self._end_finder.find_end() // self.unit_size

    @property
    @beside_expiry
    def min_queue_offset(self) -> int:
        """The queue offset of the first unit that is no filler and whose record is still in the commit log.

        A restarted broker looks in the first file only, and accepts a filler if the commit log begins at 0.
        Source: ConsumeQueue.correctMinOffset.
        """
        return self.bounds.least

    @property
    @beside_expiry
    def bounds(self) -> OffsetBounds:
        """``min_queue_offset``, ``max_queue_offset`` and the number of messages, found by one search for the end."""
        self.run.list_files()
        end = self._end_finder.find_end(is_listed=True)
        least, end = self._find_first_live(end) // self.unit_size, end // self.unit_size
        return OffsetBounds(least, end, max(end - max(least, 0), 0))

    @property
    @beside_expiry
    def leftover_units(self) -> int:
        """The number of valid units behind the end of the queue. They lead to records behind the end of the log."""
        return self._end_finder.count_leftover_units()

    @overload
    def __getitem__(self, key: int) -> CqUnit: ...
    @overload
    def __getitem__(self, key: slice) -> ConsumeQueueUnits: ...
    @beside_expiry
    def __getitem__(self, key: int | slice) -> CqUnit | ConsumeQueueUnits:
        """Return the unit of a queue offset, or the units of a range; below 0 they count from the end.

        A range without a start begins at ``min_queue_offset``. A range with a start may begin before it, as long as the
        files exist. Raises: IndexError; CorruptFileError if a file is missing or was cut.
        Source: ConsumeQueue.iterateFrom, BatchConsumeQueue.iterateFrom.
        """
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise ValueError(f"step {key.step}: units are read one after the other")
            start = self.min_queue_offset if key.start is None else operator.index(key.start)
            stop = LONG_MAX if key.stop is None else operator.index(key.stop)
            end = self._end_after(min(start, stop), stop)
            start, stop = (bound + end if bound < 0 else bound for bound in (start, stop))
            return self.run.decode(list(self._spans_between(start, min(stop, end))))
        start = operator.index(key)
        end = self._end_after(start, start + 1)
        start += end if start < 0 else 0
        files = self.run.files
        if files and 0 <= start < end and (position := self._position(start)) >= files[0].file_from_offset:
            return self.run.unit_at(position)
        first = max(self.min_queue_offset, 0)
        held = f"queue offsets are {first} to {end - 1}" if first < end else "it has none"
        raise IndexError(f"{self.directory}: no unit {key}: {held}")

    def __iter__(self) -> Iterator[CqUnit]:
        """Yield the units from ``min_queue_offset`` to the present end. A batch unit stands for many queue offsets."""
        first, end = offset_range(self)
        for begin, stop in ranges_to_read(self, first, end, ITERATED_UNITS):
            for unit in self[begin:stop]:
                if unit.queue_offset >= begin or begin == first:  # else the range before this one had the batch unit
                    yield unit

    def __len__(self) -> int:
        return self.bounds.messages

    @beside_expiry
    def count_bytes(self, begin: int, end: int) -> int:
        """Return the bytes of the records of the units whose queue offsets are from ``begin`` to before ``end``.

        All these units are read. A filler unit has no record.
        Parameters: begin, end: queue offsets, 0 or more. Raises: CorruptFileError if a file is missing or was cut.
        Source: none.
        """
        spans = self._spans_between(begin, min(end, self._end_after(begin, end)))
        return sum(sum_sizes(*self.run.peek_span(span), self.unit_size) for span in spans)

    @beside_expiry
    def find_spans(self) -> list[Span]:
        """Return where the units of the queue begin and end in each file, positions in the run, bytes.

        The first units may be fillers, or lead to records that have expired.
        """
        return self._spans()

    @beside_expiry
    def find_expired_files(self, min_phy_offset: int) -> list[RunFile]:
        """Return the oldest files whose units all lead to records before a physical offset, never the last file.

        Source: MappedFileQueue.deleteExpiredFileByOffset.
        """
        self.run.list_files()
        return list(
            takewhile(
                lambda file: self.run.unit_at(self.run.limit(file) - self.unit_size).phy_offset < min_phy_offset,
                self.run.files[:-1],
            )
        )

    @beside_expiry
    def get_offset_by_time(self, timestamp: Time, boundary: Boundary = "lower", *, exact_times: bool = False) -> int:
        """Find the queue offset of a store time, within min and max.

        The answer is that of a broker. Its search is binary and assumes that store times never go back.
        Parameters: timestamp: epoch ms, a datetime, a date or an ISO 8601 text. boundary: "lower": the first message of
        that time, else the next one; "upper": the last of it, else the one before. exact_times: read the times of all
        messages, without that assumption. Raises: ValueError for another boundary, or without a commit log.
        Source: ConsumeQueueStore.getOffsetInQueueByTime.
        """
        if boundary not in ("lower", "upper"):
            raise ValueError(f"boundary={boundary!r}: must be 'lower' or 'upper'")
        time = epoch_ms(timestamp, "timestamp")
        first, is_lower = self.min_queue_offset, boundary == "lower"
        if exact_times:
            every = search_all_units(self, self._log_of_times(), time, is_lower=is_lower)
            found = every if every is not None else self.max_queue_offset if is_lower else first
        else:
            found = self._search_time(time, first, is_lower=is_lower)
        return min(max(found, first), self.max_queue_offset)

    @beside_expiry
    def file_range(self, queue_offset: int) -> tuple[int, int] | None:
        """Return the first queue offset in the file that has this one, and the one after its last.

        Returns: None if no file has the queue offset. Raises: CorruptFileError for a file that was cut.
        """
        position = self._position(queue_offset)
        spans = self._spans_before(self._end_of_known(position))
        at = bisect.bisect_right(spans, position, key=FIRST) - 1
        if at < 0 or position >= spans[at][1]:
            return None
        return self._offset_at(spans[at][0]), self._offset_at(spans[at][1])

    def offset_after_missing_file(self, queue_offset: int) -> int:
        """Return the queue offset after the file of a queue offset. Source: ConsumeQueue.rollNextFile."""
        per_file = max(self.mapped_file_size // self.unit_size, 1)
        return queue_offset - queue_offset % per_file + per_file

    # ---- put -----------------------------------------------------------------------------------------------

    def put_unit(self, phy_offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Append the unit of one record; see ``put_units``. Return whether it was appended."""
        return self.put_units([phy_offset], [size], [tags_code], queue_offset) == 1

    def put_units(self, phy_offsets: Any, sizes: Any, tags_codes: Any, queue_offset: Any) -> int:
        """Append units in order. Skip records before the end of the last unit's record, and occupied queue offsets.

        Filler units stand before the first unit of a queue in its first file; a later gap in queue offsets is closed.
        One thread puts at a time.

        Parameters: phy_offsets, int64[n], sizes, int32[n]: of the records, bytes. tags_codes: int64[n]; addresses of
        ext units are tags codes too. queue_offset: int64[n]; or of the first unit, if the others follow it.
        Returns: how many units were appended. Raises: ValueError, TypeError for an impossible row, and nothing is
        written; io.UnsupportedOperation in mode "r"; OSError. Source: ConsumeQueue.putMessagePositionInfo.
        """
        return self._put(phy_offsets, sizes, tags_codes, queue_offsets_of(queue_offset, np.ones(len(phy_offsets), int)))

    def _put(self, phy_offsets: Any, sizes: Any, tags_codes: Any, *more: np.ndarray) -> int:
        n = len(phy_offsets)
        columns = int64_column(phy_offsets, "phy_offsets", n), int32_column(sizes, "sizes", n)
        count: int = self._writing().put_units(*columns, int64_column(tags_codes, "tags_codes", n), *more)
        return count

    def flush(self) -> None:
        """Return when all units that were put are on the disk. Raises: OSError; io.UnsupportedOperation in mode "r"."""
        self._writing().flush()

    def _writing(self) -> Any:
        if self._writer is None:
            raise io.UnsupportedOperation(f"{self.directory} is open for reading: open it with mode 'a' to put units")
        return self._writer

    # ---- opening and closing -------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, if open for writing, and close the files. Later calls raise StoreClosedError."""
        try:
            if self._writer is not None and not self._closed:
                self._writer.flush()
        finally:
            self._closed = True
            self.run.close()
            if self._writer is not None:
                self._writer.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self._writer is not None:
            raise TypeError(f"{self.directory} is open for writing: only a reader can be pickled")
        return type(self), (self.run, self._commit_log)

    def __repr__(self) -> str:
        try:
            state = f"{self.min_queue_offset:,} to {self.max_queue_offset:,}"
        except StoreClosedError:  # the queue or its log is closed
            state = "closed"
        except (StoreError, OSError) as error:
            state = str(error)
        return f"<{type(self).__name__} {str(self.directory)!r}, {state}>"

    # ---- queue offsets and positions -----------------------------------------------------------------------

    def _spans(self) -> list[Span]:
        """Return the spans of the units of the queue. They are found again only if the files or the end changed."""
        return self._spans_before(self._end_finder.find_end())

    def _spans_before(self, end: int) -> list[Span]:
        files = self.run.files
        known = self._known_spans  # another thread may replace it
        if known is None or known[0] is not files or known[1] != end:
            known = self._known_spans = files, end, self.run.complete_spans_until(end)
        return known[2]

    def _spans_between(self, begin: int, end: int) -> Iterator[Span]:
        """Return the spans of a range of queue offsets."""
        files = self.run.files
        if not files or end <= max(begin, 0):
            return iter(())
        position = max(self._position(max(begin, 0)), files[0].file_from_offset)
        return self.run.spans_between(position, self._position(end - 1) + self.unit_size)

    def _find_first_live(self, end: int) -> int:
        """Return the position of the first unit before ``end`` whose record is still in the commit log, or ``end``."""
        spans = self._spans_before(end)
        if spans and (live := self._find_live(spans[0])) < spans[0][1]:
            return live
        at = bisect.bisect_left(spans, True, lo=min(1, len(spans)), key=lambda span: self._find_live(span) < span[1])
        return self._find_live(spans[at]) if at < len(spans) else end

    def _find_live(self, span: Span) -> int:
        """Return the position of the first unit whose record is still in the commit log, or the end of the span."""
        return self.run.find(span, "phy_offset", 0 if self._commit_log is None else self._commit_log.min_phy_offset)

    def _position(self, queue_offset: int) -> int:
        return queue_offset * self.unit_size

    def _offset_at(self, position: int) -> int:
        return position // self.unit_size

    def _end_after(self, first: int, stop: int) -> int:
        """Return the end as a queue offset. A range before the known end needs no search for the end."""
        end = self._end_finder.known_end
        return end // self.unit_size if first >= 0 and stop * self.unit_size <= end else self.max_queue_offset

    def _end_of_known(self, position: int) -> int:
        """Return the end as a position. The unit at a position before the known end needs no search for the end."""
        end = self._end_finder.known_end
        return end if 0 <= position < end else self._end_finder.find_end()

    def _search_time(self, timestamp: int, first: int, *, is_lower: bool) -> int:
        return search_units(self.run, self._spans(), self._log_of_times(), first, timestamp, is_lower=is_lower)

    def _log_of_times(self) -> Any:
        if self._commit_log is None:
            raise ValueError(f"{self.directory}: open the queue with commit_log to search it by time")
        return self._commit_log
