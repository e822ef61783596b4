"""Run one SELECT or EXPLAIN with DuckDB. Of the tables that a caller offers, only the named ones are computed."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rocketstore.errors import StoreError
from rocketstore.extras import import_extra
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.preview import SHOWN_FIRST, Preview, Previewed
from rocketstore.text_values import find_similar, format_count

if TYPE_CHECKING:
    import pyarrow as pa

ALLOWED = "SELECT", "EXPLAIN"  # names of DuckDB's statement types
# DuckDB wraps an exception of a table's Python reader as text with a traceback.
TRACE = "Traceback (most recent call last)"
ROWS_OF = "rows_of_"  # begins the name under which the select of a SqlTable reads its rows


class SqlTable(NamedTuple):
    """A table that a statement may name.

    Attributes: rows: computes the rows: a table or dataset of Arrow, or an object that exports an Arrow stream; None if
    ``select`` reads other tables only. select: the SELECT that makes the table from ``rows_of_NAME`` and the tables in
    ``needs``; None if ``rows`` are the rows of the table. needs: names of other tables that ``select`` reads.
    """

    rows: Callable[[], Any] | None
    select: str | None = None
    needs: tuple[str, ...] = ()


class SqlResult(Previewed, ArrowStream):
    """The rows that a statement returned, in memory. ``table`` is the pyarrow.Table of them.

    Examples:
    >>> with rocketstore.open("demo") as store:
    ...     found = store.sql("SELECT queueOffset, body_text FROM messages WHERE topic = 'Users'")
    >>> len(found), found.to_arrow().to_pylist()[0].keys()
    (1, dict_keys(['queueOffset', 'body_text']))
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows as an Arrow stream."""
        return self.table.__arrow_c_stream__(requested_schema)

    def _preview(self) -> Preview:
        names = self.table.column_names
        columns = [column.to_pylist() for column in self.table.slice(0, SHOWN_FIRST).columns]
        rows: list[Sequence[object] | None] = [*zip(*columns, strict=True)]
        if len(self) > SHOWN_FIRST:
            rows.append(None)
        return Preview(f"SqlResult: {format_count(len(self), 'row')}", names, rows)


def run_statement(
    statement: str, tables: Mapping[str, SqlTable], *, files: bool = False, zone: tzinfo | None = UTC
) -> SqlResult:
    """Run a statement and return all its rows. Parameters and errors: as ``open_statement``."""
    with open_statement(statement, tables, files=files, zone=zone) as reader:
        return SqlResult(reader.read_all())


@contextmanager
def open_statement(
    statement: str, tables: Mapping[str, SqlTable], *, files: bool = False, zone: tzinfo | None = UTC
) -> Iterator[pa.RecordBatchReader]:
    """Run a statement. Its rows are read from a pyarrow.RecordBatchReader while the context is open.

    Parameters: tables: by the names that the statement may use, in lower case. files: allow the statement to read
    files. zone: in which the statement sees times; None for that of this machine. Raises: ValueError for a statement
    that is wrong, or is not one SELECT or EXPLAIN; StoreError for rows that cannot be read; ModuleNotFoundError without
    DuckDB; errors of the tables that the statement names.
    """
    duckdb = import_extra("duckdb", "duckdb")
    stream_reader = import_extra("pyarrow", "duckdb").RecordBatchReader
    connection = duckdb.connect(":memory:", config={} if files else {"enable_external_access": "false"})
    with closing(connection), translate_duckdb_errors(duckdb, tables):
        set_time_zone(duckdb, connection, zone)
        require_one_select(connection.extract_statements(statement))
        for name in needed_tables(named_tables(duckdb, connection, statement), tables):
            add_table(connection, name, tables[name])
        connection.execute("SET lock_configuration = true")
        yield stream_reader.from_stream(connection.sql(statement))


def set_time_zone(duckdb: Any, connection: Any, zone: tzinfo | None) -> None:
    """Set the time zone of a connection. Parameters: zone: None for that of this machine, which is DuckDB's default.

    Raises: ValueError for a zone that DuckDB does not know. It reads an offset such as UTC+05:30 wrongly.
    """
    if zone is None:
        return
    name = "UTC" if zone is UTC else getattr(zone, "key", None)
    try:
        if name is None:
            raise ValueError("not a zone with a name")
        connection.execute(f"SET TimeZone = '{name}'").fetchall()
    except (duckdb.Error, ValueError):
        hint = "give a name such as Asia/Shanghai"
        raise ValueError(f"tz={zone!r}: DuckDB does not know this time zone: {hint}") from None


def require_one_select(statements: Sequence[Any]) -> None:
    """Raise ValueError if a text is not one SELECT or EXPLAIN. Parameters: statements: as DuckDB parsed them."""
    if len(statements) != 1:
        raise ValueError(f"one statement was expected, not {len(statements)}")
    kind = statements[0].type.name
    if kind not in ALLOWED:
        raise ValueError(f"only SELECT and EXPLAIN are allowed, not {kind}")


def named_tables(duckdb: Any, connection: Any, statement: str) -> Iterable[str]:
    """Return the names of tables in a statement.

    DuckDB needs the tables themselves to find the names in a join with USING. Then all words of the statement count.
    """
    try:
        names: Iterable[str] = connection.get_table_names(statement)
    except duckdb.BinderException:
        return re.findall(r"\w+", statement)
    return names


def needed_tables(names: Iterable[str], tables: Mapping[str, SqlTable]) -> list[str]:
    """Return the names of the tables that a statement needs, each behind the tables that its select reads.

    Parameters: names: the words of the statement that may be names of tables.
    """
    needed: dict[str, None] = {}
    for name in sorted({name.lower() for name in names} & tables.keys()):
        needed |= dict.fromkeys([*tables[name].needs, name])
    return list(needed)


def add_table(connection: Any, name: str, table: SqlTable) -> None:
    """Compute the rows of a table, and add the table to a connection of DuckDB."""
    if table.select is None:
        connection.register(name, arrow_of(table))
        return
    if table.rows is not None:
        connection.register(ROWS_OF + name, arrow_of(table))
    connection.execute(f"CREATE VIEW {name} AS {table.select}")


def arrow_of(table: SqlTable) -> Any:
    """Return the rows of a table as a table or dataset of Arrow. DuckDB would read a stream only once."""
    rows = table.rows() if table.rows is not None else None
    return rows.to_arrow() if isinstance(rows, ArrowStream) else rows


@contextmanager
def translate_duckdb_errors(duckdb: Any, tables: Mapping[str, SqlTable]) -> Iterator[None]:
    """Raise ValueError with DuckDB's message for a wrong statement, and StoreError if rows cannot be read."""
    try:
        yield
    except (duckdb.Error, OSError) as error:
        text = sentence_of(error)
        if TRACE in text:
            raise StoreError(text.splitlines()[-1].partition(": ")[2]) from error
        if isinstance(error, OSError):
            raise
        if isinstance(error, duckdb.CatalogException):
            text = name_table(text, tables)
            text += ("" if text.endswith("?") else ".") + f" The tables are {', '.join(tables)}"
        raise ValueError(text.replace("\n", " ")) from error


def name_table(text: str, tables: Mapping[str, SqlTable]) -> str:
    """Return DuckDB's message about an unknown table with the nearest of our tables, not of DuckDB's own."""
    unknown = re.search(r"Table with name (.+) does not exist!", text)
    if unknown is None:
        return text
    similar = find_similar(unknown[1], tables)
    return text[: unknown.end() - 1] + (f": did you mean {similar!r}?" if similar else "")


def sentence_of(error: Exception) -> str:
    """Return the message of DuckDB's error without the copy of the statement below it."""
    return str(error).partition("\n\nLINE ")[0].strip()


def user_tables(tables: Mapping[str, Any]) -> dict[str, SqlTable]:
    """Return the tables that a caller adds to those of a store. Raises: ValueError for an invalid table name."""
    for name in tables:
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(f"tables={name!r}: a name of letters, digits and _ was expected")
    return {name.lower(): SqlTable(partial(operator.itemgetter(name), tables)) for name in tables}
