"""Where: a condition on messages in the language of SQL, evaluated by DuckDB batch by batch."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np

from rocketstore.extras import import_extra
from rocketstore.kernels.message_columns import BATCH_NAMES, MESSAGE_FIELDS, TEXTS_OF_BODY
from rocketstore.kernels.value_columns import MapColumn, StringColumn
from rocketstore.limits import INT_MAX
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.body_text import UTF8, body_text_columns, find_charset
from rocketstore.messages.message_batch import MessageBatch, empty_batch
from rocketstore.sql.condition import (
    BODY,
    BODY_JSON,
    BODY_TEXT,
    DOUBLE,
    JSON,
    PROPERTY,
    TEXT,
    FieldUse,
    ParsedCondition,
    parse_condition,
)
from rocketstore.sql.statement import sentence_of, set_time_zone
from rocketstore.text_values import find_similar, find_time_zone

if TYPE_CHECKING:
    import pyarrow as pa

ROW = "row of batch"
PROPERTY_COLUMN = "property: "  # begins the name of a column of texts
VALID_JSON = "valid json"


class Where:
    """A condition on messages, such as ``amount > 100 AND tags = 'paid'``, in the language of DuckDB.

    A name is a column, as ``rocketstore cat`` shows it or in snake_case, without regard to case. Any other name is a
    property of the message, or else a field of its JSON body. ``property.NAME`` is a property alone,
    ``body.NAME`` a field of the body alone, and ``body_text`` and ``body_json`` the body. A path has dots:
    ``customer.name``, ``items[0].price``. A name with other characters has double quotes: ``"order-id"``.

    A field that the condition compares with a number, or calculates with, is a number; with TRUE or FALSE it is a truth
    value; else it is a text. It is null if the message does not have it, or if its value has another type.

    Attributes: text: the condition. columns: the columns that ``choose`` needs in a batch. unseen: names of fields that
    no message had so far. bad_bodies: counts the bodies that cannot be decoded, which are null.

    Examples:
    >>> large = rocketstore.Where("queueOffset >= 98 AND body_text LIKE 'order%'")
    >>> rocketstore.open("demo").scan(topic="Orders").filtered(large).count()
    2
    """

    def __init__(self, text: str, *, tz: str | tzinfo | None = "UTC", charset: str = UTF8) -> None:
        """Check a condition.

        Parameters: tz: the time zone of times in it that name no zone, such as Asia/Shanghai; None and "local" are that
        of this machine. charset: of the bodies. Raises: ValueError that says what is wrong, and where; TypeError for
        a condition that is no text; ModuleNotFoundError without DuckDB or pyarrow.
        """
        if not isinstance(text, str):
            raise TypeError(f"text={text!r:.80}: a condition as text was expected, such as \"tags = 'paid'\"")
        self._charset = find_charset(charset)
        zone = find_time_zone(tz)
        self._duckdb = import_extra("duckdb", "duckdb")
        self._arrow = import_extra("pyarrow", "duckdb")
        self.text = text
        self.literal: bytes | None = None  # a condition of SQL shows no bytes that a scan can search for
        self.bad_bodies = BadBodies()
        config = {"enable_external_access": "false", "threads": 1}  # of each batch; a scan has several batches at once
        self._connection = self._duckdb.connect(":memory:", config=config)
        self._zone = zone
        self._local = threading.local()
        self._condition = parse_condition(self._cursor(), text)
        self.columns = needed_columns(self._condition)
        self.unseen = {use.text for use in self._condition.fields}
        self._check()

    def choose(self, batch: MessageBatch) -> np.ndarray:
        """Return the numbers of the rows that meet the condition, int64[n], ascending.

        Parameters: batch: with ``columns``. Raises: ValueError if DuckDB cannot evaluate the condition for a row.
        """
        found: list[np.ndarray] = []
        first = 0
        for part in batch.split(INT_MAX, self.bad_bodies, lambda error: error):
            rows = self._choose(self._table_of(part))
            found.append(rows + first)
            first += len(part)
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def describe_unseen(self) -> list[str]:
        """Return a text for each field in ``unseen``, with the column that was probably meant."""
        texts = []
        for name in sorted(self.unseen):
            similar = find_similar(name, [*MESSAGE_FIELDS, *BATCH_NAMES])
            hint = f": did you mean {similar!r}?" if similar else ""
            texts.append(f"no message has a property or a JSON field {name!r}{hint}")
        return texts

    def _choose(self, table: pa.Table) -> np.ndarray:
        cursor = self._cursor()
        cursor.register("batch", table)
        try:
            chosen = cursor.execute(f'SELECT "{ROW}" FROM {self._source} WHERE {self._condition.sql}')
            rows: np.ndarray = np.sort(chosen.fetchnumpy()[ROW])
            if self.unseen:
                self._note_seen(cursor)
        except self._duckdb.Error as error:
            raise ValueError(f"{self.text!r:.200}: {one_line(error)}") from None
        finally:
            cursor.unregister("batch")
        return np.asarray(rows, np.int64)

    def _note_seen(self, cursor: Any) -> None:
        """Remove the fields from ``unseen`` that a row of the batch has."""
        uses = {use.text: use._replace(type=TEXT) for use in self._condition.fields if use.text in self.unseen}
        counts = ", ".join(f"count({value_of(use)})" for use in uses.values())
        [seen] = cursor.execute(f"SELECT {counts} FROM batch").fetchall()
        self.unseen -= {text for text, count in zip(uses, seen, strict=True) if count}

    @property
    def _source(self) -> str:
        """The select that adds the fields of a condition to a batch."""
        added = [f"{value_of(use)} AS {quoted(use.column)}" for use in self._condition.fields]
        if self._condition.has_json:
            added.append(f'"{VALID_JSON}"::JSON AS {BODY_JSON}')
        return f"(SELECT *, {', '.join(added)} FROM batch)" if added else "batch"

    def _cursor(self) -> Any:
        """Return the cursor of this thread. Threads of a scan evaluate batches at the same time."""
        found = getattr(self._local, "cursor", None)
        if found is None:
            found = self._local.cursor = self._connection.cursor()
            set_time_zone(self._duckdb, found, self._zone)
        return found

    def _check(self) -> None:
        """Raise ValueError for a condition that DuckDB refuses. The error names the smallest part that is wrong."""
        cursor = self._cursor()
        cursor.register("batch", self._table_of(empty_batch(self.columns)))
        error = self._error_of(cursor, self._condition.sql)
        if error is not None:
            parts = ((part, self._error_of(cursor, part)) for part in self._condition.parts)
            part, reason = next((found for found in parts if found[1] is not None), (None, error))
            place = "" if part is None else f", in {part}"
            raise ValueError(f"{self.text!r:.200}{place}: {reason}")
        cursor.unregister("batch")

    def _error_of(self, cursor: Any, sql: str) -> str | None:
        """Return why a part of the condition is wrong; None if it is right."""
        try:
            cursor.execute(f"SELECT 1 FROM {self._source} WHERE {sql}").fetchall()
            [[_, kind, *_]] = cursor.execute(f"DESCRIBE SELECT {sql} AS condition FROM {self._source}").fetchall()
        except self._duckdb.Error as error:
            return one_line(error)
        return None if kind.upper() in ("BOOLEAN", "BOOL", "NULL") else f"has the type {kind}, and is no condition"

    def _table_of(self, batch: MessageBatch) -> pa.Table:
        """Return a batch as a table, with its row numbers, the properties that the condition names, and its texts."""
        table = self._arrow.Table.from_batches([batch.select(self._named(batch)).to_arrow()])
        table = table.append_column(ROW, self._arrow.array(np.arange(len(batch))))
        for name in property_names(self._condition.fields):
            table = table.append_column(PROPERTY_COLUMN + name, self._array(property_column(batch.properties, name)))
        if BODY in self.columns:
            texts = body_text_columns(batch.body, TEXTS_OF_BODY, self._charset)
            table = table.append_column(BODY_TEXT, self._array(texts[BODY_TEXT]))
            table = table.append_column(VALID_JSON, self._array(texts[BODY_JSON]))
        return table

    def _named(self, batch: MessageBatch) -> list[str]:
        """Return the columns of a batch that the condition names; any column if it names none."""
        return [*self._condition.columns] or [self.columns[0]]

    def _array(self, column: StringColumn[Any]) -> pa.Array:
        return self._arrow.array(column)

    def __repr__(self) -> str:
        zone = "" if self._zone is UTC else f", tz={self._zone or 'local'}"
        return f"<Where {self.text!r}{zone}>"


def needed_columns(condition: ParsedCondition) -> tuple[str, ...]:
    """Return the columns of a batch that a condition needs, at least one."""
    names = dict.fromkeys(condition.columns)
    if any(use.place != BODY for use in condition.fields):
        names["properties"] = None
    if condition.has_text or condition.has_json or any(use.place != PROPERTY for use in condition.fields):
        names[BODY] = None
    return tuple(names) or ("queue_id",)


def property_names(fields: Iterable[FieldUse]) -> list[str]:
    """Return the properties that fields may be."""
    return list(dict.fromkeys(".".join(use.path) for use in fields if use.place != BODY))


def property_column(properties: MapColumn, name: str) -> StringColumn[str | None]:
    """Return the values of one property. If a message repeats a property, the last one counts, as in Java's map."""
    offsets, data = properties.keys.offsets, properties.keys.data
    wanted = np.frombuffer(name.encode("utf-8", "surrogatepass"), np.uint8)
    places = np.flatnonzero(np.diff(offsets) == len(wanted))
    for i, byte in enumerate(wanted.tolist()):
        places = places[data[offsets[places] + i] == byte]
    rows = np.searchsorted(properties.offsets, places, side="right") - 1
    inner = np.full(len(properties), -1)
    inner[rows] = places
    valid = inner >= 0
    taken = properties.values.take(inner[valid])
    lengths = np.zeros(len(properties) + 1, np.int32)
    lengths[1:][valid] = np.diff(taken.offsets)
    return StringColumn(np.cumsum(lengths, dtype=np.int32), taken.data, valid)


def value_of(use: FieldUse) -> str:
    """Return the SQL for the values of a field."""
    parts = []
    if use.place != BODY:
        parts.append(quoted(PROPERTY_COLUMN + ".".join(use.path)))
    if use.place != PROPERTY:
        pointer = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in use.path)
        function = "json_extract" if use.type == JSON else "json_extract_string"
        parts.append(f"""{function}("{VALID_JSON}", '{pointer.replace("'", "''")}')""")
    if use.type == JSON and len(parts) == 2:
        parts[0] = f"CASE WHEN json_valid({parts[0]}) THEN {parts[0]}::JSON END"
    value = parts[0] if len(parts) == 1 else f"coalesce({', '.join(parts)})"
    if use.type in (TEXT, JSON):
        return value
    cast = f"TRY_CAST({value} AS {use.type})"
    return f"nullif({cast}, 'NaN')" if use.type == DOUBLE else cast


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def one_line(error: Exception) -> str:
    """Return the first line of DuckDB's message, without its class."""
    text = sentence_of(error).partition("\n")[0]
    return text.partition("Error: ")[2] or text
