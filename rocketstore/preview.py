"""Preview: a line and a table about an object, as text for a terminal and as HTML for a notebook.

The HTML has no colours of its own, so that it is readable in each theme. The exception is the word of a verdict. Every
text in it is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import PurePath
from typing import Any, NamedTuple

from rocketstore.names_of_other_tools import SuggestsNames
from rocketstore.text_values import shorten, utc

SHOWN_ENDS = 5  # rows of each end
SHOWN_FIRST = 12  # rows
SHOWN_NOTES = 4  # lines before a table
SHOWN_ITEMS, SHOWN_VALUE = 3, 200  # of a field: items of a sequence, and characters
CELL, WIDE_CELL, NOTE = 40, 80, 500  # characters
ELLIPSIS = "…"
GREEN, RED = "#168a50", "#d93025"  # are readable on white and on black


def ends_of(rows: Any) -> list[Any]:
    """Return the first and the last rows of a sequence. None stands for the rows between them."""
    n = len(rows)
    return list(rows) if n <= 2 * SHOWN_ENDS else [*rows[:SHOWN_ENDS], None, *rows[n - SHOWN_ENDS :]]


def first_of(rows: Any) -> list[Any]:
    """Return the first rows of a sequence. None stands for the others."""
    return list(rows) if len(rows) <= SHOWN_FIRST else [*rows[:SHOWN_FIRST], None]


class Verdict(NamedTuple):
    """Words at the start of a line, such as "not sound", and their colour in HTML: GREEN, RED, or None."""

    words: str
    colour: str | None = None


@dataclass(frozen=True)
class Preview:
    """A line about an object, and a table.

    Attributes
    ----------
    title : the line. It has the number of all rows.
    verdict : stands in the line between the name of the class and the rest of ``title``.
    columns : names. An int in a column named ``*_timestamp`` is a time, epoch milliseconds.
    rows : values, one for each column. None stands for rows that are left out.
    notes : further lines, before the table.
    width : the most characters of a cell. A longer text loses its end, a longer path loses its beginning.
    """

    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object] | None] = ()
    notes: Sequence[str] = ()
    width: int = CELL
    verdict: Verdict | None = None

    def text(self) -> str:
        """Return the preview as lines of text. Numbers are aligned to the right."""
        lines = ["\n".join([self._title("" if self.verdict is None else self.verdict.words), *self._shown_notes()])]
        if self.rows:
            numbers = self._number_columns()
            cells = [list(self.columns), *self._cells()]
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            for row in cells:
                aligned = (
                    cell.rjust(width) if is_number else cell.ljust(width)
                    for cell, width, is_number in zip(row, widths, numbers, strict=True)
                )
                lines.append("  ".join(aligned).rstrip())
        return "\n".join([f"<{lines[0]}>", *lines[1:]])

    def html(self) -> str:
        """Return the preview as HTML: paragraphs and a table."""
        notes = "".join(f"<p>{escape(sendable(line))}</p>" for line in self._shown_notes())
        title = escape(sendable(self.title)) if self.verdict is None else self._title(verdict_html(self.verdict))
        lines = f"<p>{title}</p>{notes}"
        if not self.rows:
            return lines
        numbers = self._number_columns()
        head, *rows = (
            "".join(cell_html(tag, cell, is_number) for cell, is_number in zip(row, numbers, strict=True))
            for tag, row in [("th", self.columns), *(("td", row) for row in self._cells())]
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"{lines}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _title(self, verdict: str) -> str:
        name, _, rest = self.title.partition(": ")
        return f"{name}: {verdict}, {rest}" if verdict else self.title

    def _shown_notes(self) -> list[str]:
        """Return the first notes, each as one line, and the number of the others."""
        shown = [shorten(" ".join(note.split("\n")), NOTE) for note in self.notes[:SHOWN_NOTES]]
        others = len(self.notes) - len(shown)
        return [*shown[:-1], f"{ELLIPSIS} {others + 1:,} more"] if others else shown

    def _number_columns(self) -> list[bool]:
        """Return for each column whether it has numbers that are no times."""
        shown = [row for row in self.rows if row is not None]
        return [
            not is_time(name) and any(type(row[place]) in (int, float) for row in shown)
            for place, name in enumerate(self.columns)
        ]

    def _cells(self) -> list[list[str]]:
        return [
            [ELLIPSIS] * len(self.columns)
            if row is None
            else [self._cell(name, value) for name, value in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def _cell(self, name: str, value: object) -> str:
        if value is None:
            return ""
        if isinstance(value, PurePath):
            text = str(value)
            text = text if len(text) <= self.width else ELLIPSIS + text[1 - self.width :]
            return text if text.isprintable() else repr(text)
        if isinstance(value, datetime):
            return value.isoformat(" ", "milliseconds")
        if isinstance(value, float):
            return f"{value:.3f}"
        if isinstance(value, int) and is_time(name):
            return utc(value)
        if isinstance(value, bytes | str):
            value = value[: self.width + 1]  # repr of a whole body may take long
        return shorten(value if isinstance(value, str) and value.isprintable() else repr(value), self.width)


def show_fields(fields: Any) -> str:
    """Return the repr of a NamedTuple or dataclass. A long value is cut, and the number of its items is shown."""
    shown = (f"{name}={show_value(getattr(fields, name))}" for name in fields.__match_args__)
    return f"{type(fields).__name__}({', '.join(shown)})"


def show_value(value: Any) -> str:
    """Return the repr of a value, of at most ``SHOWN_VALUE`` characters."""
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes) and len(value) > SHOWN_ITEMS:
        items = value.items() if isinstance(value, Mapping) else value
        first = ", ".join(map(show_value, islice(items, SHOWN_ITEMS)))
        return shorten(f"[{first}, {ELLIPSIS} {len(value):,} in all]", SHOWN_VALUE)
    return shorten(repr(value[: SHOWN_VALUE + 1] if isinstance(value, str | bytes) else value), SHOWN_VALUE)


class Previewed(SuggestsNames):
    """Has a repr for a terminal and HTML for a notebook, both made from one preview. So they show the same facts."""

    __slots__ = ()

    def _preview(self) -> Preview:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._preview().text()

    def _repr_html_(self) -> str:
        return self._preview().html()


def is_time(name: str) -> bool:
    return name.endswith("_timestamp")


def sendable(text: str) -> str:
    """Return a text without halves of surrogate pairs, which have no UTF-8. Paths may have them."""
    return text.encode("utf-8", "backslashreplace").decode()


def escape(text: str) -> str:
    """Return a text as it is written in HTML."""
    import html  # takes long to import, and few programs show HTML

    return html.escape(text)


def cell_html(tag: str, text: str, is_number: bool) -> str:
    side = "right" if is_number else "left"  # notebooks have their own defaults
    return f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>'


def verdict_html(verdict: Verdict) -> str:
    style = "" if verdict.colour is None else f' style="color: {verdict.colour}"'
    return f"<strong{style}>{escape(verdict.words)}</strong>"
