"""Describe which messages of a store are only in tiered storage."""

from __future__ import annotations

from collections.abc import Collection

from rocketstore.kernels.queue_id import QueueId
from rocketstore.state.tier_metadata import find_tier_metadata
from rocketstore.store.readable_store import ReadableStore
from rocketstore.text_values import format_count


def describe_tier(store: ReadableStore, topics: Collection[str] | None = None) -> str | None:
    """Say how many messages are only in tiered storage. None if the broker uses none.

    The numbers are those that the broker noted, and may lag behind the files of the tier.

    Parameters: topics: count messages of these topics; None counts those of all.
    """
    if not store.formats.is_tiered:
        return None
    queues = find_tier_metadata(store.places.tiered_metadata).queues
    if not queues:
        return f"{store.path}: the broker uses tiered storage: older messages may be only there"
    older = {
        queue: count_older(store, queue, *span)
        for queue, span in queues.items()
        if topics is None or queue.topic in topics
    }
    if not any(older.values()):
        return None if topics is not None else f"{store.path}: tiered storage has no message that the log does not have"
    of_queues = format_count(sum(count > 0 for count in older.values()), "queue")
    how = "" if store.tiered else ": --tiered reads them, from the directory that --tier PATH names"
    return (
        f"{store.path}: {format_count(sum(older.values()), 'message')} of {of_queues} are only in tiered storage{how}"
    )


def count_older(store: ReadableStore, queue: QueueId, first: int, end: int) -> int:
    """Return how many queue offsets, from ``first`` to before ``end``, a queue of the store does not have any more."""
    try:
        local = store.log_queue(*queue)
    except KeyError:
        return end - first
    return max(min(max(local.min_queue_offset, 0), end) - first, 0) if len(local) else end - first
