"""The messages that a consumer group still gets, for commands with --unconsumed."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rocketstore.brokers.merge import with_broker
from rocketstore.cli.formats import finish, is_table, write_batches
from rocketstore.cli.options import UnconsumedQuestion
from rocketstore.cli.several import AskedStores, unknown_names, unknown_to_all
from rocketstore.cli.text import note
from rocketstore.cli.view.messages import MessageView
from rocketstore.kernels.message_columns import BROKER
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.unconsumed import Unconsumed, UnconsumedMessage
from rocketstore.text_values import format_count

AT_ONCE = 500  # messages in memory


def are_given(options: Mapping[str, Any]) -> bool:
    """Return whether a command line has one of some options. Parameters: options: the values, by name."""
    return any(value not in (None, (), False) for value in options.values())


class FoundUnconsumed(NamedTuple):
    """The messages that a group still gets.

    Attributes: found. problems: why messages may be missing. unknown: a text about the group if the store has no
    offsets of it, by its name.
    """

    found: Unconsumed
    problems: list[str]
    unknown: dict[str, str]

    @property
    def phy_offsets(self) -> np.ndarray:
        """The physical offsets of the messages of the log, int64[n], ascending."""
        return np.array(sorted({row.phy_offset for row in self.found if row.phy_offset is not None}), np.int64)


def read_unconsumed(store: MessageStore, asked: UnconsumedQuestion, limit: int | None = None) -> FoundUnconsumed:
    """Find the messages that a group still gets."""
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
    return FoundUnconsumed(found, problems, {} if found else unknown_names(store, (), (asked.group,)))


def show_unconsumed(
    stores: AskedStores, asked: UnconsumedQuestion, limit: int | None, view: MessageView, output_format: str | None
) -> None:
    """Write the messages that a group still gets, queue by queue, of several stores store after store."""
    problems: list[object] = [*stores.problems]
    unknown: list[dict[str, str]] = []
    count = 0

    def batches() -> Iterator[Sequence[Row]]:
        nonlocal count
        for broker, store in stores.stores.items():
            with stores.naming_failures(problems, store):
                found = read_unconsumed(store, asked, None if limit is None else limit - count)
                count += len(found.found)
                unknown.append(found.unknown)
                problems.extend(found.problems)
                rows = [row for row in found.found if row.phy_offset is not None]
                for first in range(0, len(rows), AT_ONCE):
                    yield from rows_of(store, rows[first : first + AT_ONCE], view, output_format, broker)
            if count == limit:
                return

    own = [BROKER, "kind", *view.names[1:]] if view.has_broker else ["kind", *view.names]
    columns = view.names if view.columns is not None else own
    write_batches(batches(), output_format, columns=columns, is_full=view.is_full)
    problems += unknown_to_all(unknown) if stores.is_several else unknown[0].values()
    if not count and not problems:
        note(f"{stores}: group {asked.group!r} has consumed all messages")
    finish(problems)


def rows_of(
    store: MessageStore, rows: Sequence[UnconsumedMessage], view: MessageView, output_format: str | None, broker: str
) -> Iterator[Sequence[Row]]:
    """Yield the rows to show of some messages, those of each kind together."""
    log = store.commit_log
    for kind in dict.fromkeys(row.kind for row in rows):
        offsets = np.array([row.phy_offset for row in rows if row.kind == kind], np.int64)
        batch, _ = log.find_messages(offsets)
        for messages in view.messages(log, [batch]):
            shown = view.rows(with_broker(messages, broker) if view.has_broker else messages)
            if is_table(output_format):
                shown = view.for_people(shown)
            if view.columns is None:
                first = (BROKER, "kind") if view.has_broker else ("kind",)
                shown = [dict.fromkeys(first) | {"kind": kind} | row for row in shown]
            yield shown
