"""The messages that a consumer group still gets, for commands with --unconsumed."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rocketstore.cli.formats import finish, is_table, write_batches
from rocketstore.cli.options import UnconsumedQuestion
from rocketstore.cli.text import note
from rocketstore.cli.view.messages import MessageView
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.known_names import explain_unknown_group
from rocketstore.store.overview.unconsumed import Unconsumed, UnconsumedMessage
from rocketstore.text_values import format_count

AT_ONCE = 500  # messages in memory


def are_given(options: Mapping[str, Any]) -> bool:
    """Return whether a command line has one of some options. Parameters: options: the values, by name."""
    return any(value not in (None, (), False) for value in options.values())


def read_unconsumed(
    store: MessageStore, asked: UnconsumedQuestion, limit: int | None = None
) -> tuple[Unconsumed, list[str]]:
    """Return the messages that a group still gets, and the problems."""
    with warnings.catch_warnings(action="ignore"):  # an unknown group is among the problems
        found = store.unconsumed(asked.group, subscribe=asked.subscribe, start=asked.start, limit=limit)
    for text in found.notes:
        note(f"{store.path}: {text}")
    problems = list(found.reasons)
    elsewhere = sum(row.phy_offset is None for row in found)
    if elsewhere:
        messages = format_count(elsewhere, "message is", "messages are")
        problems.append(
            f"{store.path}: {messages} in tiered storage or in the log of a compacted topic, and left out: "
            "store.unconsumed() in Python lists them"
        )
    if not found and (unknown := explain_unknown_group(store, asked.group)) is not None:
        problems.append(unknown)
    return found, problems


def find_unconsumed_offsets(store: MessageStore, asked: UnconsumedQuestion) -> tuple[np.ndarray, list[str]]:
    """Return the physical offsets of the messages that a group still gets, int64[n] ascending, and the problems."""
    found, problems = read_unconsumed(store, asked)
    offsets = {row.phy_offset for row in found if row.phy_offset is not None}
    return np.array(sorted(offsets), np.int64), problems


def show_unconsumed(
    store: MessageStore, asked: UnconsumedQuestion, limit: int | None, view: MessageView, output_format: str | None
) -> None:
    """Write the messages that a group still gets, queue by queue."""
    found, problems = read_unconsumed(store, asked, limit)

    def batches() -> Iterator[Sequence[Row]]:
        rows = [row for row in found if row.phy_offset is not None]
        for first in range(0, len(rows), AT_ONCE):
            yield from rows_of(store, rows[first : first + AT_ONCE], view, output_format)

    columns = view.names if view.columns is not None else ["kind", *view.names]
    write_batches(batches(), output_format, columns=columns, is_full=view.is_full)
    if not found and not problems:
        note(f"{store.path}: group {asked.group!r} has consumed all messages")
    finish(problems)


def rows_of(
    store: MessageStore, rows: Sequence[UnconsumedMessage], view: MessageView, output_format: str | None
) -> Iterator[Sequence[Row]]:
    """Yield the rows to show of some messages, those of each kind together."""
    log = store.commit_log
    for kind in dict.fromkeys(row.kind for row in rows):
        offsets = np.array([row.phy_offset for row in rows if row.kind == kind], np.int64)
        batch, _ = log.find_messages(offsets)
        for messages in view.messages(log, [batch]):
            shown = view.rows(messages)
            if is_table(output_format):
                shown = view.for_people(shown)
            yield shown if view.columns is not None else [{"kind": kind} | row for row in shown]
