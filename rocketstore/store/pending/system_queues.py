"""Reading the queues of a broker's system topics, message by message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rocketstore.errors import CorruptFileError
from rocketstore.java_text import parse_int, parse_long
from rocketstore.messages.in_queue import rows_in_queue
from rocketstore.messages.message import Message
from rocketstore.queue.queue_source import StoredQueue, read_units_between
from rocketstore.queue.units import ConsumeQueueUnits
from rocketstore.store.readable_store import ReadableStore
from rocketstore.text_values import format_count

STEP = 4096  # units that are read at once


class QueueRecord(NamedTuple):
    """A message of a queue, its queue offset, and the third field of its unit, for example a due time."""

    message: Message
    queue_offset: int
    tags_code: int


class QueueRecords(NamedTuple):
    """The messages of a queue in their order. ``problems``: units that lead to no message of the queue."""

    records: list[QueueRecord]
    problems: list[str]


def read_queue(store: ReadableStore, topic: str, queue_id: int, begin: int = 0) -> QueueRecords:
    """Read the messages of a queue from a queue offset on. A queue that is not on disk has no messages.

    Messages that stand in place of lost ones are left out: nothing will become of them.
    """
    try:
        queue = store.consume_queue(topic, queue_id)
    except KeyError:
        return QueueRecords([], [])
    records: list[QueueRecord] = []
    missing = 0
    for units in units_from(queue, begin):
        found = _read_units(store, topic, queue_id, units)
        missing += len(units) - len(found)
        records += [record for record in found if not record.message.damaged]
    if not missing:
        return QueueRecords(records, [])
    return QueueRecords(records, [f"{queue.directory}: {describe_missing(missing)}"])


def describe_missing(count: int) -> str:
    """Return a text about units whose records are missing or of another queue."""
    return f"{format_count(count, 'unit leads', 'units lead')} to no message of this queue"


def units_from(queue: StoredQueue, begin: int) -> Iterator[ConsumeQueueUnits]:
    """Yield the units of a queue from a queue offset on, in steps, without filler units."""
    end = queue.max_queue_offset
    yield from read_units_between(queue, max(begin, queue.min_queue_offset, 0), end, STEP)


def _read_units(store: ReadableStore, topic: str, queue_id: int, units: ConsumeQueueUnits) -> list[QueueRecord]:
    batch, statuses = store.commit_log.find_messages(units.phy_offsets)
    found = np.flatnonzero(statuses == 0)
    rows = rows_in_queue(batch, topic, queue_id)
    own = found[rows]
    numbers = zip(units.queue_offsets[own].tolist(), units.tags_codes[own].tolist(), strict=True)
    messages = batch.take(rows)
    return [QueueRecord(message, *pair) for message, pair in zip(messages, numbers, strict=True)]


def number_of(message: Message, name: str, default: int) -> int:
    """Return a property as a number; ``default`` if the message lacks it, or if it is no number."""
    number = parse_long(message.properties.get(name) or "")
    return default if number is None else number


def body_of(message: Message) -> bytes:
    """Return the body of a message; no bytes if it cannot be decoded."""
    try:
        return message.body
    except CorruptFileError:
        return b""


def real_place(message: Message) -> tuple[str, int]:
    """Return topic and queue id to which a message will be delivered."""
    topic = message.properties.get("REAL_TOPIC") or message.topic
    return topic, parse_int(message.properties.get("REAL_QID") or "") or 0
