"""``rocketstore pending``: show the messages that wait, and until when."""

import time
import warnings
from collections.abc import Sequence

from rocketstore.cli.columns import PENDING, PENDING_TOTALS
from rocketstore.cli.conditions import Condition
from rocketstore.cli.formats import RowsView, finish_checked, write_rows_and_totals
from rocketstore.cli.store_notes import note_built_queues
from rocketstore.cli.text import note
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.known_names import explain_unknown_names
from rocketstore.text_values import format_duration


def run(
    store: MessageStore,
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
    with warnings.catch_warnings(action="ignore"):  # unknown names are among the problems
        found = store.pending(topic=topic or None, group=group or None, kind=kind or None, since=since, until=end)
    note_built_queues(store)
    problems = [*found.reasons, *([] if found else explain_unknown_names(store, topic, group))]
    rows: list[Row] = [dict(zip(PENDING, row, strict=True)) | {"keys": [*row.keys]} for row in found]
    sums: list[Row] = [dict(zip(PENDING_TOTALS, total, strict=True)) for total in found.totals()]
    write_rows_and_totals(
        rows,
        sums,
        view,
        lambda shown: for_people(shown, now),
        columns=PENDING,
        total_columns=PENDING_TOTALS,
        only_totals=totals,
    )
    if not found and not problems:
        note(f"{store.path}: no such message is pending")
    finish_checked(problems, fail_if, rows, sums)


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
