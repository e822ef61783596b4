"""PendingMessage: one message that waits; PendingMessages: all of them, with their totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import NamedTuple

from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.made_by import made_by
from rocketstore.messages.rows import Rows
from rocketstore.preview import Preview, show_fields
from rocketstore.store.usage.zone_bins import HOUR, begin_of
from rocketstore.text_values import Zone, datetime_or_none, find_time_zone

KINDS = DELAY, TIMER, HALF, POP, RETRY = "delay", "timer", "half", "pop", "retry"


class PendingMessage(NamedTuple):
    """A message that waits in a store.

    ``kind``: "delay", with a delay level. "timer", with a time of delivery. "half", of a transaction that is neither
    committed nor rolled back. "pop": a consumer popped it and has not acknowledged it. "retry": a consumer failed, and
    gets it again from its retry topic.

    ``topic``, ``queue_id``: where the message will be delivered. Of a popped message ``topic`` is the topic to which it
    was sent, and ``queue_id`` and ``queue_offset`` are its place in ``popped_topic``, which may be a retry topic. Of a
    retry ``queue_offset`` is its place in the queue of its delay level. ``due_timestamp``: when it is delivered, or
    visible again, epoch ms; None for half messages, whose ``check_times`` is the number of checks so far.
    ``born_timestamp``: when the producer sent it; None if its record cannot be read. ``phy_offset``: of its record,
    bytes; -1 if it cannot be read.

    Examples:
    >>> list(rocketstore.open("demo").pending())
    []
    """

    kind: str
    topic: str
    queue_id: int
    keys: tuple[str, ...]
    uniq_key: str | None
    due_timestamp: int | None
    check_times: int | None
    group: str | None
    queue_offset: int | None
    popped_topic: str | None
    born_timestamp: int | None
    phy_offset: int

    def __repr__(self) -> str:
        return show_fields(self)

    @property
    def due_time(self) -> datetime | None:
        """``due_timestamp`` as a datetime in UTC; None if it is unknown."""
        return None if self.due_timestamp is None else datetime_or_none(self.due_timestamp)


class PendingTotal(NamedTuple):
    """The number of pending messages of a kind and a topic that are due within an hour.

    ``hour_timestamp``: the beginning of the hour, epoch ms; None for half messages.

    Examples:
    >>> list(rocketstore.open("demo").pending().totals())
    []
    """

    kind: str
    topic: str
    hour_timestamp: int | None
    messages: int


PENDING_FIELDS = (
    Field("kind", "u"), MESSAGE_FIELDS["topic"], MESSAGE_FIELDS["queue_id"], MESSAGE_FIELDS["keys"],
    MESSAGE_FIELDS["uniq_key"], Field("dueTimestamp", "tsm:UTC", nullable=True),
    Field("checkTimes", "i", nullable=True), Field("group", "u", nullable=True),
    Field("queueOffset", "l", nullable=True), Field("poppedTopic", "u", nullable=True),
    MESSAGE_FIELDS["born_timestamp"], MESSAGE_FIELDS["phy_offset"],
)  # fmt: skip
TOTAL_FIELDS = (
    Field("kind", "u"), MESSAGE_FIELDS["topic"], Field("hourTimestamp", "tsm:UTC", nullable=True),
    Field("messages", "l"),
)  # fmt: skip


@made_by("store.pending()")
class PendingMessages(Rows[PendingMessage]):
    """The messages that wait in a store, by due time; half messages are last.

    Attributes: reasons: why messages may be missing, or may be listed although they were delivered.

    Examples:
    >>> pending = rocketstore.open("demo").pending(kind="delay")
    >>> len(pending), pending.reasons
    (0, [])
    """

    def __init__(self, rows: Sequence[PendingMessage], reasons: Sequence[str]) -> None:
        super().__init__(rows, PENDING_FIELDS)
        self.reasons = list(reasons)

    def totals(self, *, tz: Zone = "UTC") -> Rows[PendingTotal]:
        """Count the messages by kind, topic, and the hour in which they are due.

        Parameters: tz: the time zone of the hours, such as Asia/Kolkata, or a tzinfo; None and "local" are that of this
        machine. Raises: ValueError for an unknown zone.
        """
        zone = find_time_zone(tz)
        counts = Counter((row.kind, row.topic, hour_of(row.due_timestamp, zone)) for row in self)
        ordered = sorted(counts.items(), key=lambda item: (*item[0][:2], item[0][2] is None, item[0][2] or 0))
        return Rows([PendingTotal(*group, count) for group, count in ordered], TOTAL_FIELDS)

    def _preview(self) -> Preview:
        return replace(super()._preview(), notes=self.reasons)


def hour_of(timestamp: int | None, zone: tzinfo | None) -> int | None:
    """Return the beginning of the hour of a time, epoch ms."""
    return None if timestamp is None else begin_of(timestamp, HOUR, zone)


def due_order(row: PendingMessage) -> tuple[bool, int, int]:
    """Return the key by which pending messages are sorted."""
    return row.due_timestamp is None, row.due_timestamp or 0, row.phy_offset
