"""Which consumer groups are behind or before the records of a message, and for what the message still waits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rocketstore.messages.message import Message
from rocketstore.store.pending.pending_message import HALF, POP, RETRY, PendingMessage
from rocketstore.store.readable_store import ReadableStore
from rocketstore.store.trace.record_events import find_unit, group_of, kind_of
from rocketstore.store.trace.trace_event import (
    COMMITTED,
    CONSUMED,
    DEAD,
    DELIVERED,
    FAILED,
    RETRIED,
    STORED,
    UNCONSUMED,
    WAITING,
    TraceEvent,
)
from rocketstore.text_values import format_count

Place = tuple[str, str, int, int]  # group, topic, queue id, queue offset


def consumption_events(
    store: ReadableStore, records: Sequence[Message], popped: Collection[Place]
) -> Iterator[TraceEvent]:
    """Yield whether the groups that have offsets in the topics of a message are behind it.

    Only a record to which its unit leads counts: another one is of a deleted topic, or its queue is damaged.
    Parameters: popped: the places of popped messages that were not acknowledged. They are not consumed.
    """
    failed = {
        (group_of(record), record.reconsume_times) for record in records if kind_of(record) in (FAILED, RETRIED, DEAD)
    }
    for record in records:
        if kind_of(record) not in (STORED, DELIVERED, COMMITTED, RETRIED, DEAD):
            continue
        groups = {
            group: topics[record.topic]
            for group, topics in store.broker_config.consumer_offsets.items()
            if record.topic in topics and (group, record.topic, record.queue_id, record.queue_offset) not in popped
        }
        if groups and find_unit(store, record) is not None:
            again = {group for group, failures in failed if failures > record.reconsume_times}
            yield from (
                _consumption(record, group, groups[group], has_failed=group in again) for group in sorted(groups)
            )


def _consumption(record: Message, group: str, offsets: Mapping[int, int], *, has_failed: bool) -> TraceEvent:
    """Return whether a group is behind a record. Parameters: offsets: of the group, by queue id."""
    offset = offsets.get(record.queue_id)
    is_consumed = offset is not None and record.queue_offset < offset
    detail = "the group has no offset in this queue" if offset is None else f"the group's offset is {offset}"
    return TraceEvent(
        record.uniq_key,
        None,
        CONSUMED if is_consumed else UNCONSUMED,
        record.topic,
        record.queue_id,
        record.queue_offset,
        group,
        f"{detail}; it failed" if has_failed and is_consumed else detail,
        record.phy_offset,
    )


def waiting_event(row: PendingMessage) -> TraceEvent:
    """Return the event of a message that waits, at the time when it is due."""
    checks = f": {format_count(row.check_times or 0, 'check')}" if row.kind == HALF else ""
    meaning = {POP: ": visible again then", RETRY: ": in the retry topic then"}.get(row.kind, ": delivered then")
    return TraceEvent(
        row.uniq_key,
        row.due_timestamp,
        WAITING,
        row.popped_topic or row.topic,
        row.queue_id,
        row.queue_offset if row.kind == POP else None,
        row.group,
        row.kind + (checks or meaning),
        row.phy_offset,
    )
