"""Bodies of many messages: decompressed, or null with the reason where a body cannot be decoded."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.value_columns import BinaryColumn, StringColumn
from rocketstore.messages.compression import (
    BODY_ERRORS,
    COMPRESSED,
    CRC_COLUMNS,
    BodyError,
    body_error_text,
    decompress,
)
from rocketstore.text_values import format_count


class Bodies(NamedTuple):
    """Bodies as a column, and the rows of the batch that they belong to: None for all rows.

    ``errors`` has the error of each body that cannot be decoded, by its row in ``column``, where the body is null.
    """

    column: BinaryColumn[bytes | None]
    rows: np.ndarray | None
    errors: dict[int, BodyError]


class BadBodies:
    """Counts bodies that cannot be decoded, for one warning about all of them.

    Attributes: count: messages; first: the text of the first message's error, None while the count is 0.
    """

    def __init__(self, count: int = 0, first: str | None = None) -> None:
        self.count = count
        self.first = first

    def add(self, errors: Iterable[BodyError]) -> None:
        """Count errors, one of each message, in the order of the messages."""
        for error in errors:
            self.count += 1
            self.first = self.first or str(error)

    def add_all(self, other: BadBodies) -> None:
        """Count the errors that another object counted, behind those of this one."""
        self.count += other.count
        self.first = self.first or other.first

    def warn(self) -> None:
        """Give a UserWarning with the count, unless it is 0."""
        if self.count:
            bad = format_count(self.count, "message has a body", "messages have bodies")
            text = f"{bad} that cannot be decoded: body is null there, and body_error says why"
            warnings.warn(f"{text}. The first error: {self.first}", stacklevel=1)


def decompress_bodies(columns: dict[str, Any], length: int, most: int) -> Iterator[Bodies]:
    """Decompress bodies, in parts of at most ``most`` bytes unless a single body has more.

    Parameters: columns: raw_body, sys_flag and phy_offset of ``length`` rows, and perhaps one of ``CRC_COLUMNS``.
    """
    stored, flags, offsets = columns["raw_body"], columns["sys_flag"], columns["phy_offset"]
    wrong = find_crc_errors(columns, 0, length)
    if not wrong and not (flags & COMPRESSED).any():
        yield Bodies(stored, None, {})
        return
    rows: list[int] = []
    bodies: list[np.ndarray] = []
    errors: dict[int, BodyError] = {}
    size = 0
    for row in range(length):
        body = stored.data[stored.offsets[row] : stored.offsets[row + 1]]
        error: BodyError | None = wrong.get(row)
        if error is not None:
            body = body[:0]
        elif flags[row] & COMPRESSED:
            try:
                body = np.frombuffer(decompress(body.tobytes(), int(flags[row]), int(offsets[row])), np.uint8)
            except BODY_ERRORS as problem:
                body, error = body[:0], problem
        if rows and size + len(body) > most:
            part = Bodies(join_bodies(bodies, errors), np.array(rows, np.int64), errors)
            rows, bodies, errors, size = [], [], {}, 0
            yield part
        if error is not None:
            errors[len(rows)] = error
        rows.append(row)
        bodies.append(body)
        size += len(body)
    if rows:
        yield Bodies(join_bodies(bodies, errors), None if len(rows) == length else np.array(rows, np.int64), errors)


def find_crc_errors(columns: dict[str, Any], start: int, stop: int) -> dict[int, BodyError]:
    """Return the error of each row, from ``start`` to before ``stop``, whose body does not match its CRC."""
    errors: dict[int, BodyError] = {}
    for name, (field, reason) in CRC_COLUMNS.items():
        if name in columns:
            for row in (start + np.flatnonzero(~columns[name][start:stop])).tolist():
                errors[row] = CorruptFileError("commit log", int(columns["phy_offset"][row]), field, reason)
    return errors


def join_bodies(bodies: list[np.ndarray], errors: dict[int, BodyError]) -> BinaryColumn[bytes | None]:
    """Make the column of bodies, null in the rows of errors."""
    valid = None
    if errors:
        valid = np.ones(len(bodies), np.bool_)
        valid[list(errors)] = False
    return BinaryColumn(np.cumsum([0, *map(len, bodies)]).astype(np.int32), np.concatenate(bodies), valid)


def body_error_column(errors: dict[int, BodyError], length: int) -> StringColumn[str | None]:
    """Make the column ``body_error`` of ``length`` rows: the text of each error, null in all other rows."""
    valid, sizes = np.zeros(length, np.bool_), np.zeros(length + 1, np.int64)
    texts = [body_error_text(errors[row]).encode("utf-8", "replace") for row in sorted(errors)]
    valid[list(errors)] = True
    sizes[1:][valid] = [len(text) for text in texts]
    return StringColumn(np.cumsum(sizes).astype(np.int32), np.frombuffer(b"".join(texts), np.uint8), valid)
