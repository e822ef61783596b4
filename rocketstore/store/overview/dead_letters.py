"""Messages that consumers could not process: in the topics of dead letters, and in retry topics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from rocketstore.errors import StoreError, text_of
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.made_by import made_by
from rocketstore.messages.message import Message
from rocketstore.messages.message_id import phy_offset_of
from rocketstore.messages.rows import Rows
from rocketstore.messages.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX
from rocketstore.preview import Preview, show_fields
from rocketstore.store.pending.system_queues import QueueRecord, read_queue
from rocketstore.store.readable_store import ReadableStore
from rocketstore.text_values import datetime_or_none


class DeadMessage(NamedTuple):
    """A message that a consumer group could not process.

    ``topic``, ``queue_id``: where the producer sent it; ``queue_id`` is None if that record is not found.
    ``origin_message_id``: the id that the client noted: the offset message id of that record, or the unique key for an
    orderly consumer; None if it noted nothing. ``reconsume_times``: failures; a message that died of them has one more
    than the consumer's maximum. Why a message died is not on the disk.

    ``born_timestamp``: when the producer sent it. ``store_timestamp``: when it died, or came to the retry topic. Both
    are epoch ms. ``stored_topic``, ``stored_queue_id``, ``queue_offset``, ``phy_offset``: the place of the message.
    ``is_consumed``: whether it is before the group's saved offset in this topic; None without an offset.

    Examples:
    >>> list(rocketstore.open("demo").dead_letters())
    []
    """

    group: str
    topic: str | None
    queue_id: int | None
    keys: tuple[str, ...]
    uniq_key: str | None
    origin_message_id: str | None
    reconsume_times: int
    born_timestamp: int
    store_timestamp: int
    stored_topic: str
    stored_queue_id: int
    queue_offset: int
    phy_offset: int
    is_consumed: bool | None

    def __repr__(self) -> str:
        return show_fields(self)

    @property
    def store_time(self) -> datetime | None:
        """``store_timestamp`` as a datetime in UTC; None beyond the year 9999."""
        return datetime_or_none(self.store_timestamp)


DEAD_FIELDS = (
    Field("group", "u"), Field("topic", "u", nullable=True), Field("queueId", "i", nullable=True),
    MESSAGE_FIELDS["keys"], MESSAGE_FIELDS["uniq_key"], Field("originMessageId", "u", nullable=True),
    MESSAGE_FIELDS["reconsume_times"], MESSAGE_FIELDS["born_timestamp"], MESSAGE_FIELDS["store_timestamp"],
    Field("storedTopic", "u"), Field("storedQueueId", "i"), MESSAGE_FIELDS["queue_offset"],
    MESSAGE_FIELDS["phy_offset"], Field("isConsumed", "b", nullable=True),
)  # fmt: skip


class DeadTotal(NamedTuple):
    """The number of messages that a group could not process, by their topic, and the first and last store time.

    Examples:
    >>> list(rocketstore.open("demo").dead_letters().totals())
    []
    """

    group: str
    topic: str | None
    messages: int
    begin_timestamp: int
    end_timestamp: int


TOTAL_FIELDS = (
    Field("group", "u"), Field("topic", "u", nullable=True), Field("messages", "l"), Field("beginTimestamp", "tsm:UTC"),
    Field("endTimestamp", "tsm:UTC"),
)  # fmt: skip


@made_by("store.dead_letters()")
class DeadMessages(Rows[DeadMessage]):
    """Messages that consumer groups could not process, by group and place.

    Attributes: reasons: why messages, or their origins, may be missing.

    Examples:
    >>> dead = rocketstore.open("demo").dead_letters()
    >>> len(dead), dead.reasons
    (0, [])
    """

    def __init__(self, rows: Sequence[DeadMessage], reasons: Sequence[str]) -> None:
        super().__init__(rows, DEAD_FIELDS)
        self.reasons = list(reasons)

    def totals(self) -> Rows[DeadTotal]:
        """Count the messages by group and topic."""
        times: dict[tuple[str, str | None], list[int]] = {}
        for row in self:
            times.setdefault((row.group, row.topic), []).append(row.store_timestamp)
        ordered = sorted(times.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        return Rows([DeadTotal(*key, len(own), min(own), max(own)) for key, own in ordered], TOTAL_FIELDS)

    def _preview(self) -> Preview:
        return replace(super()._preview(), notes=self.reasons)


class DeadFilter(NamedTuple):
    """Which messages are wanted. None wants all.

    Attributes: groups. topics: to which the messages were sent. since, until: store times, epoch ms, from the first to
    before the second. limit: the largest number of messages.
    """

    groups: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    since: int | None = None
    until: int | None = None
    limit: int | None = None

    def wants(self, failed: Failed) -> bool:
        timestamp = failed.record.message.store_timestamp
        return (
            (self.groups is None or failed.group in self.groups)
            and (self.topics is None or failed.topic in self.topics)
            and (self.since is None or timestamp >= self.since)
            and (self.until is None or timestamp < self.until)
        )


class Failed(NamedTuple):
    """A message of a topic of dead letters or retries, with the group and the topic to which it was sent."""

    record: QueueRecord
    stored_topic: str
    group: str
    topic: str | None

    @property
    def origin_id(self) -> str | None:
        properties = self.record.message.properties
        return properties.get("ORIGIN_MESSAGE_ID") or properties.get("DLQ_ORIGIN_MESSAGE_ID")


def find_dead_letters(store: ReadableStore, wanted: DeadFilter, *, retry: bool) -> DeadMessages:
    """Find the messages of the topics of dead letters, or of the retry topics.

    ``MessageStore.dead_letters`` has the documentation.
    """
    prefix = RETRY_PREFIX if retry else DEAD_LETTER_PREFIX
    failed: list[Failed] = []
    problems = list(store.describe_missing_units())
    for stored_topic, queue_id in store.queues():
        if stored_topic.startswith(prefix):
            found = read_queue(store, stored_topic, queue_id)
            problems += found.problems
            name = stored_topic.removeprefix(prefix)
            failed += [Failed(each, stored_topic, *group_and_topic(each.message, name)) for each in found.records]
    chosen = [each for each in failed if wanted.wants(each)][: wanted.limit]
    by_offset = _find_by_offset(store, chosen)
    by_key, reasons = _find_by_key(store, [each for each in chosen if each.record.message.phy_offset not in by_offset])
    origins = by_offset | by_key
    offsets = store.broker_config.consumer_offsets
    rows = [_row_of(each, origins.get(each.record.message.phy_offset), offsets) for each in chosen]
    return DeadMessages(sorted(rows, key=lambda row: row.group), [*problems, *reasons])


def group_and_topic(message: Message, name: str) -> tuple[str, str | None]:
    """Return the group of a message in a topic of retries or dead letters, and the topic to which it was sent.

    The topic of a revived popped message is a part of the name of its retry topic: "group_topic" or "group+topic".
    Parameters: name: of the retry topic, without its prefix.
    """
    properties = message.properties
    topic = properties.get("RETRY_TOPIC") or properties.get("DLQ_ORIGIN_TOPIC")
    group = properties.get("ORIGIN_GROUP") or ""
    if group and name.startswith((f"{group}_", f"{group}+")):
        return group, topic or name[len(group) + 1 :]
    group, joint, rest = name.partition("+")  # no group has a "+" in its name
    return group, topic or (rest if joint else None)


# ---- origins -----------------------------------------------------------------------------------------------


def _find_by_offset(store: ReadableStore, failed: Iterable[Failed]) -> dict[int, Message]:
    """Find the first records of messages by the physical offsets in their origin ids.

    Returns: them by the physical offsets of the given messages. A record with another id or unique key is none.
    """
    offsets: dict[int, tuple[int, str]] = {}
    for each in failed:
        with contextlib.suppress(ValueError):  # a unique key
            offsets[each.record.message.phy_offset] = phy_offset_of(each.origin_id or ""), each.origin_id or ""
    wanted = np.array([offset for offset, _ in offsets.values()], np.int64)
    batch, _ = store.commit_log.find_messages(wanted)
    by_id = {(message.msg_id, message.uniq_key): message for message in batch}
    uniq_keys = {each.record.message.phy_offset: each.record.message.uniq_key for each in failed}
    found = {place: by_id.get((msg_id.upper(), uniq_keys[place])) for place, (_, msg_id) in offsets.items()}
    return {place: message for place, message in found.items() if message is not None}


def _find_by_key(store: ReadableStore, failed: Sequence[Failed]) -> tuple[dict[int, Message], list[str]]:
    """Find the first records of messages by their unique keys in the index.

    Returns: them, as ``_find_by_offset``, and problems.
    """
    asked = [
        (each.record.message.phy_offset, each.topic, uniq_key)
        for each in failed
        if each.topic is not None and (uniq_key := each.record.message.uniq_key)
    ]
    if not asked:
        return {}, []
    places, topics, uniq_keys = zip(*asked, strict=True)
    try:
        answers = store.query_keys(list(topics), list(uniq_keys), None, None, None, "U", "mark")
    except (StoreError, OSError) as error:
        return {}, [f"{store.path}: origins of messages are not looked up in the index: {text_of(error)}"]
    messages, offsets = answers.messages, answers.offsets  # the messages of a key are newest first
    has_messages = np.flatnonzero(np.diff(offsets))
    oldest = messages.take(offsets[has_messages + 1] - 1)
    found = {places[row]: message for row, message in zip(has_messages.tolist(), oldest, strict=True)}
    return found, [] if len(found) == len(asked) else answers.reasons


def _row_of(
    failed: Failed, origin: Message | None, offsets: Mapping[str, Mapping[str, Mapping[int, int]]]
) -> DeadMessage:
    """Return the row of a message. Parameters: offsets: of consumers, by group, topic and queue id."""
    message = failed.record.message
    next_offset = offsets.get(failed.group, {}).get(failed.stored_topic, {}).get(message.queue_id)
    return DeadMessage(
        group=failed.group,
        topic=failed.topic if failed.topic is not None or origin is None else origin.topic,
        queue_id=None if origin is None else origin.queue_id,
        keys=tuple(message.keys),
        uniq_key=message.uniq_key,
        origin_message_id=failed.origin_id,
        reconsume_times=message.reconsume_times,
        born_timestamp=message.born_timestamp,
        store_timestamp=message.store_timestamp,
        stored_topic=failed.stored_topic,
        stored_queue_id=message.queue_id,
        queue_offset=failed.record.queue_offset,
        phy_offset=message.phy_offset,
        is_consumed=None if next_offset is None else failed.record.queue_offset < next_offset,
    )
