"""``rocketstore count``: count messages by topic, time, tag and so on."""

from collections.abc import Sequence
from datetime import tzinfo
from functools import partial
from typing import Any

import click

from rocketstore.cli.formats import RowsView, finish, write_rows
from rocketstore.cli.options.selection import UnconsumedQuestion
from rocketstore.cli.settings import refuse_places_in_log, scan_conditions
from rocketstore.cli.several import AskedStores, RowsAnswer
from rocketstore.cli.store_notes import note_elsewhere, unknown_topics
from rocketstore.cli.times import find_zone
from rocketstore.cli.unconsumed import UNCONSUMED_CHOOSES, FoundUnconsumed, are_given, read_rows, read_unconsumed
from rocketstore.cli.view.filters import note_unseen
from rocketstore.log.message_filter import MessageFilter
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.not_found import search_of_scan
from rocketstore.store.usage.counts import Counts, columns_of, count_messages, make_counts, parse_groupings
from rocketstore.store.usage.group_counter import GroupCounter
from rocketstore.store.usage.message_usage import scan_options

BAR, WIDTH = "█", 30  # characters
AT_ONCE = 8192  # messages


def run(
    stores: AskedStores,
    by: str | None,
    unconsumed: UnconsumedQuestion | None,
    message_filter: MessageFilter,
    view: RowsView,
    **options: Any,
) -> None:
    """Run the command with the values of its options."""
    try:
        groupings = [] if by is None else parse_groupings(by)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--by") from None
    if unconsumed is not None and are_given(options):
        raise click.UsageError(UNCONSUMED_CHOOSES)
    conditions = scan_conditions(**options)
    asked: dict[str, Any] = {
        "groupings": groupings,
        "unconsumed": unconsumed,
        "conditions": conditions,
        "message_filter": message_filter,
        "zone": find_zone(),
    }
    found = stores.ask(partial(count_store, **asked))
    columns = stores.columns(columns_of(groupings))
    write_rows(found.rows, view, with_bars, columns=columns)
    note_unseen(message_filter)
    finish(stores.or_nothing_found(len(found.rows), found.problems, search_of_scan(conditions)))


def count_store(
    store: MessageStore,
    groupings: Sequence[str],
    unconsumed: UnconsumedQuestion | None,
    conditions: dict[str, Any],
    message_filter: MessageFilter,
    zone: tzinfo | None,
) -> RowsAnswer:
    """Count the messages of a store. Parameters: unconsumed: None to count by the conditions."""
    if unconsumed is not None:
        found = read_unconsumed(store, unconsumed)
        counts, unknown = count_unconsumed(store, groupings, found, message_filter, zone), found.unknown
    else:
        unknown = {}
        if store.reads_other_logs:
            refuse_places_in_log(conditions)
        note_elsewhere(store, conditions["topic"] or None)
        read = store.scan if store.reads_other_logs else store.scan_log
        scan = read(**conditions, **scan_options(GroupCounter(groupings)))
        counts = count_messages(groupings, message_filter.of_scan(scan), zone)
    rows = [dict(zip(counts.columns, row, strict=True)) for row in counts]
    if not rows:  # the log may have messages of a topic without queues
        unknown = {**unknown, **unknown_topics(store, conditions["topic"] or ())}
    return RowsAnswer(rows, problems=counts.reasons, unknown=unknown)


def count_unconsumed(
    store: MessageStore,
    groupings: Sequence[str],
    unconsumed: FoundUnconsumed,
    message_filter: MessageFilter,
    zone: tzinfo | None,
) -> Counts:
    """Count the messages that a consumer group still gets.

    Parameters: zone: of hours and days; None for that of this machine.
    """
    problems = [*unconsumed.problems]
    counter = GroupCounter(groupings, zone)
    columns = list(dict.fromkeys([*counter.columns, "queue_offset", *message_filter.columns]))
    rows = [row for row in unconsumed.found if row.phy_offset is not None]
    for first in range(0, len(rows), AT_ONCE):
        batch, lost = read_rows(store.commit_log, rows[first : first + AT_ONCE], columns)
        counter.add(message_filter.of_batch(batch))
        problems += [f"{text}: not counted" for text in lost]
    return make_counts(groupings, counter, problems)


def with_bars(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table, with a bar for the number of messages of each."""
    most = max((row["messages"] for row in rows), default=0)
    return [row | {"": BAR * max(round(WIDTH * row["messages"] / most), 1)} for row in rows]
