"""``rocketstore count``: count messages by topic, time, tag and so on."""

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from rocketstore.cli.formats import RowsView, error_text, finish, write_rows
from rocketstore.cli.settings import refuse_places_in_log, scan_conditions
from rocketstore.cli.store_notes import note_elsewhere, or_nothing_found
from rocketstore.cli.unconsumed import are_given, find_rest
from rocketstore.cli.view.filters import note_unseen
from rocketstore.log.message_filter import MessageFilter
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.usage.counts import Counts, count_messages, make_counts, parse_groupings
from rocketstore.store.usage.group_counter import GroupCounter
from rocketstore.store.usage.message_usage import columns_to_count, count_batch, scan_options

BAR, WIDTH = "█", 30  # characters
AT_ONCE = 8192  # messages


def run(
    store: MessageStore,
    by: str,
    rest: dict[str, Any] | None,
    message_filter: MessageFilter,
    view: RowsView,
    **options: Any,
) -> None:
    """Run the command with the values of its options."""
    try:
        groupings = parse_groupings(by)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--by") from None
    if rest is not None:
        if message_filter.choices or are_given(options):
            raise click.UsageError("--unconsumed chooses the messages: give it without other conditions")
        counts = count_rest(store, groupings, rest)
    else:
        conditions = scan_conditions(**options)
        if store.reads_other_logs:
            refuse_places_in_log(conditions)
        note_elsewhere(store, conditions["topic"] or None)
        source = store if store.reads_other_logs else store.commit_log
        scan = source.scan(**conditions, **scan_options(GroupCounter(groupings)))
        counts = count_messages(store, groupings, scan, message_filter)
    rows = [dict(zip(counts.columns, row, strict=True)) for row in counts]
    write_rows(rows, view, with_bars, columns=counts.columns)
    note_unseen(message_filter)
    finish(or_nothing_found(store, len(rows), counts.reasons, options["topic"] or None))


def count_rest(store: MessageStore, groupings: Sequence[str], rest: dict[str, Any]) -> Counts:
    """Count the messages that a consumer group still gets. Parameters: rest: of ``unconsumed_options``."""
    found, problems = find_rest(store, rest)
    counter = GroupCounter(groupings)
    offsets = np.array([row.phy_offset for row in found if row.phy_offset is not None], np.int64)
    for first in range(0, len(offsets), AT_ONCE):
        wanted = offsets[first : first + AT_ONCE]
        batch, statuses = store.commit_log.find_messages(wanted, columns=columns_to_count(counter))
        count_batch(store, counter, batch)
        for row in np.flatnonzero(statuses).tolist():
            error = store.commit_log.error(int(wanted[row]), int(statuses[row]))
            problems.append(f"{error_text(error)}: not counted")
    return make_counts(groupings, counter, problems)


def with_bars(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table, with a bar for the number of messages of each."""
    most = max((row["messages"] for row in rows), default=0)
    return [row | {"": BAR * max(round(WIDTH * row["messages"] / most), 1)} for row in rows]
