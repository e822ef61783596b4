"""``rocketstore dlq``: show the messages that consumers could not process."""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

from rocketstore.cli.columns import DEAD, DEAD_TOTALS
from rocketstore.cli.formats import RowsView, finish, write_rows_and_totals
from rocketstore.cli.several import AskedStores, RowsAnswer, unknown_names
from rocketstore.cli.store_notes import note_built_queues
from rocketstore.cli.text import note
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore


def run(
    stores: AskedStores,
    topic: tuple[str, ...],
    group: tuple[str, ...],
    since: int | None,
    until: int | None,
    retry: bool,
    totals: bool,
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    asked = {"topic": topic or None, "group": group or None, "since": since, "until": until, "retry": retry}
    found = stores.ask(partial(dead_letters_of, asked=asked))
    write_rows_and_totals(
        found.rows,
        found.sums,
        view,
        stores.for_people(for_people),
        columns=stores.columns(DEAD),
        total_columns=stores.columns(DEAD_TOTALS),
        only_totals=totals,
    )
    if not found.rows and not found.problems:
        note(f"{stores}: no {'message in retry topics' if retry else 'dead letter'}")
    finish(found.problems)


def dead_letters_of(store: MessageStore, asked: dict[str, Any]) -> RowsAnswer:
    """Return the dead letters of a store. Parameters: asked: the arguments of ``MessageStore.dead_letters``."""
    with warnings.catch_warnings(action="ignore"):  # unknown names are among the problems
        found = store.dead_letters(**asked)
    note_built_queues(store)
    unknown = {} if found else unknown_names(store, asked["topic"] or (), asked["group"] or ())
    rows: list[Row] = [dict(zip(DEAD, row, strict=True)) | {"keys": [*row.keys]} for row in found]
    sums: list[Row] = [dict(zip(DEAD_TOTALS, total, strict=True)) for total in found.totals()]
    return RowsAnswer(rows, sums, found.reasons, unknown)


def for_people(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table."""
    names = "group", "topic", "queueId", "reconsumeTimes", "bornTimestamp", "storeTimestamp", "uniqKey"
    return [{name: row[name] for name in names} | {"keys": " ".join(row["keys"])} for row in rows]
