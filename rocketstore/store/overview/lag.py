"""Consumer lag: how far consumer groups are behind the ends of their queues."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from rocketstore.errors import StoreError, text_of
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.messages.in_queue import is_in_queue
from rocketstore.messages.rows import Rows
from rocketstore.queue.queue_source import offset_range
from rocketstore.state.config_values import TopicConfig
from rocketstore.store.overview.missing import describe_lost_queues
from rocketstore.store.readable_store import ReadableStore, log_of
from rocketstore.text_values import datetime_or_none
from rocketstore.tier.joined_queue import parts_of


class ConsumerLag(NamedTuple):
    """How far a group is behind in a queue: ``lag`` messages from ``consumer_offset``, the next, to ``max_offset``.

    The queues and offsets are those that a broker reports (GET_CONSUME_STATS): of each topic with a saved offset of the
    group, the queues below readQueueNums. A queue without a saved offset counts from 0, also if its oldest messages
    have expired. Read queues without messages and without an offset are left out. If topics.json does not have the
    topic, the saved offsets are shown.

    ``problem`` says why the group cannot continue: the queue cannot be read, is lost, or ends before
    ``consumer_offset``. If the queue cannot be read or is lost, the two bounds and ``lag`` are None.
    ``oldest_timestamp`` is the store time of the oldest message that the group has not consumed, epoch ms; None without
    such a message, or if it cannot be read. ``topic_exists``: whether topics.json or the queues have the topic; offsets
    of a deleted topic stay in the files. ``log_bytes``: the bytes of the log that the ``lag`` messages take, without
    those that have expired; None if this was not asked for, or cannot be read.

    Examples:
    >>> [lag] = rocketstore.open("demo").consumer_lag()
    >>> lag.group, lag.topic, lag.consumer_offset, lag.max_offset, lag.lag
    ('billing', 'Orders', 40, 100, 60)
    """

    group: str
    topic: str
    queue_id: int
    consumer_offset: int
    min_offset: int | None
    max_offset: int | None
    lag: int | None
    problem: str | None = None
    oldest_timestamp: int | None = None
    topic_exists: bool = True
    log_bytes: int | None = None

    @property
    def oldest_time(self) -> datetime | None:
        """``oldest_timestamp`` as a datetime in UTC; None if it is unknown."""
        return None if self.oldest_timestamp is None else datetime_or_none(self.oldest_timestamp)


LAG_FIELDS = (
    Field("group", "u"), MESSAGE_FIELDS["topic"], MESSAGE_FIELDS["queue_id"], Field("consumerOffset", "l"),
    Field("minOffset", "l", nullable=True), Field("maxOffset", "l", nullable=True), Field("lag", "l", nullable=True),
    Field("problem", "u", nullable=True), Field("oldestTimestamp", "tsm:UTC", nullable=True), Field("topicExists", "b"),
    Field("logBytes", "l", nullable=True),
)  # fmt: skip


def consumer_lag(
    store: ReadableStore, groups: Collection[str] | None, topics: Collection[str] | None, *, log_bytes: bool
) -> Rows[ConsumerLag]:
    """Return the lag of some groups in some topics, or of all. ``MessageStore.consumer_lag`` has the documentation."""
    lags = find_lags(store, groups, topics)
    found = [lag._replace(log_bytes=count_log_bytes(store, lag)) for lag in lags] if log_bytes else list(lags)
    return Rows(found, LAG_FIELDS)


def find_lags(
    store: ReadableStore, groups: Collection[str] | None, topics: Collection[str] | None = None
) -> Iterator[ConsumerLag]:
    """Yield the lag in each queue that a broker reports: the read queues of topics with saved offsets.

    Parameters: groups, topics: None for all.
    Source: AdminBrokerProcessor.getConsumeStats, ConsumerOffsetManager.whichTopicByConsumer.
    """
    config = store.broker_config
    store.formats.require_offsets(config)
    queues = read_queue_ids(store)
    lost = describe_lost_queues(store) if queues == {} else None
    for name, offsets in sorted(config.consumer_offsets.items()):
        for topic, saved in sorted(offsets.items()) if groups is None or name in groups else ():
            if topics is not None and topic not in topics:
                continue
            known = config.topics.get(topic)
            existing = (queues or {}).get(topic, ())
            for queue_id, offset in read_offsets(known, saved, existing):
                exists = known is not None or len(existing) > 0
                lag = ConsumerLag(name, topic, queue_id, offset, None, None, None, topic_exists=exists)
                yield lag_in_queue(store, lag, known is not None, lost)


def read_queue_ids(store: ReadableStore) -> dict[str, list[int]] | None:
    """Return the queue ids of each topic; None if the queues are in RocksDB or cannot be listed."""
    with contextlib.suppress(StoreError, OSError):
        queues: dict[str, list[int]] = {}
        for topic, queue_id in store.queues():
            queues.setdefault(topic, []).append(queue_id)
        return queues
    return None


def read_offsets(
    topic_config: TopicConfig | None, saved: Mapping[int, int], existing: Collection[int]
) -> Iterator[tuple[int, int]]:
    """Yield the queue id and the next offset of each queue that consumers of a topic read, as a broker reports them.

    A queue without a saved offset, or with a negative one, counts from 0. Queues from readQueueNums on are left out. If
    topics.json does not have the topic, the saved offsets are yielded. A broker also reports read queues that have
    neither messages nor an offset; they are left out.

    Parameters: topic_config: None if topics.json does not have the topic. saved: offsets by queue id. existing: the
    queue ids of the topic in the store.
    """
    if topic_config is None:
        yield from sorted(saved.items())
        return
    for queue_id in sorted({*saved, *existing}):
        if 0 <= queue_id < topic_config.read_queue_nums:
            yield queue_id, max(saved.get(queue_id, 0), 0)


def lag_in_queue(store: ReadableStore, lag: ConsumerLag, is_known: bool, lost: str | None) -> ConsumerLag:
    """Fill in the bounds of the queue and the lag, or the problem. A queue that is not on disk has no messages.

    Parameters: is_known: whether the topic is in topics.json. lost: why the store has no queues, if it lost them all.
    """
    offset = lag.consumer_offset
    try:
        queue = store.consume_queue(lag.topic, lag.queue_id)
        least, end = offset_range(queue)
    except KeyError as error:
        had_messages = is_known and offset > 0
        gone = f"{error.args[0]}: it is lost, or all that was in it has expired" if had_messages else None
        if problem := lost or gone:
            return lag._replace(problem=problem)
        return lag._replace(min_offset=0, max_offset=0, lag=0)
    except (OSError, StoreError) as error:
        return lag._replace(problem=text_of(error))
    problem = None
    if offset > end:
        name = f"{store.path}: {lag.topic}/{lag.queue_id}"
        problem = f"{name}: consumer offset {offset} is beyond the queue's end, {end}"
    oldest = oldest_timestamp(store, lag, max(offset, least)) if offset < end else None
    lag = lag._replace(problem=problem, oldest_timestamp=oldest)
    return lag._replace(min_offset=least, max_offset=end, lag=max(end - offset, 0))


def count_log_bytes(store: ReadableStore, lag: ConsumerLag) -> int | None:
    """Return the bytes of the messages that a group has not consumed in a queue; None if they cannot be read."""
    if not lag.lag:
        return lag.lag
    assert lag.min_offset is not None
    assert lag.max_offset is not None
    with contextlib.suppress(StoreError, OSError, KeyError):
        queue = store.consume_queue(lag.topic, lag.queue_id)
        return queue.count_bytes(max(lag.consumer_offset, lag.min_offset, 0), lag.max_offset)
    return None


def oldest_timestamp(store: ReadableStore, lag: ConsumerLag, queue_offset: int) -> int | None:
    """Return the store time of the message at a queue offset, epoch ms; None if it has expired or cannot be read."""
    with contextlib.suppress(StoreError, OSError, IndexError, KeyError):
        queue = store.consume_queue(lag.topic, lag.queue_id)
        part = next((part for part in parts_of(queue) if queue_offset < part.max_queue_offset), None)
        if part is None:
            return None
        log = log_of(store, part)
        message = log.find_message(part[max(queue_offset, part.min_queue_offset)].phy_offset)
        if message is not None and is_in_queue(message, lag.topic, lag.queue_id):
            return int(message.store_timestamp)
    return None
