"""CommitLog: all messages of a store, one after the other."""

from __future__ import annotations

import contextlib
import functools
import io
import operator
import os
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeGuard

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.closable import Closable
from rocketstore.disk.durable import make_directory
from rocketstore.disk.file_run_reader import FileRunReader
from rocketstore.disk.mapped_file import Mode, check_mode
from rocketstore.disk.remote.remote_file_run import open_file_run
from rocketstore.disk.storage import local_path, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreClosedError, StoreError
from rocketstore.kernels.columns import (
    aligned,
    int64_column,
    require_count,
    require_int64,
    require_sound_buffers,
    require_unmasked,
)
from rocketstore.kernels.commit_log import DEFAULT_DELAYS, END, HALF, WRONG_CRC
from rocketstore.kernels.message_columns import message_fields
from rocketstore.kernels.record_filter import RecordFilter
from rocketstore.keywords import suggests_keywords
from rocketstore.limits import LONG_MAX
from rocketstore.log.describe_log import describe_log
from rocketstore.log.end_evidence import EndEvidence, UnfinishedRecords
from rocketstore.log.end_finder import EndFinder
from rocketstore.log.hash_sample import HashSample
from rocketstore.log.log_end import LogView, PlannedState
from rocketstore.log.read_error import read_error
from rocketstore.log.record_reader import RecordReader, reads_bodies
from rocketstore.log.scan import Scan
from rocketstore.log.standalone_writer import StandaloneLogWriter
from rocketstore.made_by import made_by
from rocketstore.messages.arguments import integer_list, split_tags, text_list
from rocketstore.messages.body_text import UTF8, find_charset
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch, is_arrow, lazy_batch_of
from rocketstore.messages.put_result import PutMessageResult, PutMessagesResult
from rocketstore.messages.put_rules import GivenTime, put_time
from rocketstore.progress import Progress, checked_progress
from rocketstore.root_places import RootPlaces
from rocketstore.state.abort import require_no_writer
from rocketstore.state.lock_file import StoreLock
from rocketstore.text_values import Time, Zone, end_ms, find_time_zone, ms_or_none, parse_share

ON_CORRUPT = ("raise", "skip")
PLANS = "auto", "scan"


@made_by("CommitLog.open(path)")
class CommitLog(Closable):
    """The commit log of a store. ``open`` returns one; it is a context manager. A reader may work beside a broker.

    Attributes: directories; mode. file_run: the files of the directories. reader: reads records, also behind the end of
    the log. end_finder: finds where the log ends.
    Source: CommitLog, MultiPathMappedFileQueue.

    Examples:
    >>> with rocketstore.open("demo") as store:
    ...     print(store.commit_log.min_phy_offset, store.commit_log.get_message(0).topic)
    0 Orders
    """

    def __init__(
        self,
        file_run: FileRunReader,
        options: dict[str, Any],
        mode: str = "r",
        *,
        whole_to: int = 0,
        trusts_file_times: bool = True,
        evidence: EndEvidence | None = None,
        unfinished: UnfinishedRecords | None = None,
        view: LogView | None = None,
        writer: StandaloneLogWriter | None = None,
        locks: Sequence[StoreLock] = (),
    ) -> None:
        """Make a log of listed files.

        Parameters: whole_to, trusts_file_times: as for ``RecordReader``. evidence: tells where a broker ends the log;
        None to read all records, also old ones. unfinished: records to leave out; None without any.
        view: the view of the driver of a distributed job; None to find where the log ends. writer: appends to the log;
        None to read only. locks: those that the writer holds.
        """
        self.directories = file_run.directories
        self.mode = mode
        self.file_run = file_run
        state = evidence if view is None else PlannedState()
        self.reader = RecordReader(
            file_run, options, whole_to=whole_to, trusts_file_times=trusts_file_times, state=state
        )
        self.end_finder = EndFinder(self.reader, evidence, unfinished, view)
        self.writer = writer
        self._locks = locks

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str] | StorePath | Sequence[str | os.PathLike[str] | StorePath],
        mode: Mode = "r",
        *,
        mapped_file_size: int | None = None,
        force_verify_prop_crc: bool = False,
        message_delay_level: str = DEFAULT_DELAYS,
        config: StoreConfig | None = None,
    ) -> Self:
        """Open the files of a directory, or of several directories that make one log.

        Parameters
        ----------
        mode : "r" reads; "r+" also appends; "a" also makes the directory. Appends go to the log alone. To append to a
            store with queues and index, use ``rocketstore.open``. A log beside a store's ``lock`` holds that lock while
            it is open for appending. For any other log the caller must ensure that there is one writer at a time.
        mapped_file_size : bytes of a complete file; None to infer it from the files.
        force_verify_prop_crc : where a CRC is checked, check the CRC in the properties, and not the CRC of the body.
        message_delay_level : as the broker's.
        config : how records are written.

        Raises
        ------
        FileNotFoundError; ValueError; StoreLockedError if another process writes the store; StoreError if records
        would be appended behind other bytes, or in the root of a store.
        """
        check_mode(mode)
        if is_list(directory) and not directory:
            raise ValueError(f"directory={directory!r}: at least one is needed")
        paths = list(map(to_path, directory if is_list(directory) else [directory]))
        written = [] if mode == "r" else list(map(local_path, paths))
        for path in written:
            if (own := RootPlaces(path).default_log).is_dir():
                raise StoreError(f"{path} is the root of a store: its log is {own}")
        with contextlib.ExitStack() as stack:
            roots = roots_of(written)
            locks = [StoreLock(path) for path in lock_paths(roots)]
            for root in roots:
                require_no_writer(root.abort, root.lock)
            for lock in locks:
                lock.acquire()
                stack.callback(lock.release)
            if mode == "a":
                make_directory(written[0])
            file_run = open_file_run(paths, mapped_file_size=mapped_file_size)
            options = {"force_verify_prop_crc": force_verify_prop_crc, "message_delay_level": message_delay_level}
            if mode == "r":
                return cls(file_run, options)
            whole = cls(file_run, options, whole_to=LONG_MAX)  # nobody else writes
            beside = [RootPlaces(path.parent) for path in written]
            parts = [part for root in beside for part in (root.plain_queues, root.batch_queues)]
            end = whole.max_phy_offset
            writer = StandaloneLogWriter.of_log(whole.reader, end, config or StoreConfig(), parts)
            self = cls(file_run, options, mode, whole_to=end, writer=writer, locks=locks)
            weakref.finalize(self, stack.pop_all().close)
        return self

    # ---- append --------------------------------------------------------------------------------------------

    def append(self, message: Message, *, store_timestamp: GivenTime = None) -> PutMessageResult:
        """Append a message to the log alone, as ``MessageStore.put_message`` does. Inner batches may have any topic.

        With flush_disk_type "SYNC_FLUSH" the message is on the disk when this returns. Otherwise ``flush`` and
        ``close`` write it to the disk; a log alone has no thread that flushes.

        Parameters: store_timestamp: epoch ms; None for now; "given" for the message's own.
        Returns: PutMessageResult. Raises: PutMessageError if the message is refused; OSError or StoreError if it may be
        lost; StoreError if the store has a queue of this name whose records are all gone; io.UnsupportedOperation in
        mode "r". Source: CommitLog.asyncPutMessage.
        """
        return self._writing().put(message, put_time(store_timestamp))

    def append_batch(
        self, messages: Sequence[Message] | MessageBatch | Any, *, store_timestamp: GivenTime = None
    ) -> PutMessagesResult:
        """Append messages in order. If one of them is refused, none is appended. Columns take one kernel call.

        Parameters: messages: Message objects, a MessageBatch, or an Arrow table, as for ``MessageStore.put_messages``.
        store_timestamp; raises: as ``append``. Returns: PutMessagesResult. Source: CommitLog.asyncPutMessages; but
        the messages may be in several files.
        """
        if is_arrow(messages):
            messages = MessageBatch.of_arrow(messages)
        return self._writing().put_all(messages, put_time(store_timestamp))

    def flush(self) -> None:
        """Write all appended messages to the disk. Raises OSError: the messages may be lost then.

        Source: MappedFileQueue.flush.
        """
        self._writing().flush_all()

    def _writing(self) -> StandaloneLogWriter:
        if self.reader.closed:
            raise StoreClosedError(f"{self.directories[0]} is closed")
        if self.writer is None:
            raise io.UnsupportedOperation(f"{self.directories[0]} is open for reading: open it with mode 'a' to append")
        if self._is_forked:
            raise StoreError(f"{self.directories[0]}: was opened by another process: open it here, after it was closed")
        return self.writer

    @property
    def _is_forked(self) -> bool:
        """Return whether the writer belongs to the process from which this process was forked."""
        return not all(lock.owned for lock in self._locks)

    # ---- files, and where the log ends ---------------------------------------------------------------------

    @property
    def mapped_file_size(self) -> int:
        """The size of a complete file, bytes; 0 without files."""
        return self.file_run.mapped_file_size

    def refresh(self) -> None:
        """List the files again. Files whose bytes would have offsets beyond a long are left out."""
        self.reader.refresh()

    @property
    def min_phy_offset(self) -> int:
        """The physical offset at which the log begins; 0 without files. See ``RecordReader.min_phy_offset``."""
        return self.reader.min_phy_offset

    @property
    def max_phy_offset(self) -> int:
        """The physical offset behind the last complete record; it grows while a broker writes.

        Source: CommitLog.getMaxOffset.
        """
        return self.end_finder.find_end()

    @property
    def last_phy_offset(self) -> int | None:
        """Where the last record begins that ``max_phy_offset`` saw; None without a record."""
        return self.end_finder.last_phy_offset

    def look(self, *, again: bool = False) -> LogView:
        """Return a new view of the log: where it ends, also behind damage, and why. ``EndFinder.look`` describes it."""
        return self.end_finder.look(again=again)

    def as_whole_to(self, offset: int, unfinished: UnfinishedRecords | None = None) -> CommitLog:
        """Return a reader of the same files and of all their records. Nobody writes before ``offset`` any more.

        Parameters: unfinished: records to leave out; None without any.
        """
        times = self.reader.trusts_file_times
        options = self.reader.options
        return CommitLog(self.file_run, options, whole_to=offset, trusts_file_times=times, unfinished=unfinished)

    def with_leftovers(self) -> CommitLog:
        """Return a reader of the same files that also reads old records behind the end, which a broker cut off."""
        return self.as_whole_to(self.reader.whole_to, self.end_finder.unfinished)

    # ---- one and many --------------------------------------------------------------------------------------

    def get_message(self, phy_offset: int, *, verify_crc: bool = True) -> Message:
        """Read the message at a physical offset.

        Parameters: phy_offset: bytes. verify_crc: compare the body with its CRC. Returns: Message. Raises: IndexError
        if the offset is outside the log; CorruptFileError if no message begins there, or if its body does not match its
        CRC. Source: CommitLog.lookMessageByOffset.
        """
        status, fields = self._read_message(phy_offset, verify_crc=verify_crc)
        if fields is None:
            raise self.error(phy_offset, status)
        return Message.of_fields(fields)

    def find_message(self, phy_offset: int) -> Message | None:
        """Read the message at a physical offset. Return None if no message begins there.

        If the body does not match its CRC, ``message.body`` raises the error.
        """
        status, fields = self._read_message(phy_offset, verify_crc=True)
        if status in WRONG_CRC:
            unchecked = self._read_message(phy_offset, verify_crc=False)[1]
            if unchecked is not None:
                unchecked.pop("raw_body")
                fields = unchecked | {"_body_error": self.error(phy_offset, status)}
        return None if fields is None else Message.of_fields(fields)

    def find_sound_message(self, phy_offset: int, *, verify_crc: bool = True) -> Message | None:
        """Read the message at a physical offset. Return None if no message begins there.

        Raises: CorruptFileError if its body does not match its CRC, with ``verify_crc``.
        """
        status, fields = self._read_message(phy_offset, verify_crc=verify_crc)
        if status in WRONG_CRC:
            raise self.error(phy_offset, status)
        return None if fields is None else Message.of_fields(fields)

    def _read_message(self, phy_offset: int, *, verify_crc: bool) -> tuple[int, dict[str, Any] | None]:
        offset = operator.index(phy_offset)
        if offset >= self.end_finder.find_readable_end(offset):
            return END, None
        return self.reader.read_record(offset, verify_crc=verify_crc)

    def get_messages(
        self,
        phy_offsets: Any,
        *,
        columns: str | Iterable[str] | None = None,
        verify_crc: bool | None = None,
        charset: str = "utf-8",
    ) -> MessageBatch:
        """Read the messages at many physical offsets, int64[n], bytes. The batch has the order of the offsets.

        Parameters: columns: names of Message's fields, None for all columns of tables. verify_crc: compare bodies with
        their CRC; None: if the columns have bodies. charset: as for ``scan``. Returns: MessageBatch. Raises: IndexError
        for an offset outside the log; CorruptFileError for an offset at which no message begins, or one whose body does
        not match its CRC. Source: CommitLog.lookMessageByOffset, for each.
        """
        require_unmasked(phy_offsets, "phy_offsets")
        require_sound_buffers(phy_offsets, "phy_offsets")
        offsets = np.asarray(phy_offsets)
        offsets = int64_column(offsets, "phy_offsets", offsets.size)
        checks = reads_bodies(message_fields(columns)) if verify_crc is None else verify_crc
        batch, statuses = self.find_messages(
            offsets, columns=columns, verify_crc=checks, marks_crc=False, charset=charset
        )
        if statuses.any():
            row = int(statuses.argmax())
            raise self.error(int(offsets[row]), int(statuses[row]))
        return batch

    def find_messages(
        self,
        phy_offsets: np.ndarray,
        *,
        columns: str | Iterable[str] | None = None,
        verify_crc: bool = False,
        marks_crc: bool = True,
        charset: str = UTF8,
        containers: bool = True,
    ) -> tuple[MessageBatch, np.ndarray]:
        """Read the messages at physical offsets int64[n], and leave out offsets without a message.

        Parameters: verify_crc: leave out messages whose body does not match its CRC. marks_crc: otherwise such a body
        is None in the column, and has the error. containers: whether the record of an inner batch is one message; else
        its messages are in its place.
        Returns: the batch of the found messages, in the given order, and a status for each offset, uint8[n]: 0 if the
        message was found.
        """
        fields = message_fields(columns)
        self.refresh()
        offsets = aligned(phy_offsets, np.int64)
        self.reader.read_ahead(offsets)
        windows, window_of = self.reader.windows_of(offsets)
        if len(offsets):
            window_of[offsets >= self.end_finder.find_readable_end(int(offsets.max()))] = -1
        checks = {"verify_crc": verify_crc, "marks_crc": marks_crc and not verify_crc, "opens_batches": not containers}
        scanner = self.reader.scanner(fields, **checks)
        statuses = np.full(len(offsets), END, np.uint8)
        scanner.gather(windows, window_of, offsets, statuses)
        half = np.flatnonzero(statuses == HALF)
        is_written = np.array([not self.reader.is_at_rest(offset) for offset in offsets[half].tolist()], np.bool_)
        if not is_written.all():  # some are complete, and end in zeros
            window_of[half[is_written]] = -1
            scanner = self.reader.scanner(fields, **checks)
            scanner.gather(windows, window_of, offsets, statuses, at_rest=True)
            statuses[half[is_written]] = HALF
        return lazy_batch_of(scanner.take(), fields, find_charset(charset)), statuses

    def pickup_store_timestamp(self, phy_offset: int, size: int) -> int:
        """Return the store time, epoch ms, of the record at an offset; -1 if no record of ``size`` bytes is there.

        Source: CommitLog.pickupStoreTimestamp.
        """
        fields = self._read_message(phy_offset, verify_crc=False)[1]
        return fields["store_timestamp"] if fields is not None and fields["size"] == size else -1

    def error(self, offset: int, status: int) -> Exception:
        """Return the error that says why no message can be read at an offset. Parameters: status: of a scanner."""
        return read_error(self.reader, self.end_finder, offset, status)

    # ---- scan ----------------------------------------------------------------------------------------------

    @suggests_keywords
    def scan(
        self,
        begin_offset: int | None = None,
        end_offset: int | None = None,
        *,
        columns: str | Iterable[str] | None = None,
        topic: str | Iterable[str] | None = None,
        queue_ids: int | Iterable[int] | None = None,
        tag: str | Iterable[str] | None = None,
        key: str | Iterable[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        tz: Zone = "UTC",
        verify_crc: bool | None = None,
        on_corrupt: Literal["raise", "skip"] = "raise",
        batch_size: int = 16384,
        threads: int = 1,
        limit: int | None = None,
        plan: Literal["auto", "scan"] = "auto",
        sample: float | str | None = None,
        charset: str = "utf-8",
        containers: bool | None = None,
        progress: Progress = False,
    ) -> Scan:
        """Read all messages, or the messages that meet all conditions, in the order of the log.

        Parameters
        ----------
        begin_offset, end_offset : physical offsets, bytes. Records that begin from ``begin_offset`` to before
            ``end_offset`` are read; None for the whole log. Records need not begin at these offsets.
        columns : one name or several, of Message's fields (phy_offset) or of tables (phyOffset). None for all columns
            of tables. Fewer columns are faster, above all without bodies.
        topic, queue_ids : one or several; the message is in one of these. A store warns of a topic that it does not
            have.
        tag : "a||b", or several tags: the message has one of these tags; "*", "" or None for all.
        key : one or several; one of the words of KEYS, or UNIQ_KEY, is in it. No index is used.
        since, until : store time, from the first to before the second: epoch milliseconds, a
            datetime, a date or an ISO 8601 text.
        tz : the time zone of times that name none, such as "Asia/Shanghai", or a tzinfo; None and "local" are that of
            this machine.
        verify_crc : compare bodies with their CRC. A record whose body has another CRC is corrupt. None: if the columns
            have bodies. True: of all records, also without these columns.
        on_corrupt : "raise" CorruptFileError at bytes that are no record but are followed by records, or "skip" them
            and list them in ``Scan.skipped``. Bytes without records behind them are the end of the log, except for a
            complete record with a wrong CRC. A body that cannot be decoded is null: its record is sound.
        batch_size : messages in a batch at most.
        threads : how many parts of the log are read at the same time.
        limit : the largest number of messages; None for all.
        plan : "auto": with ``topic``, a store reads only the records to which its queues lead, and the parts of the log
            to which no queue leads, if these are few bytes. ``Scan.explain`` says whether it does. Then it notices no
            damage in records of other topics, and with ``tag`` no message whose unit has the hash of another tag.
            "scan": read the complete range of the log. A log alone always does so.
        sample : a part of the messages, such as 0.01 or "1%", chosen by a hash of topic, queue id and queue offset. So
            each scan chooses the same messages. A store reads only these, by its queues, as with ``topic``.
        charset : of the bodies, such as "gbk", for the columns ``body_text`` and ``body_json``, which must be named in
            ``columns``. ``body_text`` is null if a body is no text of the charset, ``body_json`` if that is no JSON.
        containers : False: give the messages in inner batches, and let the conditions choose among them. True: the
            record of an inner batch is one message. None: as False for a store, as True for a log alone. An inner
            batch that cannot be opened is corrupt. The messages of an inner batch have the physical offset, the size
            and the message id of its record, and queue offsets of their own.
        progress : of each iteration: True shows a bar on standard error. A function is called with the bytes of the log
            that were read, and all bytes of the range.

        Returns
        -------
        Scan. Nothing is read before it is iterated.

        Raises
        ------
        ValueError, TypeError : for conditions of a wrong type or range.

        Source: CommitLog.checkMessageAndReturnSize, for each record.
        """
        if on_corrupt not in ON_CORRUPT:
            raise ValueError(f"on_corrupt={on_corrupt!r}: must be one of {', '.join(map(repr, ON_CORRUPT))}")
        if plan not in PLANS:
            raise ValueError(f"plan={plan!r}: must be one of {', '.join(map(repr, PLANS))}")
        require_int64(batch_size=batch_size)
        require_count(limit=0 if limit is None else limit)
        if batch_size < 1 or threads < 1:
            raise ValueError(f"batch_size={batch_size}, threads={threads}: at least 1 is needed")
        if isinstance(begin_offset, str):
            raise TypeError(
                f"begin_offset={begin_offset!r:.80}: an int was expected; a topic is given by name, as topic="
            )
        zone = find_time_zone(tz)
        begin = ms_or_none(since, "since", zone)
        last = None if until is None else end_ms(until, "until", zone)
        fields = message_fields(columns)
        texts = text_list(topic, "topic"), text_list(key, "key")
        record_filter = RecordFilter(texts[0], integer_list(queue_ids), split_tags(tag), texts[1], begin, last)
        share = None if sample is None else parse_share(sample)
        scan = Scan(
            self.reader,
            self.end_finder,
            fields,
            None if begin_offset is None else operator.index(begin_offset),
            None if end_offset is None else operator.index(end_offset),
            functools.partial(self.reader.scanner, record_filter=record_filter),
            on_corrupt,
            batch_size,
            threads,
            limit,
            find_charset(charset),
            verify_crc,
            checked_progress(progress),
            opens_batches=containers is False,
        )
        return scan if share is None else scan.filtered(HashSample.of_share(share))

    def close(self) -> None:
        """Flush, if open for appending, and close the files. Later calls and running scans raise StoreClosedError.

        Raises: OSError, StoreError if the flush fails; NestedCallError if the caller is a signal handler that
        interrupted ``append`` or ``flush`` of this thread, because the call would never return.
        """
        writer = None if self._is_forked else self.writer
        if writer is not None:
            writer.busy.require_idle("close")
        try:
            if writer is not None and not self.reader.closed:
                writer.flush_all()
        finally:
            self.reader.close()
            if writer is not None:
                writer.close()
            for lock in self._locks:
                lock.release()

    def __reduce__(self) -> tuple[object, ...]:
        if self.writer is not None:
            raise TypeError(f"{self.directories[0]} is open for appending: only a reader can be pickled")
        reader = self.reader
        return _reopen, (type(self), self.directories, self.file_run.given_size, reader.options, reader.whole_to)

    def __repr__(self) -> str:
        return describe_log(self.reader, self.end_finder)


def roots_of(directories: Sequence[Path]) -> list[RootPlaces[Path]]:
    """Return the roots of the stores to which these directories of a log may belong."""
    parents = (parent for path in directories for parent in (path.absolute().parent, path.resolve().parent))
    return list(map(RootPlaces, dict.fromkeys(parents)))


def lock_paths(roots: Sequence[RootPlaces[Path]]) -> list[Path]:
    """Return the lock files of stores, each once."""
    paths = {root.lock.resolve(): root.lock for root in roots if root.lock.is_file()}
    return list(paths.values())


def is_list(directory: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(directory, Sequence) and not isinstance(directory, str)


def _reopen(
    cls: type[CommitLog], paths: list[Path], size: int | None, options: dict[str, Any], whole_to: int
) -> CommitLog:
    return cls(open_file_run(paths, mapped_file_size=size), options, whole_to=whole_to)
