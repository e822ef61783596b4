"""Columns whose values have any length: strings, bytes, lists and maps of strings. They behave as sequences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from rocketstore.kernels.arrow_export import export_column
from rocketstore.kernels.take_values import take_values
from rocketstore.text_values import shorten

CHUNK = 4096  # rows that become Python objects at once
SHOWN_HEAD, SHOWN_TAIL, SHOWN_LENGTH = 5, 2, 60  # rows of a repr, and characters of each
T = TypeVar("T")


class ValueColumn(Sequence[T]):
    """One value for each row of a batch, as a Python object or None. ``offsets`` has the places of the rows.

    ``column[i]`` is a value, ``column[i:j]`` a column. NumPy, Arrow, pandas and polars accept a column.
    Attributes: offsets: int32[n + 1].
    """

    __slots__ = ("offsets",)
    arrow_format: ClassVar[str]  # of the Arrow C data interface
    offsets: NDArray[np.int32]

    @abstractmethod
    def values_between(self, start: int, stop: int) -> list[T]:
        """Return the values of the rows from ``start`` to before ``stop``, both from 0 to n."""

    @abstractmethod
    def take(self, rows: NDArray[np.int64]) -> Self:
        """Return the column of these rows, int64[m], in their order."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, i: int) -> T: ...
    @overload
    def __getitem__(self, i: slice) -> Self: ...
    def __getitem__(self, i: int | slice) -> T | Self:
        if isinstance(i, slice):
            return self.take(np.arange(*i.indices(len(self)), dtype=np.int64))
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"row {i} of {n}")
        return self.values_between(i % n, i % n + 1)[0]

    def __iter__(self) -> Iterator[T]:
        n = len(self)
        for start in range(0, n, CHUNK):
            yield from self.values_between(start, min(start + CHUNK, n))

    def to_pylist(self) -> list[T]:
        """Return the values of all rows as a list."""
        return self.values_between(0, len(self))

    def to_numpy(self) -> NDArray[np.object_]:
        """Return the values of all rows as an array of Python objects."""
        return np.fromiter(self, np.object_, len(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("the values of a column become Python objects, which is a copy")
        return self.to_numpy() if dtype is None else self.to_numpy().astype(dtype)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Export as an Arrow array without a copy: of strings, bytes, lists or maps."""
        return export_column(self.arrow_format, self, len(self))

    def __repr__(self) -> str:
        n = len(self)
        rows = range(n) if n <= SHOWN_HEAD + SHOWN_TAIL else (*range(SHOWN_HEAD), *range(n - SHOWN_TAIL, n))
        shown = [shorten(repr(self[row]), SHOWN_LENGTH) for row in rows]
        if len(rows) < n:
            shown.insert(SHOWN_HEAD, "…")
        return f"<{type(self).__name__} of {n:,}: [{', '.join(shown)}]>"


class VarColumn(ValueColumn[T]):
    """Strings or bytes: row ``i`` is ``data[offsets[i]:offsets[i + 1]]`` if ``valid[i]``.

    Attributes: offsets: int32[n + 1], positions in data. data: uint8[m]. valid: bool[n]; None: every row has a value.
    """

    __slots__ = ("data", "valid")
    data: NDArray[np.uint8]
    valid: NDArray[np.bool_] | None

    def __init__(
        self, offsets: NDArray[np.int32], data: NDArray[np.uint8], valid: NDArray[np.bool_] | None = None
    ) -> None:
        self.offsets, self.data, self.valid = offsets, data, valid

    @property
    def is_valid(self) -> NDArray[np.bool_]:
        """Which rows have a value, bool[n], also if ``valid`` is None."""
        return np.ones(len(self), np.bool_) if self.valid is None else self.valid

    def take(self, rows: NDArray[np.int64]) -> Self:
        offsets, data = take_values(self.offsets, self.data, rows)
        return type(self)(offsets, data, None if self.valid is None else self.valid[rows])

    def bytes_between(self, start: int, stop: int) -> list[bytes]:
        """Return the bytes of rows. A row without a value has bytes too, usually none."""
        bounds = self.offsets[start : stop + 1].tolist()
        first = bounds[0]
        data = self.data[first : bounds[-1]].tobytes()
        return [data[a - first : b - first] for a, b in pairwise(bounds)]

    def with_nulls(self, values: list[Any], start: int, stop: int) -> list[Any]:
        """Return the values of rows, None for each row without a value."""
        if self.valid is None:
            return values
        return [value if valid else None for value, valid in zip(values, self.valid[start:stop], strict=True)]


class StringColumn(VarColumn[T]):
    """Strings, in ``data`` as valid UTF-8.

    Examples:
    >>> batch = rocketstore.open("demo").scan(topic="Orders").head(2)
    >>> batch.topic[0], batch.tags.to_pylist()
    ('Orders', ['sent', 'paid'])
    """

    __slots__ = ()
    arrow_format = "u"

    def values_between(self, start: int, stop: int) -> list[T]:
        return self.with_nulls([data.decode() for data in self.bytes_between(start, stop)], start, stop)


class BinaryColumn(VarColumn[T]):
    """Bytes.

    Examples:
    >>> batch = rocketstore.open("demo").scan(topic="Orders").head(2)
    >>> batch.body[0], batch.body.to_pylist()
    (b'order 0', [b'order 0', b'order 1'])
    """

    __slots__ = ()
    arrow_format = "z"

    def values_between(self, start: int, stop: int) -> list[T]:
        return self.with_nulls(self.bytes_between(start, stop), start, stop)


class ListColumn(ValueColumn[list[str]]):
    """Lists of strings: row ``i`` is the rows ``offsets[i]`` to before ``offsets[i + 1]`` of ``values``.

    Examples:
    >>> batch = rocketstore.open("demo").scan(topic="Orders").head(2)
    >>> batch.keys[0], batch.keys.to_pylist()
    (['order-0'], [['order-0'], ['order-1']])
    """

    __slots__ = ("values",)
    arrow_format = "+l"
    values: StringColumn[str]

    def __init__(self, offsets: NDArray[np.int32], values: StringColumn[str]) -> None:
        self.offsets, self.values = offsets, values

    def take(self, rows: NDArray[np.int64]) -> ListColumn:
        offsets, inner = inner_rows(self.offsets, rows)
        return ListColumn(offsets, self.values.take(inner))

    def values_between(self, start: int, stop: int) -> list[list[str]]:
        bounds = self.offsets[start : stop + 1].tolist()
        first = bounds[0]
        values = self.values.values_between(first, bounds[-1])
        return [values[a - first : b - first] for a, b in pairwise(bounds)]


class MapColumn(ValueColumn[dict[str, str]]):
    """Maps of strings: row ``i`` is the rows ``offsets[i]`` to before ``offsets[i + 1]`` of ``keys`` and ``values``.

    Examples:
    >>> batch = rocketstore.open("demo").scan(topic="Orders").head(2)
    >>> batch.properties[0]["TAGS"], len(batch.properties)
    ('sent', 2)
    """

    __slots__ = ("keys", "values")
    arrow_format = "+m"
    keys: StringColumn[str]
    values: StringColumn[str]

    def __init__(self, offsets: NDArray[np.int32], keys: StringColumn[str], values: StringColumn[str]) -> None:
        self.offsets, self.keys, self.values = offsets, keys, values

    def take(self, rows: NDArray[np.int64]) -> MapColumn:
        offsets, inner = inner_rows(self.offsets, rows)
        return MapColumn(offsets, self.keys.take(inner), self.values.take(inner))

    def values_between(self, start: int, stop: int) -> list[dict[str, str]]:
        bounds = self.offsets[start : stop + 1].tolist()
        first, last = bounds[0], bounds[-1]
        keys, values = self.keys.values_between(first, last), self.values.values_between(first, last)
        return [
            dict(zip(keys[a - first : b - first], values[a - first : b - first], strict=True))
            for a, b in pairwise(bounds)
        ]


def values_of(column: NDArray[Any] | ValueColumn[Any], start: int, stop: int) -> list[Any]:
    """Return rows of a column, from ``start`` to before ``stop``, as Python objects."""
    if isinstance(column, np.ndarray):
        values: list[Any] = column[start:stop].tolist()
        return values
    return column.values_between(start, stop)


def inner_rows(offsets: NDArray[np.int32], rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the offsets of some rows of lists, and which rows of the values belong to these lists."""
    lengths = np.diff(offsets)[rows]
    taken = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return taken, np.repeat(offsets[rows] - taken[:-1], lengths) + np.arange(taken[-1])
