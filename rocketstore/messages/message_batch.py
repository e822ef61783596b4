"""MessageBatch: many messages, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from rocketstore.errors import PutMessageError
from rocketstore.extras import import_extra
from rocketstore.kernels.arrow_export import export_batch
from rocketstore.kernels.columns import int64_column
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, MapColumn, VarColumn, message_fields
from rocketstore.kernels.message_slots import make_messages, own_fields, set_fields
from rocketstore.kernels.record_columns import take_values
from rocketstore.limits import INT_MAX
from rocketstore.messages.arrow_import import join_columns, read_columns
from rocketstore.messages.bodies import BadBodies, Bodies, body_error_column, decompress_bodies
from rocketstore.messages.compression import BODY_ERRORS, COMPRESSED, BodyError, body_error_text
from rocketstore.messages.message import Message

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["MADE_COLUMNS", "STORED_COLUMNS", "MessageBatch", "in_parts", "is_arrow", "lazy_batch_of", "to_put"]
__all__ += ["values_of"]

CHUNK = 256  # messages that are made at once
MESSAGES_TOGETHER = 4096  # of an iterator that are put together
STORED_COLUMNS = "raw_body", "sys_flag", "phy_offset"  # columns that bodies are made from
MADE_COLUMNS = {"body", "body_error"}  # columns that are made from STORED_COLUMNS
PUT_FIELDS = ["queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "store_timestamp", "store_host"]
PUT_FIELDS += ["reconsume_times", "prepared_transaction_offset", "born_timestamp_ms", "store_timestamp_ms"]


class MessageBatch:
    """Messages as columns, which are attributes under the names of Message's fields.

    Numbers are NumPy arrays; topic, hosts, ids, tags, uniq_key and bodies VarColumn; keys ListColumn; properties
    MapColumn. ``batch[i]`` is a Message, ``batch[i:j]`` a MessageBatch. Goes to Arrow, and what takes Arrow, without a
    copy.

    Row ``i`` of a VarColumn is ``data[offsets[i]:offsets[i + 1]]``, bytes or UTF-8, none where ``valid`` is an array
    and ``valid[i]`` False; of a ListColumn, rows ``offsets[i]`` to ``offsets[i + 1]`` of the VarColumn ``values``; of a
    MapColumn, those of ``keys`` and ``values``. For rows as values take ``batch[i].body``, or ``to_arrow()`` for all.

    A body that cannot be decoded is null: the column ``body_error`` says why, if it was asked for, and reading
    ``batch[i].body`` raises the error.

    Attributes: columns: dict of column by name. Source: none; RocketMQ's MessageBatch is ``Message.batch`` here.
    """

    def __init__(
        self,
        columns: dict[str, Any],
        length: int,
        stored: dict[str, Any] | None = None,
        body_errors: dict[int, BodyError] | None = None,
    ) -> None:
        """Hold columns.

        Parameters: stored: the columns that bodies are made from when they are asked for. body_errors: the error of
        each row whose body could not be decoded, by row.
        """
        self._columns = columns
        self._length = length
        self._stored = stored
        self._body_errors = body_errors or {}

    @classmethod
    def of_arrow(cls, table: Any) -> Self:
        """Make a batch of an Arrow table: a pyarrow, pandas or polars one, whatever exports itself to Arrow.

        Parameters: table: with the columns that ``to_arrow`` and ``rocketstore export`` give, of them ``topic`` and
        ``body`` (bytes, or text for its UTF-8) at least; times of any unit or epoch ms, ``properties`` a map, a list of
        pairs or a struct. Raises: TypeError, ValueError that name column and row; ModuleNotFoundError without pyarrow.
        """
        pieces, lengths = zip(*read_columns(table), strict=True)
        return cls({name: join_columns([piece[name] for piece in pieces]) for name in pieces[0]}, sum(lengths))

    @classmethod
    def iter_arrow(cls, stream: Any, *, first_row: int = 0) -> Iterator[Self]:
        """Give batches of an Arrow stream piece by piece; the parameters are of ``of_arrow``, and see there."""
        return (cls(*piece) for piece in read_columns(stream, first_row=first_row))

    @property
    def columns(self) -> dict[str, Any]:
        """The columns by name. Gives a warning if bodies cannot be decoded, which are null then."""
        if self._stored is not None:
            bodies = next(decompress_bodies(self._stored, self._length, INT_MAX))
            if bodies.rows is not None:
                raise MemoryError("the batch's bodies are more than 2 GiB when decompressed: ask for fewer at once")
            self._columns = with_made_columns(self._columns, bodies, self._length)
            self._body_errors = bodies.errors
            self._stored = None
            bad_bodies = BadBodies()
            bad_bodies.add(bodies.errors.values())
            bad_bodies.warn()
        return self._columns

    def __len__(self) -> int:
        return self._length

    def __getattr__(self, name: str) -> Any:
        columns = self.__dict__.get("_columns", {})
        if name in columns:
            return (self.columns if name in MADE_COLUMNS else columns)[name]
        raise AttributeError(f"batch.{name}: not among the columns that were read", name=name, obj=self)

    @overload
    def __getitem__(self, i: int) -> Message: ...
    @overload
    def __getitem__(self, i: slice) -> MessageBatch: ...
    def __getitem__(self, i: int | slice) -> Message | MessageBatch:
        if isinstance(i, slice):
            return self.take(np.arange(*i.indices(self._length)))
        if isinstance(i, str):
            raise TypeError(f"batch[{i!r}]: an int or a slice of rows was expected, a column is batch.{i}")
        if not -self._length <= i < self._length:
            raise IndexError(f"message {i} of {self._length}")
        return next(self._messages(i % self._length, 1))

    def __iter__(self) -> Iterator[Message]:
        return (message for start in range(0, self._length, CHUNK) for message in self._messages(start, CHUNK))

    def _messages(self, start: int, count: int) -> Iterator[Message]:
        stop = min(start + count, self._length)
        columns = {name: values_of(name, column, start, stop) for name, column in self._columns.items()
                   if column is not None}
        if self._stored is not None:
            stored = [values_of(name, self._stored[name], start, stop) for name in STORED_COLUMNS]
            columns["_stored"] = list(zip(*stored, strict=True))
        made = make_messages(Message, list(columns), zip(*columns.values(), strict=True))
        body = self._columns.get("body")
        return iter(made) if body is None or body.valid is None else self._without_null_bodies(made, start)

    def _without_null_bodies(self, messages: Iterable[Message], start: int) -> Iterator[Message]:
        """Yield messages without a null body. It is replaced by the body's error, or by a body made from raw_body."""
        for row, message in enumerate(messages, start):
            if message.body is None:
                del message.body
                if row in self._body_errors:
                    message._body_error = self._body_errors[row]
            yield message

    def take(self, rows: Sequence[int] | np.ndarray) -> MessageBatch:
        """Return these rows, int64[n], in their order. Raises: IndexError; TypeError for what are no integers."""
        chosen = int64_column(rows, "rows", len(rows))
        outside = (chosen < 0) | (chosen >= self._length)
        if outside.any():
            raise IndexError(f"row {chosen[outside.argmax()]} of {self._length}")
        taken, stored = (
            {name: None if column is None else take_column(column, chosen) for name, column in columns.items()}
            for columns in (self._columns, self._stored or {})
        )
        errors = {}
        if self._body_errors:
            old = self._body_errors
            errors = {new: old[row] for new, row in enumerate(chosen.tolist()) if row in old}
        return MessageBatch(taken, len(chosen), stored or None, errors)

    def split(self, most: int, bad_bodies: BadBodies, name_file: Callable[[BodyError], BodyError]
              ) -> Iterator[MessageBatch]:
        """Give the rows in one batch, or in several where bodies are compressed, with bodies decompressed.

        Parameters: most: bytes of bodies in a batch, unless a single body has more. bad_bodies: counts the bodies that
        cannot be decoded, which are null. name_file: adds the file of the log to an error.
        """
        if self._stored is None:
            yield self
            return
        for bodies in decompress_bodies(self._stored, self._length, most):
            named = bodies._replace(errors={row: name_file(error) for row, error in bodies.errors.items()})
            bad_bodies.add(named.errors.values())
            length = self._length if named.rows is None else len(named.rows)
            columns = with_made_columns(self._columns, named, length)
            yield MessageBatch(columns, length, body_errors=named.errors)

    def select(self, names: Iterable[str]) -> MessageBatch:
        """Return a batch of these columns. Raises: ValueError for one that is not here; TypeError for a single str."""
        if isinstance(names, str):
            raise TypeError(f"names={names!r}: a list of str was expected")
        names = list(names)
        for name in names:
            if name not in self._columns:
                raise ValueError(f"names: {name!r} is none of {', '.join(self._columns)}")
        columns = self._columns if MADE_COLUMNS.isdisjoint(names) else self.columns  # decompresses only wanted bodies
        return MessageBatch({name: columns[name] for name in names}, self._length, body_errors=self._body_errors)

    def to_put(self) -> Iterator[Message]:
        """Give messages that can be put, from these columns: topic and body or raw_body at least; see ``to_put``."""
        return map(to_put, self)

    def stored_columns(self) -> dict[str, Any]:
        """Give the columns that records are made of, under their names in a record: bodies as they were stored.

        Where it is not known how they were stored, they are stored without compression.
        """
        columns = {name: column for name, column in self._columns.items() if column is not None}
        columns |= {name.removesuffix("_ms"): columns[name] for name in columns if name.endswith("_ms")}
        columns |= self._stored or {}
        if "sys_flag" not in columns:
            columns.pop("raw_body", None)
        elif "raw_body" not in columns:
            columns["sys_flag"] = columns["sys_flag"] & ~COMPRESSED
        return columns

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Export as an Arrow record batch, with the names of tables."""
        fields = message_fields(self.columns)
        return export_batch(fields.values(), list(self.columns.values()), self._length)

    def to_arrow(self) -> pyarrow.RecordBatch:
        """Return a pyarrow.RecordBatch, without a copy."""
        return import_extra("pyarrow", "arrow").record_batch(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas.DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return a polars.DataFrame."""
        frame: polars.DataFrame = import_extra("polars", "arrow").DataFrame(self)
        return frame

    def __repr__(self) -> str:
        return f"<MessageBatch: {self._length:,} messages, {', '.join(self._columns)}>"


def is_arrow(value: object) -> bool:
    """Whether it is a table of some other library, for ``MessageBatch.of_arrow``."""
    exports = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return exports and not isinstance(value, MessageBatch)


def in_parts(messages: Iterable[Message] | Any) -> Iterator[Sequence[Message] | MessageBatch]:
    """Yield the messages of an iterator, or of an Arrow table, in parts that are put together."""
    if is_arrow(messages):
        return MessageBatch.iter_arrow(messages)
    iterator = iter(messages)
    return iter(lambda: list(islice(iterator, MESSAGES_TOGETHER)), [])


def lazy_batch_of(columns: dict[str, Any], fields: Iterable[str]) -> MessageBatch:
    """Make the batch of these fields whose bodies are decompressed when they are asked for."""
    shown = {name: None if name in MADE_COLUMNS else columns[name.removesuffix("_ms")] for name in fields}
    stored = None if MADE_COLUMNS.isdisjoint(shown) else {name: columns[name] for name in STORED_COLUMNS}
    return MessageBatch(shown, row_count(columns), stored)


def with_made_columns(columns: dict[str, Any], bodies: Bodies, length: int) -> dict[str, Any]:
    """Return all columns with the rows of ``bodies``; ``body`` and ``body_error`` are made from ``bodies``."""
    made = {}
    for name, column in columns.items():
        if name == "body":
            made[name] = bodies.column
        elif name == "body_error":
            made[name] = body_error_column(bodies.errors, length)
        else:
            made[name] = column if bodies.rows is None else take_column(column, bodies.rows)
    return made


def row_count(columns: dict[str, Any]) -> int:
    column = next(iter(columns.values()))
    return len(column) if isinstance(column, np.ndarray) else len(column.offsets) - 1


def to_put(message: Message) -> Message:
    """Make a message that can be put, of one that has some fields only: as it was read, or in a table.

    The body is stored as it was if that is known, else without compression. KEYS, TAGS and UNIQ_KEY are made of keys,
    tags and uniq_key where properties lack them. What is not given is as in a new message.
    Raises: ValueError for what contradicts itself, AttributeError without topic or body.
    """
    given = own_fields(message)
    made = Message(message.topic, b"", properties=given.get("properties"))
    set_fields(made, {name.removesuffix("_ms"): given[name] for name in PUT_FIELDS if name in given})
    if "_stored" in given:
        made.raw_body, made.sys_flag, _ = given["_stored"]
    elif {"raw_body", "sys_flag"} <= given.keys():
        made.raw_body = given["raw_body"]
    else:
        made.raw_body = body_to_put(message)
        made.sys_flag &= ~COMPRESSED
    if keys := given.get("keys"):
        add_property(made.properties, "KEYS", " ".join(keys))
        if split_words(" ".join(keys)) != keys:
            raise ValueError(f"keys {keys!r}: a key is a word, without spaces")
    for name in ("tags", "uniq_key"):
        if value := given.get(name):
            add_property(made.properties, name.upper(), value)
    return made


def body_to_put(message: Message) -> bytes:
    """Return the body. Raises: PutMessageError if it could not be decoded, since nothing else is known of it."""
    try:
        return message.body
    except BODY_ERRORS as error:
        hint = "the columns raw_body and sys_flag store it as it was"
        text = f"{message!r}: its body cannot be decoded: {body_error_text(error)}: {hint}"
        raise PutMessageError("MESSAGE_ILLEGAL", text) from None


def add_property(properties: dict[str, str], name: str, value: str) -> None:
    there = properties.setdefault(name, value)
    if there != value and split_words(there) != split_words(value):
        raise ValueError(f"properties say that {name} is {there!r}, the column {value!r}")


def split_words(text: str) -> list[str]:
    return [word for word in text.split(" ") if word]


def values_of(name: str, column: Any, start: int, stop: int) -> list[Any]:
    """Give rows of a column as Python objects."""
    if isinstance(column, np.ndarray):
        values: list[Any] = column[start:stop].tolist()
        return values
    if isinstance(column, VarColumn) and MESSAGE_FIELDS[name].format == "z":
        return with_nulls(column, raw_bytes_of(column, start, stop), start, stop)
    if isinstance(column, VarColumn):
        return texts_of(column, start, stop)
    bounds = column.offsets[start : stop + 1].tolist()
    parts = [texts_of(values, bounds[0], bounds[-1]) for values in column[1:]]
    rows = [[part[a - bounds[0] : b - bounds[0]] for part in parts] for a, b in pairwise(bounds)]
    return [dict(zip(*row, strict=True)) if isinstance(column, MapColumn) else row[0] for row in rows]


def raw_bytes_of(column: VarColumn, start: int, stop: int) -> list[bytes]:
    bounds = column.offsets[start : stop + 1].tolist()
    data, first = column.data[bounds[0] : bounds[-1]].tobytes(), bounds[0]
    return [data[a - first : b - first] for a, b in pairwise(bounds)]


def texts_of(column: VarColumn, start: int, stop: int) -> list[Any]:
    return with_nulls(column, [data.decode() for data in raw_bytes_of(column, start, stop)], start, stop)


def with_nulls(column: VarColumn, values: list[Any], start: int, stop: int) -> list[Any]:
    if column.valid is None:
        return values
    return [value if valid else None for value, valid in zip(values, column.valid[start:stop], strict=True)]


def take_column(column: Any, rows: np.ndarray) -> Any:
    if isinstance(column, np.ndarray):
        return column[rows]
    if isinstance(column, VarColumn):
        offsets, data = take_values(column.offsets, column.data, rows)
        return VarColumn(offsets, data, None if column.valid is None else column.valid[rows])
    lengths = np.diff(column.offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    inner = np.repeat(column.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return type(column)(offsets, *(take_column(values, inner) for values in column[1:]))
