"""RecordReader: reads the records of a commit log by offset, step by step, and searches for them."""

from __future__ import annotations

import bisect
import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from rocketstore.disk.file_run_reader import FileRunReader, RunFile, Window
from rocketstore.disk.holes import data_ranges, ranges_to_search
from rocketstore.disk.remote.remote_file_run import RemoteFileRunReader, open_file_run
from rocketstore.disk.storage import is_remote
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, StoreClosedError
from rocketstore.kernels.commit_log import BLANK, CUT, END, HALF, OK, RecordScanner, find_record, read_message
from rocketstore.kernels.layout import BLANK_HEAD
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.log.log_end import EndCandidate, SoundEnd, StateFinder, StoreState
from rocketstore.log.record_heads import BYTES_BEHIND_RECORD, find_record_end, is_entry, read_length
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.compression import BodyError, decompress
from rocketstore.messages.message_batch import MADE_COLUMNS, STORED_COLUMNS, MessageBatch
from rocketstore.progress import OffsetReport, ignore_offset

AT_REST_SECONDS = 60
SPAN = 1 << 20  # bytes to read at once where a file cannot be mapped
MANY_RECORDS = 256
USUAL_RECORD = 1 << 11  # bytes; most records are smaller
LARGE_RECORD = 8 << 20  # bytes; a search for the record around an offset is slow for larger records, but not wrong
LOOK_BACK = 1 << 12, 1 << 16, 1 << 20, None  # bytes; None means LARGE_RECORD. Near bytes of a remote file cost less
BODY_FIELDS = {*MADE_COLUMNS, "raw_body"}
MAX_BATCH_BYTES = 32 << 20  # of topics, bodies and properties


def reads_bodies(fields: Iterable[str]) -> bool:
    """Return whether fields of messages include the body, so that its CRC is checked if nothing else is asked for."""
    return not BODY_FIELDS.isdisjoint(fields)


class RecordReader:
    """Reads records of a commit log by physical offset. A broker may write the log at the same time.

    A record of DLedger's log is in an entry, whose head is before it. A walk or a search stops where an entry begins,
    and may begin there or at a record. Each physical offset of a message is that of its record.

    Attributes: directories; file_run: their files. options: for each scanner of records; also ``entries_begin``, where
    DLedger's log begins if its first file has only zeros before the first entry, a physical offset; otherwise 0.
    framing: bytes before each record: 0, or 48 in DLedger's log. Records of an older log of plain files below it have
    no bytes before them.
    whole_to: nobody writes before this physical offset any more, so a record there may end in zeros. trusts_file_times:
    whether a file that was not changed for a while has no half written record; False after its writer crashed.
    Source: CommitLog, MultiPathMappedFileQueue.
    """

    def __init__(
        self,
        file_run: FileRunReader,
        options: dict[str, Any],
        *,
        whole_to: int = 0,
        trusts_file_times: bool = True,
        state: StateFinder | None = None,
    ) -> None:
        """Parameters: state: finds how the last writer left the store; None if nothing is known of that."""
        self.directories = file_run.directories
        self.file_run = file_run
        self.options = options
        self.framing: int = options.get("framing", 0)
        self._entries_begin: int = options.get("entries_begin", 0)
        self.whole_to = whole_to
        self.trusts_file_times = trusts_file_times
        self._closed = False
        self._state = state
        self._bounded_files: Sequence[Any] | None = None  # the list of files that end within a long
        self._leave_out_unreachable_files()

    # ---- files ---------------------------------------------------------------------------------------------

    @property
    def min_phy_offset(self) -> int:
        """The physical offset at which the first file begins; 0 without files.

        DLedger's log begins at its first entry, which may be in the middle of the first file.
        Source: CommitLog.getMinOffset, DLedgerCommitLog.getMinOffset.
        """
        if self._closed or not self.file_run.files or not self.file_run.files[0].path.exists():
            self.refresh()
        return self.begin_in(self.file_run.files[0]) if self.file_run.files else 0

    def begin_in(self, file: RunFile) -> int:
        """Return the physical offset at which the records of a file begin: where the file or the log begins."""
        is_first = file.file_from_offset < self._entries_begin < file.end_offset
        return self._entries_begin if is_first else file.file_from_offset

    def refresh(self) -> None:
        """List the files again. Files whose bytes would have offsets beyond a long are left out."""
        if self._closed:
            raise StoreClosedError(f"{self.directories[0]} is closed")
        self.file_run.refresh()
        self._leave_out_unreachable_files()

    def _leave_out_unreachable_files(self) -> None:
        if self._bounded_files is not self.file_run.files:  # check each of thousands of files only once
            self.file_run.leave_out_behind(LONG_MAX)
            self._bounded_files = self.file_run.files

    def list_again(self) -> None:
        """List the files of a planned log again, because one of them is not as it was planned."""
        if self.file_run.is_planned:
            self.whole_to = 0
            self.file_run.list_again()
            self.refresh()

    def end_of(self, file: RunFile) -> int:
        """Return the physical offset at which the next file begins, also if ``file`` was cut."""
        end = file.file_from_offset + max(file.size, self.file_run.mapped_file_size)
        return min(end, self.file_run.start_behind(file), LONG_MAX)

    def close(self) -> None:
        """Close the files. Later reads raise StoreClosedError."""
        self._closed = True
        self.file_run.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle opens the files again in the process that gets the reader."""
        options = {"whole_to": self.whole_to, "trusts_file_times": self.trusts_file_times, "state": self._state}
        return _reopen, (self.directories, self.file_run.given_size, self.options, options)

    def data_of(self, file: RunFile, offset: int) -> list[tuple[int, int]]:
        """Return the ranges of a file that are not holes, from a physical offset on; [] if the file has expired."""
        with contextlib.suppress(FileNotFoundError):
            return data_ranges(file.path, max(offset - file.file_from_offset, 0), file.size)
        return []

    def find_store_state(self) -> StoreState:
        """Find the state in which the last writer left the store; CRASHED if nothing is known of it."""
        return StoreState.CRASHED if self._state is None else self._state.find_store_state()

    def is_at_rest(self, offset: int) -> bool:
        """Return whether nobody writes at an offset, so that a record there may end in zeros.

        After a clean stop nobody writes. Otherwise a file that was not changed for a while may be at rest. The time
        stamp of a mapped file changes only when a page is first written. So the last record may be newer than the time
        stamp. Some remote file systems report no time stamp; it is 0 then.
        """
        if offset < self.whole_to or self.find_store_state() == StoreState.STOPPED:
            return True
        if not self.trusts_file_times:
            return False
        file = self.file_run.find(offset)
        if file is None:
            return True
        try:
            changed = file.path.stat().st_mtime
        except FileNotFoundError:  # the file has just expired
            return True
        is_known = changed > 0 or not is_remote(file.path)
        return is_known and time.time() - changed > AT_REST_SECONDS

    # ---- one record, and many ------------------------------------------------------------------------------

    def read_record(self, offset: int, *, verify_crc: bool = False) -> tuple[int, dict[str, Any] | None]:
        """Read the record at a physical offset, also behind the end of the log. Return its status and its fields.

        The fields are None if no complete record begins there. Parameters: verify_crc: as for ``scanner``.
        """
        size = SPAN
        checks = {"verify_crc": verify_crc, "force_verify_prop_crc": self.options.get("force_verify_prop_crc", False)}
        while True:
            window = self._window(offset, size)
            if window is None:
                return END, None
            status, fields = read_message(*window, offset, **checks)
            if status == HALF and self.is_at_rest(offset):
                status, fields = read_message(*window, offset, at_rest=True, **checks)
            if status != CUT or size > INT_MAX or not self._is_partial(window):
                return status, fields
            size *= 16

    def read_store_timestamp(self, phy_offset: int) -> int:
        """Return the store time of a record, epoch ms, also behind the end of the log; -1 without a record."""
        fields = self.read_record(phy_offset)[1]
        return -1 if fields is None else int(fields["store_timestamp"])

    def read_ahead(self, phy_offsets: np.ndarray) -> None:
        """Let the system begin to read records at physical offsets int64[n] together, if there are many."""
        if len(phy_offsets) >= MANY_RECORDS:
            self.file_run.read_ahead(phy_offsets, np.full(len(phy_offsets), USUAL_RECORD, np.int32))

    def windows_of(self, phy_offsets: np.ndarray) -> tuple[list[Window], np.ndarray]:
        """Return windows that contain the records at physical offsets int64[n].

        The second array, int32[n], has the number of the window of each record, or -1 if no file has the offset.
        """
        if isinstance(self.file_run, RemoteFileRunReader):
            return self._remote_windows(self.file_run, phy_offsets)
        starts = self.file_run.starts()
        file_of = np.searchsorted(starts, phy_offsets, "right") - 1
        windows: list[Window] = []
        window_of_file = np.full(len(starts) + 1, -1, np.int32)  # the last one is of offsets before all files
        partial_files: list[int] = []
        for i in np.flatnonzero(np.bincount(file_of + 1)[1:]).tolist():
            window = self._window(int(starts[i]), SPAN)
            if window is not None and self._is_partial(window):
                partial_files.append(i)
            elif window is not None:
                window_of_file[i] = len(windows)
                windows.append(window)
        window_of = window_of_file[file_of]
        for row in np.flatnonzero(np.isin(file_of, partial_files)).tolist() if partial_files else ():
            self._add_record(int(phy_offsets[row]), windows, window_of[row : row + 1])
        return windows, window_of

    def _add_record(self, offset: int, windows: list[Window], window_of: np.ndarray) -> None:
        """Read one record of a file that is not mapped: its first four bytes are its length."""
        size = int.from_bytes(self.file_run.pread(offset, 4), "big")
        # Four bytes more: zeros behind a record mean that it may be half written.
        window = self._window(offset, min(max(size, 4) + 4, INT_MAX))
        if window is not None:
            window_of[0] = len(windows)
            windows.append(window)

    def _remote_windows(
        self, file_run: RemoteFileRunReader, phy_offsets: np.ndarray
    ) -> tuple[list[Window], np.ndarray]:
        try:
            return file_run.read_entries(phy_offsets, find_record_end)
        except FileNotFoundError:  # a file has expired since it was listed
            file_run.forget()
            self.refresh()
            return file_run.read_entries(phy_offsets, find_record_end)

    def _window(self, offset: int, size: int) -> Window | None:
        if self._closed:
            raise StoreClosedError(f"{self.directories[0]} is closed")
        window = self.file_run.read_entry(offset, size, find_record_end)
        if window is None:
            self.list_again()
            self.refresh()
            window = self.file_run.read_entry(offset, size, find_record_end)
        return window

    def windows(self, offset: int, size: int = SPAN, until: int = LONG_MAX) -> Iterator[Window]:
        """Yield windows with the bytes at an offset, each larger than the one before, until one ends with its file.

        The caller stops at the first window that contains the complete record. A mapped file has only one window, the
        file itself.

        Parameters: size: bytes of the first window if the file is not mapped. until: where a sequential reader stops.
        """
        while (window := self.file_run.read(offset, size, "sequential", until)) is not None:
            yield window
            if size > INT_MAX or not self._is_partial(window):
                return
            size *= 16

    def _is_partial(self, window: Window) -> bool:
        """Return whether a window ends before its file does. A record may continue behind the window then."""
        file = self.file_run.find(window.from_offset)
        return file is not None and window.from_offset + window.buffer.size < file.end_offset

    def with_bodies(self, batch: MessageBatch, most: int, bad_bodies: BadBodies) -> Iterator[MessageBatch]:
        """Yield messages of this log with their bodies decompressed, as ``MessageBatch.split`` does.

        Parameters: most: bytes of bodies in a batch at most. bad_bodies: counts the bodies that cannot be decoded.
        """
        return batch.split(most, bad_bodies, self._name_file)

    def _name_file(self, error: BodyError) -> BodyError:
        """Return an error that names the log file, given an error that has only the physical offset."""
        file = self.file_run.find(error.offset) if isinstance(error, CorruptFileError) else None
        if not isinstance(error, CorruptFileError) or file is None:
            return error
        return CorruptFileError(file.path, error.offset - file.file_from_offset, error.field, error.reason)

    # ---- steps ---------------------------------------------------------------------------------------------

    def scanner(
        self, fields: Iterable[str], *, marks_crc: bool = False, opens_batches: bool = False, **options: Any
    ) -> RecordScanner:
        """Return a scanner that collects the stored columns from which fields of messages are made.

        Parameters: marks_crc: bodies that do not match their CRC have this error; they are None in the column of
        bodies. opens_batches: collect the messages in inner batches in place of their records. options: verify_crc: a
        record whose body does not match its CRC is corrupt. record_filter.
        """
        names = {name.removesuffix("_ms"): None for name in fields if name not in MADE_COLUMNS}
        if not MADE_COLUMNS.isdisjoint(fields):
            names |= dict.fromkeys(STORED_COLUMNS)
        given = {name: value for name, value in self.options.items() if name != "entries_begin"}
        marks = marks_crc and not MADE_COLUMNS.isdisjoint(fields)
        opener = decompress if opens_batches else None
        return RecordScanner(names, marks_crc=marks, decompress=opener, **given, **options)

    def step(self, scanner: RecordScanner, offset: int, end: int, max_rows: int = LONG_MAX) -> tuple[int, int] | None:
        """Scan records of one file that begin from ``offset`` to before ``end``.

        Return the offset behind the last record and the status there; None if no file has ``offset``.
        """
        first = size = self._span(offset)
        seen = -1, -1
        while True:
            window = self.file_run.read(offset, size, "sequential", end)
            if window is None:
                return None
            offset, status = scanner.scan(*window, offset, end, max_rows, MAX_BATCH_BYTES)
            if status == HALF and self.is_at_rest(offset):
                offset, status = scanner.scan(*window, offset, end, max_rows, MAX_BATCH_BYTES, at_rest=True)
            place, file = (window.from_offset, window.buffer.size), self.file_run.find(window.from_offset)
            if status == BLANK and file is not None and self._fills(file, offset):
                return self.end_of(file), status
            if status != OK and self._is_partial(window) and self.file_run.read_beyond(window):
                continue
            if status != OK and place != seen and self._is_partial(window):
                seen = place
                if sum(place) - offset < size:
                    first = size = max(size, self._span(offset))
                    continue
                if status in (CUT, BLANK) or (status == HALF and size == first):  # what the bytes behind it may change
                    size = self._larger(size, offset)
                    continue
            if status == BLANK and file is not None:
                offset = self.end_of(file)
            return offset, status

    def _span(self, offset: int) -> int:
        """Return how many bytes to read at an offset at once if the file is not mapped."""
        span = self.file_run.span(offset)
        return SPAN if span == LONG_MAX else span

    def _larger(self, size: int, offset: int) -> int:
        """Return how many bytes to read of a record, or of a blank, after ``size`` bytes were too few."""
        span = self.file_run.span(offset)
        return size * 16 if size * 16 <= span else max(self._length_at(offset) + BYTES_BEHIND_RECORD, 2 * size)

    def _length_at(self, offset: int) -> int:
        """Read the length field of the record, the entry or the blank at an offset, bytes."""
        return read_length(self.file_run.pread(offset, BLANK_HEAD.itemsize), self.framing)

    def framing_at(self, offset: int) -> int:
        """Return the bytes before each record in the file of an offset. An older log of plain files has none."""
        file = self.file_run.last_before(offset) if self.framing else None
        if file is None or not is_entry(self.file_run.pread(self.begin_in(file), BLANK_HEAD.itemsize), self.framing):
            return 0
        return self.framing

    def record_at(self, offset: int) -> int:
        """Return the physical offset of the record in the entry at ``offset``; ``offset`` itself without an entry."""
        if self.framing and is_entry(self.file_run.pread(offset, BLANK_HEAD.itemsize), self.framing):
            return offset + self.framing
        return offset

    def _fills(self, file: RunFile, offset: int) -> bool:
        """Return whether a blank fills its file by its length field, so that the rest of a remote file is not read."""
        return self.file_run.span(offset) < LONG_MAX and self._length_at(offset) >= file.end_offset - offset

    def walk(
        self,
        scanner: RecordScanner,
        offset: int,
        end: int = LONG_MAX,
        *,
        passes_zeros: bool = False,
        report: OffsetReport = ignore_offset,
    ) -> int:
        """Scan the sound records that begin from ``offset`` to before ``end``. Return where the last of them ends.

        Parameters: passes_zeros: whether a record that ends in zeros, and so may be half written, is sound if another
        record follows it. The scanner does not collect this record. report: is called with the physical offset that
        each step reaches.
        """
        while offset < end and (step := self.step(scanner, offset, end)) is not None:
            following, status = step
            if passes_zeros and status == HALF:
                following += self._find_followed_size(following)
            if following == offset and status not in (OK, BLANK):
                break
            offset = following
            report(offset)
        return offset

    def find_sound_end(
        self,
        begin: int,
        stop: int = LONG_MAX,
        *,
        verify_crc: bool = False,
        passes_zeros: bool = False,
        report: OffsetReport = ignore_offset,
    ) -> SoundEnd:
        """Find where the sound records end that begin from ``begin`` to before ``stop``, physical offsets.

        Parameters: verify_crc: end before a record whose body does not match its CRC. passes_zeros, report: as for
        ``walk``.
        """
        scanner = self.scanner((), verify_crc=verify_crc)
        end = self.walk(scanner, begin, stop, passes_zeros=passes_zeros, report=report)
        return SoundEnd(end, int(scanner.last_phy_offset))

    def _find_followed_size(self, offset: int) -> int:
        """Return the size of a record or entry that ends in zeros, if another follows it; 0 if it may be torn."""
        place = self.record_at(offset)
        window = self.file_run.read(place, 1, "sequential")
        fields = None if window is None else read_message(*window, place, at_rest=True)[1]
        end = place if fields is None else place + int(fields["size"])
        return end - offset if fields is not None and self.begins_record(end) else 0

    def find_bad_bytes(self, begin: int) -> EndCandidate:
        """Find the first bytes from ``begin`` on that are no record, and the first record behind them.

        Parameters: begin: a physical offset at which a file or a record begins, bytes.
        """
        end, last = self.find_sound_end(begin)
        before = self.file_run.find(begin - 1)
        if last < 0 and before is not None:  # the last record is in an earlier file
            last = self.find_bad_bytes(before.file_from_offset).last_phy_offset
        return EndCandidate(end, last, self.find_later(end + 1, LONG_MAX))  # a half written record may begin at the end

    def begins_record(self, offset: int) -> bool:
        """Return whether a sound record or a blank begins at an offset."""
        step = self.step(self.scanner(()), offset, offset + 1)
        return step is not None and step[1] in (OK, BLANK)

    def last_begun_file(self) -> int:
        """Return where the records of the last file with a record begin. Files that were made ahead follow it."""
        for file in reversed(self.file_run.files):
            begin = self.begin_in(file)
            if self.begins_record(begin):
                return begin
        return self.begin_in(self.file_run.files[0]) if self.file_run.files else 0

    def begin_of_last_files(self, count: int) -> int:
        """Return where the last ``count`` files begin, up to the last file with a record at its start. 0 without files.

        These are the files that a broker reads after a clean stop.
        """
        files, last = self.file_run.files, self.last_begun_file()
        at = bisect.bisect_right(files, last, key=self.begin_in)
        return self.begin_in(files[max(at - count, 0)]) if at else 0

    # ---- searches ------------------------------------------------------------------------------------------

    def first_record(self, begin: int, end: int) -> int | None:
        """Find the first record that begins from ``begin`` to before ``end``. None if there is no record.

        Bytes in the body of another record may look like a record and be found. At the start of a file the answer is
        that start, whatever is there: the reader reports other bytes.
        """
        file = self.file_run.find(begin)
        return begin if file is not None and file.file_from_offset == begin else self.find_later(begin, end)

    def find_later(self, offset: int, end: int) -> int | None:
        """Find the first record from ``offset`` to before ``end``. Holes are not read. None if there is no record."""
        for file in self.file_run.between(offset, end):
            if file.end_offset <= offset:
                continue
            start = file.file_from_offset
            with contextlib.suppress(FileNotFoundError):  # the file has just expired
                for begin, stop in ranges_to_search(file.path, max(offset - start, 0), file.size):
                    found = self._find_in(start + begin, min(start + stop, end))
                    if found is not None:
                        return found
        return None

    def _find_in(self, place: int, stop: int) -> int | None:
        """Find the first record in a part of one file, window by window if the file is not mapped."""
        while place < stop and (window := self.file_run.read(place, self._span(place), "exact", stop)) is not None:
            partial = self._is_partial(window)
            found = find_record(*window, place, stop, or_cut=partial, framing=self.framing)
            if found is None:
                # Two windows may divide the bytes by which an entry, or the eight by which a record is recognised.
                place = window.from_offset + window.buffer.size - (self.framing + 7 if partial else 0)
            elif not partial or self.read_record(self.record_at(found))[0] in (OK, HALF):
                return found
            else:
                place = found + 1
        return None

    def end_around(self, offset: int, most: int | None = None) -> int:
        """As ``find_end_around``; ``offset`` itself if no record or blank is found."""
        found = self.find_end_around(offset, most)
        return offset if found is None else found

    def find_end_around(self, offset: int, most: int | None = None) -> int | None:
        """Find the end of the sound record or blank that contains ``offset``, or that ends there. None without one.

        If ``offset`` is in the head of an entry, or where its record begins, return where the entry begins.

        Parameters: most: how many bytes before ``offset`` are searched, LARGE_RECORD by default.
        """
        file = self.file_run.find(offset)
        if file is None:
            return None
        target = offset - self.framing_at(offset)  # the record of an entry that begins here begins at ``offset``
        begin = self.begin_in(file)
        if target < begin:
            return begin
        place = max(begin, target - (most or LARGE_RECORD))
        while (before := self.find_later(place, target)) is not None:
            place = self.walk(self.scanner(()), before, target)
            if place >= target:
                return place
            place += 1
        return None


def _reopen(
    directories: Sequence[StorePath], size: int | None, options: dict[str, Any], given: dict[str, Any]
) -> RecordReader:
    return RecordReader(open_file_run(directories, mapped_file_size=size), options, **given)
