"""Message ids in properties that no longer lead to their message, since its physical offset changed.

A retried message names its first message in ORIGIN_MESSAGE_ID, a dead letter in DLQ_ORIGIN_MESSAGE_ID. The id has the
address of the broker and a physical offset. Any property may have one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from rocketstore.convert.offset_map import OffsetMap
from rocketstore.kernels.layout import (
    BORN_HOST_V6,
    PROPERTIES_LENGTH,
    RECORD_HEAD,
    STORE_HOST_V6,
    read_field,
    record_head,
    topic_length_size,
)
from rocketstore.kernels.message_columns import Field
from rocketstore.salvage.copy import find_properties
from rocketstore.text_values import format_count

OFFSET_DIGITS = 16  # hexadecimal digits of the physical offset at the end of an id
VALUE, END = b"\1", b"\2"  # before and behind the value of a property


class StaleId(NamedTuple):
    """The messages of a topic with an id in one property that no longer leads to its message.

    Attributes: messages: their number. first_phy_offset: of the first of them in the new store, bytes. first_id: its
    id. first_new_offset: the physical offset of the message that the id meant, in the new store; None if it is not in
    the new store.

    Examples:
    >>> rocketstore.convert("demo", "demo-converted").stale_ids
    ()
    """

    topic: str
    property: str
    messages: int
    first_phy_offset: int
    first_id: str
    first_new_offset: int | None


STALE_FIELDS = (
    Field("topic", "u"),
    Field("property", "u"),
    Field("messages", "l"),
    Field("firstPhyOffset", "l"),
    Field("firstId", "u"),
    Field("firstNewOffset", "l", nullable=True),
)


class FoundId(NamedTuple):
    """An id in a property of a record. Attributes: row: of the record. phy_offset: the old offset in the id."""

    row: int
    topic: str
    property: str
    text: str
    phy_offset: int


def find_store_hosts(data: bytes, positions: np.ndarray) -> set[bytes]:
    """Return the distinct addresses of brokers, as ids begin with them, of records at positions, int64[n], of bytes."""
    if len(positions) == 0:
        return set()
    view = np.frombuffer(data, np.uint8)
    low_byte = RECORD_HEAD.fields["sys_flag"][1] + 3  # type: ignore[index]
    flags = view[positions + low_byte]
    found: set[bytes] = set()
    for born, stored in product((0, BORN_HOST_V6), (0, STORE_HOST_V6)):
        places = positions[flags & (BORN_HOST_V6 | STORE_HOST_V6) == born | stored]
        if len(places):
            kind, offset, *_ = record_head(born | stored).fields["store_host"]  # type: ignore[index]
            hosts = view[places[:, np.newaxis] + offset + np.arange(kind.itemsize)]
            found |= {*np.unique(hosts.view(kind)).astype(object).tolist()}
    return found


def find_ids(data: bytes, positions: np.ndarray, ends: np.ndarray, hosts: Collection[bytes]) -> Iterator[FoundId]:
    """Yield the ids with one of some addresses in the properties of records.

    Parameters: positions, ends: of records in ``data``, int64[n]. hosts: of ``find_store_hosts``.
    """
    for host in sorted(hosts):
        needle = VALUE + host.hex().upper().encode()
        at = data.find(needle)
        while at >= 0:
            row = int(positions.searchsorted(at, "right")) - 1
            if row >= 0 and at < ends[row]:
                found = _read_id(data[int(positions[row]) : int(ends[row])], at - int(positions[row]), len(needle))
                if found is not None:
                    yield FoundId(row, *found)
            at = data.find(needle, at + 1)


def _read_id(record: bytes, at: int, prefix: int) -> tuple[str, str, str, int] | None:
    """Return topic, name of the property, id and physical offset of the id whose property has its value behind ``at``.

    Returns: None if the value is no id, or is not in a property.
    """
    begin = find_properties(record)
    end = at + prefix + OFFSET_DIGITS
    if at <= begin or record[end : end + 1] not in (END, b""):
        return None
    try:
        phy_offset = int(record[at + prefix : end].decode("ascii"), 16)
    except ValueError:
        return None
    name = record[begin:at].rpartition(END)[2]
    if not name or VALUE in name or len(record) < end:
        return None
    return _topic_of(record), name.decode("utf-8", "replace"), record[at + 1 : end].decode(), phy_offset


def _topic_of(record: bytes) -> str:
    head = record_head(read_field(record, RECORD_HEAD, "sys_flag"))
    begin = head.itemsize + read_field(record, head, "body_length")
    begin += topic_length_size(read_field(record, head, "magic"))
    return record[begin : find_properties(record) - PROPERTIES_LENGTH.itemsize].decode("utf-8", "replace")


class StaleIds:
    """Collects the ids that no longer lead to their message. Parameters: log_begin: of the old log, bytes."""

    def __init__(self, log_begin: int) -> None:
        self._log_begin = log_begin
        self._found: dict[tuple[str, str], StaleId] = {}

    def add(self, found: FoundId, phy_offset: int, offsets: OffsetMap) -> None:
        """Add an id of a record. Ids of messages that had expired in the old log are ignored.

        Parameters: phy_offset: of the record in the new log. offsets: of all records before this one.
        """
        new = int(offsets.find(np.array([found.phy_offset], np.int64))[0])
        if new == found.phy_offset or (new < 0 and found.phy_offset < self._log_begin):
            return
        key = found.topic, found.property
        known = self._found.get(key)
        if known is None:
            known = StaleId(*key, 0, phy_offset, found.text, None if new < 0 else new)
        self._found[key] = known._replace(messages=known.messages + 1)

    def rows(self) -> tuple[StaleId, ...]:
        return tuple(row for _, row in sorted(self._found.items()))


def describe_stale_ids(rows: Sequence[StaleId]) -> list[str]:
    """Return a note for each kind of ids that no longer lead to their message."""
    return [
        f"ids in {row.property} of {format_count(row.messages, 'message')} of topic {row.topic} no longer lead to "
        f"their messages: the first is at {row.first_phy_offset}, with {row.first_id}"
        for row in rows
    ]
