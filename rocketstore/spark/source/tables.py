"""Read the tables ``consumequeue``, ``index`` and ``offsets`` of a store in Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from rocketstore.config import StoreConfig
from rocketstore.disk.storage import is_remote, sparing_reads
from rocketstore.errors import StoreError
from rocketstore.kernels.message_columns import BROKER
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_chunk import LogChunk
from rocketstore.log.log_end import LogView, StoreState
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.file_queues import FileQueues
from rocketstore.queue.queue_plan import AnyQueuePlan, PlannedQueues, QueuePlan, plan_queue
from rocketstore.queue.queue_source import StoredQueue, offset_range
from rocketstore.queue.units import ConsumeQueueUnits
from rocketstore.spark.source.checks import warn_unmatched_topics
from rocketstore.spark.source.index_files import IndexFilePlan, plan_index_files
from rocketstore.spark.source.options import ReadOptions
from rocketstore.spark.source.plan import held_log, naming_options, open_planned, planning, warn_elsewhere
from rocketstore.spark.source.schemas import TABLES, TIMESTAMP, TableSchema
from rocketstore.store.message_store import MessageStore
from rocketstore.tier.joined_queue import parts_of
from rocketstore.tier.tier_queue import TierQueue, TierUnits

OffsetsSpan = tuple[int | None, int | None, int | None, int | None]
NO_SPAN: OffsetsSpan = None, None, None, None  # of a queue that has a consumer but no message
UNITS = 1 << 22  # units that one task reads, or more of them if that makes more than TASKS tasks
QUEUES = 500  # queues that one task opens
TASKS = 500
CUT_QUEUE = "the queue was cut, or this machine does not see its newest units yet"
FEW_UNITS = 4096  # of a remote queue, that are read without reading ahead


class IndexTablePart(NamedTuple):
    """An index file, and the items to read.

    Attributes: file: the plan of the file. items: the number of items when the query was planned. limit: a physical
    offset in bytes; items that point there or later belong to a write that is not committed.
    """

    file: IndexFilePlan
    items: int
    limit: int


class UnitsPart(NamedTuple):
    """Units of a queue to read.

    Attributes: plan: of the queue's files, or of units in tiered storage. bounds: the first queue offset and the end;
    None for all units of the planned files, whose begin and end the task finds. units: how many there are at most.
    """

    queue: QueueId
    plan: AnyQueuePlan | TierUnits
    bounds: tuple[int, int] | None
    units: int


class OffsetsPart(NamedTuple):
    """A queue whose ends are read.

    Attributes: plan: of its files; None if it has a consumer but no message. groups: the consumer groups, and the
    queue offset of each to be consumed next. span: the ends of a queue that is also in another log; None if a task must
    read them.
    """

    queue: QueueId
    plan: AnyQueuePlan | None
    groups: Sequence[tuple[str, int]]
    span: OffsetsSpan | None = None


@dataclass
class TablePart(InputPartition):  # type: ignore[misc]
    """The parts of a table that one task reads.

    Attributes: parts: in the form of the reader. log: the plan of the log's first file, which shows where
    the log begins, and with a view by which queues end; None without a log, or if the table needs none.
    """

    parts: list[Any]
    log: LogChunk | None


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Reads a table. The driver splits it into parts, and each task reads some of them."""

    def __init__(self, options: ReadOptions, table: TableSchema, *, checks_names: bool = True) -> None:
        """Parameters: checks_names: as for ``MessagesReader``."""
        self.options = options
        self.table = table
        self.checks_names = checks_names

    @property
    def config(self) -> StoreConfig:
        options = self.options
        return StoreConfig(max_hash_slot_num=options.max_hash_slot_num, max_index_num=options.max_index_num)

    def partitions(self) -> list[TablePart]:
        options = self.options
        store = open_planned("spark table", options, self.config)
        with naming_options(), store, planning(store), held_log(store):
            warn_elsewhere(store, options)
            if self.checks_names:
                warn_unmatched_topics(store, options)
            log = self.choose_log_files(store)
            return [TablePart(parts, log) for parts in self.plan(store)]

    def find_view(self, store: MessageStore, log: CommitLog) -> LogView | None:
        """Return the view of the log by which tasks end queues; None if the ends do not depend on the log."""
        return None

    def choose_log_files(self, store: MessageStore) -> LogChunk | None:
        """Return the log's first file. Tasks need no more of the log. Return None without a log."""
        log = store.find_commit_log()
        if log is None:
            return None
        return LogChunk.of(log, log.min_phy_offset, log.min_phy_offset + 1, view=self.find_view(store, log))

    def plan(self, store: MessageStore) -> Iterator[list[Any]]:
        """Yield the parts that each task reads."""
        raise NotImplementedError

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, TablePart):
            with contextlib.ExitStack() as stack:
                log = None if partition.log is None else stack.enter_context(partition.log.open())
                queues = stack.enter_context(PlannedQueues(log))
                for columns, n in self.columns(queues, partition.parts):
                    yield self.batch(columns, n)

    def columns(self, queues: PlannedQueues, parts: list[Any]) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield the columns of each batch by name, and its number of rows. A column is an array or a constant."""
        raise NotImplementedError

    def batch(self, columns: dict[str, Any], n: int) -> pa.RecordBatch:
        arrays = []
        for name, column in self.table.columns.items():
            values = self.options.broker_name if name == BROKER else columns[name]
            kind = column.type.arrow
            is_one = isinstance(values, str | int)
            arrays.append(pa.repeat(pa.scalar(values, kind), n) if is_one else pa.array(values, kind))
        return pa.RecordBatch.from_arrays(arrays, schema=self.table.arrow)

    def queues(self, store: MessageStore) -> list[QueueId]:
        return [queue for queue in store.queues() if self.options.wants(*queue)]


class ConsumeQueueReader(TableReader):
    """Reads the units of queues, from the first unit that points to a message. A batch is one unit."""

    def find_view(self, store: MessageStore, log: CommitLog) -> LogView | None:
        return find_queue_view(log) if are_ends_planned(store) else None

    def plan(self, store: MessageStore) -> Iterator[list[UnitsPart]]:
        files = store.find_file_queues() if are_ends_planned(store) else None
        found = [part for name in self.queues(store) for part in parts_of_files(store, files, name)]
        most = max(UNITS, sum(part.units for part in found) // TASKS)
        parts: list[UnitsPart] = []
        units = 0
        for part in found:
            if parts and (units >= most or len(parts) == QUEUES):
                yield parts
                parts, units = [], 0
            parts.append(part)
            units += part.units
        if parts:
            yield parts

    def columns(self, queues: PlannedQueues, parts: list[Any]) -> Iterator[tuple[dict[str, Any], int]]:
        for name, plan, bounds, _ in parts:
            if isinstance(plan, TierUnits):
                for tiered in plan.read(self.options.batch_size):
                    yield {"topic": name.topic, "queueId": name.queue_id, **columns_of_tier(tiered)}, len(tiered)
                continue
            queue = queues.open(plan)
            if queue is None:  # it was deleted after the query was planned
                continue
            first, last = find_bounds(queue, plan) if bounds is None else bounds
            if bounds is not None:
                require_units(queue, last)
            is_small = last - first <= FEW_UNITS
            with sparing_reads(queue.directory) if is_small else contextlib.nullcontext():
                for units in self.read_units(queue, first, last):
                    columns = {
                        "queueOffset": units.queue_offsets,
                        "phyOffset": units.phy_offsets,
                        "size": units.sizes,
                        "tagsCode": units.tags_codes,
                    }
                    yield {"topic": name.topic, "queueId": name.queue_id, **columns}, len(units)

    def read_units(self, queue: StoredQueue, first: int, last: int) -> Iterator[ConsumeQueueUnits]:
        """Yield the units of a range of queue offsets, in batches."""
        most = self.options.batch_size
        step = last - first if queue.has_gaps else most
        for start in range(first, last, step or 1):
            units = queue[start : min(start + step, last)]
            own = np.flatnonzero(units.queue_offsets >= start)  # a batch that began earlier is in the place before
            yield from (units.where(own[at : at + most]) for at in range(0, len(own), most))


def are_ends_planned(store: MessageStore) -> bool:
    """Return whether tasks find where queues end, by the driver's view of the log.

    Beside a running broker only the log's records show which units are old, and tasks do not have these records.
    """
    log = store.find_commit_log()
    return not store.tiered and (log is None or log.reader.find_store_state() != StoreState.RUNNING)


def find_queue_view(log: CommitLog) -> LogView | None:
    """Return the view of the log by which tasks end queues; None if the end of the log is not known."""
    if is_remote(log.directories[0]):
        return None if log.reader.find_store_state() == StoreState.CRASHED else log.look()
    view = log.look(again=True)
    return None if view.queue_end == LONG_MAX else view


def parts_of_files(store: MessageStore, files: FileQueues | None, queue: QueueId) -> Iterator[UnitsPart]:
    """Yield the part of a queue without reading it. Yield several parts of a large queue, as ``parts_of_queue``.

    Parameters: files: None if the driver must find where queues end.
    """
    listed = None if files is None else files.list_files(*queue)
    plan = None if listed is None else QueuePlan.of_run(*listed)
    room = 0 if plan is None else sum(file.size for file in plan.files) // plan.kind.unit_size
    if plan is None or room > UNITS:
        yield from parts_of_queue(store, queue)
    elif room:
        yield UnitsPart(queue, plan, None, room)


def find_bounds(queue: StoredQueue, plan: AnyQueuePlan) -> tuple[int, int]:
    """Return the first queue offset of a queue that was planned by its files, and the end.

    Raises: StoreError if the last of these files is missing.
    """
    with sparing_reads(queue.directory):
        first, last = offset_range(queue)
    if isinstance(queue, ConsumeQueue) and isinstance(plan, QueuePlan):
        planned, files = plan.files[-1], queue.run.files
        if not files or files[-1].file_from_offset < planned.file_from_offset:
            problem = f"the queue ends at {last}, before its planned end in {planned.path.name}"
            raise StoreError(f"{queue.directory}: {problem}: {CUT_QUEUE}")
    return first, last


def parts_of_queue(store: MessageStore, queue: QueueId) -> Iterator[UnitsPart]:
    """Yield the parts of a queue: those that are only in tiered storage, if they are read, then those of the store."""
    if store.tiered:
        for tier in parts_of(store.consume_queue(*queue)):
            if isinstance(tier, TierQueue):
                for begin in range(tier.min_queue_offset, tier.max_queue_offset, UNITS):
                    units = tier.plan(begin, begin + UNITS)
                    yield UnitsPart(queue, units, (units.begin, units.end), units.end - units.begin)
    local = open_local_queue(store, queue)
    if local is not None:
        start, most = offset_range(local)
        while start < most:
            end = min(end_of_place(local, start), most)
            yield UnitsPart(queue, plan_units(local, start, end), (start, end), end - start)
            start = end


def open_local_queue(store: MessageStore, queue: QueueId) -> StoredQueue | None:
    """Open the queue whose units lead into the log. Return None if the queue is only in tiered storage."""
    try:
        return store.log_queue(*queue)
    except KeyError:
        if not store.tiered:
            raise
        return None


def columns_of_tier(units: ConsumeQueueUnits) -> dict[str, Any]:
    """Return the columns of units in tiered storage, which have no physical offsets."""
    columns = {"queueOffset": units.queue_offsets, "size": units.sizes, "tagsCode": units.tags_codes}
    return columns | {"phyOffset": [None] * len(units)}


def plan_units(queue: StoredQueue, begin: int, end: int) -> AnyQueuePlan:
    """Plan units of a queue. Parameters: begin, end: queue offsets, which are no positions in a batch queue."""
    size = queue.unit_size
    return plan_queue(queue) if queue.has_batches else plan_queue(queue, begin * size, end * size)


def require_units(queue: StoredQueue, last: int) -> None:
    """Raise StoreError if a queue ends before the planned end, unless all planned units have expired."""
    most = queue.max_queue_offset
    if most < last and queue.min_queue_offset < last:
        problem = f"the queue ends at {most}, before the planned end {last}"
        raise StoreError(f"{queue.directory}: {problem}: {CUT_QUEUE}")


def end_of_place(queue: StoredQueue, start: int) -> int:
    """Return the queue offset where a place of a stream ends, which begins at ``start``.

    In a queue with gaps a place is one part with units, because queue offsets may be far apart.
    """
    if not queue.has_gaps:
        return start + UNITS
    span = queue.file_range(start)
    return span[1] if span is not None and start < span[1] else LONG_MAX  # the offsets of damaged units may decrease


class OffsetsReader(TableReader):
    """Reads where queues begin and end. With a column of consumers, a queue has a row for each consumer group."""

    def plan(self, store: MessageStore) -> Iterator[list[OffsetsPart]]:
        names, groups = self.queues(store), self.find_groups(store)
        wanted = sorted({*names, *(queue for queue in groups if self.options.wants(*queue))})
        if store.reads_other_logs:
            spans = {queue: find_whole_span(store.consume_queue(*queue)) for queue in names}
            parts = [OffsetsPart(queue, None, groups.get(queue, ()), spans.get(queue)) for queue in wanted]
        else:
            plans = {queue: plan_queue(store.log_queue(*queue)) for queue in names}
            parts = [OffsetsPart(queue, plans.get(queue), groups.get(queue, ())) for queue in wanted]
        for start in range(0, len(parts), QUEUES):
            yield parts[start : start + QUEUES]

    def find_groups(self, store: MessageStore) -> dict[QueueId, list[tuple[str, int]]]:
        """Return the consumer groups of each queue, with their offsets; nothing if the table has no column of them."""
        groups: dict[QueueId, list[tuple[str, int]]] = {}
        if self.wants_groups:
            contents = store.broker_config
            store.formats.require_offsets(contents)
            for group, topic, queue_id, offset in contents.next_offsets():
                groups.setdefault(QueueId(topic, queue_id), []).append((group, offset))
        return groups

    def find_view(self, store: MessageStore, log: CommitLog) -> LogView | None:
        return find_queue_view(log)

    @property
    def wants_groups(self) -> bool:
        return not {"group", "consumerOffset"}.isdisjoint(self.table.columns)

    def columns(self, queues: PlannedQueues, parts: list[Any]) -> Iterator[tuple[dict[str, Any], int]]:
        rows = [
            (*queue, *span, *consumer)
            for queue, plan, groups, known in parts
            for span in [known or span_of(None if plan is None else queues.open(plan))]
            for consumer in groups or [(None, None)]
        ]
        names = TABLES["offsets"]
        for start in range(0, len(rows), self.options.batch_size):
            some = rows[start : start + self.options.batch_size]
            yield dict(zip(names, map(list, zip(*some, strict=True)), strict=True)), len(some)


def find_whole_span(queue: StoredQueue) -> OffsetsSpan:
    """Return the span of a queue with its messages in other logs, as ``span_of`` does.

    An end in another log has no physical offset.
    """
    parts, (least, most) = parts_of(queue), offset_range(queue)
    in_log = [least < most and not (isinstance(part, TierQueue) or part.is_compacted) for part in parts]
    begin = queue[least].phy_offset if in_log[0] else None
    last = queue[most - 1] if in_log[-1] else None
    return least, most, begin, None if last is None else last.phy_offset + last.size


def span_of(queue: StoredQueue | None) -> OffsetsSpan:
    """Return the begin and the end of a queue, and the begin and the end of its records in the log."""
    if queue is None:
        return NO_SPAN
    with sparing_reads(queue.directory):
        least, most = offset_range(queue)
        if least >= most:
            return least, most, None, None
        first, last = queue[least], queue[most - 1]
    return least, most, first.phy_offset, last.phy_offset + last.size


class IndexReader(TableReader):
    """Reads the items of index files, in the order of their ordinals."""

    def choose_log_files(self, store: MessageStore) -> LogChunk | None:
        return None

    def plan(self, store: MessageStore) -> Iterator[list[IndexTablePart]]:
        files = plan_index_files(store)
        limit = find_limit(store)  # read after the lengths, so that a write that begins later is beyond the lengths
        for file, header in files:
            if header.index_count > 1:
                yield [IndexTablePart(file, header.index_count - 1, limit)]

    def columns(self, queues: PlannedQueues, parts: list[Any]) -> Iterator[tuple[dict[str, Any], int]]:
        for plan, planned, limit in parts:
            with plan.open() as file:
                begin, total = file.header.begin_timestamp, min(len(file), file.index_num - 1, planned)
                for start in range(1, total + 1, self.options.batch_size):
                    items = file.items(start, min(start + self.options.batch_size, total + 1))
                    rows = np.flatnonzero(items["phy_offset"] < limit)
                    items = items[rows]
                    time_diffs = items["time_diff"].astype(np.int32)
                    columns = {
                        "ordinal": (start + rows).astype(np.int32),
                        "keyHash": items["key_hash"].astype(np.int32),
                        "phyOffset": items["phy_offset"].astype(np.int64),
                        "timeDiff": time_diffs,
                        "prevIndex": items["prev_index"].astype(np.int32),
                        "storeTimeApprox": times(begin + 1000 * time_diffs.astype(np.int64)),
                    }
                    if len(rows):
                        yield {"file": file.path.name, **columns}, len(rows)


def find_limit(store: MessageStore) -> int:
    """Return the physical offset in bytes where an unfinished write begins; LONG_MAX without an unfinished write."""
    log = None if is_remote(store.path) else store.find_commit_log()
    return LONG_MAX if log is None else log.end_finder.find_limit()


def times(milliseconds: np.ndarray) -> pa.Array:
    """Convert epoch milliseconds to Spark's times, null for times that Spark cannot represent."""
    batch = MessageBatch({"store_timestamp": milliseconds}, len(milliseconds)).to_arrow()
    return batch.column(0).cast(TIMESTAMP.arrow, safe=False)


TABLE_READERS = {"consumequeue": ConsumeQueueReader, "index": IndexReader, "offsets": OffsetsReader}
