"""Scan the logs of a store that are not its commit log: those of compacted topics, and those of tiered storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.scan import OtherScan
from rocketstore.messages.arguments import integer_list, text_list
from rocketstore.queue.compacted_queue import CompactedQueue
from rocketstore.queue.queue_source import QueueSource, StoredQueue
from rocketstore.tier.joined_queue import parts_of
from rocketstore.tier.tier_queue import TierQueue

NOT_PASSED = ("begin_offset", "end_offset", "threads", "limit")  # conditions of the commit log alone


def scan_others(
    source: QueueSource[StoredQueue], queues: Iterable[QueueId], conditions: Mapping[str, Any], *, compacted: bool
) -> Iterator[OtherScan]:
    """Yield scans of the messages of queues that are in logs of their own, queue by queue.

    Messages of tiered storage have no physical offset. Those of a compacted topic have that of the compacted log.

    Parameters: conditions: arguments of ``CommitLog.scan``. compacted: also scan compacted topics.
    """
    wanted = {name: value for name, value in conditions.items() if name not in NOT_PASSED}
    topics, queue_ids = text_list(wanted.get("topics"), "topics"), integer_list(wanted.get("queue_ids"))
    for queue_id in queues:
        if (topics is None or queue_id.topic in topics) and (queue_ids is None or queue_id.queue_id in queue_ids):
            queue = source.open(*queue_id)
            if queue is None:
                continue
            with closing(queue):
                for part in parts_of(queue):
                    if isinstance(part, TierQueue):
                        yield from _scans(part.log, [_bounds(part)], wanted, has_phy_offsets=False)
                    elif isinstance(part, CompactedQueue) and compacted:
                        yield from _scans(part.log, part.log_ranges(), wanted, has_phy_offsets=True)


def _scans(
    log: CommitLog, ranges: Iterable[tuple[int, int]], conditions: Mapping[str, Any], *, has_phy_offsets: bool
) -> Iterator[OtherScan]:
    for begin, end in ranges:
        yield OtherScan(log.scan(begin, end, **conditions), has_phy_offsets)


def _bounds(queue: TierQueue) -> tuple[int, int]:
    """Return where the records of a queue begin and end in its log, bytes."""
    first, last = queue[queue.min_queue_offset], queue[queue.max_queue_offset - 1]
    return first.phy_offset, last.phy_offset + max(last.size, 0)
