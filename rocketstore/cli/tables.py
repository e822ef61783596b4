"""Tables for people. Commands import this module when they write a table, since rich takes long to import."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rocketstore.cli.text import note, printable
from rocketstore.messages.text_rows import Row
from rocketstore.text_values import format_time

__all__ = ["cell", "print_table", "table_of", "write_tables"]

NOT_A_TERMINAL = 1000  # characters a line: wide enough that a table in a file or a pipe is not folded
KEPT = ("body", "detail", "meaning")  # columns that a narrow terminal shows in any case; without one, the last column
WHOLE = ("severity", "kind", "mend")  # columns of text that are left out rather than folded
STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}  # of severities
WIDE = 10  # columns; a single row with more of them is shown with one line for each column
GAP = 2  # characters between columns
LEAST, LEAST_KEPT = 12, 20  # characters: the least width of a column of text, and of the column that is always shown


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

    Columns of text shrink down to a least width first. Then columns are left out, beginning at the end.
    """
    kept = next((name for name in KEPT if name in columns), [*columns][-1])
    widths = {name: max(cell_len(name), *(text.cell_len for text in cells)) for name, cells in columns.items()}
    others = [name for name in widths if name != kept]
    least = {
        name: size if name in numbers.union(WHOLE) else min(size, max(LEAST_KEPT if name == kept else LEAST, len(name)))
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
    style = STYLES.get(str(value), "") if name == "severity" else ""
    return Text("-" if value is None else printable(str(value)), style)
