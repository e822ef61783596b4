"""Whether messages that waited were delivered already: their records in the topics to which they go."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rocketstore.messages.message import Message
from rocketstore.store.pending.pending_message import PendingMessage
from rocketstore.store.pending.system_queues import real_place, units_from
from rocketstore.store.readable_store import ReadableStore

COLUMNS = "uniq_key", "reconsume_times", "store_timestamp_ms"


class Candidate(NamedTuple):
    """A message that waits, unless a record shows its delivery.

    Attributes: row. targets: the topics to which it may be delivered. reconsume_times: of the delivered record.
    begin: the earliest store time of the delivered record, epoch ms.
    """

    row: PendingMessage
    targets: tuple[str, ...]
    reconsume_times: int
    begin: int


DeliveryKey = tuple[str, str, int]  # topic, unique key, reconsume times


def targets_of(message: Message) -> tuple[str, ...]:
    """Return the topic to which a waiting message goes; none if it names none, or the topic in which it waits."""
    topic, _ = real_place(message)
    return () if topic == message.topic else (topic,)


def find_undelivered(store: ReadableStore, candidates: Sequence[Candidate]) -> list[PendingMessage]:
    """Return the messages without a record that shows their delivery.

    Such a record is in a target topic, and has the unique key and the reconsume times of the message and a store time
    not before ``begin``. Each record counts for one message, the earliest. A message without a unique key stays.
    """
    delivered = _read_deliveries(store, candidates)
    return [
        candidate.row
        for candidate in sorted(candidates, key=lambda candidate: candidate.begin)
        if not any(_take_delivery(delivered.get(key, []), candidate.begin) for key in _keys_of(candidate))
    ]


def _keys_of(candidate: Candidate) -> Iterator[DeliveryKey]:
    uniq_key = candidate.row.uniq_key
    if uniq_key is not None:
        yield from ((topic, uniq_key, candidate.reconsume_times) for topic in candidate.targets)


def _take_delivery(times: list[int], begin: int) -> bool:
    """Remove the first of some sorted times that is not before ``begin``. Return whether there was one."""
    place = bisect_left(times, begin)
    if place == len(times):
        return False
    del times[place]
    return True


def _read_deliveries(store: ReadableStore, candidates: Iterable[Candidate]) -> dict[DeliveryKey, list[int]]:
    """Return the sorted store times of the records that may show a delivery of a candidate."""
    begins: dict[str, int] = {}
    wanted: set[DeliveryKey] = set()
    for candidate in candidates:
        for key in _keys_of(candidate):
            wanted.add(key)
            begins[key[0]] = min(begins.get(key[0], candidate.begin), candidate.begin)
    found = defaultdict(list)
    for topic, begin in begins.items():
        for uniq_key, reconsume_times, timestamp in _read_topic(store, topic, begin):
            key = topic, uniq_key, reconsume_times
            if key in wanted:
                found[key].append(timestamp)
    return {key: sorted(times) for key, times in found.items()}


def _read_topic(store: ReadableStore, topic: str, begin: int) -> Iterator[tuple[str, int, int]]:
    """Yield unique key, reconsume times and store time of the messages of a topic that were stored from a time on."""
    for queue_id in store.queue_ids(topic):
        queue = store.consume_queue(topic, queue_id)
        first = 0
        with contextlib.suppress(ValueError):  # a damaged due time
            first = queue.get_offset_by_time(begin, "lower")
        for units in units_from(queue, first):
            batch, _ = (queue.log or store.commit_log).find_messages(units.phy_offsets, columns=COLUMNS)
            columns = batch.uniq_key.to_pylist(), batch.reconsume_times.tolist(), batch.store_timestamp_ms.tolist()
            yield from zip(*columns, strict=True)
