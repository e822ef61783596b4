"""Plan on the driver which parts of a commit log a query reads. A part begins and ends between records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import pairwise

from rocketstore.broker_file import warn_once
from rocketstore.config import StoreConfig, camel_case
from rocketstore.disk.storage import held_lists, is_remote, sparing_reads
from rocketstore.errors import CorruptFileError, SettingError, StoreError, UnsupportedFormatError
from rocketstore.jobs.intent import WriteIntent
from rocketstore.kernels.commit_log import RecordScanner
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.file_times import choose_files, describe_skipped
from rocketstore.log.log_end import LogView
from rocketstore.log.record_reader import LARGE_RECORD, LOOK_BACK
from rocketstore.logger import logger
from rocketstore.queue.queue_source import StoredQueue, offset_range
from rocketstore.spark.source.options import EARLIEST, LATEST, ReadOptions, StartingOffsets
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.formats import find_elsewhere

MAX_TASKS = 100_000
Range = tuple[int, int]  # begin and end, physical offsets in bytes


def report_loss(options: ReadOptions, problem: str) -> None:
    """Raise StoreError because requested data is missing, or log a warning with failOnDataLoss=false."""
    if options.fail_on_data_loss:
        raise StoreError(f"{options.path}: {problem}; with failOnDataLoss=false the query continues without this data")
    logger.warning("%s: %s: the query continues without this data", options.path, problem)


@contextlib.contextmanager
def naming_options() -> Iterator[None]:
    """Run a ``with`` block. If a setting is unknown there, the error has the calls that give it as options."""
    try:
        yield
    except SettingError as error:
        if not error.advice:
            raise
        calls = (f'.option("{camel_case(name)}", {error.suggested.get(name, "N")})' for name in error.settings)
        advice = f"add {' and '.join(calls)}"
        raise SettingError(error.reason, *error.settings, suggested=error.suggested, advice=advice) from None


@contextlib.contextmanager
def planning(store: MessageStore) -> Iterator[None]:
    """Run a ``with`` block that lists each directory of a remote store only once and reads small parts of its files."""
    with held_lists(store.path), sparing_reads(store.path):
        yield


def held_log(store: MessageStore) -> AbstractContextManager[None]:
    """Use one list of a local log's files until the end of a ``with`` block. ``planning`` does so for a remote store.

    A plan asks for the end of the log once for each queue and index file. Without this, each of these questions could
    list the log again, which may have thousands of files.
    """
    log = None if is_remote(store.path) else store.find_commit_log()
    return contextlib.nullcontext() if log is None else log.file_run.hold_list()


def open_planned(entry: str, options: ReadOptions, config: StoreConfig | None = None) -> MessageStore:
    """Open a store on the driver as the options say. Parameters: entry: a name of ENTRIES."""
    if options.tier is not None:
        config = replace(config or StoreConfig(), tiered_store_file_path=options.tier)
    read_too = {"leftovers": options.leftovers, "tiered": options.reads_tier, "compacted": options.compacted}
    return MessageStore.of_entry(entry, options.path, config, **read_too)


def warn_elsewhere(store: MessageStore, options: ReadOptions) -> None:
    """Log a warning, once per process, if consumers of selected topics read from other files than log and queues."""
    read_too = {"tiered": options.reads_tier, "compacted": options.compacted}
    for text in find_elsewhere(store.places, options.wants_topic, **read_too):
        warn_once(text)


# ---- the end ---------------------------------------------------------------------------------------------


def find_committed_view(store: MessageStore, *, again: bool = False) -> LogView:
    """Return a view of the log, which ends before records of a sink job that has not committed them.

    Parameters: again: as for ``CommitLog.look``. Raises: CorruptFileError if a job's intent is damaged.
    """
    root, log = store.path, store.commit_log
    if is_remote(root):  # the sink does not write into remote stores
        return log.look()
    while True:
        intent, view = WriteIntent.read(root), log.look(again=again)
        if WriteIntent.read(root) == intent:  # otherwise the job may have undone records that are before the end
            return view


def find_committed_end(store: MessageStore, *, again: bool = False) -> int:
    """Return the physical offset where the log ends now, as ``find_committed_view`` does."""
    return find_committed_view(store, again=again).records_end


# ---- offsets of times ------------------------------------------------------------------------------------


def with_offsets_of_times(store: MessageStore, options: ReadOptions) -> ReadOptions:
    """Return options with the queue offsets of ``startingOffsetsByTimestamp`` as ``startingOffsets``.

    A queue begins at its first message of that store time or later, or at its end without one. A queue that the store
    does not have begins at its earliest message.
    Raises: UnsupportedFormatError if the queues are in RocksDB, without its extra; CorruptFileError.
    """
    times = options.starting_offsets_by_timestamp
    if times is None:
        return options
    queues: dict[str, dict[int, int]] = {topic: {} for topic in times}
    for topic, of_topic in times.items():
        for queue_id, timestamp in of_topic.items():
            with contextlib.suppress(KeyError):
                queue = store.log_queue(topic, queue_id)
                queues[topic][queue_id] = find_offset_of_time(store, queue, timestamp, options)
    offsets = StartingOffsets(EARLIEST, queues)
    return replace(options, starting_offsets=offsets, starting_offsets_by_timestamp=None)


def find_offset_of_time(store: MessageStore, queue: StoredQueue, timestamp: int, options: ReadOptions) -> int:
    """Return the queue offset of the first message of a store time, epoch ms, or later; the end without one."""
    found, end = queue.get_offset_by_time(timestamp, exact_times=options.exact_times), queue.max_queue_offset
    if not queue.min_queue_offset <= found < end:
        return found
    unit = queue[found]
    stored = store.commit_log.pickup_store_timestamp(unit.phy_offset, unit.size)  # -1 for a damaged record
    return end if 0 <= stored < timestamp else found  # a broker's search ends at the last message


# ---- the beginning ---------------------------------------------------------------------------------------


def begin_of(store: MessageStore, options: ReadOptions, end: int) -> int:
    """Return the physical offset of the first message that the options select, or an earlier one.

    Raises: StoreError if a message that the options name by its offset was deleted, unless failOnDataLoss=false.
    """
    log = store.commit_log
    begin = first = log.min_phy_offset
    if options.starting_phy_offset is not None:
        if options.starting_phy_offset < first:
            problem = f"startingPhyOffset {options.starting_phy_offset} was deleted, the log begins at {first}"
            report_loss(options, problem)
        begin = min(max(begin, options.starting_phy_offset), end)
        begin = end_within(log, begin)
    if options.starting_offsets is not None:
        begin = max(begin, begin_of_queues(store, options, first, end))
    return min(begin, end)


def end_within(log: CommitLog, offset: int) -> int:
    """Return the end of the record that contains an offset; the offset itself if a record begins there."""
    end = record_end_around(log, offset)
    if end == offset and not log.reader.begins_record(offset):
        # The offset is in a record larger than LARGE_RECORD, or in damage, which the task will report.
        end = log.reader.end_around(offset, log.mapped_file_size)
    return end


def record_end_around(log: CommitLog, offset: int) -> int:
    """Return the end of the record that contains an offset; the offset itself if a record ends exactly there.

    Of a remote log only the last records before the offset are read. Of a local log 8 MiB before the offset are read,
    so that bytes in the body of a record are never mistaken for a record.
    """
    if not is_remote(log.directories[0]):
        return log.reader.end_around(offset)
    file = log.file_run.find(offset)
    if file is None or file.file_from_offset == offset:
        return offset
    for most in LOOK_BACK:
        found = log.reader.find_end_around(offset, most)
        if found is not None:
            return found
    return offset


def begin_of_queues(store: MessageStore, options: ReadOptions, first: int, end: int) -> int:
    """Return the physical offset of the first selected message by the queues; ``first`` if they do not show it."""
    starting = options.starting_offsets
    assert starting is not None
    if starting.default == LATEST:
        return end
    places = [
        place_in_queue(store, options, topic, queue_id, offset, first, end)
        for topic, offsets in starting.queues.items()
        for queue_id, offset in offsets.items()
        if options.wants(topic, queue_id)
    ]
    names = {(topic, queue_id) for topic, offsets in starting.queues.items() for queue_id in offsets}
    topics, ids = options.topics, options.wanted_queue_ids
    if topics is None or ids is None:
        return first
    wanted = {(topic, queue_id) for topic in topics for queue_id in ids if options.wants(topic, queue_id)}
    return min(places, default=first) if wanted <= names else first


def place_in_queue(
    store: MessageStore, options: ReadOptions, topic: str, queue_id: int, offset: int, first: int, end: int
) -> int:
    """Return a physical offset before which no message of a queue has this queue offset or a greater one."""
    if offset == LATEST:
        return end
    # If no queue is found, its messages may not be dispatched yet, or its queues may be in a RocksDB that cannot be
    # read. All messages are found from the beginning of the log, too.
    with contextlib.suppress(KeyError, UnsupportedFormatError, CorruptFileError):
        queue = store.log_queue(topic, queue_id)
        least, most = offset_range(queue)
        kept = store.consume_queue(topic, queue_id).min_queue_offset if store.reads_other_logs else least
        if EARLIEST < offset < min(kept, least):
            problem = f"message {offset} of queue {queue_id} of {topic!r} was deleted, the first is {min(kept, least)}"
            report_loss(options, problem)
        if least < most:
            unit = queue[min(max(offset, least), most - 1)]
            # After a gap in the queue offsets of the records, units have lower queue offsets than their records.
            message = store.commit_log.find_message(unit.phy_offset)
            if message is None or (message.topic, message.queue_id) != (topic, queue_id):  # a damaged unit
                return first
            if message.queue_offset <= max(offset, least):
                return max(unit.phy_offset, first)
    return first


def require_start(store: MessageStore, options: ReadOptions, end: int) -> None:
    """Raise StoreError if a stream begins after the end of the log or of a queue, unless failOnDataLoss=false."""
    at = options.starting_phy_offset
    if at is not None and at > end:
        report_loss(options, f"startingPhyOffset {at} does not exist yet, the log ends at {end}")
    queues = {} if options.starting_offsets is None else options.starting_offsets.queues
    for topic, queue_id, offset in ((topic, *one) for topic, offsets in queues.items() for one in offsets.items()):
        most = queue_end(store, topic, queue_id)
        if most is not None and offset > most:
            problem = f"message {offset} of queue {queue_id} of {topic!r} does not exist yet, the queue ends at {most}"
            report_loss(options, problem)


def queue_end(store: MessageStore, topic: str, queue_id: int) -> int | None:
    """Return the queue offset after the last message of a queue, by units and records; None if it is unknown."""
    with contextlib.suppress(KeyError, UnsupportedFormatError):
        queue = store.log_queue(topic, queue_id)
        most = queue.max_queue_offset
        last = store.commit_log.find_message(queue[most - 1].phy_offset) if queue.min_queue_offset < most else None
        if last is None or (last.topic, last.queue_id) != (topic, queue_id):  # a damaged unit
            return most
        return max(most, last.queue_offset + 1)
    return None


# ---- parts -----------------------------------------------------------------------------------------------


def parts_of(log: CommitLog, options: ReadOptions, begin: int, end: int) -> list[Range]:
    """Split a range of the log at its files, and into smaller parts as the options say. Skip files of other times.

    A split inside a file is before a record that contains its own physical offset. The body of a record larger than
    LARGE_RECORD may contain such bytes. The task that reads the part detects this.
    """
    files = files_of_time(log, options, begin, end)
    total = sum(stop - start for start, stop in files)
    most = min(options.max_partition_bytes, -(-total // options.min_partitions))
    if total // max(most, 1) > MAX_TASKS:
        name = "maxPartitionBytes" if most == options.max_partition_bytes else "minPartitions"
        tasks = f"{total // most:,} tasks of {most:,} bytes of the log"
        raise ValueError(
            f"option {name}: makes {tasks}, more than the {MAX_TASKS:,} that Spark can plan: make fewer, larger tasks"
        )
    return [part for start, stop in files for part in split(log, start, stop, most)]


def files_of_time(log: CommitLog, options: ReadOptions, begin: int, end: int) -> list[Range]:
    """Split a range of the log at its files, and skip files of other times. If files are skipped, log a warning."""
    is_exact = options.exact_times or options.starting_timestamp is options.ending_timestamp is None
    chosen = choose_files(log, begin, end, *times_of(options), exact_times=is_exact)
    for assumption in describe_skipped(chosen.skipped):
        logger.warning("%s: %s; option exactTimes=true reads every file", options.path, assumption)
    return chosen.ranges


def last_end(log: CommitLog, begin: int, limit: int, end: int) -> int:
    """Return the end of the last record that ends before a limit; of the first record if even that ends later."""
    scanner, place = last_record(log, begin, limit)
    if place > limit and scanner.last_phy_offset > begin:
        place = scanner.last_phy_offset
    if place > begin:
        return min(place, end)
    later = log.reader.find_later(begin + 1, end)  # the bytes at ``begin`` are damaged
    return end if later is None else later


def last_record(log: CommitLog, begin: int, limit: int) -> tuple[RecordScanner, int]:
    """Walk over the records that begin before a limit. Return the scanner, and where the last of them ends."""
    for most in LOOK_BACK if is_remote(log.directories[0]) else LOOK_BACK[-1:]:
        scanner = log.reader.scanner(())
        near = log.reader.find_later(max(begin, limit - (most or LARGE_RECORD)), limit)
        place = begin if near is None else log.reader.walk(scanner, near, limit)
        if place >= limit:
            return scanner, place
    scanner = log.reader.scanner(())  # a record near the limit may be bytes in the body of another record
    return scanner, log.reader.walk(scanner, begin, limit)


def split(log: CommitLog, begin: int, end: int, most: int) -> list[Range]:
    edges = [begin]
    step = -(-(end - begin) // -(-(end - begin) // most))
    while (at := edges[-1] + step) < end and (found := log.reader.find_later(at, end)) is not None:
        edges.append(min(record_end_around(log, found), end))
    return list(pairwise(dict.fromkeys([*edges, end])))


def times_of(options: ReadOptions) -> tuple[int, int]:
    """Return the first and the last store time to read, epoch milliseconds, both inclusive."""
    begin = LONG_MIN if options.starting_timestamp is None else options.starting_timestamp
    return begin, LONG_MAX if options.ending_timestamp is None else max(options.ending_timestamp - 1, LONG_MIN)
