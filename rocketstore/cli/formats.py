"""Write rows as a table for people, or as JSON lines or CSV for programs. Write notes and errors to standard error."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rocketstore.config import camel_case
from rocketstore.errors import SettingError, StoreError, text_of
from rocketstore.messages.text_rows import Row
from rocketstore.text_values import format_time

__all__ = ["Row", "cell", "csv_line", "error_text", "finish", "format_option", "json_line", "note"]
__all__ += ["CSV_FORMS", "SAFE_CSV", "SAFE_CSV_RULE", "line_writer"]
__all__ += ["print_table", "printable", "report", "table_of", "write_list", "write_parts", "write_rows"]

NOT_A_TERMINAL = 1000  # characters a line: wide enough that a table in a file or a pipe is not folded
WIDE = 10  # columns; a single row with more of them is shown with one line for each column
GAP = 2  # characters between columns
LEAST, LEAST_LAST = 8, 20  # characters: the least width of a column of text, and of the last one, often the longest

SAFE_CSV = "csv-safe"
CSV_FORMS = ("csv", SAFE_CSV)
FORMULA_STARTS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"  # the last four are the wide forms of the first four
SAFE_CSV_RULE = "csv-safe: csv for spreadsheets, with an apostrophe before text that would run as a formula."

format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "csv", SAFE_CSV]),
    help=f"json: one object a line; csv: lists and maps are written as JSON; {SAFE_CSV_RULE}  "
    "[default: table on a terminal, else json]",
)


def write_rows(
    batches: Iterable[Sequence[Row]], output_format: str | None,
    for_people: Callable[[Sequence[Row]], Sequence[Row]] | None = None, *, columns: Sequence[str] = (),
) -> None:
    """Write rows to standard output. Each batch is written before the next one is requested.

    Parameters: batches: lists of rows; the keys of a row are the columns. output_format: "table", "json", "csv",
    "csv-safe"; None writes a table to a terminal and JSON elsewhere. for_people: converts a batch to the rows of the
    table. columns: the CSV header if the result has no rows.
    """
    terminal = sys.stdout.isatty()
    form = output_format or ("table" if terminal else "json")
    if form == "table":
        write_tables(map(for_people or list, filter(None, batches)))
        return
    header = form in CSV_FORMS
    for rows in filter(None, batches):
        if header:
            sys.stdout.write(csv_line(rows[0]))
            header = False
        sys.stdout.writelines(map(line_writer(form, terminal), rows))
        sys.stdout.flush()
    if header and columns:
        sys.stdout.write(csv_line(columns))


def write_list(columns: Sequence[str], values: Iterable[Iterable[Any]], output_format: str | None) -> None:
    """Write rows that are given as values in the order of the columns."""
    write_rows([[dict(zip(columns, row, strict=True)) for row in values]], output_format, columns=columns)


def json_line(row: Row) -> str:
    """Return a row as one line of JSON. Characters that are not printable are escaped."""
    return escaped(json.dumps(row, ensure_ascii=False), json.dumps) + "\n"


def line_writer(form: str, terminal: bool) -> Callable[[Row], str]:
    """Return the function that formats a row as one line of text. Parameters: form: "json", "csv" or "csv-safe"."""
    if form == "json":
        return json_line
    return lambda row: csv_line(row.values(), terminal, safe=form == SAFE_CSV)


def csv_line(values: Iterable[Any], terminal: bool = False, *, safe: bool = False) -> str:
    """Return values as one line of CSV.

    Parameters: terminal: show control characters as escape sequences; otherwise they are written unchanged. safe: put
    an apostrophe before text that a spreadsheet would evaluate as a formula.
    """
    line = io.StringIO()
    csv.writer(line).writerow([csv_field(value, terminal, safe) for value in values])  # ends with "\r\n"
    return line.getvalue()[:-2] + "\n"


def csv_field(value: Any, terminal: bool, safe: bool) -> Any:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if safe and isinstance(value, str) and value.startswith(tuple(FORMULA_STARTS)):
        value = f"'{value}"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list | dict) else str(value)
    return printable(text) if terminal else text


def printable(text: str) -> str:
    r"""Return a text with control characters and invisible characters as escape sequences such as ``\x1b``."""
    return escaped(text, lambda char: char.encode("unicode_escape").decode())


def escaped(text: str, escape: Callable[[str], str]) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else escape(c).strip('"') for c in text)


# ---- tables ----------------------------------------------------------------------------------------------


class Output(Console):
    """Standard output. If it is not a terminal, it is wide enough for any table."""

    def __init__(self) -> None:
        super().__init__(file=sys.stdout, width=None if sys.stdout.isatty() else NOT_A_TERMINAL)

    def on_broken_pipe(self) -> None:
        raise  # raise the BrokenPipeError again; the method of rich would exit with status 1


def print_table(table: Table) -> None:
    Output().print(table)


def write_tables(batches: Iterable[Sequence[Row]]) -> None:
    """Print a table for each batch. At the end, also after Ctrl-C, name the columns that did not fit the terminal."""
    console = Output()
    left_out: dict[str, None] = {}
    try:
        for rows in batches:
            table, missing = table_of_rows(rows, console.width)
            left_out |= dict.fromkeys(missing)
            console.print(table)
    finally:
        if left_out:
            hint = "use a wider terminal or --format json to see them"
            note(f"{console.width} columns are too few for {', '.join(left_out)}: {hint}")


def table_of(left: Sequence[str], right: Sequence[str], title: str | None = None) -> Table:
    """Return an empty table. Columns of text are on the left, columns of numbers after them."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def table_of_rows(rows: Sequence[Row], width: int) -> tuple[Table, list[str]]:
    """Return a table of rows that have the same columns, and the names of the columns that do not fit ``width``.

    A single row of many columns is shown with one line for each column. Times are UTC.
    """
    if len(rows) == 1 and len(rows[0]) > WIDE:
        table = table_of(["field", "value"], [])
        for name, value in rows[0].items():
            table.add_row(name, cell(name, value))
        return table, []
    columns = {name: [cell(name, row[name]) for row in rows] for name in rows[0]}
    numbers = {name for name, value in rows[0].items() if isinstance(value, int) or name.endswith("Timestamp")}
    widths = fitting_widths(columns, numbers, width)
    table = table_of([], [])
    for name, size in widths.items():
        is_number = name in numbers
        table.add_column(
            name, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold", width=size
        )
    for cells in zip(*(columns[name] for name in widths), strict=True):
        table.add_row(*cells)
    return table, [name for name in columns if name not in widths]


def fitting_widths(columns: Mapping[str, Sequence[Text]], numbers: set[str], width: int) -> dict[str, int]:
    """Return the width of each column that fits, in characters.

    Columns of text shrink down to a least width first. Then columns are left out, beginning before the last one.
    """
    widths = {name: max(cell_len(name), *(text.cell_len for text in cells)) for name, cells in columns.items()}
    *others, last = widths
    least = {
        name: size if name in numbers else min(size, max(LEAST_LAST if name == last else LEAST, len(name)))
        for name, size in widths.items()
    }
    while others and sum(least[name] + GAP for name in widths) - GAP > width:
        del widths[others.pop()]
    for _ in range(sum(widths.values()) + GAP * (len(widths) - 1) - width):
        widest = max(widths, key=lambda name: (widths[name] > least[name], widths[name]))
        widths[widest] -= 1
    return widths


def cell(name: str, value: Any) -> Text:
    if name.endswith("Timestamp") and value is not None:
        value = format_time(value)
    if isinstance(value, Mapping):
        value = [f"{key}={item}" for key, item in value.items()]
    if isinstance(value, list):
        value = ", ".join(value)
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return Text("-" if value is None else printable(str(value)))


# ---- errors ----------------------------------------------------------------------------------------------

OPTIONS = {"max_hash_slot_num": "--slots", "max_index_num": "--items", "mapped_file_size_commit_log": "--log-file-size"}


def error_text(error: object) -> str:
    """Return an error as one line: the path and the reason of a system error, the text of any other error.

    An error about settings also names the options of the running command that set them.
    """
    text = text_of(error) if isinstance(error, BaseException) else str(error)
    return printable(text + option_hint(error))


def option_hint(error: object) -> str:
    """Return the options of the running command that set the settings an error names; an empty string without one."""
    settings = error.settings if isinstance(error, SettingError) else ()
    context = click.get_current_context(silent=True)
    if context is None or not settings:
        return ""
    command = context.command
    if isinstance(command, click.Group):
        command = command.commands.get(context.invoked_subcommand or "", command)
    options = {name for parameter in command.params for name in parameter.opts}
    own = [OPTIONS[name] for name in settings if OPTIONS.get(name) in options]
    if len(own) < len(settings) and "--broker-conf" in options:
        return f" ({' and '.join(map(camel_case, settings))} in --broker-conf FILE)"
    return f" ({' and '.join(own)})" if own else ""


def note(text: str) -> None:
    """Write a line to standard error."""
    click.echo(printable(text), err=True)


def report(problem: object) -> None:
    """Write a problem as one line to standard error."""
    note(f"Error: {error_text(problem)}")


def finish(problems: Iterable[object]) -> None:
    """Report all problems. Exit with status 1 if there is a problem."""
    found = list(problems)
    for problem in found:
        report(problem)
    if found:
        raise click.exceptions.Exit(1)


def write_parts(
    parts: Iterable[Callable[[], Iterable[Row]]], output_format: str | None, problems: Iterable[object] = (), *,
    columns: Sequence[str] = (),
) -> None:
    """Write the rows of all parts that can be read. Then report ``problems`` and the parts that cannot be read."""
    rows: list[Row] = []
    found = list(problems)
    for part in parts:
        try:
            rows += part()
        except (OSError, StoreError, ValueError, KeyError, click.ClickException) as error:
            found.append(error)
    write_rows([rows], output_format, columns=columns)
    finish(found)
