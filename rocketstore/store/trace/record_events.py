"""The event that each record of a message shows, by the topic in which it is."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from rocketstore.errors import StoreError
from rocketstore.messages.message import Message
from rocketstore.messages.system_flags import TRANSACTION_COMMIT, TRANSACTION_TYPE
from rocketstore.messages.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from rocketstore.queue.queue_source import offset_range
from rocketstore.queue.units import CqUnit
from rocketstore.store.overview.dead_letters import group_and_topic
from rocketstore.store.pending.half import GIVEN_UP_TOPIC, HALF_TOPIC, ROCKS_HALF_TOPIC, find_op
from rocketstore.store.pending.system_queues import number_of, real_place
from rocketstore.store.pending.timers import TIMER_TOPIC, due_of
from rocketstore.store.readable_store import ReadableStore
from rocketstore.store.trace.find_records import origin_topic
from rocketstore.store.trace.trace_event import (
    CHECKED,
    CLOSED,
    COMMITTED,
    DEAD,
    DELAYED,
    DELIVERED,
    FAILED,
    GIVEN_UP,
    PREPARED,
    PRODUCED,
    RECALLED,
    RETRIED,
    ROLLED,
    ROLLED_BACK,
    STORED,
    TIMED,
    TraceEvent,
)
from rocketstore.text_values import format_count, format_time

HALF_TOPICS = HALF_TOPIC, ROCKS_HALF_TOPIC


def produced_event(first: Message) -> TraceEvent:
    """Return the event of the send. Parameters: first: the first record of the message."""
    detail = f"by {first.born_host}"
    topic = origin_topic(first)
    return TraceEvent(first.uniq_key, first.born_timestamp, PRODUCED, topic, None, None, None, detail, None)


def record_event(store: ReadableStore, record: Message) -> TraceEvent:
    """Return the event that a record of a message shows."""
    kind = kind_of(record)
    return event_at(record, kind, group_of(record), _detail_of(store, record, kind))


def event_at(record: Message, kind: str, group: str | None, detail: str) -> TraceEvent:
    """Return an event at the place and the store time of a record."""
    return TraceEvent(
        record.uniq_key,
        record.store_timestamp,
        kind,
        record.topic,
        record.queue_id,
        record.queue_offset,
        group,
        detail,
        record.phy_offset,
    )


def kind_of(record: Message) -> str:
    """Return what a record of a message means."""
    topic = record.topic
    if topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        return _waiting_kind_of(record)
    if topic in HALF_TOPICS:
        return CHECKED if number_of(record, "TRANSACTION_CHECK_TIMES", 0) else PREPARED
    if topic == GIVEN_UP_TOPIC:
        return GIVEN_UP
    if topic.startswith(RETRY_PREFIX):
        return RETRIED
    if topic.startswith(DEAD_LETTER_PREFIX):
        return DEAD
    if record.sys_flag & TRANSACTION_TYPE == TRANSACTION_COMMIT:
        return COMMITTED
    waited = record.properties.get("REAL_TOPIC") == topic or "TIMER_OUT_MS" in record.properties
    return DELIVERED if waited else STORED


def _waiting_kind_of(record: Message) -> str:
    """Return the kind of a record in the topic of delay levels or in that of timers."""
    if real_place(record)[0].startswith(RETRY_PREFIX):
        return FAILED
    if record.topic == SCHEDULE_TOPIC:
        return DELAYED
    if "TIMER_DEL_UNIQKEY" in record.properties:
        return RECALLED
    return ROLLED if number_of(record, "TIMER_ROLL_TIMES", 0) else TIMED


def group_of(record: Message) -> str | None:
    """Return the consumer group of a record of retries or dead letters; None for another record."""
    topic, _ = real_place(record) if record.topic in (SCHEDULE_TOPIC, TIMER_TOPIC) else (record.topic, 0)
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix):
            return group_and_topic(record, topic.removeprefix(prefix))[0]
    return None


def _detail_of(store: ReadableStore, record: Message, kind: str) -> str:
    """Return what else a record says, for people."""
    if kind in (DELAYED, TIMED, ROLLED, FAILED):
        topic, queue_id = real_place(record)
        failures = f"{format_count(record.reconsume_times, 'failure')}; " if kind == FAILED else ""
        return f"{failures}goes to {topic} queue {queue_id}{_due_text(store, record)}"
    if kind in (PREPARED, CHECKED):
        topic, queue_id = real_place(record)
        checks = number_of(record, "TRANSACTION_CHECK_TIMES", 0)
        return f"{f'check {checks}; ' if checks else ''}for {topic} queue {queue_id}"
    if kind in (RETRIED, DEAD):
        return f"{format_count(record.reconsume_times, 'failure')}; sent to {origin_topic(record)}"
    if kind == COMMITTED:
        return f"prepared at the physical offset {record.prepared_transaction_offset}"
    return f"stored by {record.store_host}"


def _due_text(store: ReadableStore, record: Message) -> str:
    """Return when a record in the topic of delay levels or of timers is due, as a part of a text."""
    if record.topic == TIMER_TOPIC:
        return f" at {format_time(due_of(record))}" if "TIMER_OUT_MS" in record.properties else ""
    unit = find_unit(store, record)
    return "" if unit is None else f" at {format_time(unit.tags_code)}"


def find_unit(store: ReadableStore, record: Message) -> CqUnit | None:
    """Return the unit of a record in its queue; None if it is missing or leads to another record."""
    with contextlib.suppress(KeyError, IndexError, StoreError, OSError):
        queue = store.consume_queue(record.topic, record.queue_id)
        if record.queue_offset in range(*offset_range(queue)):
            unit = queue[record.queue_offset]
            return unit if unit.phy_offset == record.phy_offset else None
    return None


def closing_events(
    store: ReadableStore, records: Sequence[Message], *, is_open: bool, is_complete: bool
) -> list[TraceEvent]:
    """Return the event that closed a transaction without a committed record: its op message, if there is one.

    A broker stores the committed record before the op message. So without this record the transaction was rolled back.
    A broker that keeps transactions in RocksDB gives a message up by deleting its row.
    Parameters: records: all of a message. is_open: whether it is pending. is_complete: whether no record and no pending
    message can be missing.
    """
    halves = [record for record in records if record.topic in HALF_TOPICS]
    if not halves or is_open or any(kind_of(record) == COMMITTED for record in records):
        return []
    op = find_op(store, halves)
    if op is None:
        is_given_up = is_complete and halves[-1].topic == ROCKS_HALF_TOPIC
        detail = "the broker's RocksDB has no row of it"
        uniq_key, topic = halves[-1].uniq_key, real_place(halves[-1])[0]
        event = TraceEvent(uniq_key, None, GIVEN_UP, topic, None, None, None, detail, None)
        return [event] if is_given_up else []
    kind, detail = (ROLLED_BACK, "") if is_complete else (CLOSED, "committed or rolled back: a record may be missing")
    return [event_at(op, kind, None, detail)._replace(uniq_key=halves[0].uniq_key)]
