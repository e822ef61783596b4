"""The logs of a store that are not its commit log: those of compacted topics, and those of tiered storage.

They are planned first: which bytes of which files are read. A plan is a value, so that a task of a distributed job can
read what its driver planned, and lists no directory.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, takewhile
from typing import Any, NamedTuple, Protocol

import numpy as np

from rocketstore.dispatch.follow import follow_batches
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_chunk import LogChunk
from rocketstore.log.scan import ChosenRows, RowChoice, Scan
from rocketstore.messages.arguments import integer_list, text_list
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.queue.compacted_queue import CompactedQueue
from rocketstore.queue.queue_source import QueueSource, StoredQueue
from rocketstore.queue.units import CqUnit
from rocketstore.tier.joined_queue import JoinedQueue
from rocketstore.tier.segments import SegmentChunk
from rocketstore.tier.tier_queue import TierQueue

NOT_PASSED = ("begin_offset", "end_offset", "threads", "limit")  # conditions of the commit log alone
QUEUE_COLUMNS = ("topic", "queue_id", "queue_offset")


class OtherLog(NamedTuple):
    """The messages of one queue that are read from a log of the queue alone.

    Messages of tiered storage have no physical offset. Those of a compacted topic have that of the compacted log.

    Attributes: queue: its id. parts: the ranges that are read. end: only messages before this queue offset are read.
    is_tier: whether the messages are those of tiered storage.
    """

    queue: QueueId
    parts: Sequence[LogChunk]
    end: int
    is_tier: bool

    def scans(self, conditions: Mapping[str, Any]) -> Iterator[Scan]:
        """Yield a scan of each part. Its files are closed when the next scan is requested.

        Parameters: conditions: arguments of ``CommitLog.scan``.
        """
        wanted = {name: value for name, value in conditions.items() if name not in NOT_PASSED}
        for part in self.parts:
            with part.open_part() as log:
                yield self.adapt(log.scan(part.begin, part.end, **wanted))

    def adapt(self, scan: Scan) -> Scan:
        """Return a scan of a part that leaves out the messages of the commit log, and physical offsets of the tier."""
        scan = scan.with_rows(ChosenRows(["queue_offset"], partial(choose_before, self.end)))
        return scan.without_phy_offsets() if self.is_tier else scan


def choose_before(end: int, batch: MessageBatch) -> np.ndarray:
    """Return the numbers of the messages before a queue offset, int64[n]."""
    return np.flatnonzero(batch.queue_offset < end)


def find_rows_of_log(ends: Mapping[QueueId, int], batch: MessageBatch) -> np.ndarray:
    """Return the numbers of the messages, int64[n], that are read from the commit log, not from compacted queues.

    Of a compacted queue these are messages with the queue offset in ``ends`` or a later one. A message without a key
    is not read: the compaction leaves it out.
    """
    queues = map(QueueId, batch.topic, batch.queue_id.tolist())
    limits = np.array([ends.get(queue, LONG_MIN) for queue in queues], np.int64)
    has_key = np.fromiter(map(len, batch.keys), np.int64, len(batch)) > 0
    return np.flatnonzero((batch.queue_offset >= limits) & (has_key | (limits == LONG_MIN)))


def choose_rows_of_log(ends: Mapping[QueueId, int]) -> RowChoice | None:
    """Return the choice of the messages that are read from the commit log, not from compacted queues; None for all.

    Parameters: ends: by queue, the queue offset from which on messages are read from the log again.
    """
    return ChosenRows((*QUEUE_COLUMNS, "keys"), partial(find_rows_of_log, ends)) if ends else None


def leave_out_queues(scan: Scan, queues: Iterable[QueueId]) -> Scan:
    """Return a scan of the commit log without the messages of some compacted queues."""
    return scan.with_rows(choose_rows_of_log(dict.fromkeys(queues, LONG_MAX)))


# ---- plans -------------------------------------------------------------------------------------------------


class OtherLogPlanner(Protocol):
    """A function that plans to read the other logs of a store, or those of some topics and queue ids."""

    def __call__(self, topics: Iterable[str] | None, queue_ids: Iterable[int] | None) -> list[OtherLog]: ...


def plan_other_logs(
    source: QueueSource[StoredQueue], queues: Iterable[QueueId], compacted: Collection[QueueId]
) -> list[OtherLog]:
    """Plan to read the messages of queues that are in logs of their own, queue by queue.

    Where tiered storage ends and the commit log begins is decided now, so that each message is read from one of them.

    Parameters: compacted: the queues that are read from the compaction. Raises: OSError; StoreError.
    """
    found = []
    for queue_id in queues:
        queue = source.open(*queue_id)
        if queue is not None:
            with closing(queue):
                for part in [queue.older, queue.local] if isinstance(queue, JoinedQueue) else [queue]:
                    if isinstance(part, TierQueue) and part.min_queue_offset < part.stop_offset:
                        found.append(_plan_tier(part, queue_id))
                    elif isinstance(part, CompactedQueue) and queue_id in compacted:
                        found.append(_plan_compacted(part, queue_id))
    return found


def choose_queues(
    queues: Iterable[QueueId], topics: Iterable[str] | None, queue_ids: Iterable[int] | None
) -> list[QueueId]:
    """Return the queues that a scan with these conditions reads; None for no condition."""
    names, ids = (None if values is None else {*values} for values in (topics, queue_ids))
    return [
        queue for queue in queues if (names is None or queue.topic in names) and (ids is None or queue.queue_id in ids)
    ]


def _plan_tier(queue: TierQueue, name: QueueId) -> OtherLog:
    """Plan the messages before the stop offset of a queue.

    The plan ends after the record of the last unit. If this unit does not lead to its record, the plan ends with the
    log, so that damaged or missing units hide no message.
    """
    log = queue.log
    begin, end = log.min_phy_offset, log.max_phy_offset
    for unit in queue[queue.stop_offset - 1 : queue.stop_offset]:
        if _leads_to_its_message(log, name, unit):
            end = unit.phy_offset + unit.size
    parts = [SegmentChunk.of(log, begin, end, whole_to=end, view=log.look())] if begin < end else []
    return OtherLog(name, parts, queue.stop_offset, is_tier=True)


def _plan_compacted(queue: CompactedQueue, name: QueueId) -> OtherLog:
    """Plan each file from the record of its first unit to that of its last one. Other bytes of a file mean nothing."""
    log, queue_end = queue.log, queue.max_queue_offset
    files = {file.file_from_offset: file for file in log.file_run.files}
    ranges = [
        _between(log, name, first, last, (start, files[start].end_offset))
        for start, first, last in queue.edges()
        if start in files
    ]
    view = log.look()
    parts = [LogChunk.of(log, begin, end, whole_to=end, view=view) for begin, end in ranges if begin < end]
    return OtherLog(name, parts, queue_end, is_tier=False)


def _between(log: CommitLog, name: QueueId, first: CqUnit, last: CqUnit, bounds: tuple[int, int]) -> tuple[int, int]:
    """Return where the records of two units begin and end; a bound where a unit leads to no record of its message."""
    begin = first.phy_offset if _leads_to_its_message(log, name, first) else bounds[0]
    end = last.phy_offset + last.size if _leads_to_its_message(log, name, last) else bounds[1]
    return max(begin, bounds[0]), min(end, bounds[1])


def _leads_to_its_message(log: CommitLog, name: QueueId, unit: CqUnit) -> bool:
    found, _ = log.find_messages(np.array([unit.phy_offset], np.int64), columns=(*QUEUE_COLUMNS, "size"))
    return [(each.topic, each.queue_id, each.queue_offset, each.size) for each in found] == [
        (*name, unit.queue_offset, unit.size)
    ]


# ---- reads -------------------------------------------------------------------------------------------------


def has_offset_bounds(bounds: Iterable[object], conditions: Mapping[str, Any]) -> bool:
    """Return whether the arguments of a scan have physical offsets.

    Parameters: bounds: arguments without names. conditions: arguments by name.
    """
    named = (conditions.get(name) for name in ("begin_offset", "end_offset"))
    return any(bound is not None for bound in (*bounds, *named))


def scan_all_logs(
    scan: Scan, compacted: Collection[QueueId], plan: OtherLogPlanner, conditions: Mapping[str, Any]
) -> Scan:
    """Let a scan of the commit log also read the other logs, which are planned whenever an iteration begins.

    Parameters: compacted: queues that are read from the compaction in place of the log. conditions: of the scan.
    """
    topics, queue_ids = text_list(conditions.get("topic"), "topic"), integer_list(conditions.get("queue_ids"))

    def scan_others() -> Iterator[Scan]:
        return scan_other_logs(plan(topics, queue_ids), conditions)

    return leave_out_queues(scan, compacted).joined_with(scan_others)


def scan_other_logs(logs: Iterable[OtherLog], conditions: Mapping[str, Any]) -> Iterator[Scan]:
    """Yield scans of planned logs, one after the other. Parameters: as of ``OtherLog.scans``."""
    for log in logs:
        yield from log.scans(conditions)


def follow_all_logs(
    log: CommitLog,
    plan: OtherLogPlanner,
    poll: float | None,
    stop: threading.Event | None,
    columns: Iterable[str] | None,
) -> Iterator[MessageBatch]:
    """Yield the messages of other logs, and then follow the commit log from its beginning, without repeated messages.

    Parameters: as of ``follow_batches``.
    """
    begin = log.min_phy_offset  # before the plan: what leaves the log meanwhile is in tiered storage
    others = plan(None, None)
    older: Iterator[MessageBatch] = chain.from_iterable(scan_other_logs(others, {"columns": columns}))
    if stop is not None:
        older = takewhile(lambda batch: not stop.is_set(), older)
    rows = choose_rows_of_log({other.queue: other.end for other in others if not other.is_tier})
    return chain(older, follow_batches(log, begin, poll, stop, columns, rows))
