"""Tables about a store for people: its topics, and the queues of a topic, with messages, bytes and times."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from rocketstore.disk.storage import is_remote
from rocketstore.errors import StoreError
from rocketstore.preview import Preview, first_of
from rocketstore.queue.queue_source import StoredQueue, offset_range
from rocketstore.store.overview.summary import COUNTED_QUEUES, describe
from rocketstore.store.readable_store import ReadableStore, log_of
from rocketstore.text_values import datetime_or_none
from rocketstore.tier.joined_queue import parts_of

COLUMNS = "messages", "bytes", "begin_time", "end_time"
MAX_MEASURED = 1 << 16  # messages whose sizes are read; those of longer queues are samples
SAMPLE = 1 << 12  # messages


class QueueFacts(NamedTuple):
    """The number of messages of queues, the bytes of their records, and their first and last store times.

    ``is_exact``: whether ``size`` is exact. ``size`` is None and ``times`` is empty for a remote store: each would be
    a request.
    """

    messages: int
    size: int | None
    is_exact: bool
    times: Sequence[datetime]

    def cells(self) -> tuple[object, ...]:
        """Return the values of ``COLUMNS``."""
        size = self.size if self.is_exact else f"about {self.size}"
        return self.messages, size, min(self.times, default=None), max(self.times, default=None)


def preview_store(store: ReadableStore) -> Preview:
    """Make a preview of a store with its first topics. The line has its problems; they hide no topic."""
    topics: dict[str, list[int]] = {}
    with contextlib.suppress(StoreError, OSError):  # queues in RocksDB
        for topic, queue_id in store.queues():
            topics.setdefault(topic, []).append(queue_id)
    shown = preview_topics(store, topics, f"MessageStore {str(store.path)!r}: {describe(store)}")
    return replace(shown, notes=store.opening_notes)


def preview_topics(store: ReadableStore, topics: Mapping[str, Sequence[int]], title: str) -> Preview:
    """Make a preview of the first topics of a store. Parameters: topics: their queue ids, by name."""
    is_counted = sum(map(len, topics.values())) <= COUNTED_QUEUES
    rows = [
        None if topic is None else [topic, len(topics[topic]), *cells_of(store, topic, topics[topic], is_counted)]
        for topic in first_of([*topics])
    ]
    return Preview(title, ("topic", "queues", *COLUMNS), rows)


def preview_topic(store: ReadableStore, topic: str, title: str) -> Preview:
    """Make a preview of a topic with its first queues."""
    rows = [
        None if queue_id is None else [queue_id, *cells_of(store, topic, [queue_id])]
        for queue_id in first_of(store.queue_ids(topic))
    ]
    return Preview(title, ("queue_id", *COLUMNS), rows)


def cells_of(store: ReadableStore, topic: str, queue_ids: Sequence[int], is_counted: bool = True) -> tuple[object, ...]:
    """Return the values of ``COLUMNS`` for queues. They are None if a queue cannot be read, or not ``is_counted``."""
    if is_counted:
        with contextlib.suppress(StoreError, OSError, ValueError, KeyError, IndexError):
            return read_facts(store, topic, queue_ids).cells()
    return (None,) * len(COLUMNS)


def read_facts(store: ReadableStore, topic: str, queue_ids: Sequence[int]) -> QueueFacts:
    """Read the facts of queues, together. Raises: StoreError, OSError, ValueError."""
    queues = [store.consume_queue(topic, queue_id) for queue_id in queue_ids]
    messages = sum(map(len, queues))
    if is_remote(store.path):
        return QueueFacts(messages, None, True, ())
    sizes = [measure_records(queue) for queue in queues]
    times = [time for queue in queues for time in read_times(store, queue)]
    return QueueFacts(messages, sum(size for size, _ in sizes), all(is_exact for _, is_exact in sizes), times)


def measure_records(queue: StoredQueue) -> tuple[int, bool]:
    """Return the bytes of the records of a queue, and whether the number is exact. Of a long queue it is estimated."""
    begin, end = offset_range(queue)
    count = end - begin
    if count <= MAX_MEASURED:
        return queue.count_bytes(begin, end), True
    samples = MAX_MEASURED // SAMPLE
    step = (count - SAMPLE) // (samples - 1)  # from one sample to the next; the last one ends near the queue's end
    size = sum(queue.count_bytes(first, first + SAMPLE) for first in range(begin, begin + samples * step, step))
    return round(size * count / MAX_MEASURED), False


def read_times(store: ReadableStore, queue: StoredQueue) -> Iterator[datetime]:
    """Yield the store times of the first and the last message of a queue. Times beyond the year 9999 are left out."""
    parts = parts_of(queue)
    ends = ((parts[0], max(parts[0].min_queue_offset, 0)), (parts[-1], parts[-1].max_queue_offset - 1))
    for part, queue_offset in ends if len(queue) else ():
        log = log_of(store, part)
        timestamp = log.reader.read_store_timestamp(part[queue_offset].phy_offset)
        time = datetime_or_none(timestamp)
        if timestamp >= 0 and time is not None:  # a negative number: the record cannot be read
            yield time
