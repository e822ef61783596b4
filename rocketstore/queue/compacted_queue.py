"""CompactedQueue: the messages that consumers of one queue of a compacted topic get, the newest of each key."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable, Iterator
from typing import ClassVar, overload

import numpy as np

from rocketstore.disk.closable import Closable
from rocketstore.disk.file_run_reader import Mappings, RunFile
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.topics import is_file_name
from rocketstore.queue.queue_directories import queue_ids_in
from rocketstore.queue.queue_source import Boundary, OffsetBounds, QueueSource, StoredQueue
from rocketstore.queue.time_search import find_time, search_batches
from rocketstore.queue.unit_run import READ_UNITS, BatchUnitRun, Span, find_invalid_unit
from rocketstore.queue.units import ConsumeQueueUnits, CqUnit
from rocketstore.text_values import Time, epoch_ms

BASE = "msg_base_offset"


class CompactedQueue(Closable):
    """The units of one queue of a compacted topic, by queue offset.

    The units lead to copies of records, in a log of the queue alone. Messages that a newer one of the same key
    replaced, and messages without a key, have no unit. So queue offsets are missing. The last file is not compacted
    yet: its messages may have the same key.

    A file of units is named like the file of the log to which they lead, and ends at its first invalid unit.
    ``queue[i]`` is the unit of a queue offset, or the next one. The length is in messages.

    Attributes: log: the copies of the records. run: the units by their position in the files.
    Source: org.apache.rocketmq.store.kv.CompactionLog, org.apache.rocketmq.store.queue.SparseConsumeQueue.
    """

    has_batches: ClassVar[bool] = True
    has_gaps: ClassVar[bool] = True
    is_compacted: ClassVar[bool] = True
    leftover_units: ClassVar[int] = 0  # broker and compaction append units behind their records, and cut no record
    unit_size: ClassVar[int] = BatchUnitRun.unit_size

    def __init__(self, run: BatchUnitRun, log: CommitLog, queue_of_log: StoredQueue | None) -> None:
        """Parameters: queue_of_log: the queue of the same name with the units of all messages; None without one."""
        self.directory = run.directory
        self.run = run
        self.log = log
        self._queue_of_log = queue_of_log
        self._ends: dict[RunFile, int] = {}  # the known end of the valid units of each file, a position

    # ---- units ---------------------------------------------------------------------------------------------

    @property
    def min_queue_offset(self) -> int:
        """The queue offset that a broker gives as the first one: that of the log's queue, or that of the first unit.

        Source: AdminBrokerProcessor.getMinOffset, which does not know of the compaction.
        """
        spans = self.spans()
        first = self.run.unit_at(spans[0][0]).queue_offset if spans else 0
        if self._queue_of_log is None or not len(self._queue_of_log):
            return first
        return min(max(self._queue_of_log.min_queue_offset, 0), first)

    @property
    def max_queue_offset(self) -> int:
        """The queue offset after that of the last unit. Source: SparseConsumeQueue.getMaxMsgOffset."""
        spans = self.spans()
        return self._next_offset(spans[-1][1] - self.unit_size) if spans else 0

    @property
    def bounds(self) -> OffsetBounds:
        """Where the queue begins and ends, and the number of messages, which is that of the units."""
        return OffsetBounds(self.min_queue_offset, self.max_queue_offset, len(self))

    @overload
    def __getitem__(self, key: int) -> CqUnit: ...
    @overload
    def __getitem__(self, key: slice) -> ConsumeQueueUnits: ...
    def __getitem__(self, key: int | slice) -> CqUnit | ConsumeQueueUnits:
        """Return the unit of a queue offset, or the next one; or the units of a range of queue offsets.

        Below 0, queue offsets count from the end. Raises: IndexError; CorruptFileError.
        Source: SparseConsumeQueue.iterateFromOrNext.
        """
        spans, end = self.spans(), self.max_queue_offset
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise ValueError(f"step {key.step}: units are read one after the other")
            start = 0 if key.start is None else operator.index(key.start)
            stop = LONG_MAX if key.stop is None else operator.index(key.stop)
            start, stop = (bound + end if bound < 0 else bound for bound in (start, stop))
            return self.run.decode(self._spans_between(spans, start, stop))
        start = operator.index(key)
        start += end if start < 0 else 0
        found = self._spans_between(spans, start, LONG_MAX) if 0 <= start < end else []
        if not found:
            raise IndexError(f"{self.directory}: no unit {key}: queue offsets are {self.min_queue_offset} to {end - 1}")
        return self.run.unit_at(found[0][0])

    def __iter__(self) -> Iterator[CqUnit]:
        for units in self._parts():
            yield from units

    def __len__(self) -> int:
        return sum(end - begin for begin, end in self.spans()) // self.unit_size

    def count_bytes(self, begin: int, end: int) -> int:
        """Return the bytes of the records of the units whose queue offsets are from ``begin`` to before ``end``."""
        parts = self._parts(self._spans_between(self.spans(), begin, end))
        return sum(int(units.sizes.sum(dtype=np.int64)) for units in parts)

    # ---- parts and times -----------------------------------------------------------------------------------

    def file_range(self, queue_offset: int) -> tuple[int, int] | None:
        """Return the queue offset, and the one after the last unit of the file that a broker reads from it on."""
        found = self._spans_between(self.spans(), queue_offset, LONG_MAX)
        return (queue_offset, self._next_offset(found[0][1] - self.unit_size)) if found else None

    def offset_after_missing_file(self, queue_offset: int) -> int:
        """Return 0, as a broker does. Source: BatchConsumeQueue.rollNextFile."""
        return 0

    def get_offset_by_time(self, timestamp: Time, boundary: Boundary = "lower", *, exact_times: bool = False) -> int:
        """Find the queue offset of a store time, within min and max. Parameters, raises: as of ``ConsumeQueue``.

        Source: BatchConsumeQueue.getOffsetInQueueByTime.
        """
        if boundary not in ("lower", "upper"):
            raise ValueError(f"boundary={boundary!r}: must be 'lower' or 'upper'")
        time, is_lower = epoch_ms(timestamp, "timestamp"), boundary == "lower"
        first, end = self.min_queue_offset, self.max_queue_offset
        if exact_times:
            every = (
                find_time(units, self.log, time, is_lower=is_lower) for units in self._parts(backwards=not is_lower)
            )
            found = next((found for found in every if found is not None), end if is_lower else first)
        else:
            found = search_batches(self.run, self.spans(), first, time, is_lower=is_lower)
        return min(max(found, first), end)

    def edges(self) -> Iterator[tuple[int, CqUnit, CqUnit]]:
        """Yield the offset of each file in ``log``, and the first and the last unit that lead into this file."""
        for begin, end in self.spans():
            yield begin, self.run.unit_at(begin), self.run.unit_at(end - self.unit_size)

    # ---- opening and closing -------------------------------------------------------------------------------

    def close(self) -> None:
        self.run.close()
        self.log.close()
        if self._queue_of_log is not None:
            self._queue_of_log.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.directory)!r}>"

    def _parts(self, spans: list[Span] | None = None, *, backwards: bool = False) -> Iterator[ConsumeQueueUnits]:
        """Yield units, ``READ_UNITS`` at most at once. Parameters: spans: of the units; None for all."""
        step = READ_UNITS * self.unit_size
        wanted = self.spans() if spans is None else spans
        parts = [(at, min(at + step, end)) for begin, end in wanted for at in range(begin, end, step)]
        return (self.run.decode([part]) for part in (reversed(parts) if backwards else parts))

    def units_of(self, file: RunFile) -> Iterator[tuple[int, ConsumeQueueUnits]]:
        """Yield positions of units of one file, and the units from there on, ``READ_UNITS`` at most at once."""
        end, step = self._find_end(file), READ_UNITS * self.unit_size
        for begin in range(file.file_from_offset, end, step):
            yield begin, self.run.decode([(begin, min(begin + step, end))])

    # ---- positions -----------------------------------------------------------------------------------------

    def spans(self) -> list[Span]:
        """Return the positions where the valid units of each file begin and end; files without any are left out."""
        run = self.run.list_files()
        ends = {file: self._find_end(file) for file in run.files}
        self._ends = ends
        return [(file.file_from_offset, end) for file, end in ends.items() if end > file.file_from_offset]

    def _find_end(self, file: RunFile) -> int:
        begin = self._ends.get(file, file.file_from_offset)
        return find_invalid_unit(self.run.file_run.pread, begin, self.run.limit(file), self.unit_size)

    def _spans_between(self, spans: list[Span], begin: int, end: int) -> list[Span]:
        """Return the spans of the units of a range of queue offsets."""
        if not spans or end <= begin:
            return []
        first, last = (self._position(spans, max(offset, 0)) for offset in (begin, end))
        clipped = ((max(start, first), min(stop, last)) for start, stop in spans)
        return [span for span in clipped if span[0] < span[1]]

    def _position(self, spans: list[Span], queue_offset: int) -> int:
        """Return the position of the first unit with this queue offset or a greater one; the end without one."""
        at = bisect.bisect_right(spans, queue_offset, key=lambda span: self.run.unit_at(span[0]).queue_offset) - 1
        return self.run.find(spans[max(at, 0)], BASE, queue_offset)

    def _next_offset(self, position: int) -> int:
        unit = self.run.unit_at(position)
        return min(unit.queue_offset + unit.batch_num, LONG_MAX)


class CompactedQueues:
    """The queues of a store as consumers read them: those of compacted topics from the compaction, others from the log.

    A queue of a compacted topic that has no compacted files is read from the log.
    """

    def __init__(
        self,
        queues: QueueSource[StoredQueue],
        topics: frozenset[str],
        directories: tuple[StorePath, StorePath],
        open_log: Callable[[StorePath], CommitLog],
        mappings: Mappings,
    ) -> None:
        """Parameters: queues: of the log. topics: the compacted ones. directories: of the units, and of the logs of all
        compacted queues. open_log: opens the log in a directory. mappings: those that all queues share.
        """
        self._queues = queues
        self._topics = topics
        self._units, self._logs = directories
        self._open_log = open_log
        self._mappings = mappings

    def queues(self) -> Iterator[QueueId]:
        return iter(sorted({*self._queues.queues(), *self.compacted()}))

    def compacted(self) -> frozenset[QueueId]:
        """Return the ids of the queues that are read from the compaction."""
        return frozenset(QueueId(topic, number) for topic in self._topics for number in self._compacted_ids(topic))

    def queue_ids(self, topic: str) -> list[int]:
        return sorted({*self._queues.queue_ids(topic), *self._compacted_ids(topic)})

    def open(self, topic: str, queue_id: int) -> StoredQueue | None:
        """Open a queue. Return None if it is missing. Raises: OSError; StoreError."""
        of_log = self._queues.open(topic, queue_id)
        if topic not in self._topics or queue_id not in self._compacted_ids(topic):
            return of_log
        run = BatchUnitRun(self._units / topic / str(queue_id), None, self._mappings)
        return CompactedQueue(run, self._open_log(self._logs / topic / str(queue_id)), of_log)

    def _compacted_ids(self, topic: str) -> list[int]:
        """Return the ids of the queues that have both directories. Source: CompactionStore.load."""
        if topic not in self._topics or not is_file_name(topic):
            return []
        return sorted({*queue_ids_in(self._units / topic)} & {*queue_ids_in(self._logs / topic)})
