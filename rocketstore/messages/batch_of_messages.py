"""Make a batch of columns of single messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np

from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.kernels.value_columns import BinaryColumn, ListColumn, MapColumn, StringColumn
from rocketstore.messages.compression import BODY_ERRORS
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch

NUMBERS = {"i": np.int32, "l": np.int64, "tsm:UTC": np.int64}


def batch_of_messages(messages: Sequence[Message], names: Iterable[str]) -> MessageBatch:
    """Return messages as a batch. A body that cannot be decoded is null.

    Parameters: names: of the columns; each message has these fields. Raises: AttributeError for a missing field.
    """
    columns = {
        name: column_of(MESSAGE_FIELDS[name], [field_of(message, name) for message in messages]) for name in names
    }
    return MessageBatch(columns, len(messages))


def field_of(message: Message, name: str) -> Any:
    """Return a field of a message; None for a body that cannot be decoded, as in a batch."""
    try:
        return getattr(message, name)
    except BODY_ERRORS:
        return None


def column_of(field: Field, values: Sequence[Any]) -> Any:
    """Return the column of a batch for the values of its rows."""
    if field.format in NUMBERS:
        column = np.array([-1 if value is None else value for value in values], NUMBERS[field.format])
        missing = np.array([value is None for value in values], np.bool_)
        return np.ma.MaskedArray(column, missing) if missing.any() else column
    if field.format == "z":
        return BinaryColumn(*joined(values))
    if field.format == "u":
        return StringColumn(*joined([None if value is None else utf8_of(value) for value in values]))
    offsets = offsets_of(map(len, values))
    if field.format == "+l":
        return ListColumn(offsets, strings_of(chain.from_iterable(values)))
    return MapColumn(
        offsets,
        strings_of(chain.from_iterable(values)),
        strings_of(chain.from_iterable(value.values() for value in values)),
    )


def strings_of(texts: Iterable[str]) -> StringColumn[str]:
    offsets, data, _ = joined([utf8_of(text) for text in texts])
    return StringColumn(offsets, data)


def utf8_of(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def joined(values: Sequence[bytes | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the offsets, the data, and which rows have a value (None for all) of a column of bytes."""
    valid = np.array([value is not None for value in values], np.bool_)
    parts = [value or b"" for value in values]
    data = np.frombuffer(b"".join(parts), np.uint8)
    return offsets_of(map(len, parts)), data, None if valid.all() else valid


def offsets_of(lengths: Iterable[int]) -> np.ndarray:
    return np.array([*accumulate(lengths, initial=0)], np.int32)
