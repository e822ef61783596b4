"""RecordPlanner: decides whether a scan of some topics reads the records to which the queues lead, or the whole log."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.kernels.commit_log import BLANK
from rocketstore.kernels.keys import java_hash_codes
from rocketstore.kernels.queue_id import QueueId
from rocketstore.kernels.record_filter import RecordFilter
from rocketstore.limits import LONG_MAX
from rocketstore.log.chosen_records import ChosenRecords
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.hash_sample import HashSample
from rocketstore.log.log_end import StoreState
from rocketstore.log.scan import ReadPlan
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX, SCHEDULE_TOPIC
from rocketstore.query.other_logs import choose_queues
from rocketstore.queue.batch_consume_queue import BatchConsumeQueue
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.covered_ranges import find_covered_ranges
from rocketstore.queue.file_queues import FileQueues
from rocketstore.queue.queue_source import offset_range, read_units_between
from rocketstore.store.opened_queues import OpenedQueues
from rocketstore.store.stamped_values import StampedValues
from rocketstore.text_values import format_count

MIN_RATIO = 5  # the log must have so many times the bytes that are read
MAX_GAPS = 1024  # each gap takes some 50 microseconds
MAX_KEPT_PATHS = 1024  # files of log and queues, and directories of queues, that are checked for changes
UNITS_AT_ONCE = 1 << 20
QUEUES_AHEAD = 16
COVERED = "covered ranges"  # the key of a kept value


class CoveredRanges(NamedTuple):
    """The ranges of the log that have no record without a unit, physical offsets, ascending.

    ``used_end``: the end of the last record in them.
    """

    ranges: Sequence[tuple[int, int]]
    used_end: int


@dataclass(frozen=True)
class RecordPlanner:
    """Plans to read the messages of topics, and of tags, in a range of the log.

    Records to which no unit of any queue leads are not left out: the ranges that have them are read completely. These
    are, for example, messages of deleted topics or of an earlier life of a topic, and prepared and rolled back messages
    of older releases.

    Attributes: stamped: keeps which ranges have units; None to find them anew. topics, queue_ids, tags: None for all.
    sample: which messages are wanted; None for all.
    """

    log: CommitLog
    queues: OpenedQueues
    stamped: StampedValues | None
    topics: Sequence[str] | None
    queue_ids: Iterable[int] | None
    tags: Collection[str] | None
    sample: HashSample | None = None

    def __call__(self, begin: int, end: int, limit: int | None) -> ReadPlan:
        """Return the plan for a range. Parameters: begin, end: physical offsets, bytes. limit: messages; None for all.

        Source: none.
        """
        try:
            return self._plan(begin, end, limit)
        except (OSError, StoreError, ValueError) as error:
            return scan_of(begin, end, f"the queues cannot be read: {error}")

    def _plan(self, begin: int, end: int, limit: int | None) -> ReadPlan:
        source = self.queues.find_file_queues()
        if source is None:
            return scan_of(begin, end, "the queues are not in files")
        if self.log.reader.find_store_state() == StoreState.CRASHED:
            return scan_of(begin, end, "the store crashed: messages may have no units")
        if self.log.reader.framing:
            return scan_of(begin, end, "the log is DLedger's")
        records = self._choose_records(source, begin, end)
        found = format_count(len(records), "record")
        too_many = f"the queues lead to {found}, more than 1 / {MIN_RATIO} of these bytes"
        if records.count_bytes() * MIN_RATIO >= end - begin:
            return scan_of(begin, end, too_many)
        if limit is not None and 0 < limit <= len(records):
            stop = int(records.phy_offsets[limit - 1])
            if (stop - begin) * MIN_RATIO < end - begin:
                return scan_of(begin, end, f"the first {format_count(limit, 'message')} may be near its beginning")
        covered = self._find_covered(source)
        if self.log.reader.find_store_state() != StoreState.STOPPED:  # units may have been added since
            records = self._choose_records(source, begin, end)
        gaps = find_gaps(covered.ranges, begin, end)
        # While a broker runs, the last file may have no records behind the last unit: only its first bytes are read.
        scanned = sum(stop - start for start, stop in gaps if stop < end or self.log.reader.begins_record(start))
        size = max(min(end, covered.used_end) - begin, scanned)
        if len(gaps) > MAX_GAPS or scanned * MIN_RATIO >= size:
            return scan_of(begin, end, f"no units lead to {format_count(scanned, 'byte')} of them")
        gaps = [gap for gap in gaps if not self._is_blank(*gap)]  # else each file of the log has a batch of its own
        if (records.count_bytes() + scanned) * MIN_RATIO >= size:
            return scan_of(begin, end, too_many)
        note = f"reads {found} to which the queues lead, and {format_count(scanned, 'byte')} to which no queue leads"
        return ReadPlan(records, gaps, f"{note}, of {format_count(size, 'byte')} of the log")

    def _choose_records(self, source: FileQueues, begin: int, end: int) -> ChosenRecords:
        """Return the records of a range to which the queues of the topics lead. Some may have other tags."""
        codes = None if self.tags is None else java_hash_codes(list(self.tags))
        columns = [(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64))]
        if self.topics is None:
            names = [name for name in source.queues() if not name.topic.startswith(LIGHT_QUEUE_PREFIX)]
        else:
            names = [QueueId(topic, queue_id) for topic in {*self.topics} for queue_id in source.queue_ids(topic)]
        for name, queue in open_queues(source, choose_queues(names, None, self.queue_ids)):
            for units in read_units_between(queue, *offset_range(queue), UNITS_AT_ONCE):
                wanted = (units.phy_offsets >= begin) & (units.phy_offsets < end)
                # Units of the schedule topic have times of delivery, and those of inner batches no tags.
                if codes is not None and name.topic != SCHEDULE_TOPIC and units.batch_nums is None:
                    wanted &= may_have_tags(units.tags_codes, codes)
                if self.sample is not None and not isinstance(queue, BatchConsumeQueue):  # its units have many messages
                    wanted &= self.sample.choose_units(*name, units.queue_offsets)
                columns.append((units.phy_offsets[wanted], units.sizes[wanted], units.queue_offsets[wanted]))
        phy_offsets, sizes, queue_offsets = map(np.concatenate, zip(*columns, strict=True))
        order = np.argsort(phy_offsets, kind="stable")  # it merges the queues, which are in order
        expected = RecordFilter(self.topics, self.queue_ids)
        return ChosenRecords(phy_offsets[order], sizes[order], queue_offsets[order], expected)

    def _find_covered(self, source: FileQueues) -> CoveredRanges:
        kept: CoveredRanges | None = None if self.stamped is None else self.stamped.find(COVERED)
        if kept is not None:
            return kept
        time = None if self.stamped is None else self.stamped.start_making()
        reader, log_files = self.log.reader, self.log.file_run.files
        files = [(reader.begin_in(file), reader.end_of(file)) for file in log_files]
        paths = [file.path for file in log_files]
        ranges = find_covered_ranges(own_queues(source, paths), files)
        used_end = ranges[-1][1] if ranges else 0
        if ranges and reader.find_store_state() == StoreState.STOPPED and self._is_end(used_end):
            ranges[-1] = ranges[-1][0], files[-1][1]
        found = CoveredRanges(ranges, used_end)
        if self.stamped is not None and len(paths) <= MAX_KEPT_PATHS:
            self.stamped.keep(COVERED, found, paths, time)
        return found

    def _is_blank(self, begin: int, end: int) -> bool:
        """Return whether a blank fills a range."""
        reader = self.log.reader
        return reader.step(reader.scanner(()), begin, begin + 1) == (end, BLANK)

    def _is_end(self, phy_offset: int) -> bool:
        """Return whether no record begins at an offset or behind it."""
        reader = self.log.reader
        return not reader.begins_record(phy_offset) and reader.find_later(phy_offset, LONG_MAX) is None


def open_queues(source: FileQueues, names: Sequence[QueueId]) -> Iterator[tuple[QueueId, ConsumeQueue]]:
    """Yield queues, each open until the next one is requested. The system reads the following queues meanwhile."""
    waiting: deque[tuple[QueueId, ConsumeQueue]] = deque()
    try:
        for name in names:
            if (queue := source.open(*name)) is not None:
                waiting.append((name, queue))
                queue.run.read_ahead()
            if len(waiting) > QUEUES_AHEAD:
                yield waiting[0]
                waiting.popleft()[1].close()
        while waiting:
            yield waiting[0]
            waiting.popleft()[1].close()
    finally:
        for _, queue in waiting:
            queue.close()


def may_have_tags(tags_codes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return which units may lead to messages with wanted tags, bool[n].

    A tags code that is no hash, for example the address of an ext unit, shows nothing.
    Parameters: tags_codes: int64[n]. wanted: the hash codes of the tags, int32[m].
    """
    may_have: np.ndarray = np.isin(tags_codes, wanted) | (tags_codes != tags_codes.astype(np.int32))
    return may_have


def own_queues(source: FileQueues, paths: list[StorePath]) -> Iterator[ConsumeQueue]:
    """Yield all queues but light queues, whose units lead to records of other queues. Add their paths to ``paths``."""
    names = [name for name in source.queues() if not name.topic.startswith(LIGHT_QUEUE_PREFIX)]
    for _, queue in open_queues(source, names):
        paths += [queue.directory, *(file.path for file in queue.run.files)]
        yield queue


def find_gaps(covered: Sequence[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges from ``begin`` to ``end`` that are not in ``covered``; all ascend."""
    gaps = []
    for start, stop in covered:
        if begin < min(start, end):
            gaps.append((begin, min(start, end)))
        begin = max(begin, stop)
    return [*gaps, (begin, end)] if begin < end else gaps


def scan_of(begin: int, end: int, why: str) -> ReadPlan:
    """Return the plan to read a range completely, for a reason."""
    return ReadPlan(None, [], f"reads {format_count(max(end - begin, 0), 'byte')} of the log: {why}")
