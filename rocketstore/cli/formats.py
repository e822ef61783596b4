"""How rows are written, a table for people, JSON lines or CSV for programs, and how errors are."""

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

__all__ = ["error_text", "format_option", "print_table", "table_of", "write_rows"]

NOT_A_TERMINAL = 1000  # columns: a table in a file or a pipe is not folded

Row = Mapping[str, str | int | None]


def format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format`` to a command."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json", "csv"]),
        help="json: one object a line.  [default: table on a terminal, else json]",
    )(command)


def write_rows(rows: Sequence[Row], output_format: str | None, make_table: Callable[[], Table]) -> None:
    """Write rows to standard output.

    Parameters: rows: their keys are the columns. output_format: "table", "json", "csv", or None for what
    suits the output. make_table: makes the rows' form for people.
    """
    if output_format is None:
        output_format = "table" if sys.stdout.isatty() else "json"
    if output_format == "table":
        print_table(make_table())
    elif output_format == "json":
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif rows:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def print_table(table: Table) -> None:
    """Print a table to standard output, as wide as it needs to be where that is no terminal."""
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else NOT_A_TERMINAL).print(table)


def table_of(left: Sequence[str], right: Sequence[str], title: str | None = None) -> Table:
    """Make an empty table with columns of text on the left and columns of numbers after them."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def error_text(error: Exception) -> str:
    """Write an error in one line: one of the system as the path and its words, any other as it is."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
