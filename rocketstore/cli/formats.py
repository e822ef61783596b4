"""Write rows as a table for people, or as JSON lines or CSV for programs. Write notes and errors to standard error."""

import codecs
import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import click

from rocketstore.cli.conditions import FAILED, Condition
from rocketstore.cli.text import CSV_FORMS, SAFE_CSV, WORDS, note
from rocketstore.cli.text import command as shell_command
from rocketstore.cli.times import with_times
from rocketstore.config import camel_case
from rocketstore.errors import SettingError, StoreError, text_of
from rocketstore.messages.text_rows import Row
from rocketstore.text_values import escaped, printable

ForPeople = Callable[[Sequence[Row]], Sequence[Row]]  # converts rows to the rows of a table

MOST_ALIKE = 5  # errors of one kind that have a line each
NUMBER_OR_NAME = re.compile(r"'[^']*'|[0-9][0-9,.]*")
FORMULA_STARTS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"  # the last four are the wide forms of the first four


class RowsView(NamedTuple):
    """How a command shows a list of rows.

    Attributes: output_format: "table", "json", "csv", "csv-safe"; None for a table on a terminal and JSON elsewhere.
    columns: the columns that the user chose, in this order; None without a choice. is_full: whether a table has all
    columns and complete values. limit: the largest number of rows; None for all.
    """

    output_format: str | None = None
    columns: tuple[str, ...] | None = None
    is_full: bool = False
    limit: int | None = None

    def chosen(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows with the chosen columns only. Raises: UsageError for a column that the rows do not have."""
        if self.columns is None or not rows:
            return list(rows)
        for name in self.columns:
            if name not in rows[0]:
                raise click.UsageError(f"--columns: there is no {name!r} here: the columns are {', '.join(rows[0])}")
        return [{name: row[name] for name in self.columns} for row in rows]

    def for_table(self, rows: Sequence[Row], for_people: ForPeople | None) -> Sequence[Row]:
        """Return the rows of a table. Columns that only programs get without a choice can be chosen too."""
        shown = for_people(rows) if for_people else rows
        if self.columns is None:
            return shown
        return self.chosen([row | cells for row, cells in zip(rows, shown, strict=True)])


def write_rows(
    rows: Sequence[Row], view: RowsView, for_people: ForPeople | None = None, *, columns: Sequence[str] = ()
) -> None:
    """Write a list of rows to standard output. A line on standard error says whether there are more.

    Parameters: rows: the keys of a row are the columns. for_people: converts the rows to those of the table. columns:
    the CSV header if there are no rows.
    """
    shown = rows[: view.limit]
    shown = view.for_table(shown, for_people) if is_table(view.output_format) else view.chosen(shown)
    write_batches([shown], view.output_format, columns=view.columns or columns, is_full=view.is_full)
    if view.limit is not None and len(rows) > view.limit:
        note(f"{view.limit} shown; there are more: --limit N shows up to N")


def write_rows_and_totals(
    rows: Sequence[Row],
    totals: Sequence[Row],
    view: RowsView,
    for_people: ForPeople,
    *,
    columns: Sequence[str],
    total_columns: Sequence[str],
    only_totals: bool,
    totals_for_people: ForPeople | None = None,
) -> None:
    """Write rows, and below a table of them their totals. A chosen column, JSON and CSV have no totals below them.

    Parameters: as for ``write_rows``. total_columns: the columns of the totals. only_totals: leave out the rows.
    totals_for_people: as ``for_people``, for the totals.
    """
    if not only_totals:
        write_rows(rows, view, for_people, columns=columns)
    if only_totals or (rows and is_table(view.output_format) and view.columns is None):
        write_rows(totals, view, totals_for_people, columns=total_columns)


def write_batches(
    batches: Iterable[Sequence[Row]],
    output_format: str | None,
    *,
    columns: Sequence[str] = (),
    is_stream: bool = False,
    is_full: bool = False,
) -> None:
    """Write rows to standard output. Each batch is written before the next one is requested.

    Parameters: batches: lists of rows; the keys of a row are the columns. output_format: as in RowsView. columns: the
    CSV header if the result has no rows. is_stream: the tables of all batches have the header and the widths of the
    first. is_full: tables have all columns, also if a line gets longer than that of the terminal.
    """
    terminal = sys.stdout.isatty()
    form = output_format or "json"
    if is_table(output_format):
        from rocketstore.cli.tables import write_tables  # rich takes long to import

        write_tables(filter(None, batches), is_stream=is_stream, is_full=is_full)
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


def is_table(output_format: str | None) -> bool:
    """Return whether rows are written as a table. Parameters: output_format: None for the default."""
    return output_format == "table" or (output_format is None and sys.stdout.isatty())


def write_list(
    columns: Sequence[str], values: Iterable[Iterable[Any]], view: RowsView, for_people: ForPeople | None = None
) -> None:
    """Write rows that are given as values in the order of the columns.

    Parameters: for_people: as for ``write_rows``.
    """
    rows = [dict(zip(columns, row, strict=True)) for row in values]
    write_rows(rows, view, for_people, columns=columns)


def paths_below(root: Path, column: str = "path") -> ForPeople:
    """Return the function that makes the paths of a column relative to a directory, for people."""

    def relative(text: str) -> str:
        path = Path(text)
        return str(path.relative_to(root)) if path.is_relative_to(root) else text

    return lambda rows: [row | {column: relative(row[column])} for row in rows]


def json_line(row: Row) -> str:
    """Return a row as one line of JSON. Characters that are not printable are escaped."""
    return escaped(json.dumps(row, ensure_ascii=False), json.dumps) + "\n"


def line_writer(form: str, terminal: bool) -> Callable[[Row], str]:
    """Return the function that formats a row as one line of text. Parameters: form: "json", "csv" or "csv-safe"."""
    if form == "json":
        return lambda row: json_line(with_times(row))
    return lambda row: csv_line(with_times(row).values(), terminal, safe=form == SAFE_CSV)


def write_utf8(file: TextIO, text: bytes | memoryview) -> None:
    """Write text to a text file. It is not decoded if the file has UTF-8 too."""
    if codecs.lookup(file.encoding).name == "utf-8":
        file.flush()
        file.buffer.write(text)
    else:
        file.write(str(text, "utf-8"))


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


# ---- errors ----------------------------------------------------------------------------------------------

OPTIONS = {"max_hash_slot_num": "--slots", "max_index_num": "--items", "mapped_file_size_commit_log": "--log-file-size"}


def error_text(error: object) -> str:
    """Return an error as one line: the path and the reason of a system error, the text of any other error.

    An error about settings also names the options of the running command that set them.
    """
    text = text_of(error) if isinstance(error, BaseException) else str(error)
    hint = option_hint(error)
    if hint and isinstance(error, SettingError):
        text = error.reason  # without the advice to Python programs
    return printable(text + hint)


def option_hint(error: object) -> str:
    """Return the options of the running command that set the settings an error names; an empty string without one."""
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(error, SettingError) or not error.settings:
        return ""
    settings = error.settings
    command = context.command
    if isinstance(command, click.Group):
        command = command.get_command(context, context.invoked_subcommand or "") or command
    options = {name for parameter in command.params for name in parameter.opts}
    of_fields = {parameter.name: parameter.opts[0] for parameter in command.params if parameter.name in settings}
    own = [found for name in settings if (found := of_fields.get(name, OPTIONS.get(name))) in options]
    words = context.meta.get(WORDS, [])
    if words and len(own) == len(settings) and not set(own) & set(words):
        values = (error.suggested.get(name, "N") for name in settings)
        given = [str(word) for pair in zip(own, values, strict=True) for word in pair]
        return f": {shell_command(*words, *given)}"
    if len(own) < len(settings) and "--broker-conf" in options:
        return f" ({' and '.join(map(camel_case, settings))} in --broker-conf FILE)"
    return f" ({' and '.join(own)})" if own else ""


def report(problem: object) -> None:
    """Write a problem as one line to standard error."""
    note(f"Error: {error_text(problem)}")


class LeftOut(str):
    """A problem with a place in the log. Each of them is reported, however many there are."""


def report_all(problems: Iterable[object]) -> None:
    """Report problems. Many of one kind, which differ by numbers and names alone, are one line with their number."""
    kinds: dict[str, list[str]] = {}
    for number, problem in enumerate(problems):
        text = error_text(problem)
        kind = f"{number}: {text}" if isinstance(problem, LeftOut) else NUMBER_OR_NAME.sub("", text)
        kinds.setdefault(kind, []).append(text)
    for texts in kinds.values():
        distinct = dict.fromkeys(texts)
        if len(distinct) == 1 and len(texts) > 1:
            report(f"{texts[0]} ({len(texts):,} times)")
        elif len(distinct) > MOST_ALIKE:
            report(f"{texts[0]} (and {len(texts) - 1:,} more errors of this kind)")
        else:
            for text in texts:
                report(text)


def finish(problems: Iterable[object]) -> None:
    """Report all problems. Exit with status 1 if there is a problem."""
    found = list(problems)
    report_all(found)
    if found:
        raise click.exceptions.Exit(1)


def finish_checked(
    problems: Iterable[object], conditions: Iterable[Condition], rows: Sequence[Row], *sums: Sequence[Row]
) -> None:
    """Report all problems, and each condition of --fail-if that is met.

    Exit with status 3 if a condition is met, else with status 1 if there is a problem.
    """
    met = [condition for condition in conditions if condition.is_met(rows, *sums)]
    for condition in met:
        note(f"--fail-if: {condition.text}")
    if not met:
        finish(problems)
        return
    report_all(problems)
    raise click.exceptions.Exit(FAILED)


def write_parts(
    parts: Iterable[Callable[[], Iterable[Row]]],
    view: RowsView,
    problems: Iterable[object] = (),
    *,
    columns: Sequence[str] = (),
) -> None:
    """Write the rows of all parts that can be read. Then report ``problems`` and the parts that cannot be read."""
    found = read_parts(parts, view.limit)
    write_rows(found.rows, view, columns=columns)
    finish([*problems, *found.problems])  # reading a part may have added to problems


class ReadParts(NamedTuple):
    """The rows of the parts that can be read, and the errors of the others."""

    rows: list[Row]
    problems: list[object]


def read_parts(parts: Iterable[Callable[[], Iterable[Row]]], limit: int | None) -> ReadParts:
    """Read the rows of all parts. No part is read after those that have more rows than ``limit``."""
    found = ReadParts([], [])
    for part in parts:
        if limit is not None and len(found.rows) > limit:
            break
        try:
            found.rows.extend(part())
        except (OSError, StoreError, ValueError, KeyError, click.ClickException) as error:
            found.problems.append(error)
    return found
