"""Compare the messages of queues whose physical offsets differ, and whether the indexes find them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from rocketstore.compare.index_entries import KeyComparison
from rocketstore.compare.queue_units import Step
from rocketstore.errors import StoreError
from rocketstore.kernels.queue_id import QueueId
from rocketstore.kernels.value_columns import MapColumn, ValueColumn, VarColumn
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_reader import MAX_BATCH_BYTES
from rocketstore.messages.compression import COMPRESSION
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.text_values import shorten

CRC_PROPERTY = "__CRC32#"  # it follows from the other bytes of the record, offsets included
NUMBERS = (
    "queue_id", "queue_offset", "flag", "born_timestamp_ms", "store_timestamp_ms", "reconsume_times",
)  # fmt: skip
TEXTS = "topic", "born_host", "store_host"
COLUMNS = (*NUMBERS, *TEXTS, "sys_flag", "body_crc", "properties", "raw_body", "body", "keys", "uniq_key", "phy_offset")
DESCRIBED = (*(name.removesuffix("_ms") for name in NUMBERS), *TEXTS)
SHOWN = 60  # characters of a value


class MessagePairs:
    """Compares the messages of two queues by all that does not follow from their place in the log.

    Physical offsets, sizes, message ids, offsets of prepared transactions and the CRC property may differ. A body that
    is compressed in one store only is decompressed.
    """

    kind = "message-different"

    def __init__(self, keys: KeyComparison | None) -> None:
        """Parameters: keys: compares which messages the indexes find; None to leave that out."""
        self.keys = keys

    def find_different(self, queue_id: QueueId, a: Step, b: Step) -> np.ndarray:
        different = np.ones(len(a.units), np.bool_)
        if (a.units.batch_nums is None) != (b.units.batch_nums is None):
            return different
        for part in split_by_size(np.maximum(a.units.sizes, b.units.sizes)):
            found_a, is_found_a = read_messages(a.log, a.units.phy_offsets[part])
            found_b, is_found_b = read_messages(b.log, b.units.phy_offsets[part])
            both = is_found_a & is_found_b
            found_a, found_b = (
                found_a.take(np.flatnonzero(both[is_found_a])),
                found_b.take(np.flatnonzero(both[is_found_b])),
            )
            different[part][both] = are_different(found_a, found_b)
            if self.keys is not None and a.is_of_store and b.is_of_store:
                self.keys.compare(found_a, found_b)
        if a.units.batch_nums is not None and b.units.batch_nums is not None:
            different |= a.units.batch_nums != b.units.batch_nums
        return different

    def describe(self, a: Step, b: Step) -> tuple[str, str]:
        messages = [step.log.find_message(int(step.units.phy_offsets[0])) for step in (a, b)]
        return describe_difference(*messages), describe_difference(*reversed(messages))


def split_by_size(sizes: np.ndarray) -> Iterator[slice]:
    """Yield ranges of records that have together at most MAX_BATCH_BYTES, or that are one record."""
    ends = np.cumsum(sizes, dtype=np.int64)
    begin, total = 0, 0
    while begin < len(sizes):
        end = max(int(np.searchsorted(ends, total + MAX_BATCH_BYTES, "right")), begin + 1)
        yield slice(begin, end)
        begin, total = end, int(ends[end - 1])


def read_messages(log: CommitLog, phy_offsets: np.ndarray) -> tuple[MessageBatch, np.ndarray]:
    """Read the messages at physical offsets. Return them, and which of the offsets have one, bool[n]."""
    found, statuses = log.find_messages(phy_offsets, columns=COLUMNS)
    return found, statuses == 0


def are_different(a: MessageBatch, b: MessageBatch) -> np.ndarray:
    """Return which messages of two batches of the same length differ, bool[n]."""
    flags = a.sys_flag ^ b.sys_flag
    different: np.ndarray = flags & ~COMPRESSION != 0
    for name in NUMBERS:
        different |= getattr(a, name) != getattr(b, name)
    for name in TEXTS:
        different |= are_texts_different(getattr(a, name), getattr(b, name))
    different |= are_properties_different(a.properties, b.properties)
    stored = are_texts_different(a.raw_body, b.raw_body)
    different |= ~stored & ((flags != 0) | (a.body_crc != b.body_crc))
    rows = np.flatnonzero(stored & ~different)
    if len(rows):
        bodies = zip(a.take(rows).body, b.take(rows).body, strict=True)
        different[rows] = [crc_of(one) is None or crc_of(one) != crc_of(other) for one, other in bodies]
    return different


def crc_of(body: bytes | None) -> tuple[int, int] | None:
    """Return length and CRC of a body; None if it cannot be decoded."""
    return None if body is None else (len(body), zlib.crc32(body))


def are_columns_equal(a: VarColumn[Any], b: VarColumn[Any]) -> bool:
    """Return whether two columns have the same bytes in all rows."""
    if not np.array_equal(np.diff(a.offsets), np.diff(b.offsets)) or not np.array_equal(a.is_valid, b.is_valid):
        return False
    data_a, data_b = (column.data[column.offsets[0] : column.offsets[-1]] for column in (a, b))
    return np.array_equal(data_a, data_b)


def are_texts_different(a: VarColumn[Any], b: VarColumn[Any]) -> np.ndarray:
    """Return which rows of two columns of the same length differ, bool[n]."""
    if are_columns_equal(a, b):
        return np.zeros(len(a), np.bool_)
    return compare_values(a, b)


def are_properties_different(a: MapColumn, b: MapColumn) -> np.ndarray:
    """Return which properties differ, bool[n], except for the CRC property."""
    is_same_shape = np.array_equal(np.diff(a.offsets), np.diff(b.offsets))
    if is_same_shape and are_columns_equal(a.keys, b.keys) and are_columns_equal(a.values, b.values):
        return np.zeros(len(a), np.bool_)
    pairs = zip(a, b, strict=True)
    return np.array([without_crc(one) != without_crc(other) for one, other in pairs], np.bool_)


def compare_values(a: ValueColumn[Any], b: ValueColumn[Any]) -> np.ndarray:
    return np.array([one != other for one, other in zip(a, b, strict=True)], np.bool_)


def without_crc(properties: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name != CRC_PROPERTY}


def describe_difference(message: Message | None, other: Message | None) -> str:
    """Return the values of a message that differ from those of another message, as text. Bodies are not shown."""
    if message is None:
        return "no message can be read"
    if other is None:
        return "a message"
    parts = []
    for name in (*DESCRIBED, "sys_flag"):
        value = getattr(message, name)
        if value != getattr(other, name):
            parts.append(f"{name} {shorten(str(value), SHOWN)}")
    mine, others = without_crc(message.properties), without_crc(other.properties)
    parts += [
        f"property {name} {shorten(repr(mine.get(name)), SHOWN)}"
        for name in sorted({*mine, *others})
        if mine.get(name) != others.get(name)
    ]
    bodies = [crc_of(read_body(part)) for part in (message, other)]
    if bodies[0] != bodies[1] or message.body_crc != other.body_crc:
        body = bodies[0]
        computed = "cannot be decoded" if body is None else f"{body[0]} bytes, CRC {body[1]:08x}"
        parts.append(f"body {computed}, stored CRC {message.body_crc & 0xFFFFFFFF:08x}")
    return ", ".join(parts)


def read_body(message: Message) -> bytes | None:
    """Return the body of a message; None if it cannot be decoded."""
    try:
        return bytes(message.body)
    except (ValueError, StoreError):
        return None
