"""Tables for people. Commands import this module when they write a table, since rich takes long to import."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rocketstore.cli.text import Indented, note, printable_lines
from rocketstore.cli.times import find_zone
from rocketstore.messages.text_rows import Row
from rocketstore.text_values import format_time, printable

NOT_A_TERMINAL = 1000  # characters a line: wide enough that a table in a file or a pipe is not folded
KEPT = ("body", "detail", "meaning")  # columns that a narrow terminal shows in any case; without one, the last column
UNFOLDED = ("severity", "kind", "mend", "path", "file", "field")  # columns of text that are never folded
CUT = ("body", "keys")  # columns that end with "…" where a narrow terminal has no room for the rest
STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}  # of severities
STREAM_WIDTHS = {"topic": 16, "queueOffset": 11, "phyOffset": 12, "tags": 8, "keys": 16, "size": 7, "body": 20}
LEAVE_OUT_FIRST = ("phyOffset", "size", "queueOffset", "queueId")  # of messages, on a narrow terminal
WIDE = 10  # columns; a single row with more of them is shown with one line for each column
NARROW = 120  # characters; tables of messages have times without milliseconds below it
GAP = 2  # characters between columns
# Characters: the least width of a column of text, of the column that is always shown, and of columns that have times,
# bytes or sentences.
LEAST, LEAST_KEPT = 12, 20
LEAST_WIDTHS = {"value": 24, "hex": 11, "meaning": 24, "atNextStart": 24}
INDENT = 4  # characters before the second and later lines of a row that is not in a table


class Output(Console):
    """Standard output. If it is not a terminal, it is wide enough for any table."""

    def __init__(self) -> None:
        super().__init__(file=sys.stdout, width=None if sys.stdout.isatty() else NOT_A_TERMINAL)

    def on_broken_pipe(self) -> None:
        raise  # raise the BrokenPipeError again; the method of rich would exit with status 1


def print_table(table: Table) -> None:
    Output().print(table)


def write_tables(batches: Iterable[Sequence[Row]], *, is_stream: bool = False, is_full: bool = False) -> None:
    """Print a table for each batch. If a table does not fit the terminal, print the name and value of each column.

    Tables of messages leave out columns instead. At the end, also after Ctrl-C, these columns are named.

    Parameters: is_stream: all tables have the header and the widths of the first, which are wide enough for later rows.
    is_full: leave out no column; a line may be longer than that of the terminal.
    """
    console = Output()
    left_out: dict[str, None] = {}
    widths: dict[str, int] | None = None
    width = console.width  # of the terminal; a wide table makes that of the console larger
    try:
        for rows in batches:
            if len(rows) == 1 and len(rows[0]) > WIDE:
                console.print(vertical_table(rows[0]))
                continue
            has_header = not (is_stream and widths)
            is_narrow = not is_full and "body" in rows[0] and width < NARROW
            if is_narrow:
                rows = to_seconds(rows)
            if has_header:
                widths = column_widths(rows, console.width, STREAM_WIDTHS if is_stream else {}, is_full=is_full)
                if len(widths) < len(rows[0]) and not is_stream and "body" not in rows[0]:
                    write_outside_table(console, rows)
                    continue
                console.width = max(console.width, line_width(widths))
                left_out |= {name: None for name in rows[0] if name not in widths}
            console.print(table_of_rows(rows, widths or {}, has_header=has_header, is_full=is_full))
    finally:
        if left_out:
            hint = "use --full, a wider terminal or --format json to see them"
            note(f"{console.width} columns are too few for {', '.join(left_out)}: {hint}")


def table_of(left: Sequence[str], right: Sequence[str], title: str | None = None) -> Table:
    """Return an empty table. Columns of text are on the left, columns of numbers after them."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def vertical_table(row: Row) -> Table:
    """Return a table with one line for each column of a row. Times are UTC."""
    table = table_of(["field", "value"], [])
    for name, value in row.items():
        table.add_row(name, cell(name, value))
    return table


def write_outside_table(console: Console, rows: Sequence[Row]) -> None:
    """Print the name and the value of each column. A line has as many of them as it has room for."""
    if len(rows) == 1:
        console.print(vertical_table(rows[0]))
        return
    for row in rows:
        lines = [Text()]
        for name, value in row.items():
            part = Text.assemble((f"{name}: ", "bold"), cell(name, value))
            indent = 0 if len(lines) == 1 else INDENT
            if lines[-1] and indent + lines[-1].cell_len + GAP + part.cell_len > console.width:
                lines.append(part)
            else:
                lines[-1] = Text(" " * GAP).join([lines[-1], part]) if lines[-1] else part
        console.print(lines[0])
        for line in lines[1:]:
            console.print(Padding(line, (0, 0, 0, INDENT), expand=False))


def table_of_rows(rows: Sequence[Row], widths: Mapping[str, int], *, has_header: bool, is_full: bool) -> Table:
    """Return a table of rows with these columns. Times are UTC.

    Parameters: widths: of the columns, in characters. is_full: continue long bodies and keys on more lines.
    """
    numbers = number_columns(rows)
    table = table_of([], [])
    table.show_header = has_header
    for name, size in widths.items():
        is_cut = name in CUT and not is_full
        table.add_column(
            name,
            justify="right" if name in numbers else "left",
            width=size,
            overflow="ellipsis" if is_cut else "fold",
            no_wrap=is_cut,
        )
    for row in rows:
        table.add_row(*(cell(name, row[name]) for name in widths))
    return table


def number_columns(rows: Sequence[Row]) -> set[str]:
    return {name for name, value in rows[0].items() if isinstance(value, int) or name.endswith("Timestamp")}


def leave_out_order(name: str) -> int:
    """Return a number for a column: columns with higher numbers are left out first."""
    return len(LEAVE_OUT_FIRST) - LEAVE_OUT_FIRST.index(name) if name in LEAVE_OUT_FIRST else 0


def to_seconds(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows of messages with the times as text, without milliseconds."""
    zone = find_zone()
    names = [name for name in rows[0] if name.endswith("Timestamp")]
    return [
        row | {name: format_time(row[name], zone, "seconds") for name in names if isinstance(row[name], int)}
        for row in rows
    ]


def line_width(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def column_widths(rows: Sequence[Row], width: int, wanted: Mapping[str, int], *, is_full: bool) -> dict[str, int]:
    """Return the width of each column that fits, in characters.

    Parameters: width: of the table. wanted: the least widths of columns, if they fit. The others are as wide as their
    values, but then the column that is always shown gets the rest of the line. is_full: do not leave out columns.

    Columns of text shrink down to a least width first. Then columns are left out: of messages the offsets first, then
    beginning at the end.
    """
    numbers = number_columns(rows)
    kept = next((name for name in KEPT if name in rows[0]), [*rows[0]][-1])
    widths = {
        name: max(cell_len(name), wanted.get(name, 0), *(cell(name, row[name]).cell_len for row in rows))
        for name in rows[0]
    }
    others = sorted((name for name in widths if name != kept), key=leave_out_order)
    least = {
        name: size
        if name in numbers.union(UNFOLDED)
        else min(size, max(LEAST_WIDTHS.get(name, LEAST_KEPT if name == kept else LEAST), len(name)))
        for name, size in widths.items()
    }
    while others and not is_full and line_width({name: least[name] for name in widths}) > width:
        del widths[others.pop()]
    shortest = min(line_width(widths), line_width({name: least[name] for name in widths}))
    most = max(width, shortest) if is_full else width
    widths = {name: min(size, most) for name, size in widths.items()}  # a body may have millions of characters
    for _ in range(line_width(widths) - most):
        widest = max(widths, key=lambda name: (widths[name] > least[name], widths[name]))
        widths[widest] -= 1
    if wanted and width < NOT_A_TERMINAL:
        widths[kept] += max(width - line_width(widths), 0)
    return widths


def cell(name: str, value: Any) -> Text:
    if name.endswith("Timestamp") and isinstance(value, int):
        value = format_time(value, find_zone())
    if isinstance(value, Mapping):
        value = [f"{key}={item}" for key, item in value.items()]
    if isinstance(value, list):
        value = ", ".join(value)
    if isinstance(value, bool):
        value = "yes" if value else "no"
    style = STYLES.get(str(value), "") if name == "severity" else ""
    text = printable_lines(value) if isinstance(value, Indented) else printable(str(value))
    return Text("-" if value is None else text, style)
