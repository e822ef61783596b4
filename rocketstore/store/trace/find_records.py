"""Find all records of messages, in all topics, by key, unique key or offset message id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rocketstore.messages.message import Message
from rocketstore.messages.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, REVIVE_PREFIX
from rocketstore.store.overview.dead_letters import group_and_topic
from rocketstore.store.overview.known_names import known_topics
from rocketstore.store.pending.system_queues import real_place
from rocketstore.store.readable_store import ReadableStore
from rocketstore.store.trace.client_traces import TraceEntry, is_trace_topic, read_entries
from rocketstore.text_values import format_count

MOST = 10_000  # records of a key in a topic


class MessageName(NamedTuple):
    """What the records of a message share: its unique key, or without one, the values that a broker copies."""

    uniq_key: str | None
    born_timestamp: int = 0
    born_host: str = ""
    keys: tuple[str, ...] = ()


class MessageRecords(NamedTuple):
    """The records of each message in their order, and the entries of the trace topic.

    Attributes: left_out: the number of older messages that the limit left out. reasons: why records may be missing.
    """

    messages: Mapping[MessageName, Sequence[Message]]
    entries: Sequence[TraceEntry]
    left_out: int
    reasons: Sequence[str]


class FoundRecords(NamedTuple):
    """Records in the order of the log, and why some may be missing."""

    records: list[Message]
    reasons: list[str]


def name_of(record: Message) -> MessageName:
    if record.uniq_key is not None:
        return MessageName(record.uniq_key)
    return MessageName(None, record.born_timestamp, record.born_host, tuple(record.keys))


def find_by_key(store: ReadableStore, key: str, topics: frozenset[str] | None, limit: int) -> MessageRecords:
    """Find the records of the newest messages with a key. Parameters: topics: to which they were sent; None for all."""
    found = _query(store, [key])
    traced = read_entries(record for record in found.records if is_trace_topic(record.topic))
    named: list[tuple[MessageName, set[str | None]]] = [
        (MessageName(entry.uniq_key), {entry.topic}) for entry in traced if key == entry.uniq_key or key in entry.keys
    ]
    named += [(name_of(record), {record.topic, origin_topic(record)}) for record in found.records if is_own(record)]
    names = [name for name, own in named if topics is None or not topics.isdisjoint(own)]
    newest = list(dict.fromkeys(reversed(names)))
    left_out = max(len(newest) - limit, 0)
    return _complete(store, newest[:limit], found)._replace(left_out=left_out)


def find_by_uniq_key(store: ReadableStore, uniq_key: str) -> MessageRecords:
    """Find the records of the message with a unique key."""
    return _complete(store, [MessageName(uniq_key)], FoundRecords([], []))


def find_by_record(store: ReadableStore, record: Message) -> MessageRecords:
    """Find all records of the message of a record."""
    keys = record.keys if record.uniq_key is None else []
    found = _query(store, keys)
    return _complete(store, [name_of(record)], FoundRecords([record, *found.records], found.reasons))


def _complete(store: ReadableStore, names: Sequence[MessageName], found: FoundRecords) -> MessageRecords:
    """Return the records of some messages: those of ``found``, and all that the index has for their unique keys."""
    more = _query(store, [name.uniq_key for name in names if name.uniq_key is not None])
    entries = read_entries(record for record in more.records if is_trace_topic(record.topic))
    own: dict[MessageName, dict[tuple[str, int, int, int], Message]] = {name: {} for name in names}
    for record in filter(is_own, (*found.records, *more.records)):
        place = record.topic, record.queue_id, record.queue_offset, record.phy_offset
        if (name := name_of(record)) in own:
            own[name][place] = record
    messages = {name: sorted(records.values(), key=_order) for name, records in own.items()}
    return MessageRecords(messages, entries, 0, list(dict.fromkeys([*found.reasons, *more.reasons])))


def _query(store: ReadableStore, keys: Sequence[str]) -> FoundRecords:
    """Find the records of keys in all topics, in the order of the log."""
    topics = known_topics(store)
    if not keys or not topics:
        return FoundRecords([], [])
    asked = [topic for topic in topics for _ in keys], [*keys] * len(topics)
    answers = store.query_keys(*asked, MOST, None, None, None, "mark")
    reasons = list(answers.reasons)
    if (answers.offsets[1:] - answers.offsets[:-1]).max() >= MOST:
        reasons.append(f"{store.path}: a topic has more than {format_count(MOST, 'record')} of a key")
    return FoundRecords(sorted(answers.messages, key=_order), reasons)


def _order(record: Message) -> tuple[int, int]:
    return record.store_timestamp, record.phy_offset


def is_own(record: Message) -> bool:
    """Return whether a record is of the message itself, not of the bookkeeping of pops or of the trace topic."""
    topics = record.topic, real_place(record)[0]
    return not (is_trace_topic(record.topic) or any(topic.startswith(REVIVE_PREFIX) for topic in topics))


def origin_topic(record: Message) -> str:
    """Return the topic to which the producer sent the message of a record, as far as the record says it."""
    topic = record.topic
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix):
            return group_and_topic(record, topic.removeprefix(prefix))[1] or topic
    return record.properties.get("RETRY_TOPIC") or real_place(record)[0]
