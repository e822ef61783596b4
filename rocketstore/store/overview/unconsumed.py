"""Unconsumed: the messages that a consumer group still gets, in its queues, and later as retries or popped messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from typing import Literal, NamedTuple

import numpy as np

from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.made_by import made_by
from rocketstore.messages.arguments import split_tags, text_list
from rocketstore.messages.in_queue import rows_in_queue
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.rows import Rows
from rocketstore.messages.topics import RETRY_PREFIX
from rocketstore.preview import Preview, show_fields
from rocketstore.queue.queue_source import StoredQueue, offset_range, read_units_between
from rocketstore.state.rocksdb import has_rocksdb_data
from rocketstore.store.overview.lag import read_queue_ids
from rocketstore.store.overview.summary import collect_error
from rocketstore.store.pending.find_pending import PendingFilter, find_pending
from rocketstore.store.pending.pending_message import POP, RETRY, PendingMessage
from rocketstore.store.pending.system_queues import describe_missing
from rocketstore.store.readable_store import ReadableStore, log_of
from rocketstore.survey.broker_config import open_tables
from rocketstore.text_values import datetime_or_none
from rocketstore.tier.joined_queue import parts_of
from rocketstore.tier.tier_queue import TierQueue

QUEUE = "queue"
COLUMNS = (
    "topic",
    "queue_id",
    "queue_offset",
    "phy_offset",
    "properties",
    "tags",
    "keys",
    "uniq_key",
    "store_timestamp_ms",
    "size",
)
PENDING_COLUMNS = "queue_offset", "properties", "tags", "store_timestamp", "size"
UNITS_AT_ONCE = 4096
Start = Literal["first", "last"]
Subscriptions = Mapping[str, frozenset[str] | None]  # the tags by topic; None for all tags


class UnconsumedMessage(NamedTuple):
    """A message that a consumer group still gets.

    ``kind``: "queue": the message is in a queue of the group, at or behind the group's offset. "retry": a consumer
    failed. The group gets the message again from its retry topic, at ``due_timestamp``. "pop": a consumer popped the
    message and has not acknowledged it. Another consumer gets it at ``due_timestamp``.

    ``topic``, ``queue_id``, ``queue_offset``: the place from which the group gets the message; ``queue_offset`` is None
    for a retry. For a popped message they are the place from which it was popped. ``origin_topic``: the topic to which
    a retried message was sent. ``store_timestamp``: epoch ms. ``size``: of the record, bytes. ``phy_offset``: None for
    a message that is in tiered storage, or in the log of a compacted topic.

    Examples:
    >>> [message.keys for message in rocketstore.open("demo").unconsumed("billing", limit=2)]
    [('order-40',), ('order-41',)]
    """

    kind: str
    topic: str
    queue_id: int
    queue_offset: int | None
    keys: tuple[str, ...]
    tags: str | None
    uniq_key: str | None
    origin_topic: str | None
    due_timestamp: int | None
    store_timestamp: int | None
    size: int | None
    phy_offset: int | None

    def __repr__(self) -> str:
        return show_fields(self)

    @property
    def due_time(self) -> datetime | None:
        """``due_timestamp`` as a datetime in UTC; None if it is unknown."""
        return None if self.due_timestamp is None else datetime_or_none(self.due_timestamp)


class UnconsumedTotal(NamedTuple):
    """The messages of a kind that a group still gets from a queue, their bytes, and the oldest store time, epoch ms.

    Examples:
    >>> [total] = rocketstore.open("demo").unconsumed("billing").totals()
    >>> total.topic, total.messages
    ('Orders', 60)
    """

    kind: str
    topic: str
    queue_id: int
    messages: int
    log_bytes: int
    oldest_timestamp: int | None


UNCONSUMED_FIELDS = (
    Field("kind", "u"), MESSAGE_FIELDS["topic"], MESSAGE_FIELDS["queue_id"],
    Field("queueOffset", "l", nullable=True), MESSAGE_FIELDS["keys"], MESSAGE_FIELDS["tags"],
    MESSAGE_FIELDS["uniq_key"], Field("originTopic", "u", nullable=True),
    Field("dueTimestamp", "tsm:UTC", nullable=True), Field("storeTimestamp", "tsm:UTC", nullable=True),
    Field("size", "i", nullable=True), Field("phyOffset", "l", nullable=True),
)  # fmt: skip
TOTAL_FIELDS = (
    Field("kind", "u"), MESSAGE_FIELDS["topic"], MESSAGE_FIELDS["queue_id"], Field("messages", "l"),
    Field("logBytes", "l"), Field("oldestTimestamp", "tsm:UTC", nullable=True),
)  # fmt: skip


@made_by("store.unconsumed(group)")
class Unconsumed(Rows[UnconsumedMessage]):
    """The messages that a consumer group still gets: queue by queue, then retries and popped messages.

    Attributes: group. notes: assumptions. reasons: why messages may be missing.

    Examples:
    >>> rest = rocketstore.open("demo").unconsumed("billing")
    >>> len(rest), rest.group, rest.reasons
    (60, 'billing', [])
    """

    def __init__(
        self, rows: Sequence[UnconsumedMessage], group: str, notes: Sequence[str], reasons: Sequence[str]
    ) -> None:
        super().__init__(rows, UNCONSUMED_FIELDS)
        self.group = group
        self.notes = list(notes)
        self.reasons = list(reasons)

    def totals(self) -> Rows[UnconsumedTotal]:
        """Count messages and bytes by kind and queue, with the oldest store time."""
        found: dict[tuple[str, str, int], list[UnconsumedMessage]] = {}
        for row in self:
            found.setdefault((row.kind, row.topic, row.queue_id), []).append(row)
        return Rows([_total_of(*key, own) for key, own in sorted(found.items())], TOTAL_FIELDS)

    def _preview(self) -> Preview:
        return replace(super()._preview(), notes=[*self.notes, *self.reasons])


def _total_of(kind: str, topic: str, queue_id: int, rows: Sequence[UnconsumedMessage]) -> UnconsumedTotal:
    oldest = min((row.store_timestamp for row in rows if row.store_timestamp is not None), default=None)
    sizes = {number if row.phy_offset is None else (row.phy_offset,): row.size or 0 for number, row in enumerate(rows)}
    return UnconsumedTotal(kind, topic, queue_id, len(rows), sum(sizes.values()), oldest)


def parse_subscriptions(given: str | Iterable[str] | None) -> dict[str, frozenset[str] | None] | None:
    """Return the tags of each topic of subscriptions such as "Orders=paid || sent" or "Orders"; None for None.

    Raises: ValueError for a subscription without a topic. Source: FilterAPI.buildSubscriptionData.
    """
    texts = text_list(given, "subscribe")
    if texts is None:
        return None
    found: dict[str, frozenset[str] | None] = {}
    for text in texts:
        topic, _, expression = text.partition("=")
        if not topic.strip():
            raise ValueError(f"subscribe={text!r:.80}: give TOPIC, or TOPIC=TagA || TagB")
        tags = split_tags(expression)
        found[topic.strip()] = None if tags is None else frozenset(tags)
    return found


# ---- finding -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupOffsets:
    """The offsets from which a group continues, by topic and queue id.

    Attributes: offsets: the offsets that the broker saved. is_broadcast: whether the group is a broadcasting one. Each
    client of it keeps its own offsets, and the broker saves the least of them. popped: the offsets behind the messages
    that were popped, if the broker keeps popped messages in RocksDB. ``offsets`` are then those of the oldest message
    that is not acknowledged.
    """

    group: str
    offsets: Mapping[str, Mapping[int, int]]
    is_broadcast: bool
    popped: Mapping[str, Mapping[int, int]]

    @classmethod
    def of(cls, store: ReadableStore, group: str) -> GroupOffsets:
        """Source: BroadcastOffsetManager, PopConsumerService.getPopOffset."""
        config = store.broker_config
        store.formats.require_offsets(config)
        own = config.consumer_offsets.get(group, {})
        noted = config.consumer_offsets.get(f"{group}@broadcast", {})
        is_broadcast = bool(noted) and not own
        pops = any(topic.startswith((f"{RETRY_PREFIX}{group}_", f"{RETRY_PREFIX}{group}+")) for topic in own)
        popped: Mapping[str, Mapping[int, int]] = {}
        if pops and has_rocksdb_data(store.places.pop_database):
            popped = open_tables(store.places, store.config).read_pull_offsets().get(group, {})
        return cls(group, noted if is_broadcast else own, is_broadcast, popped)

    def topics(self, subscribed: Subscriptions | None) -> dict[str, frozenset[str] | None]:
        """Return the topics that the group reads with the tags that it wants: the subscribed ones and its retry topics.

        Without subscriptions: the topics with offsets.
        """
        if subscribed is None:
            return dict.fromkeys([*self.offsets, self.retry_topic]) if self.offsets else {}
        retries = [self.retry_topic, *(f"{self.retry_topic}{mark}{topic}" for topic in subscribed for mark in "_+")]
        return dict(subscribed) | dict.fromkeys(retries)

    @property
    def retry_topic(self) -> str:
        return RETRY_PREFIX + self.group

    def first_offset(self, name: QueueId, queue: StoredQueue, start: Start) -> int:
        """Return the queue offset from which on the group gets messages.

        A broker gives a group without an offset the offset 0 if the queue begins there, also to read from the last.
        Source: ConsumerManageProcessor.queryConsumerOffset, RebalancePushImpl.computePullFromWhere.
        """
        least, end = offset_range(queue)
        saved = max(table.get(name.topic, {}).get(name.queue_id, -1) for table in (self.offsets, self.popped))
        if saved >= 0:
            return max(saved, least)
        is_skipped = start == "last" and least > 0 and not name.topic.startswith(RETRY_PREFIX)
        return end if is_skipped else least


def find_unconsumed(
    store: ReadableStore, group: str, subscribed: Subscriptions | None, start: Start, limit: int | None
) -> Unconsumed:
    """Find the messages that a group still gets. ``MessageStore.unconsumed`` has the documentation."""
    reasons: list[str] = []
    offsets = GroupOffsets.of(store, group)
    topics = offsets.topics(subscribed)
    rows = chain(
        _rows_of_queues(store, offsets, topics, start, reasons),
        _rows_of_pending(store, group, None if subscribed is None else topics, reasons),
    )
    found = list(islice(rows, limit))
    notes = []
    if not topics and not found:
        reasons.append(f"{store.path}: group {group!r} has no offsets: give the topics to which it subscribes")
    if offsets.is_broadcast:
        notes.append("the group is a broadcasting one: its clients keep their own offsets, and the least are used")
    with collect_error(reasons):
        reasons += store.describe_missing_units()
    return Unconsumed(found, group, notes, reasons)


def _rows_of_queues(
    store: ReadableStore, offsets: GroupOffsets, topics: Subscriptions, start: Start, reasons: list[str]
) -> Iterator[UnconsumedMessage]:
    """Yield the messages of queues. Queues that cannot be read are among the reasons."""
    existing = read_queue_ids(store)
    known = store.broker_config.topics
    for topic, tags in sorted(topics.items()):
        ids = store.queue_ids(topic) if existing is None else existing.get(topic, [])
        most = known[topic].read_queue_nums if topic in known else None
        for queue_id in ids:
            if most is None or 0 <= queue_id < most:
                with collect_error(reasons):
                    yield from _rows_of_queue(store, offsets, QueueId(topic, queue_id), tags, start, reasons)


def _rows_of_queue(
    store: ReadableStore,
    offsets: GroupOffsets,
    name: QueueId,
    tags: frozenset[str] | None,
    start: Start,
    reasons: list[str],
) -> Iterator[UnconsumedMessage]:
    """Yield the messages of a queue. Units that lead to no message of it, which a broker skips, are a reason."""
    queue = store.consume_queue(*name)
    first = offsets.first_offset(name, queue, start)
    missing = 0
    for part in parts_of(queue):
        log = log_of(store, part)
        has_offsets = not (part.is_compacted or isinstance(part, TierQueue))
        begin, end = max(first, part.min_queue_offset, 0), part.max_queue_offset
        if part.has_batches and begin < end:  # a unit belongs to its first queue offset
            begin = int(part[begin : begin + 1].queue_offsets.min(initial=begin))
        for units in read_units_between(part, begin, end, UNITS_AT_ONCE):
            batch, found = read_records(log, name, units.phy_offsets, containers=units.batch_nums is None)
            missing += len(units) - len(np.unique(found))
            phy_offsets = units.phy_offsets[found].tolist() if has_offsets else [None] * len(found)
            # The messages of an inner batch have queue offsets of their own. Those of a light queue are in its units.
            is_batch = units.batch_nums is not None
            queue_offsets = batch.queue_offset if is_batch else units.queue_offsets[found]
            for row in _rows_of_batch(batch, name, queue_offsets.tolist(), phy_offsets):
                is_behind = not is_batch or row.queue_offset is None or row.queue_offset >= first
                if is_behind and (tags is None or row.tags in tags):
                    yield row
    if missing:
        reasons.append(f"{queue.directory}: {describe_missing(missing)}")


def read_records(
    log: CommitLog, name: QueueId, phy_offsets: np.ndarray, *, containers: bool
) -> tuple[MessageBatch, np.ndarray]:
    """Read the messages of a queue. Return them, and which of the physical offsets leads to each, int64[m].

    Parameters: containers: whether the record of an inner batch is one message.
    """
    batch, statuses = log.find_messages(phy_offsets, columns=COLUMNS, containers=containers)
    rows, found = rows_in_queue(batch, *name), np.flatnonzero(statuses == 0)
    own = batch.take(rows)
    if containers:
        return own, found[rows]
    order = np.argsort(phy_offsets[found], kind="stable")
    return own, found[order[np.searchsorted(phy_offsets[found], own.phy_offset, sorter=order)]]


def _rows_of_batch(
    batch: MessageBatch, name: QueueId, queue_offsets: Sequence[int], phy_offsets: Sequence[int | None]
) -> list[UnconsumedMessage]:
    origins: Sequence[str | None] = [None] * len(batch)
    if name.topic.startswith(RETRY_PREFIX):
        origins = [properties.get("RETRY_TOPIC") for properties in batch.properties]
    columns = (
        queue_offsets,
        map(tuple, batch.keys.to_pylist()),
        batch.tags.to_pylist(),
        batch.uniq_key.to_pylist(),
        origins,
        batch.store_timestamp_ms.tolist(),
        batch.size.tolist(),
        phy_offsets,
    )
    return [
        UnconsumedMessage(QUEUE, *name, queue_offset, keys, tags, uniq_key, origin, None, timestamp, size, phy_offset)
        for queue_offset, keys, tags, uniq_key, origin, timestamp, size, phy_offset in zip(*columns, strict=True)
    ]


def _rows_of_pending(
    store: ReadableStore, group: str, topics: Subscriptions | None, reasons: list[str]
) -> Iterator[UnconsumedMessage]:
    """Yield the delayed retries and the invisible popped messages of a group. Parameters: topics: None for all."""
    pending = find_pending(store, PendingFilter(groups=frozenset([group]), kinds=frozenset([RETRY, POP])), None)
    reasons += pending.reasons
    for row in pending:
        if topics is None or row.topic in topics:
            yield _row_of_pending(store, row)


def _read_pending(log: CommitLog, row: PendingMessage) -> Message | None:
    """Read the message of a row, also inside an inner batch; None if it cannot be read."""
    batch, _ = log.find_messages(np.array([row.phy_offset], np.int64), columns=PENDING_COLUMNS, containers=False)
    own = [message for message in batch if len(batch) == 1 or message.queue_offset == row.queue_offset]
    return own[0] if own else None


def _row_of_pending(store: ReadableStore, row: PendingMessage) -> UnconsumedMessage:
    message = _read_pending(store.commit_log, row) if row.phy_offset >= 0 else None
    is_pop = row.kind == POP
    topic = row.popped_topic if is_pop and row.popped_topic is not None else row.topic
    if is_pop:
        origin_topic = row.topic if topic != row.topic else None
    else:
        origin_topic = None if message is None else message.properties.get("RETRY_TOPIC")
    return UnconsumedMessage(
        kind=row.kind,
        topic=topic,
        queue_id=row.queue_id,
        queue_offset=row.queue_offset if is_pop else None,
        keys=row.keys,
        tags=None if message is None else message.tags,
        uniq_key=row.uniq_key,
        origin_topic=origin_topic,
        due_timestamp=row.due_timestamp,
        store_timestamp=None if message is None else message.store_timestamp,
        size=None if message is None else message.size,
        phy_offset=None if message is None else row.phy_offset,
    )
