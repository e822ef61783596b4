"""What clients noted about their messages in the trace topic. Source: TraceDataEncoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rocketstore.java_text import parse_long
from rocketstore.messages.message import Message
from rocketstore.messages.topics import TRACE_PREFIX, TRACE_TOPIC
from rocketstore.store.pending.system_queues import body_of
from rocketstore.store.trace.trace_event import (
    CLIENT_CONSUMED,
    CLIENT_ENDED,
    CLIENT_RECALLED,
    CLIENT_RECEIVED,
    CLIENT_SENT,
    TraceEvent,
)

FIELD_END, ENTRY_END = "\1", "\2"
CONSUME_RESULTS = "success", "time out", "exception", "no result", "failed"  # ConsumeReturnType
NUMBERS_OF_FIELDS = {"Pub": 13, "SubBefore": 8, "SubAfter": 6, "EndTransaction": 13, "Recall": 7}


class TraceEntry(NamedTuple):
    """One entry of a message of the trace topic: its fields, the first of which is its type."""

    fields: tuple[str, ...]
    record: Message

    @property
    def uniq_key(self) -> str:
        """The message of which it is; clients call it msgId."""
        return self.fields[2 if self.fields[0] == "SubAfter" else 5]

    @property
    def topic(self) -> str | None:
        """The topic of that message, if the client noted it."""
        return self.fields[4] if self.fields[0] in ("Pub", "EndTransaction", "Recall") else None

    @property
    def keys(self) -> list[str]:
        """The keys of that message."""
        places = {"Pub": 7, "SubBefore": 7, "SubAfter": 5, "EndTransaction": 7}
        place = places.get(self.fields[0])
        return [] if place is None else self.fields[place].split()


def is_trace_topic(topic: str) -> bool:
    return topic == TRACE_TOPIC or topic.startswith(TRACE_PREFIX)


def read_entries(records: Iterable[Message]) -> list[TraceEntry]:
    """Return the entries of messages of the trace topic. Text that is no complete entry is ignored."""
    return [
        TraceEntry(fields, record)
        for record in records
        for text in body_of(record).decode("utf-8", "replace").split(ENTRY_END)
        if (fields := tuple(text.split(FIELD_END))) and len(fields) >= NUMBERS_OF_FIELDS.get(fields[0], len(fields) + 1)
    ]


def client_events(entries: Iterable[TraceEntry], uniq_key: str | None) -> Iterator[TraceEvent]:
    """Yield the events that clients noted about a message. An entry that repeats another one is left out."""
    own = list({entry.fields: entry for entry in entries if entry.uniq_key == uniq_key}.values())
    groups = {entry.fields[4]: entry.fields[3] for entry in own if entry.fields[0] == "SubBefore"}
    for entry in own:
        kind, group, time, detail = _describe(entry, groups)
        detail = f"{detail}; by {entry.record.born_host}"
        yield TraceEvent(uniq_key, parse_long(time) or None, kind, entry.topic, None, None, group or None, detail, None)


def _describe(entry: TraceEntry, groups: dict[str, str]) -> tuple[str, str, str, str]:
    """Return kind, group, time and detail of an entry. Parameters: groups: of consumers, by their requests."""
    fields = entry.fields
    if fields[0] == "Pub":
        success = fields[12 if len(fields) == 13 else 13]
        detail = f"{_success(success)} in {fields[10]} ms, to broker {fields[8]}"
        return CLIENT_SENT, fields[3], fields[1], detail
    if fields[0] == "SubBefore":
        return CLIENT_RECEIVED, fields[3], fields[1], f"retry {fields[6]}"
    if fields[0] == "SubAfter":
        code = parse_long(fields[6]) if len(fields) > 6 else None
        result = CONSUME_RESULTS[code] if code is not None and 0 <= code < len(CONSUME_RESULTS) else None
        detail = f"{result or _success(fields[4])} in {fields[3]} ms"
        time = fields[7] if len(fields) > 7 else ""
        group = fields[8] if len(fields) > 8 else groups.get(fields[1], "")
        return CLIENT_CONSUMED, group, time, detail
    if fields[0] == "EndTransaction":
        asked = ", asked by the broker" if fields[12] == "true" else ""
        return CLIENT_ENDED, fields[3], fields[1], f"{fields[11]}{asked}"
    return CLIENT_RECALLED, fields[3], fields[1], _success(fields[6])


def _success(text: str) -> str:
    return "success" if text == "true" else "failed"
