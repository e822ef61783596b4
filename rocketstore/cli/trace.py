"""``rocketstore trace``: show the life of a message."""

import warnings
from collections.abc import Sequence

import click

from rocketstore.cli.columns import TRACE
from rocketstore.cli.formats import RowsView, finish, write_list
from rocketstore.cli.store_notes import note_built_queues, or_nothing_found, unknown_topics
from rocketstore.cli.text import note
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore


def run(store: MessageStore, topic: tuple[str, ...], view: RowsView, **names: str | None) -> None:
    """Run the command with the values of its options. Parameters: names: of the message; one of them is given."""
    if sum(name is not None for name in names.values()) != 1:
        raise click.UsageError("give one of --key, --unique-key and --id")
    if topic and names["key"] is None:
        raise click.UsageError("--topic is for --key: an id names one message")
    try:
        with warnings.catch_warnings(action="ignore"):  # unknown topics are among the problems
            found = store.trace(names["key"], uniq_key=names["unique_key"], msg_id=names["id"], topic=topic or None)
    except ValueError as error:
        raise click.UsageError(f"--id: {error}") from error
    note_built_queues(store)
    write_list(TRACE, found, view, for_people)
    for text in found.notes:
        note(f"{store.path}: {text}")
    problems = [*found.reasons, *([] if found else unknown_topics(store, topic))]
    finish(or_nothing_found(store, len(found), problems))


def for_people(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table. Only the events of several messages have their unique keys in it."""
    has_several = len({row["uniqKey"] for row in rows}) > 1
    names = [name for name in TRACE if name != "phyOffset" and (name != "uniqKey" or has_several)]
    return [{name: row[name] for name in names} for row in rows]
