"""How rows are written, a table for people, JSON lines or CSV for programs, and how errors are."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rocketstore.cli.options import utc_text
from rocketstore.errors import StoreError

__all__ = ["Row", "csv_line", "error_text", "finish", "format_option", "json_line", "print_table", "printable"]
__all__ += ["report", "table_of", "table_of_rows", "write_parts", "write_rows"]

NOT_A_TERMINAL = 1000  # columns: a table in a file or a pipe is not folded
WIDE = 10  # columns

Row = dict[str, Any]
MakeTable = Callable[[Sequence[Row]], Table]
format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "csv"]),
    help="json: one object a line; csv: lists and maps in it are JSON.  [default: table on a terminal, else json]",
)


def write_rows(
    batches: Iterable[Sequence[Row]], output_format: str | None, make_table: MakeTable | None = None
) -> None:
    """Write rows to standard output, each batch as it comes.

    Parameters: batches: lists of rows, whose keys are the columns. output_format: "table", "json", "csv", or None for
    what suits the output. make_table: makes the form for people of one batch.
    """
    terminal = sys.stdout.isatty()
    form = output_format or ("table" if terminal else "json")
    header = form == "csv"
    for rows in filter(None, batches):
        if form == "table":
            print_table((make_table or table_of_rows)(rows))
            continue
        if header:
            sys.stdout.write(csv_line(rows[0]))
            header = False
        lines = map(json_line, rows) if form == "json" else (csv_line(row.values(), terminal) for row in rows)
        sys.stdout.writelines(lines)
        sys.stdout.flush()


def json_line(row: Row) -> str:
    """Write a row as a line of JSON; what is not printable is escaped there, too."""
    return escaped(json.dumps(row, ensure_ascii=False), json.dumps) + "\n"


def csv_line(values: Iterable[Any], terminal: bool = False) -> str:
    """Write values as a line of CSV. On a terminal it shows control characters, elsewhere it has them."""
    return ",".join(csv_field(value, terminal) for value in values) + "\n"


def csv_field(value: Any, terminal: bool) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list | dict) else str(value)
    text = "" if value is None else printable(text) if terminal else text
    return '"{}"'.format(text.replace('"', '""')) if re.search('[",\r\n]', text) else text


def printable(text: str) -> str:
    r"""Write what would control a terminal, or hide in it, as ``\x1b``."""
    return escaped(text, lambda char: char.encode("unicode_escape").decode())


def escaped(text: str, escape: Callable[[str], str]) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else escape(c).strip('"') for c in text)


# ---- tables ------------------------------------------------------------------------------------------------


def print_table(table: Table) -> None:
    """Print a table to standard output, as wide as it needs to be where that is no terminal."""
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else NOT_A_TERMINAL).print(table)


def table_of(left: Sequence[str], right: Sequence[str], title: str | None = None) -> Table:
    """Make an empty table with columns of text on the left and columns of numbers after them."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def table_of_rows(rows: Sequence[Row]) -> Table:
    """Make the table of rows that all have the same columns; one long row has a line for each. Times are UTC."""
    first = rows[0]
    if len(rows) == 1 and len(first) > WIDE:
        table = table_of(["field", "value"], [])
        for name, value in first.items():
            table.add_row(name, cell(name, value))
        return table
    table = table_of([], [])
    for name, value in first.items():
        number = isinstance(value, int) or name.endswith("Timestamp")
        table.add_column(name, justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in rows:
        table.add_row(*(cell(name, value) for name, value in row.items()))
    return table


def cell(name: str, value: Any) -> Text:
    if name.endswith("Timestamp") and value is not None:
        value = utc_text(value)
    if isinstance(value, Mapping):
        value = [f"{key}={item}" for key, item in value.items()]
    if isinstance(value, list):
        value = ", ".join(value)
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return Text("-" if value is None else printable(str(value)))


# ---- errors ------------------------------------------------------------------------------------------------


def error_text(error: object) -> str:
    """Write an error in one line: one of the system as the path and its words, any other as it is."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return printable(text)


def report(problem: object) -> None:
    """Write what is wrong as one line to standard error."""
    click.echo(f"Error: {error_text(problem)}", err=True)


def finish(problems: Iterable[object]) -> None:
    """Report all problems; with one or more the exit status is 1."""
    found = list(problems)
    for problem in found:
        report(problem)
    if found:
        raise click.exceptions.Exit(1)


def write_parts(
    parts: Iterable[Callable[[], Iterable[Row]]], output_format: str | None, problems: Iterable[object] = ()
) -> None:
    """Write the rows of all parts that can be read, and report the others, after other problems."""
    rows: list[Row] = []
    found = list(problems)
    for part in parts:
        try:
            rows += part()
        except (OSError, StoreError, click.ClickException) as error:
            found.append(error)
    write_rows([rows], output_format)
    finish(found)
