"""Scan: the messages of a commit log from one offset to another, as batches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from rocketstore.disk.ahead import read_ahead
from rocketstore.disk.ranges import find_overlap, merge_ranges, ranges_from_end
from rocketstore.disk.work_threads import work_threads
from rocketstore.errors import CorruptFileError, text_of
from rocketstore.kernels.arrow_export import export_stream
from rocketstore.kernels.columns import require_count
from rocketstore.kernels.commit_log import BLANK, END, HALF, OK, RecordScanner
from rocketstore.kernels.message_columns import Field, message_fields
from rocketstore.kernels.record_filter import BodyLiterals
from rocketstore.limits import LONG_MAX
from rocketstore.log.chosen_records import ChosenRecords
from rocketstore.log.describe_log import describe_log
from rocketstore.log.end_finder import EndFinder
from rocketstore.log.join_chunks import join_chunks
from rocketstore.log.read_error import read_error
from rocketstore.log.record_reader import LOOK_BACK, MAX_BATCH_BYTES, RecordReader, reads_bodies
from rocketstore.made_by import made_by
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.body_text import UTF8
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch, empty_batch, lazy_batch_of, take_column
from rocketstore.names_of_other_tools import SuggestsNames
from rocketstore.progress import Progress, show_progress
from rocketstore.text_values import format_count

MOST_LITERALS = 16  # that a scanner searches; conditions search all of them
LAST_PART = 1 << 20  # bytes of the log in which ``tail`` searches first
CHUNK = 32 << 20  # bytes of the log that one thread scans at a time
ATTEMPTS, ATTEMPT_SECONDS = 3, 0.01


class Skipped(NamedTuple):
    """A range of the log that a scan left out, from ``begin`` to before ``end``, bytes, and the reason."""

    begin: int
    end: int
    error: CorruptFileError


class ReadPlan(NamedTuple):
    """How a scan reads a range of the log.

    Attributes: records: those that it reads one by one; None: it reads the complete range. gaps: the ranges between
    these records that it reads completely, physical offsets, ascending. why: the reason, as text.
    """

    records: ChosenRecords | None
    gaps: Sequence[tuple[int, int]]
    why: str

    def within(self, begin: int, end: int) -> ReadPlan:
        """Return the plan for a part of the range, from ``begin`` to before ``end``, physical offsets."""
        records = None if self.records is None else self.records.between(begin, end)
        gaps = [(max(start, begin), min(stop, end)) for start, stop in self.gaps if start < end and begin < stop]
        return ReadPlan(records, gaps, self.why)

    def find_end(self, end: int) -> int:
        """Return where the last bytes end that are read of a range that ends at ``end``."""
        if self.records is None:
            return end
        ends = [stop for _, stop in self.gaps[-1:]] + ([self.records.end] if self.records else [])
        return max(ends, default=0)


Planner = Callable[[int, int, int | None], ReadPlan]


class RowChoice(Protocol):
    """Chooses rows of batches. Scans with several threads choose rows of several batches at the same time."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that ``choose`` needs of a batch."""
        ...

    @property
    def literal(self) -> bytes | None:
        """Bytes that the body of each chosen row has, so that a scan need not copy other bodies; None for none."""
        ...

    def choose(self, batch: MessageBatch, /) -> Any:
        """Return the numbers of the chosen rows, int[n], ascending."""
        ...


class ChosenRows(NamedTuple):
    """A RowChoice that a function makes."""

    columns: Sequence[str]
    choose: Callable[[MessageBatch], Any]
    literal: bytes | None = None


@made_by("store.scan()")
class Scan(ArrowStream, SuggestsNames):
    """Messages of a commit log, batch by batch. Each iteration reads the log again.

    ``head`` gives the first messages, ``tail`` the last ones, ``count`` their number.

    Attributes: skipped: the ranges that the last iteration left out, in the log's order, if corrupt bytes are skipped.
    has_expired: whether a part of the range was deleted before the last iteration reached it. position: the offset
    behind the last record that the iteration read, or the last bytes that it left out. bad_bodies: counts
    the messages of the last iteration whose bodies cannot be decoded, and are null.
    Source: none; a broker reads its log when it recovers and when it dispatches.

    Examples:
    >>> scan = rocketstore.open("demo").scan(topic="Orders")
    >>> scan.count(), scan.head(2).keys.to_pylist()
    (100, [['order-0'], ['order-1']])
    """

    _word = "scan"

    def __init__(
        self,
        log: RecordReader,
        end_finder: EndFinder,
        fields: dict[str, Field],
        begin_offset: int | None,
        end_offset: int | None,
        new_scanner: Callable[..., RecordScanner],
        on_corrupt: str,
        batch_size: int,
        threads: int,
        limit: int | None = None,
        charset: str = UTF8,
        verify_crc: bool | None = None,
        progress: Progress = False,
        opens_batches: bool = False,
    ) -> None:
        """Parameters: new_scanner: as ``RecordReader.scanner``. opens_batches: give the messages in inner batches in
        place of their records. The others are those of ``CommitLog.scan``.
        """
        self.skipped: list[Skipped] = []
        self.has_expired = False
        self.bad_bodies = BadBodies()
        self.position = 0
        self._warns = True
        self._resyncs = True
        self._choose: Callable[[MessageBatch], MessageBatch] | None = None
        self._rows: RowChoice | None = None
        self._conditions: tuple[RowChoice, ...] = ()
        self._has_phy_offsets = True
        self._others: Callable[[], Iterable[Scan]] | None = None
        self._planner: Planner | None = None
        self._explain: Callable[[], str] | None = None
        self._log = log
        self._end_finder = end_finder
        self._fields = fields
        self._begin, self._end = begin_offset, end_offset
        self._new_scanner = new_scanner
        self._on_corrupt = on_corrupt
        self._asked_batch_size = batch_size
        self._batch_size = batch_size if limit is None else max(min(batch_size, limit), 1)
        self._threads = threads
        self._limit = limit
        self._charset = charset
        self._verify_crc = verify_crc
        self._marks_crc = False
        self._opens_batches = opens_batches
        self._progress = progress
        self._stop = 0

    def __iter__(self) -> Iterator[MessageBatch]:
        self.skipped = []
        self.bad_bodies = BadBodies()
        bounds = self._find_bounds()
        self.has_expired = self._begin is not None and self._begin < bounds.first
        self.position, self._stop = bounds.begin, bounds.stop
        batches = self._read_bounds(bounds)
        if self._others is not None:
            batches = chain(batches, self._read_others(self._others()))
        shown = first_messages(batches, self._limit)
        if self._progress is not False:
            shown = self._with_progress(shown, bounds)
        return self._then_warn(shown)

    def _find_bounds(self) -> Bounds:
        self._log.refresh()
        files = self._log.file_run.files
        first = self._log.begin_in(files[0]) if files else 0
        last = min(self._log.end_of(files[-1]) if files else 0, self._end_finder.find_limit())
        begin = max(first, 0 if self._begin is None else self._begin)
        stop = end = self._end_finder.find_scan_end(begin, last if self._end is None else min(self._end, last))
        if self._end is not None and self._end < last:
            end -= self._log.framing_at(end)  # an entry begins so many bytes before its record
        return Bounds(first, begin, end, stop)

    def _read_bounds(self, bounds: Bounds) -> Iterator[MessageBatch]:
        _, begin, end, _ = bounds
        plan = None if self._planner is None or begin >= end else self._planner(begin, end, self._planned_limit)
        if plan is not None and plan.records is not None:
            return self._read_records(begin, end, plan.records, plan.gaps)
        return self._read_ahead(begin, end) if self._threads > 1 else self._read(begin, end)

    def explain(self) -> str:
        """Return how an iteration would read the messages now, and why: as text.

        A scan of a store with ``topic`` reads only the records to which the queues lead, with ``tag`` those whose units
        have the hash of a tag, and the parts of the log to which no queue leads, if these are less than a fifth of the
        log. Otherwise it reads the log completely.
        """
        _, begin, end, _ = self._find_bounds()
        if self._planner is None:
            return f"reads {format_count(max(end - begin, 0), 'byte')} of the log: the queues are not used"
        return self._planner(begin, end, self._planned_limit).why

    @property
    def why(self) -> str | None:
        """Why no message meets all conditions; None if a message does.

        Each access reads the log up to the first message. Raises: as an iteration.

        Examples:
        >>> print(rocketstore.open("demo").scan(topic="Orders", until="2020-01-01").why)
        the oldest message is of ..., and messages before 2020-01-01 00:00:00 UTC were asked for; ...
        """
        first = self._first_message_only()
        return None if any(map(len, first)) else "; ".join(self._find_reasons(first.skipped))

    def _find_reasons(self, skipped: Sequence[Skipped]) -> Iterator[str]:
        """Yield why the scan gives no message. Parameters: skipped: the ranges that it left out."""
        if self._limit == 0:
            yield "limit=0 asks for no message"
            return
        if self._conditions and any(map(len, self._with(_conditions=())._first_message_only())):
            yield f"messages meet the other conditions, but none meets {' and '.join(map(repr, self._conditions))}"
            return
        if skipped:
            parts = format_count(len(skipped), "damaged range was", "damaged ranges were")
            yield f"{parts} left out; the first: {text_of(skipped[0].error)}"
        if self._begin is not None or self._end is not None:
            yield f"only the log from {self._describe_range()} was searched"
        yield "the log has no message that meets the conditions" if self._explain is None else self._explain()

    def _first_message_only(self) -> Scan:
        """Return a scan that ends behind the first message."""
        size = self._batch_size if self._conditions else 1
        limit = 1 if self._limit is None else min(self._limit, 1)
        return self._with(_limit=limit, _batch_size=size, _threads=1, _progress=False, _warns=False)

    def _with_progress(self, batches: Iterator[MessageBatch], bounds: Bounds) -> Iterator[MessageBatch]:
        """Yield batches, and report the bytes of the log up to the end of each. A bar ends with the iteration."""
        total = max(bounds.end - bounds.begin, 0)
        with show_progress(self._progress, "scan") as report:
            for batch in batches:
                yield batch
                report(min(self.position - bounds.begin, total), total)
            report(total, total)

    def _then_warn(self, batches: Iterator[MessageBatch]) -> Iterator[MessageBatch]:
        yield from batches
        if self._warns:
            self.bad_bodies.warn()

    def adapted(
        self,
        *,
        warns: bool = True,
        resyncs: bool = True,
        marks_crc: bool = False,
        choose: Callable[[MessageBatch], MessageBatch] | None = None,
    ) -> Scan:
        """Return a scan of the same messages for a caller of this package.

        Parameters: warns: whether the end of an iteration gives a UserWarning with the number of bad bodies; False if
        the caller reports this number. resyncs: whether the scan's begin may be inside a record, which is left out;
        False if a record begins there. marks_crc: a body that does not match its CRC is null, and has the error, in
        place of being damage of the log. choose: returns the wanted rows of a batch, before bodies are decompressed.
        """
        return self._with(_warns=warns, _resyncs=resyncs, _marks_crc=marks_crc, _choose=choose)

    @property
    def log(self) -> RecordReader:
        """The log that is read."""
        return self._log

    def with_rows(self, rows: RowChoice | None) -> Scan:
        """Return a scan of some of the messages. The requested columns need not have those of the choice.

        Parameters: rows: None for all messages.
        """
        return self._with(_rows=rows)

    def filtered(self, *conditions: RowChoice) -> Scan:
        """Return a scan of the messages that also meet these conditions, such as a ``Where``.

        Conditions see the messages that the scan gives: those in inner batches, or the records of inner batches if the
        option ``containers`` of the scan is true, as it is for a log alone. The columns that a condition needs are
        read, and are not in the batches unless they were requested.

        Examples:
        >>> paid = rocketstore.Where("tags = 'paid' AND queueOffset < 4")
        >>> rocketstore.open("demo").scan().filtered(paid).head().queue_offset
        array([1, 3])
        """
        return self._with(_conditions=(*self._conditions, *conditions), _batch_size=self._asked_batch_size)

    def planned_by(self, planner: Planner) -> Scan:
        """Return a scan of the same messages that need not read the complete log.

        Parameters: planner: plans to read the records of a range, physical offsets; its last argument is the limit.
        """
        return self._with(_planner=planner)

    def explained_by(self, explain: Callable[[], str]) -> Scan:
        """Return a scan of the same messages with a reason for no message.

        Parameters: explain: finds the reason, if it is asked for.
        """
        return self._with(_explain=explain)

    def without_phy_offsets(self) -> Scan:
        """Return a scan of the same messages, with null in place of their physical offsets."""
        return self._with(_has_phy_offsets=False)

    def joined_with(self, others: Callable[[], Iterable[Scan]]) -> Scan:
        """Return a scan of this log, and then of other logs.

        Parameters: others: plans the scans of the other logs when an iteration begins, and opens them one by one.
        """
        return self._with(_others=others)

    def _read_others(self, others: Iterable[Scan]) -> Iterator[MessageBatch]:
        for other in others:
            changes: dict[str, Any] = {
                "_fields": self._fields,
                "_choose": self._choose,
                "_conditions": self._conditions,
            }
            changes |= {"_warns": False, "_marks_crc": self._marks_crc, "_progress": False}  # the total is of one log
            scan = other._with(**changes)
            yield from scan
            self.skipped += scan.skipped
            self.bad_bodies.add_all(scan.bad_bodies)

    def _with(self, **changes: object) -> Scan:
        """Return a scan of the same messages, to be iterated on its own."""
        other = copy(self)
        vars(other).update(changes)
        return other

    def head(self, n: int = 5) -> MessageBatch:
        """Return the first ``n`` messages as one batch. Reading stops behind them. Raises: ValueError if n < 0."""
        require_count(n=n)
        limit = n if self._limit is None else min(n, self._limit)
        size = self._batch_size if self._conditions else max(limit, 1)
        batches = list(self._with(_limit=limit, _batch_size=size, _threads=1)) if limit > 0 else []
        return MessageBatch.join(batches) if batches else empty_batch(self._fields)

    def tail(self, n: int = 5) -> MessageBatch:
        """Return the last ``n`` messages as one batch, in the order of the log. It reads little more than these.

        A scan that has a limit, or that also reads other logs than the commit log, is read completely. Raises:
        ValueError if n < 0.
        """
        require_count(n=n)
        kept: list[MessageBatch] = []
        for part in self._parts_from_end() if n > 0 else ():
            kept = [*last_batches(part, n), *kept]
            if sum(map(len, kept)) >= n:
                break
        found = MessageBatch.join(kept) if kept else empty_batch(self._fields)
        return found[max(len(found) - n, 0) :]

    def _parts_from_end(self) -> Iterator[Scan]:
        """Yield scans of parts of the range, the last part first."""
        if self._limit is not None or self._others is not None:
            yield self
            return
        bounds = self._find_bounds()
        for begin, end in ranges_from_end(bounds.begin, bounds.end, LAST_PART):
            yield self._with(_begin=begin, _end=end, _threads=1)

    def count(self) -> int:
        """Return the number of messages. It reads only the bodies of inner batches, unless ``verify_crc`` is True."""
        return sum(map(len, self._with(_fields=message_fields(["phy_offset"]))))

    def _read(self, offset: int, end: int) -> Iterator[MessageBatch]:
        yield from self._walk(self._first(offset), end)

    def _walk(self, offset: int, end: int) -> Generator[MessageBatch, None, int | None]:
        """Yield the batches of a range. Return where the next range begins, or None at the end of the log."""
        scanner = self._make_scanner()
        goes_on = True
        while offset < end and goes_on:
            offset, status = self._log.step(scanner, offset, end, self._batch_size) or (offset, END)
            self.position = offset
            if status not in (OK, BLANK):
                yield from self._batches(scanner, self.bad_bodies)
                offset, goes_on = self._at_bad_bytes(scanner, offset, status, end)
                self.position = offset
            if self._is_full(scanner):
                yield from self._batches(scanner, self.bad_bodies)
        yield from self._batches(scanner, self.bad_bodies)
        return offset if goes_on else None

    def _make_scanner(self) -> RecordScanner:
        """Make a scanner of the wanted records. It checks bodies if they are read, or if this was asked for.

        It searches them for the bytes that they must have.
        """
        checks = reads_bodies(self._fields) if self._verify_crc is None else self._verify_crc
        marks = checks and self._marks_crc
        conditions = self._conditions if self._rows is None else ()  # the choice of rows may need all of a batch
        texts = [condition.literal for condition in conditions if condition.literal is not None]
        literals = BodyLiterals(texts[:MOST_LITERALS]) if texts else None
        return self._new_scanner(
            self._scanned,
            verify_crc=checks and not marks,
            marks_crc=marks,
            literals=literals,
            opens_batches=self._opens_batches,
        )

    def _is_full(self, scanner: RecordScanner) -> bool:
        return scanner.rows >= self._batch_size or scanner.n_bytes >= MAX_BATCH_BYTES

    def _batches(self, scanner: RecordScanner, bad_bodies: BadBodies) -> Iterator[MessageBatch]:
        """Return the scanned messages as batches; the scanner is empty then."""
        if not scanner.rows:
            return iter(())
        columns = scanner.take()
        batch = lazy_batch_of(choose_rows(columns, self._choices), self._fields, self._charset)
        if self._choose is not None:
            batch = self._choose(batch)
        found = chain.from_iterable(
            self._log.with_bodies(part, MAX_BATCH_BYTES, bad_bodies) for part in self._sized(batch)
        )
        return found if self._has_phy_offsets else map(MessageBatch.without_phy_offsets, found)

    def _sized(self, batch: MessageBatch) -> Iterable[MessageBatch]:
        """Return parts of the requested size: an inner batch may have more messages than there was room for."""
        size = self._batch_size
        if len(batch) <= size:
            return (batch,)
        return (batch[first : first + size] for first in range(0, len(batch), size))

    @property
    def _scanned(self) -> dict[str, Field]:
        """The fields that are read: those of the choices of rows are needed too."""
        return self._fields | {
            name: field for choice in self._choices for name, field in message_fields(choice.columns).items()
        }

    @property
    def _choices(self) -> Sequence[RowChoice]:
        return self._conditions if self._rows is None else (self._rows, *self._conditions)

    @property
    def _planned_limit(self) -> int | None:
        """The number of records that are enough; None if conditions leave out records."""
        return None if self._conditions else self._limit

    def _first(self, offset: int) -> int:
        """Return the end of the record that contains ``offset``. The scan reports damage there."""
        if not self._resyncs or self._may_begin(offset):
            return offset
        ends = (self._log.end_around(offset, most) for most in LOOK_BACK)
        return next((end for end in ends if end != offset), offset)

    def _may_begin(self, offset: int) -> bool:
        """Return whether the scan may begin here: at a record, at the start of a file, or where no file is."""
        file = self._log.file_run.find(offset)
        return file is None or file.file_from_offset == offset or self._log.begins_record(offset)

    def _resync(self, offset: int, end: int) -> int:
        """Return the first offset from ``offset`` on at which a record begins; ``end`` without a record."""
        if self._may_begin(offset):
            return offset
        found = self._log.find_later(offset, end)
        return end if found is None else found

    def _at_bad_bytes(self, scanner: RecordScanner, offset: int, status: int, end: int) -> tuple[int, bool]:
        """Decide what bytes that are no record mean. Return where the scan continues, and whether it does."""
        log = self._log
        log.list_again()  # only records behind a planned part show that the bytes are damage
        later = log.find_later(offset + 1, LONG_MAX)
        if later is not None and not self._is_bad_inside(offset) and self._end_finder.is_end_before_leftovers(offset):
            return offset, False
        if later is None and status not in (END, HALF):
            whole_to = log.walk(log.scanner(()), offset, offset + 1)
            later = whole_to if whole_to > offset else None  # the last record is complete, but its content is wrong
        for _ in range(ATTEMPTS):
            if later is None and status in (END, HALF):
                return offset, False
            if later is not None and log.is_at_rest(offset):
                break
            time.sleep(ATTEMPT_SECONDS)  # a broker may be writing this record
            log.file_run.forget()
            step = log.step(scanner, offset, end, self._batch_size)
            if step is not None and (step[0] > offset or step[1] in (OK, BLANK)):
                return step[0], True
        if later is None:
            return offset, False
        if offset < log.min_phy_offset:
            self.has_expired = True
            return later, True
        error = read_error(self._log, self._end_finder, offset, status)
        if self._on_corrupt == "raise" or not isinstance(error, CorruptFileError):
            raise error
        self.skipped.append(Skipped(offset, min(later, self._stop), error))
        return later, True

    def _is_bad_inside(self, offset: int) -> bool:
        """Return whether only the CRC or the inner batch of a record is wrong: a running broker does not check it."""
        return self._log.walk(self._log.scanner(()), offset, offset + 1) > offset

    # ---- some records --------------------------------------------------------------------------------------

    def _read_records(
        self, begin: int, end: int, records: ChosenRecords, gaps: Sequence[tuple[int, int]]
    ) -> Iterator[MessageBatch]:
        """Yield the batches of chosen records, and of the gaps between them, in the order of the log.

        If a record is not as the units of its queue describe it, the log is read completely from there on.
        """
        for gap_begin, gap_end in chain(gaps, [(end, end)]):
            for part in self._read_parts_ahead(records.between(begin, gap_begin)):
                scanner = self._gather(part)
                if scanner is None:
                    yield from self._walk(int(part.phy_offsets[0]), end)
                    return
                self.position = part.end
                yield from self._batches(scanner, self.bad_bodies)
            if gap_begin < gap_end:
                place = self._first(gap_begin) if gap_begin == begin else gap_begin
                if (yield from self._walk(place, gap_end)) is None:
                    return
            begin = gap_end

    def _read_parts_ahead(self, records: ChosenRecords) -> Iterator[ChosenRecords]:
        """Yield parts of the records. The system reads the following part while the caller uses one."""
        previous: ChosenRecords | None = None
        for part in records.split(self._batch_size):
            self._log.file_run.read_ahead(part.phy_offsets, part.sizes)
            if previous is not None:
                yield previous
            previous = part
        if previous is not None:
            yield previous

    def _gather(self, records: ChosenRecords) -> RecordScanner | None:
        """Collect the wanted ones of chosen records. Return None if a record is not as its unit describes it."""
        windows, window_of = self._log.windows_of(records.phy_offsets)
        statuses = np.zeros(len(records), np.uint8)
        scanner = self._make_scanner()
        scanner.gather(
            windows,
            window_of,
            records.phy_offsets,
            statuses,
            at_rest=True,  # a unit is written when its record is complete, also if that ends in zeros
            expected=records.expected,
            sizes=records.sizes,
            queue_offsets=records.queue_offsets,
        )
        return None if statuses.any() else scanner

    # ---- several threads -----------------------------------------------------------------------------------

    def _read_ahead(self, offset: int, end: int) -> Iterator[MessageBatch]:
        """Scan chunks of the log at the same time, and yield their batches in the order of the log."""
        with (
            work_threads(self._threads, "rocketstore-scan") as threads,
            read_ahead(threads, self._threads, self._scan_chunk, self._chunks(offset, end)) as results,
        ):
            chunks = (task.result() for _, task in results)
            for chunk in join_chunks(self._first(offset), end, chunks, self._scan_again):
                yield from chain.from_iterable(chunk.batches)
                if chunk.is_log_end:
                    return
                self.bad_bodies.add_all(chunk.bad_bodies)
                self.position = chunk.end

    def _scan_again(self, begin: int, end: int) -> Iterator[ScannedChunk]:
        """Yield one chunk for a range that no other chunk covers. Its end is known when its batches have been read."""
        chunk = ScannedChunk(begin, begin)
        chunk.batches = [self._walk_chunk(chunk, end)]
        yield chunk

    def _walk_chunk(self, chunk: ScannedChunk, end: int) -> Iterator[MessageBatch]:
        stop = yield from self._walk(chunk.begin, end)
        chunk.is_log_end = stop is None
        chunk.end = end if stop is None else stop

    def _chunks(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Split a range into chunks, each in one file. Chunks that are holes are left out."""
        for file in self._log.file_run.between(begin, end):
            start, stop = max(begin, file.file_from_offset), min(end, self._log.end_of(file))
            data = merge_ranges(self._log.data_of(file, start)) if start < stop else []
            for at in range(start, stop, CHUNK):
                place = at - file.file_from_offset
                if find_overlap(data, place, place + CHUNK):
                    yield at, min(at + CHUNK, stop)

    def _scan_chunk(self, begin: int, end: int) -> ScannedChunk:
        """Scan one chunk up to its end, or to the first bytes that are no record.

        The chunk may begin inside a body. So its bad bodies count only if the chunk is used.
        """
        scanner = self._make_scanner()
        first = offset = self._resync(begin, end)
        batches: list[Iterable[MessageBatch]] = []
        bad_bodies = BadBodies()
        while offset < end:
            step = self._log.step(scanner, offset, end, self._batch_size)
            if step is not None:
                offset = step[0]
            if self._is_full(scanner):
                batches.append(decode_first(self._batches(scanner, bad_bodies)))
            if step is None or step[1] not in (OK, BLANK):
                break
        batches.append(decode_first(self._batches(scanner, bad_bodies)))
        return ScannedChunk(first, offset, batches, bad_bodies)

    # ---- as a table ----------------------------------------------------------------------------------------

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export as an Arrow stream of record batches, with the names of tables."""
        return export_stream(self._fields.values(), ((tuple(b.columns.values()), len(b)) for b in self))

    def _describe_range(self) -> str:
        """Return the requested physical offsets as text."""
        begin = "the beginning" if self._begin is None else f"{self._begin:,}"
        end = "the end" if self._end is None else f"{self._end:,}"
        return f"{begin} to {end}"

    def __repr__(self) -> str:
        log = describe_log(self._log, self._end_finder)
        return f"<Scan of {log} from {self._describe_range()}: {', '.join(self._fields)}>"


class Bounds(NamedTuple):
    """What an iteration reads, physical offsets: ``first``, where the log begins; from ``begin`` to before ``end``.

    ``stop``: as ``end``, where the record of an entry would begin.
    """

    first: int
    begin: int
    end: int
    stop: int


@dataclass
class ScannedChunk:
    """The records that were read of a chunk: the first one begins at ``begin``, the last one ends at ``end``, bytes.

    Attributes: bad_bodies: counts the bodies of these records that cannot be decoded. is_log_end: whether the log ends
    at ``end``.
    """

    begin: int
    end: int
    batches: list[Iterable[MessageBatch]] = field(default_factory=list)
    bad_bodies: BadBodies = field(default_factory=BadBodies)
    is_log_end: bool = False


Messages = TypeVar("Messages", MessageBatch, MessageBatch | Sequence[Message])


def first_messages(batches: Iterable[Messages], limit: int | None) -> Iterator[Messages]:
    """Yield batches with ``limit`` messages at most; None for all. Nothing is read behind the last of them."""
    left = LONG_MAX if limit is None else limit
    for batch in batches if left > 0 else ():
        yield batch if len(batch) <= left else batch[:left]
        left -= len(batch)
        if left <= 0:
            return


def last_batches(batches: Iterable[MessageBatch], n: int) -> Sequence[MessageBatch]:
    """Return the last batches, which have ``n`` messages, or all if there are fewer."""
    kept: deque[MessageBatch] = deque()
    for batch in batches:
        kept.append(batch)
        while sum(map(len, kept)) - len(kept[0]) >= n:
            kept.popleft()
    return kept


def choose_rows(columns: dict[str, Any], choices: Iterable[RowChoice]) -> dict[str, Any]:
    """Return the rows of scanned columns that all choices choose."""
    for choice in choices:
        batch = lazy_batch_of(columns, message_fields(choice.columns))
        rows = choice.choose(batch)
        if len(rows) < len(batch):
            columns = {name: take_column(column, rows) for name, column in columns.items()}
    return columns


def decode_first(batches: Iterator[MessageBatch]) -> Iterable[MessageBatch]:
    """Make the first batch now, and the others when the caller reads them, since decompressed bodies may be large."""
    return chain(list(islice(batches, 1)), batches)
