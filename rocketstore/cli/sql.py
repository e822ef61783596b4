"""``rocketstore sql``: run a SELECT on a store."""

import base64
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketstore.brokers.broker_stores import BrokerStores
from rocketstore.brokers.find_stores import FoundStores
from rocketstore.brokers.sql_tables import tables_of_brokers
from rocketstore.cli.formats import finish, is_table, report, write_batches
from rocketstore.cli.several import AskedStores
from rocketstore.cli.store_notes import note_elsewhere
from rocketstore.cli.times import find_zone, has_iso_times
from rocketstore.cli.transfer.target import require_outside_stores
from rocketstore.errors import StoreError
from rocketstore.extras import import_extra
from rocketstore.messages.text_rows import Row
from rocketstore.sql.statement import SqlTable, open_statement
from rocketstore.store.overview.sql_tables import OnCorrupt, tables_of_store
from rocketstore.store.readable_store import ReadableStore
from rocketstore.text_values import epoch_ms, format_time
from rocketstore.verify.verify import verify

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 1 << 12  # written at once
PLAN = ["explain_key", "explain_value"]  # the columns of an EXPLAIN


def run(
    stores: AskedStores,
    statement: str | None,
    target: Path | None,
    files: bool,
    skip_damaged: bool,
    containers: bool,
    full: bool,
    output_format: str | None,
) -> None:
    """Run the command with the values of its options."""
    if target is not None and output_format is not None:
        raise click.UsageError("--output writes Parquet: give it without --format")
    if target is not None:
        require_outside_stores(target, [store.path for store in stores.stores.values()])
    tables = tables_of(stores, "skip" if skip_damaged else "raise", containers=containers)
    stores.note_each(note_elsewhere)
    if statement is None and sys.stdin.isatty():
        if target is not None:
            raise click.UsageError("--output writes the rows of one statement: also give STATEMENT")
        with stores.closing():
            answer_typed(tables, files=files, full=full, output_format=output_format)
        return
    if statement in (None, "-"):
        statement = sys.stdin.read()
    with warnings_as_problems(stores.problems), stores.closing():
        if target is None:
            show(str(statement), tables, files=files, full=full, output_format=output_format)
        else:
            with open_statement(str(statement), tables, files=files, zone=find_zone()) as reader:
                write_parquet(reader, target)


def tables_of(stores: AskedStores, on_corrupt: OnCorrupt, *, containers: bool) -> dict[str, SqlTable]:
    """Return the tables of one store, or of several with the column ``broker``. Parameters: as for ``dataset``."""
    if not stores.is_several:
        return tables_of_store(stores.only, on_corrupt, containers=containers) | findings_of(stores.only)
    brokers = BrokerStores(FoundStores(dict(stores.stores), [], []))
    messages = partial(brokers.dataset, on_corrupt=on_corrupt, containers=containers)
    return tables_of_brokers(stores.stores, messages, on_corrupt, findings_of)


def findings_of(store: ReadableStore) -> dict[str, SqlTable]:
    """Return the table of what verify finds."""
    return {"findings": SqlTable(partial(verify, store.path, config=store.config))}


def answer_typed(tables: Mapping[str, SqlTable], *, files: bool, full: bool, output_format: str | None) -> None:
    """Answer the statements that a user types on a terminal."""
    from rocketstore.cli.sql_prompt import ask  # prompt_toolkit takes long to import

    for statement in ask(tables):
        with errors_as_lines():
            show(statement, tables, files=files, full=full, output_format=output_format)


def show(statement: str, tables: Mapping[str, SqlTable], *, files: bool, full: bool, output_format: str | None) -> None:
    """Write the rows of a statement to standard output."""
    with open_statement(statement, tables, files=files, zone=find_zone()) as reader:
        names = unique(reader.schema.names)
        if names == PLAN:
            click.echo("\n".join(row["explain_value"] for row in reader.read_all().to_pylist()))
        elif is_table(output_format):
            write_batches([[*chain.from_iterable(rows_of(reader, names, cell_value))]], output_format, is_full=full)
        else:
            write_batches(rows_of(reader, names, json_value), output_format, columns=names)


@contextmanager
def errors_as_lines() -> Iterator[None]:
    """Report the error of a statement, so that the user can type the next one."""
    try:
        yield
    except (OSError, StoreError, ValueError) as error:
        report(error)


@contextmanager
def warnings_as_problems(problems: Sequence[object]) -> Iterator[None]:
    """Let the command end with status 1 and with the texts of warnings, such as those on damaged records.

    Parameters: problems: other reasons for this status.
    """
    with warnings.catch_warnings(record=True, action="always") as found:
        yield
    finish([*problems, *(str(warning.message) for warning in found)])


def write_parquet(reader: "pa.RecordBatchReader", target: Path) -> None:
    """Write rows to a new Parquet file. Raises: FileExistsError; a file that is not complete is removed."""
    parquet = import_extra("pyarrow.parquet", "duckdb")
    with target.open("xb") as file:
        try:
            with parquet.ParquetWriter(file, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
        except BaseException:
            target.unlink()
            raise


def rows_of(reader: "pa.RecordBatchReader", names: Sequence[str], convert: Callable[[Any], Any]) -> Iterator[list[Row]]:
    """Yield the rows of record batches. Parameters: names: of their columns. convert: makes a value of Python's."""
    for batch in reader:
        for begin in range(0, batch.num_rows, ROWS):
            columns = [map(convert, column.to_pylist()) for column in batch.slice(begin, ROWS).columns]
            yield [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def unique(names: Iterable[str]) -> list[str]:
    """Return the names of columns, with a number behind a name that another column has too."""
    found: dict[str, None] = {}
    for name in names:
        other, number = name, 1
        while other in found:
            other, number = f"{name}_{number}", number + 1
        found[other] = None
    return list(found)


def cell_value(value: Any) -> Any:
    """Return a value for a cell of a table."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return format_time(epoch_ms(value, "a value"), find_zone())
    value = json_value(value)
    return [str(item) for item in value] if isinstance(value, list) else value


def json_value(value: Any) -> Any:
    """Return a value for JSON. The help of ``rocketstore sql`` has the rules for times and bytes."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime() if value.tzinfo is not None:
            timestamp = epoch_ms(value, "a value")
            return format_time(timestamp, find_zone()) if has_iso_times() else timestamp
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            try:
                return value.decode("utf-8")
            except UnicodeDecodeError:
                return f"base64:{base64.b64encode(value).decode()}"
        case dict():
            return {str(key): json_value(item) for key, item in value.items()}
        case list():
            is_map = bool(value) and all(isinstance(item, tuple) for item in value)
            return json_value(dict(value)) if is_map else [json_value(item) for item in value]
        case _:
            return str(value)
