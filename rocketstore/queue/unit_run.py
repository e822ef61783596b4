"""UnitRun: the units of one queue, file by file, and where the valid ones end."""

from __future__ import annotations

import bisect
import contextlib
import mmap
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from rocketstore.disk.file_run_reader import (
    FROM_OFFSET,
    FileRunReader,
    Mappings,
    RunFile,
    Window,
)
from rocketstore.disk.page_cache import read_file_ahead
from rocketstore.disk.remote.remote_file_run import open_file_run
from rocketstore.disk.storage import identity, is_remote, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, StoreClosedError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.consume_queue import (
    count_valid_units,
    decode_batch_units,
    decode_units,
    find_unit,
    read_unit,
)
from rocketstore.kernels.layout import BATCH_UNIT, UNIT, read_field
from rocketstore.limits import LONG_MAX
from rocketstore.queue.units import ConsumeQueueUnits, CqUnit

RECOVERED_FILES = 3  # the last files of a queue, in which a broker looks for its end
# Reads of a search for the end. Behind the units, a file is one hole. So the reads begin small, and each is larger.
FIRST_UNITS = 128  # units of the first read of a local file: many queues of a store are short
READ_UNITS = 4096  # units of the next read, or of the first one of a remote file
MOST_READ_UNITS = 65536  # units of the longest read
HUGE_PAGE = 2 << 20  # bytes; with other pages the columns are only aligned more than needed
BEGIN = operator.itemgetter(0)
Span = tuple[int, int]  # positions: where the units of one file begin and end


def find_invalid_unit(
    read: Callable[[int, int], bytes],
    begin: int,
    end: int,
    unit_size: int,
    *,
    last_phy_offset: int = LONG_MAX,
    units_read: int = READ_UNITS,
) -> int:
    """Return the position of the first unit that is invalid, or that leads behind ``last_phy_offset``.

    Parameters: read: returns the bytes at a position, at most a given number. Mapped memory is not used: on a full
    tmpfs, reading a hole through a mapping kills the process. begin, end: positions in one file.
    units_read: of the first read.
    Returns: ``end`` if all units are valid; where the bytes end if the file is shorter.
    """
    while begin < end:
        units = Buffer(read(begin, min(end - begin, units_read * unit_size)))
        n = units.size // unit_size
        count = count_valid_units(units, 0, n, unit_size, last_phy_offset)
        begin += count * unit_size
        if count < n or n == 0:
            break
        units_read = max(units_read, min(2 * units_read, MOST_READ_UNITS))
    return begin


def read_ahead(file: RunFile) -> None:
    """Let the system begin to read a file. It has no effect on results."""
    with contextlib.suppress(OSError):
        read_file_ahead(file.path, file.size)


class UnitRun:
    """The units of one queue, in numbered files of one length. The files are listed when they are first needed.

    The position of a unit is the offset of its first byte in the file run. The bytes at the end of a file that have no
    room for a unit are unused.

    Attributes: directory. given_size: the length of a complete file, bytes; None: what the files show. mappings: those
    that the run shares with other queues, or None. file_size: as ``given_size``, as it was found; 0 before files were
    listed.
    """

    __slots__ = (
        "_closed",
        "_end",
        "_file_run",
        "_planned",
        "_shown_spans",
        "directory",
        "file_size",
        "given_size",
        "mappings",
    )
    layout: ClassVar[np.dtype] = UNIT
    unit_size: ClassVar[int] = UNIT.itemsize
    rounded_to: ClassVar[int] = UNIT.itemsize  # the length of every complete file is a multiple, bytes

    def __init__(
        self,
        directory: str | os.PathLike[str] | StorePath,
        mapped_file_size: int | None,
        mappings: Mappings | None = None,
        planned: list[RunFile] | None = None,
    ) -> None:
        """Parameters: planned: a list of the files that was made before; None to list the directory.

        Raises: ValueError if a unit does not fit into a file.
        """
        if mapped_file_size is not None:
            mapped_file_size = operator.index(mapped_file_size)  # arithmetic with a NumPy integer could overflow
            if mapped_file_size < self.unit_size:
                raise ValueError(f"mapped_file_size={mapped_file_size}: a unit has {self.unit_size} bytes")
            mapped_file_size = -(-mapped_file_size // self.rounded_to) * self.rounded_to
        self.directory = to_path(directory)
        self.given_size = mapped_file_size
        self.mappings = mappings
        self.file_size = 0
        self._planned = planned
        self._file_run: FileRunReader | None = None
        self._shown_spans: tuple[Sequence[RunFile], list[Span]] = ([], [])
        self._end = -1
        self._closed = False

    # ---- files ---------------------------------------------------------------------------------------------

    @property
    def file_run(self) -> FileRunReader:
        """The file run, as it was listed last. Raises: CorruptFileError; FileNotFoundError; StoreClosedError."""
        if self._closed:
            raise StoreClosedError(f"{self.directory} is closed")
        return self.list_files() if self._file_run is None else self._file_run

    @property
    def files(self) -> Sequence[RunFile]:
        return self.file_run.files

    @property
    def listed_files(self) -> Sequence[RunFile]:
        """The files as they were listed last; none if they were not listed yet."""
        return () if self._file_run is None else self._file_run.files

    def list_files(self) -> FileRunReader:
        """List the files as they are now."""
        if self._closed:
            raise StoreClosedError(f"{self.directory} is closed")
        if self._file_run is None:
            options: dict[str, Any] = {"mapped_file_size": self.given_size, "mappings": self.mappings}
            self._file_run = open_file_run([self.directory], files=self._planned, **options)
        else:
            self._file_run.refresh()
        self.file_size = self._file_run.mapped_file_size
        for file in self._file_run.files:
            if file.file_from_offset % (self.given_size or self.rounded_to) or file.size > self.file_size:
                reason = f"{file.size} bytes from {file.file_from_offset} on: files of {self.file_size} are expected"
                raise CorruptFileError(file.path, file.size, "file size", reason)
        return self._file_run

    def read_ahead(self) -> None:
        """Let the system begin to read the files. It has no effect on results."""
        for file in self.files:
            read_ahead(file)

    def list_again(self) -> None:
        """List the files as they are now, also if they were planned. Call it if one of them is missing."""
        self.file_run.list_again()
        self.list_files()

    def set_size(self, mapped_file_size: int) -> None:
        """Set the length of a complete file, bytes, for a queue that is written."""
        self.given_size = mapped_file_size

    def forget(self) -> None:
        """Forget the files, because a writer changed them. The next use lists them again."""
        self._file_run = None

    def close(self) -> None:
        self._closed = True
        if self._file_run is not None:
            self._file_run.close()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.directory, self.given_size)

    # ---- spans ---------------------------------------------------------------------------------------------

    def limit(self, file: RunFile) -> int:
        """Return the position where the last unit ends that a file has room for."""
        return file.file_from_offset + file.size // self.unit_size * self.unit_size

    def spans(self) -> list[Span]:
        """Return where the units begin and end that each file has room for. A queue may have thousands of files."""
        files, spans = self._shown_spans  # another thread may replace them
        if files is not self.files:
            files = self.files
            spans = [(file.file_from_offset, self.limit(file)) for file in files if file.size >= self.unit_size]
            self._shown_spans = files, spans
        return spans

    def spans_until(self, end: int) -> list[Span]:
        """Return the spans of units before ``end`` in each file that has any."""
        spans = self.spans()
        spans = spans[: bisect.bisect_left(spans, end, key=BEGIN)]
        if spans:
            spans[-1] = spans[-1][0], min(spans[-1][1], end)
        return spans

    def complete_spans_until(self, end: int) -> list[Span]:
        """Return the spans of units before ``end``. Raises: CorruptFileError if a file is too short for a unit."""
        spans, files = self.spans_until(end), self.files
        files = files[: bisect.bisect_left(files, end, key=FROM_OFFSET)]
        if len(spans) < len(files):
            raise self.missing_file(next(file.file_from_offset for file in files if file.size < self.unit_size))
        return spans

    def spans_between(self, begin: int, end: int) -> Iterator[Span]:
        """Yield the spans between two positions, file by file. Raises: CorruptFileError if a file is missing or cut."""
        while begin < end:
            file = self.file_run.find(begin)
            limit = -1 if file is None else self.limit(file)
            if file is None or begin >= limit:
                raise self.missing_file(begin)
            yield begin, min(limit, end)
            begin = limit
            if file.file_from_offset + self.file_size - begin < self.unit_size:
                begin = file.file_from_offset + self.file_size

    def missing_file(self, position: int) -> CorruptFileError:
        start = position - position % max(self.file_size, 1)
        reason = "the file is missing or was cut, or mapped_file_size is another"
        return CorruptFileError(self.directory / f"{start:020}", position - start, "file size", reason)

    # ---- units ---------------------------------------------------------------------------------------------

    def map_span(self, span: Span) -> tuple[Buffer, int, int]:
        """Return arguments for kernels: the buffer, the place of the first unit in it, and the number of units."""
        window: Window | None = self.file_run.read(span[0], span[1] - span[0])
        if window is None:
            raise self.missing_file(span[0])
        return window.buffer, span[0] - window.from_offset, (span[1] - span[0]) // self.unit_size

    def peek_span(self, span: Span) -> tuple[Buffer, int, int]:
        """Return arguments for kernels, as ``map_span`` does. A few units are read without a mapping."""
        begin, end = span
        window = self.file_run.peek(begin, end - begin)
        if window is None or end > window.from_offset + window.buffer.size:
            raise self.missing_file(begin)
        return window.buffer, begin - window.from_offset, (end - begin) // self.unit_size

    def unit_at(self, position: int) -> CqUnit:
        window: Window | None = self.file_run.read(position, self.unit_size)
        if window is None or position - window.from_offset > window.buffer.size - self.unit_size:
            raise self.missing_file(position)
        return CqUnit(position // self.unit_size, *read_unit(window.buffer, position - window.from_offset))

    def decode(self, spans: Sequence[Span]) -> ConsumeQueueUnits:
        """Return the units of some spans as columns."""
        n = sum(end - begin for begin, end in spans) // self.unit_size
        # Malloc reuses one large block more often than three smaller ones. The kernel can write columns past the cache
        # if they begin at multiples of 64 bytes. From 4 MiB on, NumPy asks for huge pages; those that begin with the
        # columns save nearly all other page faults.
        room = -(-n // 16) * 16
        size = (8 + 8 + 4) * room
        alignment = HUGE_PAGE if size >= HUGE_PAGE else 64
        block = np.empty(size + alignment, np.uint8)
        start = -block.__array_interface__["data"][0] % alignment
        phy_offsets: np.ndarray = np.ndarray(n, np.int64, block, start)
        tags_codes: np.ndarray = np.ndarray(n, np.int64, block, start + 8 * room)
        sizes: np.ndarray = np.ndarray(n, np.int32, block, start + 16 * room)
        first = 0
        for span in spans:
            buffer, pos, count = self.map_span(span)
            rows = slice(first, first + count)
            decode_units(buffer, pos, phy_offsets[rows], sizes[rows], tags_codes[rows])
            first += count
        return ConsumeQueueUnits(spans[0][0] // self.unit_size if spans else 0, phy_offsets, sizes, tags_codes)

    def find(self, span: Span, field: str, value: int) -> int:
        """Return the position of the first unit that is no filler and has at least ``value`` in a field, or the end."""
        place = self.layout.fields[field][1]  # type: ignore[index]
        return span[0] + find_unit(*self.peek_span(span), self.unit_size, place, value) * self.unit_size

    def read_phy_offset(self, position: int) -> int:
        return read_field(self.file_run.pread(position, 8), UNIT, "phy_offset")

    def skip_before(self, begin: int, end: int, log_end: int) -> int:
        """Return the position of the first unit that leads to ``log_end`` or behind it, or is invalid; or ``end``."""
        return find_invalid_unit(self.file_run.pread, begin, end, self.unit_size, last_phy_offset=log_end - 1)

    # ---- the end of the valid units ------------------------------------------------------------------------

    def find_end(self, *, is_listed: bool = False) -> int:
        """Return the position where the valid units end. A broker looks for the first invalid one in the last 3 files.

        The search goes on from the last end, and the files are listed again only if a new or another file appears. So a
        queue grows as a broker writes.

        Parameters: is_listed: whether the caller has just listed the files.
        """
        is_listed = is_listed or self._file_run is None
        files = self.files
        file = self.file_run.find(self._end)
        if file is not None and self._is_same(file) and self._is_at_end(file):
            return self._end
        if files and self._end == self.limit(files[-1]) and self._is_same(files[-1]) and self._is_last_valid():
            following = files[-1].file_from_offset + self.file_size
            if self.file_run.is_planned or not (self.directory / f"{following:020}").exists():
                return self._end
        files = files if is_listed else self.list_files().files
        is_within = bool(files) and files[0].file_from_offset <= self._end <= files[-1].end_offset
        if not is_within or not self._is_last_valid():
            self._end = files[-RECOVERED_FILES:][0].file_from_offset if files else 0
        for file in files:
            if self.limit(file) > self._end and not self._move_end(file):
                break
        return self._end

    def _is_same(self, file: RunFile) -> bool:
        """Return whether the file with this name is still the listed file."""
        try:
            return identity(file.path) == file.identity
        except FileNotFoundError:
            return False

    def _is_at_end(self, file: RunFile) -> bool:
        """Return whether the unit before the end is valid, and no valid unit follows it in this file."""
        begin, end = self._end - self.unit_size, self._end + self.unit_size
        page = self._end - (self._end - file.file_from_offset) % mmap.PAGESIZE
        # Behind the units there is a hole: see find_invalid_unit. A page that holds the last unit has no hole, and it
        # nearly always holds the next unit too.
        if page <= begin and end <= min(page + mmap.PAGESIZE, self.limit(file)):
            valid = count_valid_units(*self.peek_span((begin, end)), self.unit_size)
            if valid <= 1:
                return valid == 1
        return self._is_last_valid() and not self._move_end(file)

    def _is_last_valid(self) -> bool:
        """Return whether the unit before the end is valid. A recovery, or a new queue of this name, may remove it."""
        begin = self._end - self.unit_size
        if self.file_run.find(begin) is None:
            return True
        return count_valid_units(*self.peek_span((begin, self._end)), self.unit_size) > 0

    def _move_end(self, file: RunFile) -> bool:
        """Move the end over the valid units of a file. Return whether the file is full."""
        begin, limit = max(self._end, file.file_from_offset), self.limit(file)
        first_end = limit if is_remote(self.directory) else min(begin + FIRST_UNITS * self.unit_size, limit)
        end = find_invalid_unit(self.file_run.pread, begin, first_end, self.unit_size)
        if end == first_end < limit:
            if begin == file.file_from_offset:
                read_ahead(file)
            end = find_invalid_unit(self.file_run.pread, end, limit, self.unit_size)
        if end > file.file_from_offset:
            self._end = max(end, self._end)
        return self._end >= limit


class BatchUnitRun(UnitRun):
    """The units of one batch queue."""

    __slots__ = ()
    layout = BATCH_UNIT
    unit_size = BATCH_UNIT.itemsize
    rounded_to = 1

    def unit_at(self, position: int) -> CqUnit:
        return next(iter(self.decode([(position, position + self.unit_size)])))

    def decode(self, spans: Sequence[Span]) -> ConsumeQueueUnits:
        n = sum(end - begin for begin, end in spans) // self.unit_size
        longs, ints = np.empty((4, n), np.int64), np.empty((3, n), np.int32)
        first = 0
        for span in spans:
            buffer, pos, count = self.map_span(span)
            decode_batch_units(buffer, pos, longs, ints, first, first + count)
            first += count
        return ConsumeQueueUnits(longs[0], longs[1], ints[0], longs[2], ints[1], longs[3], ints[2])
