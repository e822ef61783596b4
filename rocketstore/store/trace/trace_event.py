"""TraceEvent: one event in the life of a message; MessageTrace: all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.made_by import made_by
from rocketstore.messages.rows import Rows
from rocketstore.preview import Preview
from rocketstore.text_values import datetime_or_none

PRODUCED, STORED, DELAYED, TIMED, ROLLED, RECALLED = "produced", "stored", "delayed", "timed", "rolled", "recalled"
DELIVERED, PREPARED, CHECKED, COMMITTED = "delivered", "prepared", "checked", "committed"
ROLLED_BACK, CLOSED, GIVEN_UP = "rolledBack", "closed", "givenUp"
FAILED, RETRIED, DEAD, WAITING = "failed", "retried", "dead", "waiting"
CONSUMED, UNCONSUMED = "consumed", "unconsumed"
CLIENT_SENT, CLIENT_RECEIVED, CLIENT_CONSUMED = "clientSent", "clientReceived", "clientConsumed"
CLIENT_ENDED, CLIENT_RECALLED = "clientEnded", "clientRecalled"


class TraceEvent(NamedTuple):
    """An event in the life of a message.

    ``uniq_key``: the message; None if it has no unique key. ``timestamp``: when it happened, epoch ms: the store time
    of a record, the born time of "produced", the due time of "waiting", the client's time of a client's event; None if
    nobody wrote it down.

    ``kind``: "produced": the producer sent the message. "stored": it came to its topic. "delayed": it waited for its
    delay level. "timed": it waited for its time of delivery; "rolled": it waited on, because that time was far away;
    "recalled": the producer called it back. "delivered": it came to its topic after that. "prepared": its transaction
    began; "checked": the broker asked the producer; "committed"; "rolledBack"; "closed": committed or rolled back,
    which one is not known; "givenUp": it was checked too often. "failed": a group could not process it, and it waited
    for its retry; "retried": it came to the retry topic of the group; "dead": it came to the group's topic of dead
    letters. "waiting": it still waits for this; ``detail`` begins with the kind of PendingMessage. "consumed": the
    group's offset is behind it, which also holds if the group failed, or if its tags left the message out.
    "unconsumed": the group's offset is not behind it. Traces of clients: "clientSent", "clientReceived",
    "clientConsumed", "clientEnded" (a transaction), "clientRecalled".

    ``topic``, ``queue_id``, ``queue_offset``, ``phy_offset``: the place of the record, bytes for the last; None if
    the event has none. Of "waiting" they are where it will be delivered, or its place as in PendingMessage.
    ``group``: of consumers, or the producers of a client's event. ``detail``: a text for people.

    Examples:
    >>> [event.kind for event in rocketstore.open("demo").trace("order-7")]
    ['produced', 'stored', 'consumed']
    """

    uniq_key: str | None
    timestamp: int | None
    kind: str
    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    group: str | None
    detail: str
    phy_offset: int | None

    @property
    def time(self) -> datetime | None:
        """``timestamp`` as a datetime in UTC; None if it is unknown."""
        return None if self.timestamp is None else datetime_or_none(self.timestamp)


EVENT_FIELDS = (
    MESSAGE_FIELDS["uniq_key"], Field("eventTimestamp", "tsm:UTC", nullable=True), Field("kind", "u"),
    Field("topic", "u", nullable=True), Field("queueId", "i", nullable=True),
    Field("queueOffset", "l", nullable=True), Field("group", "u", nullable=True), Field("detail", "u"),
    Field("phyOffset", "l", nullable=True),
)  # fmt: skip


@made_by("store.trace(key)")
class MessageTrace(Rows[TraceEvent]):
    """The events of a message by time, or of several messages one after the other. Events without a time are last.

    Attributes: notes: about messages that are left out. reasons: why events may be missing.

    Examples:
    >>> trace = rocketstore.open("demo").trace("order-7")
    >>> len(trace), trace.reasons
    (3, [])
    """

    def __init__(self, rows: Sequence[TraceEvent], notes: Sequence[str], reasons: Sequence[str]) -> None:
        super().__init__(rows, EVENT_FIELDS)
        self.notes = list(notes)
        self.reasons = list(reasons)

    def _preview(self) -> Preview:
        return replace(super()._preview(), notes=[*self.notes, *self.reasons])
