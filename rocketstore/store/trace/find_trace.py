"""The life of the messages of a key, a unique key or an id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rocketstore.messages.message import Message
from rocketstore.store.message_by_id import explain_missing_message
from rocketstore.store.pending.find_pending import PendingFilter, find_pending, unique
from rocketstore.store.pending.pending_message import HALF, POP, PendingMessages
from rocketstore.store.readable_store import ReadableStore
from rocketstore.store.trace.client_traces import client_events
from rocketstore.store.trace.consumption import consumption_events, waiting_event
from rocketstore.store.trace.find_records import (
    MessageName,
    MessageRecords,
    find_by_key,
    find_by_record,
    find_by_uniq_key,
)
from rocketstore.store.trace.record_events import closing_events, produced_event, record_event
from rocketstore.store.trace.trace_event import MessageTrace, TraceEvent
from rocketstore.text_values import format_count


class TraceQuestion(NamedTuple):
    """Of which messages the life is wanted: exactly one of the first three is given.

    Attributes: key: a word of KEYS, or a unique key. uniq_key. msg_id: an offset message id. topics: those to which
    the messages of ``key`` were sent; None for all. limit: the largest number of messages of ``key``.
    """

    key: str | None
    uniq_key: str | None
    msg_id: str | None
    topics: frozenset[str] | None
    limit: int


def find_trace(store: ReadableStore, question: TraceQuestion) -> MessageTrace:
    """Find the events of messages. ``MessageStore.trace`` has the documentation."""
    found = _find_records(store, question)
    if not any(found.messages.values()) and not found.entries:
        return MessageTrace([], [], unique([*found.reasons, *store.describe_missing_units()]))
    waiting = find_pending(store, PendingFilter(), None)
    lives = [_events_of(store, name, records, found, waiting) for name, records in found.messages.items()]
    events = [event for life in sorted(lives, key=_begin_of) for event in life]
    notes = []
    if found.left_out:
        notes.append(f"{format_count(found.left_out, 'older message has', 'older messages have')} the same key")
    return MessageTrace(events, notes, unique([*found.reasons, *waiting.reasons]))


def _begin_of(life: Sequence[TraceEvent]) -> int:
    """Return the time of the first event of a message, epoch ms; 0 without any."""
    return (life[0].timestamp or 0) if life else 0


def _find_records(store: ReadableStore, question: TraceQuestion) -> MessageRecords:
    if question.key is not None:
        return find_by_key(store, question.key, question.topics, question.limit)
    if question.uniq_key is not None:
        return find_by_uniq_key(store, question.uniq_key)
    msg_id = question.msg_id or ""
    record = store.query_message_by_id(msg_id, verify_crc=False)
    if record is None:
        return MessageRecords({}, [], 0, [explain_missing_message(store, msg_id)])
    return find_by_record(store, record)


def _events_of(
    store: ReadableStore,
    name: MessageName,
    records: Sequence[Message],
    found: MessageRecords,
    pending: PendingMessages,
) -> list[TraceEvent]:
    """Return the events of one message by their times; those without a time are last."""
    places = {record.phy_offset for record in records if record.phy_offset >= 0}  # not of tiered storage
    waiting = [row for row in pending if row.phy_offset in places]
    is_open = any(row.kind == HALF for row in waiting)
    popped = {
        (row.group or "", row.popped_topic or row.topic, row.queue_id, row.queue_offset or 0)
        for row in waiting
        if row.kind == POP
    }
    events = [
        *([produced_event(records[0])] if records else []),
        *client_events(found.entries, name.uniq_key),
        *(record_event(store, record) for record in records),
        *closing_events(store, records, is_open=is_open, is_complete=not (found.reasons or pending.reasons)),
        *map(waiting_event, waiting),
        *consumption_events(store, records, popped),
    ]
    return sorted(events, key=lambda event: (event.timestamp is None, event.timestamp or 0))
