"""``rocketstore pending``: show the messages that wait, and until when."""

import time
import warnings
from collections.abc import Sequence
from datetime import tzinfo
from functools import partial
from typing import Any

from rocketstore.cli.columns import PENDING, PENDING_TOTALS
from rocketstore.cli.conditions import Condition
from rocketstore.cli.formats import RowsView, finish_checked, write_rows_and_totals
from rocketstore.cli.several import AskedStores, RowsAnswer, unknown_names
from rocketstore.cli.store_notes import note_built_queues
from rocketstore.cli.text import note
from rocketstore.cli.times import find_zone
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.text_values import format_duration


def run(
    stores: AskedStores,
    topic: tuple[str, ...],
    group: tuple[str, ...],
    kind: tuple[str, ...],
    since: int | None,
    until: int | None,
    overdue: bool,
    totals: bool,
    fail_if: tuple[Condition, ...],
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    now = time.time_ns() // 1_000_000
    end = min(now, now if until is None else until) if overdue else until
    asked = {"topic": topic or None, "group": group or None, "kind": kind or None, "since": since, "until": end}
    found = stores.ask(partial(pending_of, asked=asked, zone=find_zone()))
    rows = sorted(found.rows, key=due_order_of) if stores.is_several else found.rows
    write_rows_and_totals(
        rows,
        found.sums,
        view,
        stores.for_people(partial(for_people, now=now)),
        columns=stores.columns(PENDING),
        total_columns=stores.columns(PENDING_TOTALS),
        only_totals=totals,
    )
    if not rows and not found.problems:
        note(f"{stores}: no such message is pending")
    finish_checked(found.problems, fail_if, rows, found.sums)


def pending_of(store: MessageStore, asked: dict[str, Any], zone: tzinfo | None) -> RowsAnswer:
    """Return the messages that wait in a store.

    Parameters: asked: the arguments of ``MessageStore.pending``. zone: of the hours of the sums.
    """
    with warnings.catch_warnings(action="ignore"):  # unknown names are among the problems
        found = store.pending(**asked)
    note_built_queues(store)
    unknown = {} if found else unknown_names(store, asked["topic"] or (), asked["group"] or ())
    rows: list[Row] = [dict(zip(PENDING, row, strict=True)) | {"keys": [*row.keys]} for row in found]
    sums: list[Row] = [dict(zip(PENDING_TOTALS, total, strict=True)) for total in found.totals(tz=zone)]
    return RowsAnswer(rows, sums, found.reasons, unknown)


def due_order_of(row: Row) -> tuple[bool, int]:
    """Return the key by which the messages of several stores are sorted; half messages are last."""
    return row["dueTimestamp"] is None, row["dueTimestamp"] or 0


def for_people(rows: Sequence[Row], now: int) -> list[Row]:
    """Return the rows of a table. Parameters: now: epoch ms."""
    return [
        {
            "kind": row["kind"],
            "topic": row["topic"],
            "queueId": row["queueId"],
            "group": row["group"],
            "dueTimestamp": row["dueTimestamp"],
            "checkTimes": row["checkTimes"],
            "age": age_text(row["bornTimestamp"], now),
            "uniqKey": row["uniqKey"],
            "keys": " ".join(row["keys"]),
        }
        for row in rows
    ]


def age_text(born_timestamp: int | None, now: int) -> str | None:
    """Return the time since the producer sent a message. Parameters: born_timestamp, now: epoch ms."""
    return None if born_timestamp is None else format_duration(max(now - born_timestamp, 0) // 1000)
