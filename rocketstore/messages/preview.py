"""The first and last messages of a batch as a table, for people who look at an object in a terminal or a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from rocketstore.messages.compression import BODY_ERRORS
from rocketstore.messages.message import Message, utc
from rocketstore.text_values import shorten

__all__ = ["html_preview", "shown_columns", "text_preview"]

SHOWN = ("store_timestamp", "topic", "queue_id", "queue_offset", "phy_offset", "tags", "keys", "body")
SHOWN_ENDS = 5  # messages of each end of a batch
CELL = 40  # characters


def text_preview(messages: Any, names: Sequence[str]) -> str:
    """Return the first and the last messages of a batch as the lines of a table, each with a line break before it.

    Parameters: messages: a MessageBatch. names: of its columns.
    """
    names = shown_columns(names)
    rows = [names, *preview_rows(messages, names)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if names else []
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join("\n" + line.rstrip() for line in lines) if len(messages) else ""


def html_preview(messages: Any, names: Sequence[str]) -> str:
    """Return the first and the last messages of a batch as a table of HTML."""
    names = shown_columns(names)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in preview_rows(messages, names))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<p>{len(messages):,} messages</p><table><tr>{head}</tr>{body}</table>"


def shown_columns(names: Sequence[str]) -> list[str]:
    """Return the columns to show: those that people look for first, else the first columns of the batch."""
    return [name for name in SHOWN if name in names] or list(names[: len(SHOWN)])


def preview_rows(messages: Any, names: Sequence[str]) -> list[list[str]]:
    n = len(messages)
    if n <= 2 * SHOWN_ENDS:
        return [cells_of(message, names) for message in messages]
    head, tail = messages[:SHOWN_ENDS], messages[n - SHOWN_ENDS :]
    return [*(cells_of(message, names) for message in head), ["…"] * len(names),
            *(cells_of(message, names) for message in tail)]


def cells_of(message: Message, names: Sequence[str]) -> list[str]:
    return [shorten(cell_of(message, name), CELL) for name in names]


def cell_of(message: Message, name: str) -> str:
    try:
        value = getattr(message, name)
    except BODY_ERRORS as error:
        return f"({error})"
    if value is None:
        return ""
    if name.endswith("_timestamp"):
        return utc(value)
    return value if isinstance(value, str) and value.isprintable() else repr(value)
