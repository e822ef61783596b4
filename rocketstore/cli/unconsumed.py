"""The messages that a consumer group still gets, for commands with --unconsumed."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rocketstore.brokers.merge import with_broker
from rocketstore.cli.formats import error_text, finish, is_table, write_batches
from rocketstore.cli.options.selection import UnconsumedQuestion
from rocketstore.cli.several import AskedStores, unknown_names, unknown_to_all
from rocketstore.cli.text import note
from rocketstore.cli.view.filters import note_unseen
from rocketstore.cli.view.messages import MessageView, write_messages
from rocketstore.kernels.message_columns import BROKER
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.unconsumed import Unconsumed, UnconsumedMessage
from rocketstore.text_values import format_count

AT_ONCE = 500  # messages in memory
UNCONSUMED_CHOOSES = (
    "--unconsumed chooses the messages: give it without other conditions than --where, --grep and --regex"
)


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
    def wanted(self) -> "WantedMessages":
        """The messages of the log."""
        return WantedMessages.of(self.found)


class WantedMessages(NamedTuple):
    """The messages of a log that a group still gets.

    Attributes: phy_offsets: of their records, int64[n], ascending. places: the physical and the queue offset of each
    message whose queue offset is known: a group may get only some messages of an inner batch.
    """

    phy_offsets: np.ndarray
    places: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, found: Iterable[UnconsumedMessage]) -> "WantedMessages":
        phy_offsets: set[int] = set()
        places: set[tuple[int, int]] = set()
        for row in found:
            if row.phy_offset is not None:
                phy_offsets.add(row.phy_offset)
                if row.queue_offset is not None:
                    places.add((row.phy_offset, row.queue_offset))
        return cls(np.array(sorted(phy_offsets), np.int64), frozenset(places))

    def choose(self, batch: MessageBatch) -> np.ndarray:
        """Return the rows of these messages, int64[n]. Parameters: batch: all messages of each of its records."""
        rows = np.flatnonzero(np.isin(batch.phy_offset, self.phy_offsets))
        phy_offsets, queue_offsets = batch.phy_offset[rows], batch.queue_offset[rows]
        _, numbers, counts = np.unique(phy_offsets, return_inverse=True, return_counts=True)
        is_wanted = counts[numbers] == 1
        for row in np.flatnonzero(~is_wanted).tolist():
            is_wanted[row] = (int(phy_offsets[row]), int(queue_offsets[row])) in self.places
        chosen: np.ndarray = rows[is_wanted]
        return chosen


def read_rows(
    log: CommitLog, rows: Sequence[UnconsumedMessage], columns: Sequence[str] | None = None, *, containers: bool = False
) -> tuple[MessageBatch, list[str]]:
    """Read messages that a group still gets, in their order. Return them, and why others cannot be read.

    Parameters: columns: with phy_offset and queue_offset; None for all. containers: read the records of inner batches.
    """
    offsets = np.array(list(dict.fromkeys(row.phy_offset for row in rows)), np.int64)
    batch, statuses = log.find_messages(offsets, columns=columns, containers=containers)
    numbers: dict[int | None, dict[int, int]] = {}  # in the batch, by physical offset and queue offset
    for number, (at, queue_offset) in enumerate(
        zip(batch.phy_offset.tolist(), batch.queue_offset.tolist(), strict=True)
    ):
        numbers.setdefault(at, {})[queue_offset] = number
    chosen: list[int] = []
    for row in rows:
        of_record = numbers.get(row.phy_offset, {})
        # The group may get only some messages of an inner batch.
        if len(of_record) > 1 and row.queue_offset is not None:
            chosen += [number for queue_offset, number in of_record.items() if queue_offset == row.queue_offset]
        else:
            chosen += of_record.values()
    if containers:
        chosen = list(dict.fromkeys(chosen))
    bad = np.flatnonzero(statuses).tolist()
    return batch.take(chosen), [error_text(log.error(int(offsets[at]), int(statuses[at]))) for at in bad]


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
    count, consumed_all = 0, True
    has_conditions = bool(view.message_filter.choices)

    def batches() -> Iterator[tuple[str, MessageBatch | Sequence[Message]]]:
        nonlocal count, consumed_all
        for broker, store in stores.stores.items():
            with stores.naming_failures(problems, store):
                rest = None if limit is None else limit - count
                found = read_unconsumed(store, asked, None if has_conditions else rest)
                unknown.append(found.unknown)
                problems.extend(found.problems)
                consumed_all &= not found.found
                rows = [row for row in found.found if row.phy_offset is not None]
                for kind, messages in first_of_kinds(messages_of(store.commit_log, rows, view), rest):
                    count += len(messages)
                    yield kind, with_broker(messages, broker) if view.has_broker else messages
            if count == limit:
                return

    if view.is_raw or view.template is not None:
        write_messages((messages for _, messages in batches()), output_format, view)
    else:
        own = [BROKER, "kind", *view.names[1:]] if view.has_broker else ["kind", *view.names]
        columns = view.names if view.columns is not None else own
        rows_of_batches = (rows_of(kind, messages, view, output_format) for kind, messages in batches())
        write_batches(rows_of_batches, output_format, columns=columns, is_full=view.is_full)
    problems += unknown_to_all(unknown) if stores.is_several else unknown[0].values()
    note_unseen(view.message_filter)
    if not count and not problems:
        text = "has consumed all messages" if consumed_all else "gets no message that meets the conditions"
        note(f"{stores}: group {asked.group!r} {text}")
    finish(problems)


def messages_of(
    log: CommitLog, rows: Sequence[UnconsumedMessage], view: MessageView
) -> Iterator[tuple[str, MessageBatch]]:
    """Yield the messages of rows that meet the conditions of a view, with their kind, those of each kind together."""
    for first in range(0, len(rows), AT_ONCE):
        part = rows[first : first + AT_ONCE]
        for kind in dict.fromkeys(row.kind for row in part):
            of_kind = [row for row in part if row.kind == kind]
            messages, _ = read_rows(log, of_kind, containers=view.has_containers)
            yield kind, view.message_filter.of_batch(messages)


def first_of_kinds(
    batches: Iterable[tuple[str, MessageBatch]], limit: int | None
) -> Iterator[tuple[str, MessageBatch]]:
    """Yield the first messages with their kinds. Parameters: limit: their number; None for all."""
    for kind, messages in batches:
        shown = messages if limit is None else messages[:limit]
        yield kind, shown
        if limit is not None:
            limit -= len(shown)
            if not limit:
                return


def rows_of(
    kind: str, messages: MessageBatch | Sequence[Message], view: MessageView, output_format: str | None
) -> Sequence[Row]:
    """Return the rows to show of messages of one kind."""
    shown = view.rows(messages)
    if is_table(output_format):
        shown = view.for_people(shown)
    if view.columns is not None:
        return shown
    first = (BROKER, "kind") if view.has_broker else ("kind",)
    return [dict.fromkeys(first) | {"kind": kind} | row for row in shown]
