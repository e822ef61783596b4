"""The consume queues after a crash: find where the sound units of each queue end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rocketstore.disk.positioned_read import read_at
from rocketstore.dispatch.light_queues import with_more
from rocketstore.dispatch.request_chunks import RequestChunks
from rocketstore.dispatch.topic_lives import TopicLives
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.consume_queue import read_unit
from rocketstore.kernels.layout import UNIT, read_field
from rocketstore.kernels.queue_id import QueueId
from rocketstore.kernels.value_columns import values_of
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.topics import is_file_name
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.consume_queue_ext_writer import MAX_ADDRESS
from rocketstore.queue.delivery_times import are_delivery_times
from rocketstore.queue.queue_directories import queue_directories
from rocketstore.queue.queue_end import find_end_of_records, find_written_spans
from rocketstore.queue.unit_run import Span, UnitRun, find_invalid_unit
from rocketstore.queue.units import CqUnit
from rocketstore.recovery.ext import QueueExt, queue_files
from rocketstore.recovery.store_files import Reading, StoreFiles
from rocketstore.survey.places import StorePlaces

UNITS_READ = 256  # at a time
STEPS_BACK = 16  # wrong units at the end of a queue; a queue with more of them is built again
COLUMNS = ("topic", "queue_id", "size", "tags_code", "store_timestamp")


@dataclass(frozen=True)
class RecoveredQueue:
    """A queue, and where recovery ends it.

    Attributes: end: bytes of the queue up to there. unit: the last unit; None without one: the queue is built again.
    written: (begin, end) of the units in each file, bytes. begins_at: the physical offset of the first unit, if that
    unit is not message 0 and the log has earlier records; else 0. flushed: records before this physical offset had
    their units on the disk. ext: None if the queue has no ext units.
    """

    directory: Path
    kind: type[ConsumeQueue]
    mapped_file_size: int
    end: int = 0
    unit: CqUnit | None = None
    written: tuple[Span, ...] = ()
    begins_at: int = 0
    flushed: int = 0
    ext: QueueExt | None = None

    @property
    def queue(self) -> QueueId:
        return QueueId(self.directory.parent.name, int(self.directory.name))

    @property
    def ext_directory(self) -> Path:
        return StorePlaces.of(self.directory.parents[2]).queue(ConsumeQueueExt, *self.directory.parts[-2:])

    @property
    def next_queue_offset(self) -> int:
        return 0 if self.unit is None else self.unit.queue_offset + self.unit.batch_num

    @property
    def phy_offset(self) -> int:
        """Return where the record of the last unit ends, 0 without a unit."""
        return 0 if self.unit is None else self.unit.phy_offset + self.unit.size

    def before(self, end: int, min_phy_offset: int) -> RecoveredQueue:
        """Return the queue that ends with the last unit of a record that ends by ``end``, a physical offset."""
        self.files()  # raises an error for a file of another length
        with self._open_run() as run:
            written = find_written_spans(run, self.flushed)
            last = find_end_of_records(run, written, end)
            if last is None:
                return replace(self.emptied(), written=written)
            first = run.unit_at(written[0][0])
            is_late = first.queue_offset > 0 and first.phy_offset > min_phy_offset
            begins_at = first.phy_offset if is_late else 0
            unit = run.unit_at(last - run.unit_size)
            return replace(self, end=last, unit=unit, written=written, begins_at=begins_at)

    def _open_run(self) -> contextlib.closing[UnitRun]:
        return contextlib.closing(self.kind.run_type(self.directory, self.mapped_file_size))

    def emptied(self) -> RecoveredQueue:
        """Return the queue without units, so that it is built again."""
        return replace(self, end=0, unit=None, begins_at=0)

    def at_last_file(self) -> RecoveredQueue:
        """Return the queue with its last unit where a clean stop leaves it; without a unit if it is not there."""
        *_, (start, path, size) = self.files() or [(0, "", 0)]
        if self.kind is not ConsumeQueue:
            return self.before(LONG_MAX, 0)
        if size == 0:
            return self
        with _reader(path, start) as read:
            end = find_invalid_unit(read, start, start + size // 20 * 20, 20, units_read=UNITS_READ)
            if end == start:
                return self
            last = Buffer(read(end - 20, 20), path)
            before = read_field(read(end - 40, 20), UNIT, "phy_offset") if end > start + 20 else -1
        unit = CqUnit(end // 20 - 1, *read_unit(last, 0))
        return replace(self, end=end, unit=unit if before < unit.phy_offset else None)

    def ext_files(self) -> list[tuple[int, str, int]]:
        """Return the ext files of the queue, as ``queue_files`` does; none if it has no ext units."""
        return [] if self.ext is None else self.ext.files()

    def first_wrong(self, log: CommitLog) -> int:
        """Return the offset of the first record whose unit is wrong, LONG_MAX without one.

        Two kinds of units are read. A unit may lead to an ext unit of another message. The last unit of a file may end
        in a sector that never reached the disk. Units that were on the disk before the crash are not read.
        """
        size = self.kind.unit_size
        parts: Sequence[Span] = self.written
        if self.ext is None:
            parts = [(stop - size, stop) for _, stop in self.written if stop < self.end]
        if self.unit is None or not parts:
            return LONG_MAX
        least = max(self.flushed, log.min_phy_offset)
        with self._open_run() as run:
            step = UNITS_READ * size
            for begin, stop in parts:
                for start in range(begin, min(stop, self.end), step):
                    units = run.decode([(start, min(start + step, stop, self.end))])
                    is_read = ~units.is_filler & (units.phy_offsets >= least)
                    offsets = units.phy_offsets[is_read]
                    records, statuses = log.find_messages(offsets, columns=("size", "tags_code", "store_timestamp"))
                    found = statuses == 0
                    sizes, tags_codes = units.sizes[is_read][found], units.tags_codes[is_read][found]
                    wrong = sizes != records.size
                    wrong |= ~self.are_tags_of(tags_codes, records.tags_code, records.store_timestamp)
                    if wrong.any():
                        return int(offsets[found][wrong.argmax()])
        return LONG_MAX

    def are_tags_of(self, codes: np.ndarray, tags_codes: np.ndarray, store_timestamps: np.ndarray) -> np.ndarray:
        """Return whether the tags codes of units are those of records, bool[n]. An address must lead to the ext unit.

        Parameters: codes, tags_codes, store_timestamps: int64[n]; the latter two of the records.
        """
        in_ext = codes <= MAX_ADDRESS
        if self.ext is None and in_ext.any() and not self.ext_directory.is_dir():
            in_ext[:] = False
        are_of: np.ndarray = in_ext | (codes == tags_codes)
        are_of |= are_delivery_times(self.queue[0], codes, store_timestamps)
        if self.ext is not None:
            are_of[in_ext] = self.ext.are_of(codes[in_ext], tags_codes[in_ext], store_timestamps[in_ext])
        return are_of

    def files(self) -> list[tuple[int, str, int]]:
        """Return the files of the queue, as ``queue_files`` does."""
        return queue_files(self.directory, self.mapped_file_size)


@contextlib.contextmanager
def _reader(path: str, start: int) -> Iterator[Callable[[int, int], bytes]]:
    """Open a file that begins at the position ``start``; yield a function that reads bytes at a position of the run."""
    with Path(path).open("rb", buffering=0) as file:
        yield lambda position, size: read_at(file.fileno(), size, position - start, path)


def find_queues(store: StoreFiles, flushed: int = 0) -> list[RecoveredQueue]:
    """Return the queues of a store, without their ends. Parameters: flushed: as in ``RecoveredQueue``."""
    places, config, found = store.local_places, store.config, []
    for kind in QUEUE_KINDS:
        size = getattr(config, kind.size_name)
        for directory in queue_directories(places.queues(kind)):
            queue = RecoveredQueue(directory, kind, size, flushed=flushed)
            if config.enable_consume_queue_ext and kind is ConsumeQueue:
                ext_size = config.mapped_file_size_consume_queue_ext or 0
                queue = replace(queue, ext=QueueExt(queue.ext_directory, ext_size))
            found.append(queue)
    return found


def empty_ext_files(store: StoreFiles) -> list[Path]:
    """Return the ext files that never got their length, also of missing queues. Raises: CorruptFileError.

    The ext files of a missing queue are opened when the queue is made again.
    """
    size = store.config.mapped_file_size_consume_queue_ext or 0
    ext = store.local_places.queues(ConsumeQueueExt)
    directories = queue_directories(ext) if store.config.enable_consume_queue_ext else ()
    return [Path(path) for directory in directories for _, path, length in queue_files(directory, size) if length == 0]


def units_agree(log: CommitLog, queues: list[RecoveredQueue], batch_topics: Collection[str]) -> list[bool]:
    """Return whether the last unit of each queue belongs to a record of the queue. Units of expired records agree."""
    agree = [queue.unit is not None for queue in queues]
    rows = [i for i, queue in enumerate(queues) if queue.unit and queue.unit.phy_offset >= log.min_phy_offset]
    offsets = np.array([queues[i].unit.phy_offset for i in rows], np.int64)  # type: ignore[union-attr]
    batch, statuses = log.find_messages(offsets, columns=COLUMNS)
    found = np.flatnonzero(statuses == 0).tolist()
    for row in np.flatnonzero(statuses).tolist():
        agree[rows[row]] = False
    columns = zip(*(values_of(getattr(batch, name), 0, len(batch)) for name in COLUMNS), strict=True)
    for row, record in zip(found, columns, strict=True):
        agree[rows[row]] = _is_unit_of(log, queues[rows[row]], batch_topics, record)
    return agree


def _is_unit_of(log: CommitLog, queue: RecoveredQueue, batch_topics: Collection[str], record: tuple[Any, ...]) -> bool:
    """Parameters: record: its COLUMNS."""
    topic, queue_id, size, tags_code, store_timestamp = record
    unit: Any = queue.unit
    if unit.size != size:
        return False
    if unit.tags_code != tags_code:  # hot path: each opening compares the last unit of each queue
        fields = (np.array([value]) for value in (unit.tags_code, tags_code, store_timestamp))
        if not queue.are_tags_of(*fields).all():
            return False
    if (topic, queue_id) == queue.queue:
        return True
    more = log.get_message(unit.phy_offset, verify_crc=False).properties.get("INNER_MULTI_DISPATCH", "")
    return topic not in batch_topics and queue.queue[0] in more.split(",")


def step_back(
    log: CommitLog, queues: list[RecoveredQueue], end: int, batch_topics: Collection[str]
) -> list[RecoveredQueue]:
    """Return the queues, each ended at a unit that agrees with its record. A queue without one is emptied."""
    result = list(queues)
    rows = [i for i, queue in enumerate(result) if queue.unit is not None]
    for _ in range(STEPS_BACK):
        agree = units_agree(log, [result[i] for i in rows], batch_topics)
        rows = [i for i, agrees in zip(rows, agree, strict=True) if not agrees]
        for i in rows:
            unit = result[i].unit
            assert unit is not None
            result[i] = result[i].before(min(unit.phy_offset, end), log.min_phy_offset)
        rows = [i for i in rows if result[i].unit is not None]
        if not rows:
            break
    for i in rows:
        result[i] = result[i].emptied()
    return result


class MissingUnits(NamedTuple):
    """The records without units in a part of the log.

    Attributes: first: physical offset of the first of them, LONG_MAX without one. wrong: queues that lack earlier
    units: the record is not the next message of the queue, or is before its first unit. left_out: records without units
    that get none, because they belong to deleted topics, by queue.
    """

    first: int
    wrong: set[QueueId]
    left_out: dict[QueueId, int]


def find_missing(
    store: StoreFiles,
    begin: int,
    end: int,
    queues: Iterable[RecoveredQueue],
    lives: TopicLives | None = None,
    others_begin: int = 0,
) -> MissingUnits:
    """Find the records without units.

    Parameters: begin, end: the part of the log to search. The log is sound up to ``end``, and has no record behind it.
    lives: None to leave out no records. others_begin: where the record of the newest unit ends after a clean stop, else
    0. If it is not 0, two kinds of records are ignored: before it, records of queues that are not in ``queues``, and
    everywhere, records without a valid queue offset.
    Raises: CorruptFileError for bytes that are not a record.
    """
    log, config, known = store.log, store.config, list(queues)
    ends = {queue.queue: (queue.phy_offset, queue.next_queue_offset) for queue in known}
    late = {queue.queue: queue.begins_at for queue in known if queue.begins_at}
    while True:
        pieces = RequestChunks(log, config, begin, end)
        search = _Search(ends, dict(late), lives, others_begin)
        for piece in pieces:
            search.add(*with_more(log, config, piece.requests, pieces.queues, store.batch_topics))
            store.report(Reading.QUEUES, piece.end)
        if lives is None or not lives.finish():
            return MissingUnits(search.first, search.wrong, search.left_out)


class _Search:
    """Searches one part of the log after the other for records without units. ``MissingUnits`` describes the results.

    Attributes: ends: of each queue, where its newest unit leads, and its next queue offset. late: ``begins_at`` of the
    queues that begin late. lives, others_begin: as for ``find_missing``.
    """

    def __init__(
        self,
        ends: dict[QueueId, tuple[int, int]],
        late: dict[QueueId, int],
        lives: TopicLives | None,
        others_begin: int,
    ) -> None:
        self.ends, self.late, self.lives, self.others_begin = ends, late, lives, others_begin
        self.seen: set[QueueId] = set()
        self.first, self.wrong = LONG_MAX, set[QueueId]()
        self.left_out: dict[QueueId, int] = {}

    def add(self, requests: np.ndarray, names: Sequence[QueueId]) -> None:
        """Search the requests of the next part of the log."""
        are_left_out = np.zeros(len(requests), bool)
        if self.lives is not None:
            self.lives.add_requests(requests, names)
            are_left_out = self.lives.are_requests_left_out(requests, names)
        if self.late:
            for queue, request in _first_of_each(requests[~are_left_out], names):
                if request["phy_offset"] < self.late.pop(queue, 0):
                    self.wrong.add(queue)
        numbers, number_of = np.unique(requests["queue"], return_inverse=True)
        met = map(names.__getitem__, numbers.tolist())
        known_to = np.array([self.ends.get(queue, (self.others_begin, 0))[0] for queue in met], np.int64)
        is_missed = requests["phy_offset"] >= known_to[number_of]
        if self.others_begin:
            is_missed &= requests["msg_base_offset"] >= 0
        for number in requests["queue"][is_missed & are_left_out].tolist():
            self.left_out[names[number]] = self.left_out.get(names[number], 0) + 1
        for queue, request in _first_of_each(requests[is_missed & ~are_left_out], names):
            if queue not in self.seen and is_file_name(queue[0]):
                self.first = min(self.first, int(request["phy_offset"]))
                if request["msg_base_offset"] > self.ends.get(queue, (0, 0))[1]:
                    self.wrong.add(queue)
            self.seen.add(queue)


def _first_of_each(requests: np.ndarray, names: Sequence[QueueId]) -> Iterator[tuple[QueueId, np.ndarray]]:
    numbers, rows = np.unique(requests["queue"], return_index=True)
    yield from ((names[number], requests[row]) for number, row in zip(numbers.tolist(), rows.tolist(), strict=True))
