"""Rows: objects of one kind, such as consumer lags, as a sequence and as a table of Arrow, pandas or polars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar, overload

import numpy as np

from rocketstore.kernels.arrow_export import export_stream
from rocketstore.kernels.message_columns import Field
from rocketstore.kernels.value_columns import ListColumn, StringColumn
from rocketstore.made_by import made_by
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.preview import Preview, Previewed, first_of

R = TypeVar("R", bound=tuple[Any, ...])
DTYPES: dict[str, type[np.generic]] = {
    "i": np.int32, "l": np.int64, "g": np.float64, "tsm:UTC": np.int64, "b": np.bool_,
}  # fmt: skip


@made_by("a method of the store")
class Rows(Previewed, ArrowStream, Generic[R]):
    """Objects of one kind in their order. ``rows[i]`` is an object, ``rows[i:j]`` are rows."""

    def __init__(self, rows: Sequence[R], fields: Sequence[Field]) -> None:
        """Parameters: rows: NamedTuples with a value for each field, in the order of the fields."""
        self._rows = rows
        self._fields = fields

    @property
    def fields(self) -> Sequence[Field]:
        """The columns of a table of the rows."""
        return self._fields

    def cells(self) -> Sequence[tuple[Any, ...]]:
        """Return the rows as NamedTuples with the values of ``fields``."""
        return self._rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, i: int) -> R: ...
    @overload
    def __getitem__(self, i: slice) -> Rows[R]: ...
    def __getitem__(self, i: int | slice) -> R | Rows[R]:
        return Rows(self._rows[i], self._fields) if isinstance(i, slice) else self._rows[i]

    def __iter__(self) -> Iterator[R]:
        return iter(self._rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export as an Arrow stream of one record batch. Its columns have the names and types of message tables."""
        return export_rows(self.fields, self.cells())

    def _preview(self) -> Preview:
        if not self._rows:
            return Preview("Rows: 0")
        kind: Any = type(self._rows[0])
        return Preview(f"Rows: {len(self):,} {kind.__name__}", kind._fields, first_of(self._rows))


def export_rows(fields: Sequence[Field], rows: Sequence[Any]) -> object:
    """Export rows as an Arrow stream of one record batch.

    Parameters: rows: each has a value for each field. A value may be None in a nullable field.
    """
    values = zip(*rows, strict=True) if rows else [()] * len(fields)
    columns = [column_of(field, column) for field, column in zip(fields, values, strict=True)]
    return export_stream(fields, iter([(columns, len(rows))]))


def column_of(field: Field, values: Sequence[Any]) -> Any:
    """Make the column of a field: of strings, lists of strings, or numbers, which are masked where a value is None."""
    if field.format == "+l":
        inner = column_of(Field(field.name, "u"), [text for texts in values for text in texts])
        return ListColumn(np.array([0, *accumulate(map(len, values))], np.int32), inner)
    if field.format != "u":
        given = np.array([0 if value is None else value for value in values], DTYPES[field.format])
        missing = np.array([value is None for value in values], np.bool_)
        return np.ma.MaskedArray(given, missing) if missing.any() else given
    texts = [b"" if value is None else str(value).encode("utf-8", "replace") for value in values]
    offsets = np.array([0, *accumulate(map(len, texts))], np.int32)
    valid = np.array([value is not None for value in values], np.bool_)
    return StringColumn(offsets, np.frombuffer(b"".join(texts), np.uint8), valid)
