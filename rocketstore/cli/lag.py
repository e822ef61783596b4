"""``rocketstore lag``: show how far consumers are behind."""

import time
import warnings
from collections.abc import Sequence
from itertools import groupby

import click

from rocketstore.cli.completion import complete_groups
from rocketstore.cli.formats import Row, RowsView, finish, is_table, write_rows
from rocketstore.cli.options import rows_options, store_argument
from rocketstore.cli.store_notes import note_elsewhere
from rocketstore.cli.text import command, note
from rocketstore.config import camel_case
from rocketstore.state.config_values import LMQ_OFFSETS, OFFSETS
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.lag import ConsumerLag
from rocketstore.text_values import find_similar, format_duration

__all__ = ["lag"]

AGE = "oldestAgeSeconds"
COLUMNS = [*map(camel_case, ConsumerLag._fields), AGE]
TOTALS = ["group", "topics", "queues", "lag", "oldestTimestamp", AGE]


@click.command()
@store_argument
@click.option("--group", shell_complete=complete_groups, help="Only this consumer group.")
@click.option("--totals", is_flag=True, help="Only show the sum for each group.")
@rows_options(*dict.fromkeys([*COLUMNS, *TOTALS, "age"]))
def lag(store: MessageStore, group: str | None, totals: bool, view: RowsView) -> None:
    """Show the number of messages that each consumer group has not consumed yet, for each queue.

    A table also has the sum for each group; --totals shows only the sums. The age is that of the oldest message that
    the group has not consumed. topicExists is false for offsets of a topic that was deleted.

    The offsets are read from config/consumerOffset.json. A broker with enableLmq keeps them in
    config/lmqConsumerOffset.json instead.
    """
    store.layout.require_config_files("read")
    config = store.broker_config
    name = config.offsets_file
    problems: list[object] = [f"{path}: {what}" for path, what in config.problems if path.name.startswith(name)]
    if group is not None and group not in config.consumer_offsets:
        similar = find_similar(group, config.consumer_offsets)
        hint = f"did you mean {similar!r}?" if similar else f"{command('lag', store.path)} shows all"
        problems.append(f"{store.path}: no group {group!r} in {name}: {hint}")
    with warnings.catch_warnings(action="ignore"):  # the unknown group is among the problems
        lags = list(store.consumer_lag(group))
    other = OFFSETS if name == LMQ_OFFSETS else LMQ_OFFSETS
    if (store.path / "config" / other).exists():
        note(
            f"{store.path}: these offsets are from {name}. {other} is ignored: it was changed earlier, or the "
            f"broker's properties file has enableLmq=true. A broker with enableLmq=true reads {LMQ_OFFSETS}, any "
            f"other broker reads {OFFSETS}."
        )
    note_elsewhere(store, {entry.topic for entry in lags})
    now = time.time_ns() // 1_000_000
    if not totals:
        write_rows([row_of(entry, now) for entry in lags], view, for_people, columns=COLUMNS)
    if totals or (is_table(view.output_format) and view.columns is None):
        write_rows(total_rows(lags, now), view, totals_for_people, columns=TOTALS)
    if not lags and not problems:
        note(f"{store.path}: no consumer group has saved an offset in {name}")
    finish([*problems, *(entry.problem for entry in lags if entry.problem is not None)])


def row_of(entry: ConsumerLag, now: int) -> Row:
    return dict(zip(COLUMNS, (*entry, age(entry.oldest_timestamp, now)), strict=True))


def age(timestamp: int | None, now: int) -> int | None:
    """Return the age of a message in seconds; None without a message. Parameters: timestamp, now: epoch ms."""
    return None if timestamp is None else max(now - timestamp, 0) // 1000


def total_rows(lags: Sequence[ConsumerLag], now: int) -> list[Row]:
    """Return a row for each group. A queue whose lag is unknown does not count."""
    rows = []
    for group, entries in groupby(lags, key=lambda entry: entry.group):
        own = list(entries)
        oldest = min((entry.oldest_timestamp for entry in own if entry.oldest_timestamp is not None), default=None)
        counted = sum(entry.lag or 0 for entry in own)
        values = group, len({entry.topic for entry in own}), len(own), counted, oldest, age(oldest, now)
        rows.append(dict(zip(TOTALS, values, strict=True)))
    return rows


def for_people(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table; problems are on standard error."""
    return [
        {
            "group": row["group"],
            "topic": row["topic"] + ("" if row["topicExists"] else " (does not exist)"),
            "queueId": row["queueId"],
            "consumerOffset": row["consumerOffset"],
            "maxOffset": row["maxOffset"],
            "lag": row["lag"],
            "age": age_text(row),
        }
        for row in rows
    ]


def totals_for_people(rows: Sequence[Row]) -> list[Row]:
    return [{name: row[name] for name in TOTALS[:-2]} | {"age": age_text(row)} for row in rows]


def age_text(row: Row) -> str | None:
    return None if row[AGE] is None else format_duration(row[AGE])
