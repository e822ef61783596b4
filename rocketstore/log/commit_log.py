"""CommitLog: all messages of a store, one after the other."""

from __future__ import annotations

import contextlib
import functools
import io
import operator
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeGuard

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.lock_file import StoreLock
from rocketstore.disk.mapped_file import LogFile, MappedFileQueue, Window, check_mode, make_directory
from rocketstore.disk.remote_file import BYTES_BEHIND_RECORD, RemoteFileQueue, open_queue
from rocketstore.disk.storage import is_remote, local_path, to_path
from rocketstore.errors import CorruptFileError, StoreClosedError, StoreError
from rocketstore.kernels.columns import aligned, int64_column, require_int64, require_sound_buffers, require_unmasked
from rocketstore.kernels.commit_log import (
    BLANK,
    CUT,
    DEFAULT_DELAYS,
    END,
    HALF,
    OK,
    RecordScanner,
    bad_reason,
    find_record,
    read_message,
)
from rocketstore.kernels.message_columns import message_fields
from rocketstore.kernels.record_filter import RecordFilter
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.log.end_rule import Ending, StoreState
from rocketstore.log.log_writer import LogWriter, StoreTimestamp, require_uninterrupted
from rocketstore.log.put_result import PutMessageResult, PutMessagesResult
from rocketstore.log.scan import MAX_BATCH_BYTES, Scan
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.compression import BodyError
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MADE_COLUMNS, STORED_COLUMNS, MessageBatch, is_arrow, lazy_batch_of

__all__ = ["CommitLog", "subscribed_tags"]

AT_REST_SECONDS = 60
SPAN = 1 << 20  # bytes to read at once where a file cannot be mapped
LARGE_RECORD = 8 << 20  # bytes: one that is larger makes a search slow, not wrong
ON_CORRUPT = ("raise", "skip")


class CommitLog:
    """The commit log of a store. Made by ``open``; a context manager. Where it is read, a broker may write meanwhile.

    Attributes: directories; mode; last_phy_offset: where the last record was that ``max_phy_offset`` saw,
    or None; whole_to: before this physical offset nobody writes any more, so that a record that ends in zeros is whole;
    find_limit: a function that returns an upper bound of the log's end, a physical offset, or LONG_MAX for no bound;
    ending: finds where a broker ends the log.
    Source: CommitLog, MultiPathMappedFileQueue.
    """

    def __init__(self, queue: MappedFileQueue, options: dict[str, Any], mode: str = "r") -> None:
        self.directories = queue.directories
        self.mode = mode
        self.writer: LogWriter | None = None
        self._locks: list[StoreLock] = []
        self.queue = queue
        self.options = options
        self._end: int | None = None
        self._committed_end = 0
        self._bounded_files: Sequence[Any] | None = None  # the list of files that end within a long
        self.last_phy_offset: int | None = None
        self.whole_to = 0
        self.find_limit: Callable[[], int] = no_limit
        self.ending = Ending(self)
        self._closed = False

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        mode: str = "r",
        *,
        mapped_file_size: int | None = None,
        force_verify_prop_crc: bool = False,
        message_delay_level: str = DEFAULT_DELAYS,
        config: StoreConfig | None = None,
    ) -> Self:
        """Open the files of a directory, or of several that make one log.

        Parameters: mode: "r" reads; "r+" also appends, to a log alone: of a store, queues and index are built by
        ``rocketstore.open``; "a" also makes the directory. Beside a store's ``lock`` that is held while the log is open
        for appending; of any other log, that there is one writer at a time is the caller's affair. mapped_file_size:
        bytes of a whole file, else what the files show. force_verify_prop_crc: where a CRC is checked, check the one in
        the properties and not that of the body. message_delay_level: as the broker's. config: how records are written.
        Raises: FileNotFoundError; ValueError; StoreLockedError if somebody writes the store; StoreError, if records are
        to be appended behind something else, or in the root of a store.
        """
        check_mode(mode)
        if is_list(directory) and not directory:
            raise ValueError(f"directory={directory!r}: at least one is needed")
        paths = list(map(to_path if mode == "r" else local_path, directory if is_list(directory) else [directory]))
        for path in paths:
            if mode != "r" and (path / "commitlog").is_dir():
                raise StoreError(f"{path} is the root of a store: its log is {path / 'commitlog'}")
        with contextlib.ExitStack() as stack:
            locks = [] if mode == "r" else [StoreLock(path) for path in lock_paths(paths)]
            for lock in locks:
                lock.acquire()
                stack.callback(lock.release)
            if mode == "a":
                make_directory(paths[0])
            queue = open_queue(paths, mapped_file_size=mapped_file_size)
            options = {"force_verify_prop_crc": force_verify_prop_crc, "message_delay_level": message_delay_level}
            self = cls(queue, options, mode)
            self.refresh()
            if mode != "r":
                self.whole_to = LONG_MAX
                self.writer = LogWriter.of_log(self, config or StoreConfig())
                self.whole_to = self.writer.phy_offset
                self._locks = locks
                weakref.finalize(self, stack.pop_all().close)
        return self

    # ---- append --------------------------------------------------------------------------------------------

    def append(self, message: Message, *, store_timestamp: StoreTimestamp = None) -> PutMessageResult:
        """Append a message, as ``MessageStore.put_message`` does, but to the log alone: inner batches of any topic.

        With flush_disk_type "SYNC_FLUSH" it is on the disk then, and so is what other threads appended meanwhile. Else
        ``flush`` and ``close`` bring it there: what a store does by the clock it does itself.

        Parameters: store_timestamp: epoch ms; None for now; "given": the message's own.
        Returns: PutMessageResult. Raises: PutMessageError for one that is refused; OSError, StoreError: it may be lost;
        StoreError for a queue of the store that has the log, if all its records are gone; io.UnsupportedOperation in
        mode "r". Source: CommitLog.asyncPutMessage.
        """
        writer = self._writing()
        with writer.lock:
            result = writer.append_alone(message, store_timestamp)
        if writer.is_sync:
            writer.flush(result.phy_offset + result.size)
        return result

    def append_batch(
        self, messages: Sequence[Message] | MessageBatch | Any, *, store_timestamp: StoreTimestamp = None
    ) -> PutMessagesResult:
        """Append messages in order, in one kernel call where they are columns; if one is refused, none.

        Parameters: messages: Message objects, a MessageBatch, or an Arrow table, as for ``MessageStore.put_messages``.
        store_timestamp; raises: as ``append``. Returns: PutMessagesResult. Source: CommitLog.asyncPutMessages, without
        its bound of one file.
        """
        if is_arrow(messages):
            messages = MessageBatch.of_arrow(messages)
        writer = self._writing()
        with writer.lock:
            result = writer.append_together(messages, store_timestamp, is_completed=False)
            if result is None:
                singles = writer.one_by_one(messages, writer.check_alone)
                result = PutMessagesResult.of([writer.append_alone(message, store_timestamp) for message in singles])
        if writer.is_sync and result:
            writer.flush(int(result.phy_offsets[-1] + result.sizes[-1]))
        return result

    def flush(self) -> None:
        """Return when all that was appended is on the disk. Raises OSError: it may be lost then.

        Source: MappedFileQueue.flush.
        """
        self._writing().flush()

    def _writing(self) -> LogWriter:
        if self._closed:
            raise StoreClosedError(f"{self.directories[0]} is closed")
        if self.writer is None:
            raise io.UnsupportedOperation(f"{self.directories[0]} is open for reading: open it with mode 'a' to append")
        if self._is_forked:
            raise StoreError(f"{self.directories[0]}: was opened by another process: open it here, after it was closed")
        return self.writer

    @property
    def _is_forked(self) -> bool:
        """Whether the writer is the one of the process that this one was forked from."""
        return not all(lock.owned for lock in self._locks)

    @property
    def mapped_file_size(self) -> int:
        """Bytes of a whole file, 0 where there is none."""
        return self.queue.mapped_file_size

    @property
    def min_phy_offset(self) -> int:
        """Where the first file begins, 0 where there is none. Source: CommitLog.getMinOffset."""
        if self._closed or not self.queue.files or not self.queue.files[0].path.exists():
            self.refresh()
        return self.queue.files[0].file_from_offset if self.queue.files else 0

    @property
    def max_phy_offset(self) -> int:
        """Where the last whole record ends; moves on as a broker writes. Source: CommitLog.getMaxOffset."""
        self.refresh()
        scanner, files = self.scanner((), verify_crc=self.ending.verifies_crc), self.queue.files
        end = None if self._end is None else self.walk_on(scanner, self.last_phy_offset, self._end)
        last = None if end is None else self.queue.last_before(end)
        is_known = end is not None and last is not None and end <= self.end_of(last)
        if end is None or (files and not is_known):
            self.last_phy_offset = None
            end = self.walk(scanner, self.ending.begin())
        self._end = end
        if scanner.last_phy_offset >= 0:
            self.last_phy_offset = scanner.last_phy_offset
        self._committed_end = min(end, self.find_limit())
        return self._committed_end

    def walk_on(self, scanner: RecordScanner, last: int | None, end: int) -> int | None:
        """Go over the records from the last that was seen on, when the log ended at ``end``; None if it was cut off.

        Of a write that was undone, there may be another record in its place.
        """
        files = self.queue.files
        if last is None or not files or last < files[0].file_from_offset:
            return self.walk(scanner, end)
        found = self.walk(scanner, last)
        if found > last:
            return found
        step = self.step(scanner, last, last + 1)
        return self.walk(scanner, end) if step is not None and step[1] == HALF else None

    def last_begun_file(self) -> int:
        """Where the last file that begins with a record begins: after it there are files made ahead, of zeros."""
        for file in reversed(self.queue.files):
            if self.begins_record(file.file_from_offset):
                return file.file_from_offset
        return self.queue.files[0].file_from_offset if self.queue.files else 0

    @property
    def known_end(self) -> int:
        """The end of the log, bytes, that the last call of ``max_phy_offset`` found; 0 before the first call."""
        return self._end or 0

    def find_readable_end(self, phy_offset: int) -> int:
        """Return an offset, bytes, that tells whether ``phy_offset`` is before the end of the log.

        If ``phy_offset`` is at or behind the end of the log, the result is that end. Otherwise the result is any offset
        behind ``phy_offset``, which is faster to find. Records behind the end were cut off by a broker, or their write
        was never committed.
        """
        end = LONG_MAX if phy_offset < self._committed_end else self.find_limit()
        return min(end, self.max_phy_offset) if self.ending.is_behind(phy_offset) else end

    def note_end(self, end: int, last_phy_offset: int) -> None:
        """Remember that the log ends at ``end``, after the record at ``last_phy_offset``; -1 without records."""
        self._end, self.last_phy_offset = end, last_phy_offset if last_phy_offset >= 0 else None

    def read_store_timestamp(self, phy_offset: int) -> int:
        """Return the store time, epoch ms, of a record, which may be behind the end of the log; -1 without a record."""
        fields = self._read_record(phy_offset)[1]
        return -1 if fields is None else int(fields["store_timestamp"])

    def walk(self, scanner: RecordScanner, offset: int, end: int = LONG_MAX) -> int:
        """Go over the sound records that begin before ``end``, from one on; where the last of them ends."""
        while offset < end and (step := self.step(scanner, offset, end)) is not None:
            if step[0] == offset and step[1] not in (OK, BLANK):
                break
            offset = step[0]
        return offset

    def begins_record(self, offset: int) -> bool:
        step = self.step(self.scanner(()), offset, offset + 1)
        return step is not None and step[1] in (OK, BLANK)

    def refresh(self) -> None:
        """List the files again. One whose bytes would have offsets beyond a long is none of a log."""
        if self._closed:
            raise StoreClosedError(f"{self.directories[0]} is closed")
        self.queue.refresh()
        if self._bounded_files is not self.queue.files:  # of thousands of files each is looked at once
            if any(file.end_offset > LONG_MAX for file in self.queue.files):
                self.queue.files = [file for file in self.queue.files if file.end_offset <= LONG_MAX]
            self._bounded_files = self.queue.files

    # ---- one and many --------------------------------------------------------------------------------------

    def get_message(self, phy_offset: int) -> Message:
        """Read the message at a physical offset.

        Parameters: phy_offset: bytes. Returns: Message. Raises: IndexError if it is outside the log; CorruptFileError
        if no message begins there. Source: CommitLog.lookMessageByOffset.
        """
        status, fields = self._read_message(phy_offset)
        if fields is None:
            raise self.error(phy_offset, status)
        return Message.of_fields(fields)

    def find_message(self, phy_offset: int) -> Message | None:
        """Read the message at a physical offset, None where there is none."""
        fields = self._read_message(phy_offset)[1]
        return None if fields is None else Message.of_fields(fields)

    def _read_message(self, phy_offset: int) -> tuple[int, dict[str, Any] | None]:
        offset = operator.index(phy_offset)
        return (END, None) if offset >= self.find_readable_end(offset) else self._read_record(offset)

    def _read_record(self, offset: int) -> tuple[int, dict[str, Any] | None]:
        size = SPAN
        while True:
            window = self._window(offset, size)
            if window is None:
                return END, None
            status, fields = read_message(*window, offset)
            if status == HALF and self.is_at_rest(offset):
                status, fields = read_message(*window, offset, at_rest=True)
            if status != CUT or size > INT_MAX or not self._is_partial(window):
                return status, fields
            size *= 16

    def get_messages(
        self, phy_offsets: Any, *, columns: Iterable[str] | None = None, verify_crc: bool = False
    ) -> MessageBatch:
        """Read the messages at many physical offsets, int64[n], bytes, in any order; the batch is in theirs.

        Parameters: columns: names of Message's fields, None for all that tables have. verify_crc: check the bodies.
        Returns: MessageBatch. Raises: IndexError for an offset outside the log; CorruptFileError for one where no
        message begins. Source: CommitLog.lookMessageByOffset, for each.
        """
        require_unmasked(phy_offsets, "phy_offsets")
        require_sound_buffers(phy_offsets, "phy_offsets")
        offsets = np.asarray(phy_offsets)
        offsets = int64_column(offsets, "phy_offsets", offsets.size)
        batch, statuses = self.find_messages(offsets, columns=columns, verify_crc=verify_crc)
        if statuses.any():
            row = int(statuses.argmax())
            raise self.error(int(offsets[row]), int(statuses[row]))
        return batch

    def find_messages(
        self, phy_offsets: np.ndarray, *, columns: Iterable[str] | None = None, verify_crc: bool = False
    ) -> tuple[MessageBatch, np.ndarray]:
        """Read the messages there are at physical offsets int64[n].

        Returns: the batch of those found, in the order given, and uint8[n], 0 for each that was.
        """
        fields = message_fields(columns)
        self.refresh()
        offsets = aligned(phy_offsets, np.int64)
        windows, window_of = self.windows_of(offsets)
        if len(offsets):
            window_of[offsets >= self.find_readable_end(int(offsets.max()))] = -1
        for at_rest in (False, True):
            scanner = self.scanner(fields, verify_crc=verify_crc)
            statuses = np.full(len(offsets), END, np.uint8)
            scanner.gather(windows, window_of, offsets, statuses, at_rest=at_rest)
            half = np.flatnonzero(statuses == HALF)
            if not len(half) or not self.is_at_rest(int(offsets[half[0]])):
                break
        return lazy_batch_of(scanner.take(), fields), statuses

    def with_bodies(self, batch: MessageBatch, most: int, bad_bodies: BadBodies) -> Iterator[MessageBatch]:
        """Give messages of this log with their bodies decompressed, as ``MessageBatch.split`` does.

        Parameters: most: bytes of bodies in a batch at most. bad_bodies: counts the bodies that cannot be decoded.
        """
        return batch.split(most, bad_bodies, self._name_file)

    def _name_file(self, error: BodyError) -> BodyError:
        """Return an error that names the log file, given an error that has only the physical offset."""
        file = self.queue.find(error.offset) if isinstance(error, CorruptFileError) else None
        if not isinstance(error, CorruptFileError) or file is None:
            return error
        return CorruptFileError(file.path, error.offset - file.file_from_offset, error.field, error.reason)

    def pickup_store_timestamp(self, phy_offset: int, size: int) -> int:
        """Return the store time, epoch ms, of the record of ``size`` bytes at an offset, -1 where there is none.

        Source: CommitLog.pickupStoreTimestamp.
        """
        fields = self._read_message(phy_offset)[1]
        return fields["store_timestamp"] if fields is not None and fields["size"] == size else -1

    def windows_of(self, phy_offsets: np.ndarray) -> tuple[list[Window], np.ndarray]:
        """Give memory that has the records at physical offsets int64[n], and for each which has it, int32, or -1."""
        if isinstance(self.queue, RemoteFileQueue):
            return self._remote_windows(self.queue, phy_offsets)
        starts = self.queue.starts()
        file_of = np.searchsorted(starts, phy_offsets, "right") - 1
        windows: list[Window] = []
        window_of = np.full(len(phy_offsets), -1, np.int32)
        for i in np.unique(file_of[file_of >= 0]).tolist():
            rows = np.flatnonzero(file_of == i)
            window = self._window(int(starts[i]), SPAN)
            if window is not None and self._is_partial(window):
                for row in rows.tolist():
                    self._add_record(int(phy_offsets[row]), windows, window_of[row : row + 1])
            elif window is not None:
                window_of[rows] = len(windows)
                windows.append(window)
        return windows, window_of

    def _add_record(self, offset: int, windows: list[Window], window_of: np.ndarray) -> None:
        """Read one record where files are not mapped: its first four bytes tell its length."""
        size = int.from_bytes(self.queue.pread(offset, 4), "big")
        # And what follows it: zeros there say that it may be half written.
        window = self._window(offset, min(max(size, 4) + 4, INT_MAX))
        if window is not None:
            window_of[0] = len(windows)
            windows.append(window)

    def _remote_windows(self, queue: RemoteFileQueue, phy_offsets: np.ndarray) -> tuple[list[Window], np.ndarray]:
        try:
            return queue.records(phy_offsets)
        except FileNotFoundError:  # it has expired since it was listed
            queue.forget()
            self.refresh()
            return queue.records(phy_offsets)

    def _window(self, offset: int, size: int) -> Window | None:
        if self._closed:
            raise StoreClosedError(f"{self.directories[0]} is closed")
        window = self.queue.read(offset, size, "random")
        if window is None:
            self.list_again()
            self.refresh()
            window = self.queue.read(offset, size, "random")
        return window

    def _is_partial(self, window: Window) -> bool:
        """Whether a window ends before its file does: then a record may lead beyond it."""
        file = self.queue.find(window.from_offset)
        return file is not None and window.from_offset + window.buffer.size < file.end_offset

    def is_at_rest(self, offset: int) -> bool:
        """Whether nobody writes at an offset: a record that ends in zeros there is whole.

        A mapping changes a file's time when it first changes a page, so the last record may be later than that. A
        remote file's is 0 where the file system tells none.
        """
        if offset < self.whole_to or self.ending.left_state == StoreState.STOPPED:
            return True
        file = self.queue.find(offset)
        if file is None:
            return True
        try:
            changed = file.path.stat().st_mtime
        except FileNotFoundError:  # it has expired just now
            return True
        is_known = changed > 0 or not is_remote(file.path)
        return is_known and time.time() - changed > AT_REST_SECONDS

    def error(self, offset: int, status: int) -> Exception:
        file = self.queue.find(offset)
        if file is None:
            return self._no_file_error(offset)
        if status in (END, BLANK, HALF):
            field, reason = "magic", "no message begins here: the end of the log, or of what its file holds"
        else:
            field, reason = bad_reason(status)
        return CorruptFileError(file.path, offset - file.file_from_offset, field, reason)

    def _no_file_error(self, offset: int) -> Exception:
        """What is wrong with an offset that no file has: it is in a gap, or outside the log."""
        before = self.queue.last_before(offset)
        if before is not None and before is not self.queue.files[-1]:
            later = self.queue.start_behind(before)
            reason = f"there is nothing from {offset} to {later}: a file is missing or was cut"
            return CorruptFileError(before.path, before.size, "file size", reason)
        begin, end = self.min_phy_offset, self.max_phy_offset
        return IndexError(f"phy_offset {offset} is outside the commit log, which has {begin} to {end}")

    def scanner(self, fields: Iterable[str], **options: Any) -> RecordScanner:
        """A scanner that collects what these fields of tables are made from."""
        names = {name.removesuffix("_ms"): None for name in fields if name not in MADE_COLUMNS}
        if not MADE_COLUMNS.isdisjoint(fields):
            names |= dict.fromkeys(STORED_COLUMNS)
        return RecordScanner(names, **self.options, **options)

    # ---- scan ----------------------------------------------------------------------------------------------

    def scan(
        self,
        begin_offset: int | None = None,
        end_offset: int | None = None,
        *,
        columns: Iterable[str] | None = None,
        topics: Iterable[str] | None = None,
        queue_ids: Iterable[int] | None = None,
        tags: str | None = None,
        keys: Iterable[str] | None = None,
        begin_timestamp: int | None = None,
        end_timestamp: int | None = None,
        verify_crc: bool = False,
        on_corrupt: str = "raise",
        batch_size: int = 16384,
        threads: int = 1,
    ) -> Scan:
        """Read all messages, or those that all conditions hold for, in the order of the log.

        Parameters
        ----------
        begin_offset, end_offset : physical offsets, bytes: records that begin from the first up to the second; None
            for the whole log. Need not be where a record begins.
        columns : names of Message's fields, as offset_msg_id, not those of tables, as msgId; None for all that tables
            have. Fewer are faster, above all without bodies.
        topics, queue_ids : one of these.
        tags : "a||b": the message's tags are one of these; "*", "" or None for all.
        keys : one of the words of KEYS, or UNIQ_KEY, is one of these. No index is used.
        begin_timestamp, end_timestamp : store time, epoch ms, inclusive.
        verify_crc : compare bodies with their CRC; one that differs is corrupt.
        on_corrupt : "raise" CorruptFileError at bytes that are no record and that records follow, or "skip" them:
            ``Scan.skipped`` then tells. Bytes that no record follows are the end of the log, but for a whole record
            whose CRC is wrong. A body that cannot be decoded is null in either case: the record is sound.
        batch_size : messages in a batch at most.
        threads : so many parts of the log are read at once.

        Returns
        -------
        Scan. Nothing is read before it is iterated.

        Raises
        ------
        ValueError, TypeError : for conditions that cannot be.

        Source: CommitLog.checkMessageAndReturnSize, for each record.
        """
        if on_corrupt not in ON_CORRUPT:
            raise ValueError(f"on_corrupt={on_corrupt!r}: must be one of {', '.join(map(repr, ON_CORRUPT))}")
        require_int64(batch_size=batch_size)
        if batch_size < 1 or threads < 1:
            raise ValueError(f"batch_size={batch_size}, threads={threads}: at least 1 is needed")
        for name, value in (("topics", topics), ("keys", keys)):
            if isinstance(value, str):
                raise TypeError(f"{name}={value!r}: a list of str was expected")
        times = {"begin_timestamp": begin_timestamp, "end_timestamp": end_timestamp}
        require_int64(**{name: time for name, time in times.items() if time is not None})
        fields = message_fields(columns)
        record_filter = RecordFilter(topics, queue_ids, subscribed_tags(tags), keys, begin_timestamp, end_timestamp)
        return Scan(
            self,
            fields,
            None if begin_offset is None else operator.index(begin_offset),
            None if end_offset is None else operator.index(end_offset),
            functools.partial(self.scanner, fields, record_filter=record_filter, verify_crc=verify_crc),
            on_corrupt,
            batch_size,
            threads,
        )

    def step(
        self, scanner: RecordScanner, offset: int, end: int, max_rows: int = LONG_MAX
    ) -> tuple[int, int] | None:
        """Scan one piece from ``offset``. (next offset, status), None where no file is."""
        first = size = self._span(offset)
        seen = -1, -1
        while True:
            window = self.queue.read(offset, size, "sequential", end)
            if window is None:
                return None
            offset, status = scanner.scan(*window, offset, end, max_rows, MAX_BATCH_BYTES)
            if status == HALF and self.is_at_rest(offset):
                offset, status = scanner.scan(*window, offset, end, max_rows, MAX_BATCH_BYTES, at_rest=True)
            place, file = (window.from_offset, window.buffer.size), self.queue.find(window.from_offset)
            if status == BLANK and file is not None and self._fills(file, offset):
                return self.end_of(file), status
            if status != OK and self._is_partial(window) and self.queue.read_beyond(window):
                continue
            if status != OK and place != seen and self._is_partial(window):
                seen = place
                if sum(place) - offset < size:
                    continue
                if status in (CUT, BLANK) or (status == HALF and size == first):  # what the bytes behind it may change
                    size = self._larger(size, offset)
                    continue
            if status == BLANK and file is not None:
                offset = self.end_of(file)
            return offset, status

    def _span(self, offset: int) -> int:
        """Return how many bytes to read at an offset at once if the file is not mapped."""
        return min(SPAN, self.queue.span(offset))

    def _larger(self, size: int, offset: int) -> int:
        """Return how many bytes to read of a record, or of a blank, after ``size`` bytes were too few."""
        if size >= SPAN or size * 16 <= self.queue.span(offset):
            return size * 16
        return max(self._length_at(offset) + BYTES_BEHIND_RECORD, 2 * size)

    def _length_at(self, offset: int) -> int:
        """Read the length field of the record, or of the blank, at an offset, bytes."""
        return int.from_bytes(self.queue.pread(offset, 4), "big", signed=True)

    def _fills(self, file: LogFile, offset: int) -> bool:
        """Return whether a blank fills its file by its length field, so that the rest of a remote file is not read."""
        return self.queue.span(offset) < SPAN and self._length_at(offset) >= file.end_offset - offset

    def list_again(self) -> None:
        """List the files of a planned log again, because one of them is not as it was planned."""
        if self.queue.is_planned:
            self.whole_to = 0
            self.queue.list_again()
            self.refresh()

    def end_of(self, file: LogFile) -> int:
        """Where the file after this one begins, also if this one is cut."""
        end = file.file_from_offset + max(file.size, self.queue.mapped_file_size)
        return min(end, self.queue.start_behind(file), LONG_MAX)

    def first_record(self, begin: int, end: int) -> int | None:
        """Find where the first of these records begins, or, in the body of another, seems to; None if none does.

        Where a file begins, one begins: it is for the reader to say if there is something else.
        """
        file = self.queue.find(begin)
        return begin if file is not None and file.file_from_offset == begin else self.find_later(begin, end)

    def find_later(self, offset: int, end: int) -> int | None:
        """Find the first record from ``offset`` on, holes left out. None if there is none before ``end``."""
        for file in self.queue.between(offset, end):
            if file.end_offset <= offset:
                continue
            for begin, stop in self.data_of(file, offset):
                found = self._find_in(file.file_from_offset + begin, min(file.file_from_offset + stop, end))
                if found is not None:
                    return found
        return None

    def _find_in(self, place: int, stop: int) -> int | None:
        """Find the first record in a part of one file, window by window where it is not mapped."""
        while place < stop and (window := self.queue.read(place, self._span(place), "sequential", stop)) is not None:
            partial = self._is_partial(window)
            found = find_record(*window, place, stop, or_cut=partial)
            if found is None:
                # The bytes that a record is known by may be cut in two.
                place = window.from_offset + window.buffer.size - (7 if partial else 0)
            elif not partial or self._read_record(found)[0] in (OK, HALF):
                return found
            else:
                place = found + 1
        return None

    def end_around(self, offset: int, most: int | None = None) -> int:
        """Where the sound record, or blank one, ends that an offset is within; the offset itself if it is in none.

        Parameters: most: bytes before it that are looked at, LARGE_RECORD if not given.
        """
        file = self.queue.find(offset)
        place = offset if file is None else max(file.file_from_offset, offset - (most or LARGE_RECORD))
        while (before := self.find_later(place, offset)) is not None:
            place = self.walk(self.scanner(()), before, offset)
            if place >= offset:
                return place
            place += 1
        return offset

    def data_of(self, file: LogFile, offset: int) -> Iterator[tuple[int, int]]:
        """Give the ranges of a file, from an offset of the log on, that are not holes; none if it has expired."""
        with contextlib.suppress(FileNotFoundError):
            yield from self.queue.data_ranges(file, max(offset - file.file_from_offset, 0))

    def close(self) -> None:
        """Flush, if open for appending, and close the files. Later calls, and scans that go on, StoreClosedError.

        Raises: OSError, StoreError for the flush; RuntimeError from a signal's handler that interrupts ``append`` or
        ``flush`` of this thread, which it would wait for.
        """
        writer = None if self._is_forked else self.writer
        if writer is not None:
            require_uninterrupted(writer, self.directories[0])
        try:
            if writer is not None and not self._closed:
                writer.flush()
        finally:
            self._closed = True
            self.queue.close()
            if writer is not None:
                writer.close()
            for lock in self._locks:
                lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self.writer is not None:
            raise TypeError(f"{self.directories[0]} is open for appending: only a reader can be pickled")
        return _reopen, (type(self), self.directories, self.queue.given_size, self.options, self.whole_to)

    def __repr__(self) -> str:
        where = ", ".join(repr(str(path)) for path in self.directories)
        if self._closed:
            return f"<CommitLog {where}, closed>"
        try:
            begin, end = self.min_phy_offset, self.max_phy_offset
        except (StoreError, OSError) as error:
            return f"<CommitLog {where}, {error}>"
        return f"<CommitLog {where}: {begin:,} to {end:,} in {len(self.queue.files)} files>"


def no_limit() -> int:
    return LONG_MAX


def lock_paths(directories: Sequence[Path]) -> list[Path]:
    """Give the lock files of the stores whose log these directories are."""
    parents = [parent for path in directories for parent in (path.absolute().parent, path.resolve().parent)]
    paths = {path.resolve(): path for parent in parents if (path := parent / "lock").is_file()}
    return list(paths.values())


def is_list(directory: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(directory, Sequence) and not isinstance(directory, str)


def _reopen(
    cls: type[CommitLog], paths: list[Path], size: int | None, options: dict[str, Any], whole_to: int
) -> CommitLog:
    log = cls.open(paths, mapped_file_size=size, **options)
    log.whole_to = whole_to
    return log


def subscribed_tags(tags: str | None) -> set[str] | None:
    """Return the tags that "a||b" names, None for all. Raises: TypeError. Source: FilterAPI.buildSubscriptionData."""
    if not isinstance(tags, str | None):
        raise TypeError(f"tags={tags!r}: a str such as 'a||b' was expected")
    return None if tags in (None, "", "*") else {tag.strip() for tag in tags.split("||")} - {""}
