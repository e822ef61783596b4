"""Stream messages to Spark. A batch has the messages that were appended since the last one, split as by a batch query.

Spark keeps an offset of the stream in its checkpoint: a dict with these names.

* "v": 1, the version of this format.
* "phyOffset": the physical offset where the next batch begins, bytes, between two records.
* "mark": identifies the record before "phyOffset", to detect a log that was cut and written again.
* "begin": the offset where the batch begins that ends here.
* "startingOffsets", "startingTimestamp": the options by which the stream began. They count until the checkpoint is
  deleted; the options of a restarted query do not. They are left out when they no longer exclude messages.
* "until": where the log ended when the stream began. "startingOffsets" count only before it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rocketstore.disk.storage import is_remote
from rocketstore.kernels.csrc import crc32
from rocketstore.lazy import lazy_property
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_reader import LARGE_RECORD, LOOK_BACK
from rocketstore.log.scan import Scan
from rocketstore.spark.source.checks import warn_joined_keys, warn_unmatched_topics
from rocketstore.spark.source.messages import BOUNDED, LogPart, RowFilter, conditions, part_of, read_part
from rocketstore.spark.source.options import EARLIEST, LATEST, ReadOptions, StartingOffsets
from rocketstore.spark.source.plan import (
    begin_of,
    files_of_time,
    find_committed_end,
    last_end,
    parts_of,
    planning,
    report_loss,
    require_start,
    warn_elsewhere,
    with_offsets_of_times,
)
from rocketstore.spark.source.schemas import TableSchema
from rocketstore.store.message_store import MessageStore

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark 4.1 has no limits of a batch
    SupportsTriggerAvailableNow = None


Offset = dict[str, Any]
LAST_FILES = 3  # the files that a broker may be writing: it makes two files ahead
MARKED = 1 << 12  # bytes of a record that a mark covers
CUT = "the log was cut, or belongs to another store"


class CountedMessages(NamedTuple):
    """The number of messages between two physical offsets, as far as they were counted for the next batch."""

    begin: int
    end: int
    messages: int


class NewestMessage(NamedTuple):
    """The store time of the last message, epoch ms, while the log ends at a physical offset; None if it is unknown."""

    log_end: int
    store_timestamp: int | None


class KnownEnd(NamedTuple):
    """The end of a remote log, a physical offset, while its last files have certain versions."""

    versions: object
    log_end: int


F = TypeVar("F", bound=Callable[..., Any])


def in_plan(method: F) -> F:
    """Decorate a method of the reader so that it runs in ``planning``."""

    @functools.wraps(method)
    def call(self: RocketStoreStreamReader, *args: Any, **options: Any) -> Any:
        with planning(self.store):
            return method(self, *args, **options)

    return cast("F", call)


class RocketStoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow or object):  # type: ignore[misc]
    """Reads the messages of a store as they are appended. The module describes the offsets of the stream."""

    def __init__(self, options: ReadOptions, table: TableSchema) -> None:
        limits = options.max_bytes_per_trigger, options.max_offsets_per_trigger, options.max_files_per_trigger
        if SupportsTriggerAvailableNow is None and any((*limits, options.min_offsets_per_trigger)):
            raise ValueError("options max...PerTrigger and minOffsetsPerTrigger: need PySpark 4.2 or newer")
        given = options.starting_offsets, options.starting_offsets_by_timestamp, options.starting_timestamp
        if all(value is None for value in (*given, options.starting_phy_offset)):
            options = replace(options, starting_offsets=StartingOffsets(LATEST, {}))
        self.options = options
        self.table = table
        self.target: int | None = None
        self._planned_end: int | None = None  # where the last batch ends
        self._planned_at = -math.inf  # seconds of the monotonic clock, when a batch was planned last
        self._counted = CountedMessages(0, 0, 0)  # of the next batch
        self._newest: NewestMessage | None = None
        self._known_end: KnownEnd | None = None

    @lazy_property
    def store(self) -> MessageStore:
        store = MessageStore.of_entry("spark stream", self.options.path, leftovers=self.options.leftovers)
        warn_elsewhere(store, self.options)
        with planning(store):
            warn_unmatched_topics(store, self.options)
        warn_joined_keys(self.options)
        return store

    def end(self) -> int:
        """Return where the log ends now. With Trigger.AvailableNow, return at most the end when the query began."""
        end = self._find_end()
        return end if self.target is None else min(end, self.target)

    def _find_end(self) -> int:
        """Return where the log ends. While the last files of a remote log do not change, it is listed but not read."""
        if not is_remote(self.store.path):
            return find_committed_end(self.store)
        log = self.store.commit_log
        log.refresh()
        files = log.file_run.files
        seen = len(files), [file.path.content_version() for file in files[-LAST_FILES:] if is_remote(file.path)]
        if self._known_end is None or self._known_end.versions != seen:
            self._known_end = KnownEnd(seen, find_committed_end(self.store))
        return self._known_end.log_end

    @in_plan
    def initialOffset(self) -> Offset:
        options, end = with_offsets_of_times(self.store, self.options), self.end()
        require_start(self.store, options, end)
        begin = begin_of(self.store, options, end)
        if options.starting_timestamp is not None:
            files = files_of_time(self.store.commit_log, options, begin, end)
            begin = files[0][0] if files else end
        return moved(self.store.commit_log, first_offset(options, end), begin)

    @in_plan
    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:
        end = self.end()
        if start is None:  # PySpark 4.1
            return moved(self.store.commit_log, first_offset(self.options, end), end)
        begin = place_of(start)
        if end < begin:
            report_loss(self.options, f"the log ends at {end}, before the query's position {begin}: {CUT}")
        elif end > begin:
            options = replace(self.options, **starting_of(start))
            if self._must_wait(options, begin, end):
                end = begin
            elif not isinstance(limit, ReadAllAvailable):
                end = self.limited(options, begin, end)
        self._planned_end = end
        if end == begin:
            return start
        self._planned_at = time.monotonic()
        planned = {name: value for name, value in start.items() if name != "begin"}
        return moved(self.store.commit_log, planned, end) | {"begin": planned}

    @in_plan
    def reportLatestOffset(self) -> Offset:
        """Return where the log ends, for the progress of a query. ``stream_lag`` reads it."""
        end = self.end()
        planned = end if self._planned_end is None else self._planned_end
        found = {"v": 1, "phyOffset": end, "lagBytes": max(end - planned, 0)}
        if self._newest is None or self._newest.log_end != end:
            last = record_before(self.store.commit_log, end)
            stored = None if last is None else self.store.commit_log.reader.read_store_timestamp(last)
            self._newest = NewestMessage(end, stored)
        return found | {"newestStoreTimestamp": self._newest.store_timestamp}

    def getDefaultReadLimit(self) -> Any:
        """Return one of the limits, since Spark supports only one at a time. ``latestOffset`` applies all of them."""
        options = self.options
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        most = options.max_files_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    @in_plan
    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.end()

    @in_plan
    def partitions(self, start: Offset, end: Offset) -> list[LogPart]:
        # A restarted query may pass another start for a first batch that was planned but not completed.
        start = end.get("begin", start)
        log, begin, stop = self.store.commit_log, place_of(start), place_of(end)
        if (now := self.end()) < stop:
            report_loss(self.options, f"the log ends at {now}, before the end {stop} of the batch: {CUT}")
        if begin < log.min_phy_offset and begin < stop:
            report_loss(self.options, f"the log from {begin} to {log.min_phy_offset} was deleted before it was read")
            begin = log.min_phy_offset
        if begin < stop and not log.reader.begins_record(begin) and (later := log.reader.end_around(begin)) > begin:
            report_loss(self.options, f"the query's position {begin} is within a message: {CUT}")
            begin = min(later, stop)
        for offset in (start, end):
            self._check_mark(offset)
        starting = starting_of(start)
        options = replace(self.options, **starting)
        return [part_of(log, [part], starting) for part in parts_of(log, options, begin, stop)]

    def _check_mark(self, offset: Offset) -> None:
        """Detect a log that was cut and written again, even if the new records begin at the same offsets."""
        log, place, mark = self.store.commit_log, place_of(offset), offset.get("mark")
        with contextlib.suppress(FileNotFoundError):  # the file expired meanwhile
            if mark is not None and mark[0] >= log.min_phy_offset and mark != mark_of(log, mark[0], place):
                problem = f"the record at {mark[0]}, before the query's position {place}, was replaced"
                report_loss(self.options, f"{problem}: the log was cut and written again, or belongs to another store")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(self.options, self.table, partition)

    def commit(self, end: Offset) -> None:
        """Do nothing: Spark's checkpoint has the offset."""

    def stop(self) -> None:
        if "store" in self.__dict__:
            self.store.close()

    # ---- limits -------------------------------------------------------------------------------------------

    def _must_wait(self, options: ReadOptions, begin: int, end: int) -> bool:
        """Return whether the next batch must wait for more messages, as ``minOffsetsPerTrigger`` says.

        It does not wait with Trigger.AvailableNow, nor longer than ``maxTriggerDelay`` after the last batch.
        """
        least = options.min_offsets_per_trigger
        delay = time.monotonic() - self._planned_at
        if least is None or self.target is not None or 1000 * delay >= options.max_trigger_delay:
            return False
        counted = self._counted
        if counted.begin != begin or counted.end > end:
            counted = CountedMessages(begin, begin, 0)
        count = counted.messages
        if counted.end < end and count < least:
            place = max(counted.end, self.store.commit_log.min_phy_offset)
            count += sum(map(len, self._wanted(options, place, end, least)))
        self._counted = CountedMessages(begin, end, count)
        return count < least

    def limited(self, options: ReadOptions, begin: int, end: int) -> int:
        """Return where a batch that begins at ``begin`` ends by all limits. It has at least one record."""
        log = self.store.commit_log
        begin = max(begin, log.min_phy_offset)
        if options.max_files_per_trigger is not None:
            starts = [file.file_from_offset for file in log.file_run.files if file.file_from_offset > begin]
            end = min([end, *starts[options.max_files_per_trigger - 1 :]])
        if options.max_bytes_per_trigger is not None and end - begin > options.max_bytes_per_trigger:
            end = last_end(log, begin, begin + options.max_bytes_per_trigger, end)
        if options.max_offsets_per_trigger is not None:
            most = options.max_offsets_per_trigger
            end = end_of_rows(self._wanted(options, begin, end, most), most, end)
        return end

    def _wanted(self, options: ReadOptions, begin: int, end: int, most: int) -> Scan:
        """Return a scan of the places of the messages that the tasks will return as rows."""
        log, columns = self.store.commit_log, {"phy_offset", "size"}
        row_filter = RowFilter(options, log)
        if row_filter.is_needed:
            # The filter leaves rows out. For small batches it is slow.
            most, columns = options.batch_size, columns.union(BOUNDED)
        asked = {**conditions(options), "on_corrupt": "skip", "batch_size": most, "containers": options.containers}
        scan = log.scan(begin, end, columns=columns, **asked)
        return scan.adapted(choose=row_filter.apply)


def end_of_rows(scan: Scan, most: int, end: int) -> int:
    """Return where the message number ``most`` of a scan ends; ``end`` if the scan has fewer messages."""
    for batch in scan:
        if len(batch) >= most:
            return int(batch.phy_offset[most - 1] + batch.size[most - 1])
        most -= len(batch)
    return end


def first_offset(options: ReadOptions, end: int) -> Offset:
    """Return the first offset of a stream, with the options by which it begins. Parameters: end: of the log."""
    first: Offset = {"v": 1, "phyOffset": 0}
    if options.starting_offsets is not None and (queues := options.starting_offsets.queues):
        named = {topic: {str(queue_id): at for queue_id, at in offsets.items()} for topic, offsets in queues.items()}
        first |= {"startingOffsets": named, "until": end}
    if options.starting_timestamp is not None:
        first["startingTimestamp"] = options.starting_timestamp
    return first


def moved(log: CommitLog, offset: Offset, place: int) -> Offset:
    past = {"startingOffsets", "until"} if place >= offset.get("until", LONG_MAX) else set()
    kept = {name: value for name, value in offset.items() if name not in past | {"mark"}}
    last = record_before(log, place)
    return kept | {"phyOffset": place} | ({} if last is None else {"mark": mark_of(log, last, place)})


def mark_of(log: CommitLog, last_phy_offset: int, end: int) -> list[int]:
    """Return a mark of a log up to ``end``: the offset of its last record and a CRC of the record's first bytes."""
    return [last_phy_offset, crc32(log.file_run.pread(last_phy_offset, min(end - last_phy_offset, MARKED)))]


def record_before(log: CommitLog, offset: int) -> int | None:
    """Return the offset of the last record before an offset, or of similar bytes in its body; None without one."""
    begin = log.min_phy_offset
    for most in LOOK_BACK:
        scanner, place = log.reader.scanner(()), max(begin, offset - (most or LARGE_RECORD))
        while (found := log.reader.find_later(place, offset)) is not None:
            place = max(log.reader.walk(scanner, found, offset), found + 1)
        if scanner.last_phy_offset >= 0:
            return int(scanner.last_phy_offset)
    return None


def starting_of(offset: Offset) -> dict[str, Any]:
    """Return the options by which a stream began, from its offset."""
    queues = {
        topic: {int(queue_id): at for queue_id, at in offsets.items()}
        for topic, offsets in offset.get("startingOffsets", {}).items()
    }
    starting = StartingOffsets(EARLIEST, queues, until=offset.get("until", LONG_MAX))
    return {"starting_offsets": starting, "starting_timestamp": offset.get("startingTimestamp")}


def place_of(offset: Offset) -> int:
    if offset.get("v") != 1:
        raise ValueError(f"{offset}: the checkpoint was written by another version of rocketstore")
    place: int = offset["phyOffset"]
    return place
