"""Consumer lag: how far consumer groups are behind the ends of their queues."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from rocketstore.errors import StoreError, text_of
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.messages.rows import Rows
from rocketstore.store.overview.missing import describe_lost_queues
from rocketstore.store.parts import StoreParts
from rocketstore.text_values import datetime_or_none

__all__ = ["ConsumerLag", "consumer_lag"]


class ConsumerLag(NamedTuple):
    """How far a group is behind in a queue: ``lag`` messages from ``consumer_offset``, the next, to ``max_offset``.

    ``problem`` says why the group cannot continue: the queue cannot be read, is lost, or ends before
    ``consumer_offset``. If the queue cannot be read or is lost, the two bounds and ``lag`` are None.
    ``oldest_timestamp`` is the store time of the oldest message that the group has not consumed, epoch ms; None without
    such a message, or if it cannot be read. ``topic_exists``: whether topics.json or the queues have the topic; offsets
    of a deleted topic stay in the files.

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

    @property
    def oldest_time(self) -> datetime | None:
        """``oldest_timestamp`` as a datetime in UTC; None if it is unknown."""
        return None if self.oldest_timestamp is None else datetime_or_none(self.oldest_timestamp)


LAG_FIELDS = (
    Field("group", "u"), MESSAGE_FIELDS["topic"], MESSAGE_FIELDS["queue_id"], Field("consumerOffset", "l"),
    Field("minOffset", "l", nullable=True), Field("maxOffset", "l", nullable=True), Field("lag", "l", nullable=True),
    Field("problem", "u", nullable=True), Field("oldestTimestamp", "tsm:UTC", nullable=True), Field("topicExists", "b"),
)  # fmt: skip


def consumer_lag(store: StoreParts, group: str | None) -> Rows[ConsumerLag]:
    """Return the lag of a group, or of all groups. ``MessageStore.consumer_lag`` has the documentation."""
    return Rows(list(find_lags(store, group)), LAG_FIELDS)


def find_lags(store: StoreParts, group: str | None) -> Iterator[ConsumerLag]:
    config = store.broker_config
    topics = set(config.topics)
    with contextlib.suppress(StoreError, OSError):  # queues in RocksDB; a missing directory
        topics |= {topic for topic, _ in store.queues()}
    for name, topic, queue_id, offset in config.next_offsets():
        if group in (None, name):
            lag = ConsumerLag(name, topic, queue_id, offset, None, None, None, topic_exists=topic in topics)
            yield lag_in_queue(store, lag, topic in config.topics)


def lag_in_queue(store: StoreParts, lag: ConsumerLag, is_known: bool) -> ConsumerLag:
    """Fill in the bounds of the queue and the lag, or the problem. is_known: whether the topic is in topics.json."""
    offset = lag.consumer_offset
    try:
        bounds = queue_bounds(store, lag.topic, lag.queue_id, is_known and offset > 0)
    except (OSError, StoreError) as error:
        return lag._replace(problem=text_of(error))
    if bounds is None:
        return lag._replace(min_offset=0, max_offset=0, lag=0)
    least, end = bounds
    problem = None
    if offset > end:
        queue = f"{store.path}: {lag.topic}/{lag.queue_id}"
        problem = f"{queue}: consumer offset {offset} is beyond the queue's end, {end}"
    oldest = oldest_timestamp(store, lag, max(offset, least)) if offset < end else None
    lag = lag._replace(problem=problem, oldest_timestamp=oldest)
    return lag._replace(min_offset=least, max_offset=end, lag=max(end - offset, 0))


def oldest_timestamp(store: StoreParts, lag: ConsumerLag, queue_offset: int) -> int | None:
    """Return the store time of the message at a queue offset, epoch ms; None if its record cannot be read."""
    with contextlib.suppress(StoreError, OSError, IndexError, KeyError):
        unit = store.consume_queue(lag.topic, lag.queue_id)[queue_offset]
        message = store.commit_log.find_message(unit.phy_offset)
        if message is not None:
            return int(message.store_timestamp)
    return None


def queue_bounds(store: StoreParts, topic: str, queue_id: int, had_messages: bool) -> tuple[int, int] | None:
    """Return the bounds of a queue; None if it does not exist yet. Raises: StoreError if it is lost; OSError."""
    try:
        queue = store.consume_queue(topic, queue_id)
    except KeyError as error:
        if lost := describe_lost_queues(store):
            raise StoreError(lost) from None
        if had_messages:
            raise StoreError(f"{error.args[0]}: it is lost, or all that was in it has expired") from None
        return None
    return max(queue.min_queue_offset, 0), queue.max_queue_offset
