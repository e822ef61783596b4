"""``rocketstore trace``: show the life of a message."""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from rocketstore.brokers.broker_stores import trace_order
from rocketstore.cli.columns import TRACE
from rocketstore.cli.formats import RowsView, finish, write_rows
from rocketstore.cli.several import AskedStores, RowsAnswer
from rocketstore.cli.store_notes import note_built_queues, unknown_topics
from rocketstore.cli.text import note
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.not_found import SearchConditions


def run(stores: AskedStores, topic: tuple[str, ...], view: RowsView, **names: str | None) -> None:
    """Run the command with the values of its options. Parameters: names: of the message; one of them is given."""
    if sum(name is not None for name in names.values()) != 1:
        raise click.UsageError("give one of --key, --unique-key and --id")
    if topic and names["key"] is None:
        raise click.UsageError("--topic is for --key: an id names one message")
    asked = {"uniq_key": names["unique_key"], "msg_id": names["id"], "topic": topic or None}
    try:
        found = stores.ask(partial(trace_of, key=names["key"], asked=asked))
    except ValueError as error:
        raise click.UsageError(f"--id: {error}") from error
    rows = sort_events(found.rows) if stores.is_several else found.rows
    write_rows(rows, view, stores.for_people(for_people), columns=stores.columns(TRACE))
    for row in found.others:
        note(row["note"])
    words = tuple(word for word in names.values() if word is not None)
    finish(stores.or_nothing_found(len(rows), found.problems, SearchConditions(topic, (), words, from_index=True)))


def trace_of(store: MessageStore, key: str | None, asked: dict[str, Any]) -> RowsAnswer:
    """Return the events of a store. Parameters: key, asked: the arguments of ``MessageStore.trace``."""
    with warnings.catch_warnings(action="ignore"):  # unknown topics are among the problems
        found = store.trace(key, **asked)
    note_built_queues(store)
    rows: list[Row] = [dict(zip(TRACE, event, strict=True)) for event in found]
    notes: list[Row] = [{"note": f"{store.path}: {text}"} for text in found.notes]
    return RowsAnswer(rows, [], found.reasons, {} if found else unknown_topics(store, asked["topic"] or ()), notes)


def sort_events(rows: Sequence[Row]) -> list[Row]:
    """Return the events of several stores: message after message, those of a message by time, without a time last."""
    first: dict[str | None, int] = {}
    for row in rows:
        if row["eventTimestamp"] is not None:
            first[row["uniqKey"]] = min(row["eventTimestamp"], first.get(row["uniqKey"], row["eventTimestamp"]))
    return sorted(rows, key=lambda row: trace_order(row["uniqKey"], row["eventTimestamp"], first))


def for_people(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table. Only the events of several messages have their unique keys in it."""
    has_several = len({row["uniqKey"] for row in rows}) > 1
    names = [name for name in TRACE if name != "phyOffset" and (name != "uniqKey" or has_several)]
    return [{name: row[name] for name in names} for row in rows]
