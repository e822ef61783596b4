"""Read the messages of a commit log in Spark. The driver plans parts, and tasks read them as Arrow batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from rocketstore.disk.storage import sparing_reads
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.kernels.message_columns import BROKER, MESSAGE_FIELDS
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.inner_batches import count_batch_messages
from rocketstore.log.log_chunk import LogChunk
from rocketstore.log.log_end import LogView
from rocketstore.log.scan import ReadPlan, RowChoice, Scan, Skipped
from rocketstore.logger import logger
from rocketstore.messages.arguments import join_tags
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.message import MAX_BATCH
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.system_flags import INNER_BATCH, TRANSACTION_ROLLBACK
from rocketstore.query.other_logs import OtherLog, choose_rows_of_log
from rocketstore.spark.source.checks import warn_joined_keys, warn_unmatched_topics
from rocketstore.spark.source.keys import KeysPart, find_keys, find_ranges, plan_keys
from rocketstore.spark.source.options import EARLIEST, LATEST, ReadOptions
from rocketstore.spark.source.plan import (
    Range,
    begin_of,
    find_committed_view,
    held_log,
    open_planned,
    parts_of,
    planning,
    report_loss,
    split,
    times_of,
    warn_elsewhere,
    with_offsets_of_times,
)
from rocketstore.spark.source.schemas import BINARY, CORRUPT_RECORD, HEADERS, TableColumn, TableSchema
from rocketstore.store.message_store import MessageStore
from rocketstore.text_values import wrong_unit

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_PLANNED = 1 << 22  # records that are read one by one: 20 bytes of each are sent to tasks
LOG_APPEND_TIME = 1  # the value of Kafka's timestampType
COMPARISONS = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
BOUNDED = ("topic", "queue_id", "queue_offset", "phy_offset", "sys_flag")  # the columns that RowFilter needs


@dataclass
class LogPart(InputPartition):  # type: ignore[misc]
    """Ranges of the log that one task reads.

    Attributes: log: the files of the ranges, so that the task does not list them again. starting: options that the
    driver found, or that the offset of a stream contains. They replace the options of the user. rows: the choice of
    messages; None for all. plan: how the ranges are read; None if they are read completely. are_found: whether the
    ranges come from an index. Then a range ends within its last record.
    """

    ranges: list[Range]
    log: LogChunk
    starting: dict[str, Any] = field(default_factory=dict)
    rows: RowChoice | None = None
    plan: ReadPlan | None = None
    are_found: bool = False


@dataclass
class OtherLogsPart(InputPartition):  # type: ignore[misc]
    """Logs of single queues, or parts of them, that one task reads: of tiered storage, or of compacted topics."""

    logs: list[OtherLog]


class MessagesReader(DataSourceReader):  # type: ignore[misc]
    """Reads the messages that are in the log when the query is planned."""

    def __init__(self, options: ReadOptions, table: TableSchema, *, checks_names: bool = True) -> None:
        """Parameters: checks_names: whether to warn of names in the options that the store does not have."""
        self.given = self.options = options
        self.table = table
        self.checks_names = checks_names

    def partitions(self) -> list[LogPart | KeysPart | OtherLogsPart]:
        with open_planned("spark read", self.options) as store, planning(store):
            warn_elsewhere(store, self.options)
            if self.checks_names:
                warn_unmatched_topics(store, self.given)
            rows = choose_rows_of_log(dict.fromkeys(store.find_compacted_queues(), LONG_MAX))
            options, starting = self.options, {}
            if options.starting_offsets_by_timestamp is not None:
                options = with_offsets_of_times(store, options)
                starting = {"starting_offsets": options.starting_offsets}
            parts = [replace(part, rows=rows, starting=starting) for part in self.plan(store, options)]
            if not any(isinstance(part, LogPart) and part.are_found for part in parts):
                warn_joined_keys(options)
            return [*parts, *plan_other_logs(store, self.options)]

    def plan(self, store: MessageStore, options: ReadOptions) -> Sequence[LogPart | KeysPart]:
        view = find_committed_view(store, again=True)
        with held_log(store):  # files that are created from now on begin after the end of the view
            return self.plan_view(store, options, view)

    def plan_view(self, store: MessageStore, options: ReadOptions, view: LogView) -> Sequence[LogPart | KeysPart]:
        """Plan the selected messages before the end of a view."""
        log, end = store.commit_log, view.records_end
        begin = begin_of(store, options, end)
        if options.ending_phy_offset is not None:
            end = min(end, options.ending_phy_offset)
        found = find_keys(store, options, begin, end)
        if found is not None:
            return [replace(part_of(log, ranges), are_found=True) for ranges in found]
        looked_up = plan_keys(store, options, view, begin, end)
        if looked_up is not None:
            return [part for planned in looked_up for part in self.parts_with_keys(log, planned)]
        # self.given does not have the times of filters. Skipping files assumes that clocks are almost right, but the
        # answer of a filter must be exact.
        parts = [part_of(log, [part]) for part in parts_of(log, self.given, begin, end)]
        plan = plan_by_queues(store, options, begin, end)
        return parts if plan is None else planned_parts(parts, plan)

    def parts_with_keys(self, log: CommitLog, part: KeysPart | Range) -> list[LogPart | KeysPart]:
        """Return the parts for a lookup of keys. A range that no index file covers is read completely."""
        if isinstance(part, KeysPart):
            return [part]
        return [part_of(log, [split_range]) for split_range in parts_of(log, self.given, *part)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(self.options, self.table, partition)


class PushdownReader(MessagesReader):
    """Also accepts filters from Spark as conditions of the scan. Spark checks all filters again on the result."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:
        self.options = self.given  # Spark may call this method more than once
        fields = dict(zip(self.table.arrow.names, self.table.columns.values(), strict=True))
        for condition in filters:
            path: tuple[str, ...] = getattr(condition, "attribute", ())
            if len(path) == 1 and (source := fields[path[0]].source) is not None:
                self.options = narrowed(self.options, source, condition)
        return filters


def narrowed(options: ReadOptions, source: str, condition: Any) -> ReadOptions:
    """Return options that read all messages for which a condition on a field holds, and few other messages."""
    if isinstance(condition, EqualTo | In) and source in ("topic", "queue_id", "tags"):
        values = frozenset([condition.value] if isinstance(condition, EqualTo) else condition.value) - {None}
        if source == "topic" and options.assign is None:
            return replace(options, subscribe=values if options.subscribe is None else values & options.subscribe)
        if source == "queue_id" and options.assign is None:
            return replace(options, queue_ids=values if options.queue_ids is None else values & options.queue_ids)
        if source == "tags" and options.tags is None:
            return replace(options, tags=join_tags(values))
    if source.startswith("store_timestamp") and isinstance(condition, COMPARISONS) and condition.value is not None:
        at = condition.value if source.endswith("_ms") else (condition.value - EPOCH) // timedelta(milliseconds=1)
        if wrong_unit(at) is not None or wrong_unit(at + 1) is not None:
            return options  # the scan would refuse it; Spark compares the rows itself
        begin, end = times_of(options)
        if isinstance(condition, EqualTo | GreaterThan | GreaterThanOrEqual):
            options = replace(options, starting_timestamp=max(begin, at))
        if isinstance(condition, EqualTo | LessThan | LessThanOrEqual):
            options = replace(options, ending_timestamp=min(end, at) + 1)
    return options


# ---- rare topics -----------------------------------------------------------------------------------------


def plan_by_queues(store: MessageStore, options: ReadOptions, begin: int, end: int) -> ReadPlan | None:
    """Plan to read only the records to which the queues of the topics lead. None if the range is read completely.

    In mode PERMISSIVE it is: the damage in records of other topics gives rows too.
    """
    reads_all = options.plan == "scan" or options.mode == "PERMISSIVE"
    given = {"verify_crc": options.verify_crc, "plan": "scan" if reads_all else "auto"}
    planner = store.find_record_planner(conditions(options) | given)
    plan = None if planner is None or begin >= end else planner(begin, end, None)
    if plan is None or plan.records is None or len(plan.records) > MAX_PLANNED:
        return None
    logger.info("%s: %s; option plan=scan reads the complete log", options.path, plan.why)
    return plan


def planned_parts(parts: list[LogPart], plan: ReadPlan) -> list[LogPart]:
    """Return the parts of which a plan reads something, each with its part of the plan."""
    found = []
    for part in parts:
        own = plan.within(part.log.begin, part.log.end)
        if own.records or own.gaps:
            found.append(replace(part, plan=own))
    return found


# ---- parts -----------------------------------------------------------------------------------------------


def part_of(log: CommitLog, ranges: list[Range], starting: dict[str, Any] | None = None) -> LogPart:
    """Return the part of a task. Parameters: ranges: in order. starting: see ``LogPart``."""
    begin, end = ranges[0][0], ranges[-1][1]
    return LogPart(ranges, LogChunk.of(log, begin, end, whole_to=end), starting or {})


def plan_other_logs(store: MessageStore, options: ReadOptions) -> list[OtherLogsPart]:
    """Plan the selected queues that are in logs of their own. Small ones are read together, large ones in parts."""
    found = store.plan_other_logs(options.topics, options.wanted_queue_ids)
    logs = [log for log in found if options.wants(*log.queue)]
    total = sum(chunk.end - chunk.begin for log in logs for chunk in log.parts)
    most = min(options.max_partition_bytes, max(-(-total // options.min_partitions), 1))
    parts: list[OtherLogsPart] = []
    room = 0
    for piece, size in (piece for log in logs for piece in pieces_of(log, most)):
        if size > room:
            parts.append(OtherLogsPart([]))
            room = most
        parts[-1].logs.append(piece)
        room -= size
    return parts


def pieces_of(other: OtherLog, most: int) -> Iterator[tuple[OtherLog, int]]:
    """Split the log of a queue into parts of about ``most`` bytes, each in one file. Yield each part with its size."""
    for chunk in other.parts:
        ranges = [(chunk.begin, chunk.end)]
        with chunk.open() as log:
            if chunk.end - chunk.begin > most:
                files = log.file_run.between(chunk.begin, chunk.end)
                bounds = ((max(file.file_from_offset, chunk.begin), min(file.end_offset, chunk.end)) for file in files)
                ranges = [part for begin, end in bounds for part in split(log, begin, end, most)]
            for begin, end in ranges:
                part = type(chunk).of(log, begin, end, whole_to=end, view=chunk.view)
                yield other._replace(parts=[part]), end - begin


# ---- in tasks --------------------------------------------------------------------------------------------


def read_part(options: ReadOptions, table: TableSchema, part: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read a part as batches of a table. For a query without parts, Spark passes a part of its own type."""
    bad_bodies = BadBodies()
    if isinstance(part, OtherLogsPart):
        for other in part.logs:
            for chunk in other.parts:
                with chunk.open_part() as log:
                    row_filter = RowFilter(options, log)
                    begin, end = chunk.begin, chunk.end
                    yield from read_range(log, options, table, row_filter, begin, end, bad_bodies, other.adapt)
    elif isinstance(part, LogPart):
        with part.log.open_part() as log:
            yield from read_ranges(log, replace(options, **part.starting), table, part, bad_bodies)
    elif isinstance(part, KeysPart):
        yield from read_keys_part(replace(options, **part.starting), table, part, bad_bodies)
    bad_bodies.warn()


def read_keys_part(
    options: ReadOptions, table: TableSchema, part: KeysPart, bad_bodies: BadBodies
) -> Iterator[pa.RecordBatch]:
    """Read the messages of keys that the index finds in a part, or all of the part if its index files lack items."""
    with part.log.open() as log, sparing_reads(log.directories[0]):
        ranges = find_ranges(options, part, log)
        if ranges is not None:
            found = LogPart(ranges, part.log, rows=part.rows, are_found=True)
            yield from read_ranges(log, options, table, found, bad_bodies)
            return
    everything = LogPart([(part.log.begin, part.log.end)], part.log, rows=part.rows)
    with part.log.open_part() as log:
        yield from read_ranges(log, options, table, everything, bad_bodies)


def read_ranges(
    log: CommitLog, options: ReadOptions, table: TableSchema, part: LogPart, bad_bodies: BadBodies
) -> Iterator[pa.RecordBatch]:
    """Read the ranges of a part."""
    row_filter = RowFilter(options, log)
    adapt = functools.partial(adapt_to_part, part)
    for begin, end in part.ranges:
        stop = end if part.plan is None else part.plan.find_end(end)
        is_split = not part.are_found
        yield from read_range(log, options, table, row_filter, begin, end, bad_bodies, adapt, stop, is_split=is_split)


def adapt_to_part(part: LogPart, scan: Scan) -> Scan:
    """Return a scan that chooses and reads messages as the part of a task says."""
    scan, plan = scan.with_rows(part.rows), part.plan
    return scan if plan is None else scan.planned_by(lambda begin, end, limit: plan.within(begin, end))


def read_range(
    log: CommitLog,
    options: ReadOptions,
    table: TableSchema,
    row_filter: RowFilter,
    begin: int,
    end: int,
    bad_bodies: BadBodies,
    adapt: Callable[[Scan], Scan],
    stop: int | None = None,
    *,
    is_split: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Read a range.

    Parameters: stop: where the last bytes end that the scan reads of it; None for ``end``. is_split: whether a record
    should begin at ``end``.
    """
    scan = adapt(new_scan(log, options, table, row_filter, begin, end))
    reported = 0
    try:
        for batch in scan:
            yield from finished(options, table, batch)
            reported = yield from corrupt_rows(options, table, scan, reported)
    except CorruptFileError as error:
        check_begin(options, log, begin)
        error.add_note("With option mode=DROPMALFORMED or mode=PERMISSIVE, the query continues after the damage.")
        raise
    yield from corrupt_rows(options, table, scan, reported)
    bad_bodies.add_all(scan.bad_bodies)
    if scan.skipped:
        check_begin(options, log, begin)
    if is_split and scan.position > end != options.ending_phy_offset and log.reader.begins_record(end):
        raise wrong_split(options, end)
    if scan.has_expired:
        report_loss(options, f"the log from {begin} to {log.min_phy_offset} was deleted after the query was planned")
    elif scan.position < (end if stop is None else stop):
        problem = f"the log ends at {scan.position}, before the planned end {end}"
        report_loss(options, f"{problem}: the log was cut, or this machine does not see its newest bytes yet")


def check_begin(options: ReadOptions, log: CommitLog, begin: int) -> None:
    """Raise StoreError if a part begins within a message, so that this is not reported as damage."""
    if log.reader.end_around(begin) > begin:
        raise wrong_split(options, begin)


def wrong_split(options: ReadOptions, edge: int) -> StoreError:
    return StoreError(
        f"{options.path}: at {edge}, where the log was split, the body of a message contains bytes like a message: "
        "use larger parts, with a larger maxPartitionBytes and without minPartitions"
    )


def new_scan(
    log: CommitLog, options: ReadOptions, table: TableSchema, row_filter: RowFilter, begin: int, end: int
) -> Scan:
    columns = {column.source: None for column in table.columns.values() if column.source is not None}
    if row_filter.is_needed or not columns:
        columns |= dict.fromkeys(BOUNDED)
    scan = log.scan(
        begin,
        end,
        columns=list(columns),
        verify_crc=options.verify_crc,
        on_corrupt="raise" if options.mode == "FAILFAST" else "skip",
        batch_size=options.batch_size,
        containers=options.containers,
        **conditions(options),
    )
    # Parts begin where a record ends. The task logs one warning for all ranges together.
    marks_crc = options.verify_crc is None
    return scan.adapted(warns=False, resyncs=False, marks_crc=marks_crc, choose=row_filter.apply)


def conditions(options: ReadOptions) -> dict[str, Any]:
    """Return the conditions that a scan can check while it reads records."""
    end = options.ending_timestamp
    return {
        "topic": options.topics,
        "queue_ids": options.wanted_queue_ids,
        "tag": options.tags,
        "key": options.keys,
        "since": options.starting_timestamp,
        "until": None if end is None or end > LONG_MAX else end,
    }


class RowFilter:
    """Selects rows by conditions that a scan cannot check: the queue, and the queue offset of the message."""

    def __init__(self, options: ReadOptions, log: CommitLog) -> None:
        self.options = options
        self.log = log
        self.until = LONG_MAX if options.starting_offsets is None else options.starting_offsets.until
        bounds = (options.starting_offsets, options.ending_offsets)
        self.is_needed = (
            any(offsets is not None and offsets.queues for offsets in bounds)
            or (options.assign is not None and len(options.assign) > 1)
            or options.subscribe_pattern is not None
            or options.keys is not None
        )
        self._cached_bounds = functools.cache(self.bounds)

    def apply(self, batch: MessageBatch) -> MessageBatch:
        """Return the selected rows of a batch."""
        if not self.is_needed or not len(batch):
            return batch
        topics = pa.record_batch(batch.select(["topic"])).column(0).dictionary_encode()
        pairs = topics.indices.to_numpy().astype(np.int64) << 32 | batch.queue_id.view(np.uint32)
        queues, row_queue = np.unique(pairs, return_inverse=True)
        names = topics.dictionary.to_pylist()
        ids = queues.astype(np.uint32).view(np.int32).tolist()
        bounds = [self._cached_bounds(names[code], id) for code, id in zip((queues >> 32).tolist(), ids, strict=True)]
        low, high = np.array(bounds, np.int64).T[:, row_queue]
        wanted = (batch.queue_offset >= low) | (batch.phy_offset >= self.until)
        is_near = ~wanted & (batch.queue_offset >= low - MAX_BATCH)
        for row in np.flatnonzero(is_near & (batch.sys_flag & INNER_BATCH != 0)):
            messages = count_batch_messages(self.log, int(batch.phy_offset[row]))
            wanted[row] = int(batch.queue_offset[row]) + messages > low[row]
        wanted &= batch.queue_offset < high
        if self.options.keys is not None:  # an index does not have the keys of rolled back messages
            wanted &= batch.sys_flag & TRANSACTION_ROLLBACK != TRANSACTION_ROLLBACK
        return batch if wanted.all() else batch.take(np.flatnonzero(wanted))

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the begin and the end of the selected queue offsets of a queue."""
        low, high = EARLIEST, LATEST
        if self.options.starting_offsets is not None:
            low = self.options.starting_offsets.queues.get(topic, {}).get(queue_id, EARLIEST)
        if self.options.ending_offsets is not None:
            high = self.options.ending_offsets.queues.get(topic, {}).get(queue_id, LATEST)
        low = {EARLIEST: LONG_MIN, LATEST: LONG_MAX}.get(low, low)
        high = LONG_MAX if high == LATEST else high
        return low, high if self.options.wants(topic, queue_id) else LONG_MIN


# ---- batches ---------------------------------------------------------------------------------------------


def finished(options: ReadOptions, table: TableSchema, batch: MessageBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in Spark's types, cut so that a batch of more than one message has at most maxBatchBytes."""
    n = len(batch)
    if n == 0:
        return
    columns = pa.record_batch(batch)
    arrays = [
        as_type(columns.column(MESSAGE_FIELDS[column.source].name), column.type.arrow)
        if column.source is not None
        else constant(options, name, column, n)
        for name, column in table.columns.items()
    ]
    yield from cut(pa.RecordBatch.from_arrays(arrays, schema=table.arrow), options.max_batch_bytes)


def cut(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Halve a batch until no part has more than ``most`` bytes, or a part has a single row."""
    half = batch.num_rows // 2
    if half == 0 or batch.nbytes <= most:
        yield batch
    else:
        yield from cut(batch.slice(0, half), most)
        yield from cut(batch.slice(half), most)


def constant(options: ReadOptions, name: str, column: TableColumn, n: int) -> pa.Array:
    values = {BROKER: options.broker_name, "brokerName": options.broker_name, "timestampType": LOG_APPEND_TIME}
    return pa.repeat(pa.scalar(values.get(name), column.type.arrow), n)


def as_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert a column to the type that Spark expects. Only times, keys and headers are copied."""
    if array.type == wanted and not pa.types.is_nested(wanted):
        return array
    if wanted == BINARY.arrow:  # the key in Kafka's style: the property KEYS, null without keys
        words = pc.binary_join(array, " ").cast(wanted)
        return pc.if_else(pc.equal(pc.list_value_length(array), 0), None, words)
    if wanted == HEADERS.arrow:
        pairs = pa.StructArray.from_arrays([array.keys, array.items.cast(pa.binary())], fields=list(wanted.value_type))
        return pa.ListArray.from_arrays(array.offsets, pairs, type=wanted)
    if pa.types.is_list(wanted):
        return pa.ListArray.from_arrays(array.offsets, array.values, type=wanted)
    return array.cast(wanted, safe=False)


def corrupt_rows(
    options: ReadOptions, table: TableSchema, scan: Scan, reported: int
) -> Generator[pa.RecordBatch, None, int]:
    """Yield a row for each part that a scan left out, after the first ``reported`` ones, in mode PERMISSIVE.

    Returns: the number of parts that the scan left out so far.
    """
    skipped = scan.skipped[reported:]
    if skipped and options.mode == "PERMISSIVE":
        known: dict[str, list[str | None]] = {
            CORRUPT_RECORD: [reason(part) for part in skipped],
            BROKER: [options.broker_name] * len(skipped),
        }
        unknown = [None] * len(skipped)
        arrays = [pa.array(known.get(name, unknown), column.type.arrow) for name, column in table.columns.items()]
        yield pa.RecordBatch.from_arrays(arrays, schema=table.arrow)
    return len(scan.skipped)


def reason(part: Skipped) -> str:
    return f"{part.error} (physical offsets {part.begin} to {part.end})"
