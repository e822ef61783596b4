"""MessageBatch: many messages, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from rocketstore.errors import PutMessageError
from rocketstore.extras import import_extra
from rocketstore.kernels.arrow_export import export_batch
from rocketstore.kernels.column_names import Names, named_fields
from rocketstore.kernels.columns import int64_column
from rocketstore.kernels.message_columns import BATCH_NAMES, BROKER, MESSAGE_FIELDS, Field, batch_fields
from rocketstore.kernels.message_slots import make_messages
from rocketstore.kernels.record_columns import RecordColumns
from rocketstore.kernels.value_columns import BinaryColumn, ListColumn, MapColumn, StringColumn, values_of
from rocketstore.limits import INT_MAX
from rocketstore.made_by import made_by
from rocketstore.messages.arrow_import import join_columns, read_columns
from rocketstore.messages.bodies import BadBodies, Bodies, body_error_column, decompress_bodies, find_crc_errors
from rocketstore.messages.body_text import UTF8, body_text_columns
from rocketstore.messages.compression import COMPRESSED, CRC_COLUMNS, BodyError, body_error_text
from rocketstore.messages.message import Message
from rocketstore.messages.preview import preview_messages
from rocketstore.messages.to_put import to_put
from rocketstore.names_of_other_tools import describe_line
from rocketstore.preview import Preview, Previewed
from rocketstore.text_values import format_count

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


CHUNK = 256  # messages that are made at once
MESSAGES_TOGETHER = 4096  # of an iterator that are put together
STORED_COLUMNS = "raw_body", "sys_flag", "phy_offset"  # columns that bodies are made from
MADE_COLUMNS = {"body", "body_text", "body_json", "body_error"}  # columns that are made from STORED_COLUMNS


@made_by("store.scan()")
class MessageBatch(Previewed):
    """Messages as columns, which are attributes under the names of Message's fields.

    ``batch[i]`` is a Message, ``batch[i:j]`` a MessageBatch. pyarrow, and each library that accepts Arrow objects, gets
    a batch without a copy.

    Numbers are NumPy arrays. All other columns are sequences of Python objects: ``batch.topic[5]`` is a str,
    ``len(batch.body)`` the number of rows, ``batch.keys.to_pylist()`` a list of lists. Bodies are BinaryColumn; topic,
    hosts, ids, tags and uniq_key StringColumn; keys ListColumn; properties MapColumn. The attributes ``offsets``,
    ``data``, ``valid``, ``keys`` and ``values`` of a column are its NumPy arrays and inner columns.

    A body that cannot be decoded is None in ``batch.body``. The column ``body_error``, if it was requested, has the
    reason. ``batch[i].body`` raises the error. Messages of several stores also have the column ``broker``.

    Attributes: columns: dict of column by name. names: of the columns.
    Source: none; RocketMQ's MessageBatch is ``Message.batch`` here.

    Examples:
    >>> batch = rocketstore.open("demo").scan(topic="Orders").head(3)
    >>> batch.queue_offset, batch[0].body, batch[1:].tags.to_pylist()
    (array([0, 1, 2]), b'order 0', ['paid', 'sent'])
    """

    broker: StringColumn[str]
    topic: StringColumn[str]
    queue_id: NDArray[np.int32]
    queue_offset: NDArray[np.int64]
    phy_offset: NDArray[np.int64]
    size: NDArray[np.int32]
    flag: NDArray[np.int32]
    sys_flag: NDArray[np.int32]
    born_timestamp: NDArray[np.int64]
    born_host: StringColumn[str]
    store_timestamp: NDArray[np.int64]
    store_host: StringColumn[str]
    reconsume_times: NDArray[np.int32]
    prepared_transaction_offset: NDArray[np.int64]
    body_crc: NDArray[np.int32]
    msg_id: StringColumn[str]
    tags: StringColumn[str | None]
    keys: ListColumn
    uniq_key: StringColumn[str | None]
    properties: MapColumn
    body: BinaryColumn[bytes | None]
    body_text: StringColumn[str | None]
    body_json: StringColumn[str | None]
    body_error: StringColumn[str | None]
    raw_body: BinaryColumn[bytes]
    tags_code: NDArray[np.int64]
    born_timestamp_ms: NDArray[np.int64]
    store_timestamp_ms: NDArray[np.int64]
    damaged: NDArray[np.bool_]

    def __init__(
        self,
        columns: dict[str, Any],
        length: int,
        stored: dict[str, Any] | None = None,
        body_errors: dict[int, BodyError] | None = None,
        charset: str = UTF8,
    ) -> None:
        """Hold columns.

        Parameters: stored: the columns from which bodies are made when their column is first used. body_errors: the
        error of each body that could not be decoded, by row. charset: of the bodies, for their text.
        """
        self._columns = columns
        self._length = length
        self._stored = stored
        self._body_errors = body_errors or {}
        self._charset = charset

    @classmethod
    def of_arrow(cls, table: Any) -> Self:
        """Make a batch of a table of pyarrow, pandas or polars, or of any other object that exports itself to Arrow.

        Parameters: table: its columns have the names that ``to_arrow`` and ``rocketstore export`` give. ``topic`` and
        ``body`` are required. A body is bytes, or text, which becomes UTF-8. A time has any unit, or is epoch ms.
        ``properties`` is a map, a list of pairs or a struct. Raises: TypeError, ValueError, which name column and row;
        ModuleNotFoundError without pyarrow.

        Examples:
        >>> import polars
        >>> table = polars.DataFrame({"topic": ["Orders"], "body": [b"first"]})
        >>> MessageBatch.of_arrow(table)[0]
        <Message 'Orders'>
        """
        pieces, lengths = zip(*read_columns(table), strict=True)
        return cls({name: join_columns([piece[name] for piece in pieces]) for name in pieces[0]}, sum(lengths))

    @classmethod
    def iter_arrow(cls, stream: Any, *, first_row: int = 0) -> Iterator[Self]:
        """Yield batches of an Arrow stream as they are read.

        Parameters: stream: as the table of ``of_arrow``. first_row: the number of its first row, for errors.
        Raises: as ``of_arrow``.
        """
        return (cls(*piece) for piece in read_columns(stream, first_row=first_row))

    @classmethod
    def join(cls, batches: Sequence[MessageBatch]) -> MessageBatch:
        """Make one batch of one or more batches with the same columns, in their order."""
        if len(batches) == 1:
            return batches[0]
        columns = {name: join_columns([batch.columns[name] for batch in batches]) for name in batches[0].columns}
        starts = accumulate(map(len, batches), initial=0)
        errors = {
            start + row: error
            for start, batch in zip(starts, batches, strict=False)
            for row, error in batch._body_errors.items()
        }
        return cls(columns, sum(map(len, batches)), body_errors=errors)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns by name. A body that cannot be decoded is null, and a warning has the number of such bodies."""
        if self._stored is not None:
            bodies = next(decompress_bodies(self._stored, self._length, INT_MAX))
            if bodies.rows is not None:
                raise MemoryError("the bodies of a batch have more than 2 GiB decompressed: read fewer at once")
            self._columns = with_made_columns(self._columns, bodies, self._length, self._charset)
            self._body_errors = bodies.errors
            self._stored = None
            bad_bodies = BadBodies()
            bad_bodies.add(bodies.errors.values())
            bad_bodies.warn()
        return self._columns

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return self._length

    @property
    def store_time(self) -> NDArray[np.datetime64]:
        """``store_timestamp`` as datetime64[ms][n], in UTC."""
        return self.store_timestamp.view("datetime64[ms]")

    @property
    def born_time(self) -> NDArray[np.datetime64]:
        """``born_timestamp`` as datetime64[ms][n], in UTC."""
        return self.born_timestamp.view("datetime64[ms]")

    def __dir__(self) -> Iterable[str]:
        return {*super().__dir__(), *self._columns}

    def _find_column(self, name: str) -> Any:
        columns = self.__dict__.get("_columns", {})
        if name in columns:
            return (self.columns if name in MADE_COLUMNS else columns)[name]
        hint = "" if name.startswith("_") or name in MESSAGE_FIELDS else describe_line("batch", name, [*dir(self)])
        raise AttributeError(f"batch.{name}: not among the columns that were read{hint}", name=name, obj=self)

    if not TYPE_CHECKING:  # a type checker knows the declared columns alone
        __getattr__ = _find_column

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
        shown = self._columns if self._charset == UTF8 else self.columns  # a message makes texts of UTF-8 only
        columns = {name: values_of(column, start, stop) for name, column in shown.items() if column is not None}
        if self._stored is not None:
            stored = [values_of(self._stored[name], start, stop) for name in STORED_COLUMNS]
            columns["_stored"] = list(zip(*stored, strict=True))
        made = make_messages(Message, list(columns), zip(*columns.values(), strict=True))
        if self._stored is not None and (errors := find_crc_errors(self._stored, start, stop)):
            return self._without_wrong_bodies(made, start, errors)
        body = self._columns.get("body")
        return iter(made) if body is None or body.valid is None else self._without_null_bodies(made, start)

    def _without_wrong_bodies(
        self, messages: Iterable[Message], start: int, errors: dict[int, BodyError]
    ) -> Iterator[Message]:
        """Yield messages. Those whose body does not match its CRC have the error in place of the stored body."""
        for row, message in enumerate(messages, start):
            if row in errors:
                del message._stored
                message._body_error = errors[row]
            yield message

    def _without_null_bodies(self, messages: Iterable[Message], start: int) -> Iterator[Message]:
        """Yield messages. A null body is deleted: the message then has the body's error, or decodes raw_body again."""
        for row, message in enumerate(messages, start):
            if message.body is None:
                del message.body
                if row in self._body_errors:
                    message._body_error = self._body_errors[row]
            yield message

    def take(self, rows: Sequence[int] | np.ndarray) -> MessageBatch:
        """Return some rows in the given order. Parameters: rows: int64[n]. Raises: IndexError; TypeError."""
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
        return MessageBatch(taken, len(chosen), stored or None, errors, self._charset)

    def without_phy_offsets(self) -> MessageBatch:
        """Return the batch with null in place of each physical offset, of messages that are in another log."""
        columns = dict(self._columns)
        if "phy_offset" in columns:
            columns["phy_offset"] = np.ma.MaskedArray(
                np.full(self._length, -1, np.int64), np.ones(self._length, np.bool_)
            )
        return MessageBatch(columns, self._length, self._stored, self._body_errors, self._charset)

    def with_broker(self, broker: str) -> MessageBatch:
        """Return the batch with the column ``broker`` before the others, which has the same name in all rows."""
        name = np.frombuffer(broker.encode("utf-8", "replace"), np.uint8)
        offsets = np.arange(self._length + 1, dtype=np.int32) * len(name)
        column: StringColumn[str] = StringColumn(offsets, np.tile(name, self._length))
        columns = {BROKER: column, **self._columns}
        return MessageBatch(columns, self._length, self._stored, self._body_errors, self._charset)

    def split(
        self, most: int, bad_bodies: BadBodies, name_file: Callable[[BodyError], BodyError]
    ) -> Iterator[MessageBatch]:
        """Yield the rows with decompressed bodies, in one batch or in several.

        Parameters: most: bytes of bodies in a batch, unless a single body has more. bad_bodies: counts the bodies that
        cannot be decoded; they are null in the batch. name_file: adds the file of the log to an error.
        """
        if self._stored is None:
            yield self
            return
        for bodies in decompress_bodies(self._stored, self._length, most):
            named = bodies._replace(errors={row: name_file(error) for row, error in bodies.errors.items()})
            bad_bodies.add(named.errors.values())
            length = self._length if named.rows is None else len(named.rows)
            columns = with_made_columns(self._columns, named, length, self._charset)
            yield MessageBatch(columns, length, body_errors=named.errors)

    def select(self, names: str | Iterable[str]) -> MessageBatch:
        """Return a batch of one column or of several, by their names in a batch or a table.

        Raises: ValueError for a column that is not here.
        """
        names = [BATCH_NAMES.get(name, name) for name in ([names] if isinstance(names, str) else names)]
        for name in names:
            if name not in self._columns:
                raise ValueError(f"names: {name!r} is none of {', '.join(self._columns)}")
        columns = self._columns if MADE_COLUMNS.isdisjoint(names) else self.columns  # decompresses only wanted bodies
        return MessageBatch({name: columns[name] for name in names}, self._length, body_errors=self._body_errors)

    def to_put(self) -> Iterator[Message]:
        """Yield messages that can be put, as ``to_put`` makes them. Raises: as ``to_put``."""
        return map(to_put, self)

    def stored_columns(self) -> dict[str, Any]:
        """Return the columns that records are made of, by their names in a record.

        Bodies keep their stored form if it is known. Otherwise they are not compressed. Raises: PutMessageError for a
        body that does not match its CRC.
        """
        if self._stored is not None:
            for row, error in find_crc_errors(self._stored, 0, self._length).items():
                raise PutMessageError("MESSAGE_ILLEGAL", f"row {row}: its body: {body_error_text(error)}")
        columns = {name: column for name, column in self._columns.items() if column is not None}
        columns |= {name.removesuffix("_ms"): columns[name] for name in columns if name.endswith("_ms")}
        columns |= {name: column for name, column in (self._stored or {}).items() if name not in CRC_COLUMNS}
        if "sys_flag" not in columns:
            columns.pop("raw_body", None)
        elif "raw_body" not in columns:
            columns["sys_flag"] = columns["sys_flag"] & ~COMPRESSED
        return columns

    def find_body_errors(self) -> dict[int, BodyError]:
        """Return why bodies cannot be decoded, by row."""
        _ = self.columns  # decompresses the bodies
        return self._body_errors

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Export as an Arrow record batch, with the names of tables."""
        return self._named("rocketmq").__arrow_c_array__(requested_schema)

    def to_arrow(self, *, names: Names = "rocketmq") -> pyarrow.RecordBatch:
        """Return a pyarrow.RecordBatch, without a copy.

        Parameters: names: of the columns: "rocketmq": such as queueId; "python": such as queue_id, as in this batch.
        Raises: ValueError for other names.
        """
        return import_extra("pyarrow", "arrow").record_batch(self._named(names))

    def to_pandas(self, *, names: Names = "rocketmq") -> pandas.DataFrame:
        """Return a pandas.DataFrame. Parameters, raises: as ``to_arrow``."""
        import_extra("pandas", "pandas")
        return import_extra("pyarrow", "pandas").record_batch(self._named(names)).to_pandas()

    def to_polars(self, *, names: Names = "rocketmq") -> polars.DataFrame:
        """Return a polars.DataFrame. Parameters, raises: as ``to_arrow``.

        Examples:
        >>> rocketstore.open("demo").scan(columns=["topic", "body"]).head(2).to_polars().columns
        ['topic', 'body']
        """
        frame: polars.DataFrame = import_extra("polars", "polars").DataFrame(self._named(names))
        return frame

    def _named(self, names: Names) -> NamedBatch:
        """Return an object that exports this batch to Arrow with the names of a convention."""
        fields = named_fields(batch_fields(self.columns).values(), names)
        return NamedBatch(fields, list(self.columns.values()), self._length)

    def _preview(self) -> Preview:
        return preview_messages(f"MessageBatch: {format_count(self._length, 'message')}", self, self.names)


@dataclass(frozen=True)
class NamedBatch:  # no tuple, since pyarrow would take a tuple for a list of columns
    """Columns that export themselves as an Arrow record batch. Attributes: fields: of the columns, in their order."""

    fields: Sequence[Field]
    columns: Sequence[Any]
    length: int

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Export as an Arrow record batch."""
        return export_batch(self.fields, self.columns, self.length)


def is_arrow(value: object) -> bool:
    """Return whether a value is a table of another library, for ``MessageBatch.of_arrow``."""
    exports = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return exports and not isinstance(value, MessageBatch)


def in_parts(messages: Iterable[Message] | Any) -> Iterator[Sequence[Message] | MessageBatch]:
    """Yield the messages of an iterator, or of an Arrow table, in parts that are put together."""
    if is_arrow(messages):
        return MessageBatch.iter_arrow(messages)
    iterator = iter(messages)
    return iter(lambda: list(islice(iterator, MESSAGES_TOGETHER)), [])


def lazy_batch_of(columns: dict[str, Any], fields: Iterable[str], charset: str = UTF8) -> MessageBatch:
    """Make a batch of these fields. Bodies are decompressed when their column is first used."""
    shown = {name: None if name in MADE_COLUMNS else columns[name.removesuffix("_ms")] for name in fields}
    stored = None
    if not MADE_COLUMNS.isdisjoint(shown):
        stored = {name: columns[name] for name in (*STORED_COLUMNS, *CRC_COLUMNS) if name in columns}
    return MessageBatch(shown, row_count(columns), stored, charset=charset)


def empty_batch(fields: Iterable[str]) -> MessageBatch:
    """Make a batch without messages, with the columns of a batch that has messages."""
    names = dict.fromkeys([*STORED_COLUMNS, *(name.removesuffix("_ms") for name in fields if name not in MADE_COLUMNS)])
    return lazy_batch_of(RecordColumns(names).take(), fields)


def with_made_columns(columns: dict[str, Any], bodies: Bodies, length: int, charset: str) -> dict[str, Any]:
    """Return all columns with the rows of ``bodies``; MADE_COLUMNS are made from ``bodies``."""
    made: dict[str, Any] = {}
    texts = body_text_columns(bodies.column, columns, charset)
    for name, column in columns.items():
        if name == "body":
            made[name] = bodies.column
        elif name in texts:
            made[name] = texts[name]
        elif name == "body_error":
            made[name] = body_error_column(bodies.errors, length)
        else:
            made[name] = column if bodies.rows is None else take_column(column, bodies.rows)
    return made


def row_count(columns: dict[str, Any]) -> int:
    column = next(iter(columns.values()))
    return len(column) if isinstance(column, np.ndarray) else len(column.offsets) - 1


def take_column(column: Any, rows: np.ndarray) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else column.take(rows)
