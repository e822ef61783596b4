"""``rocketstore du``: show what takes the space of a store."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.columns import DISKS, PART_TOTALS, PARTS, USAGE_TOTALS
from rocketstore.cli.formats import RowsView, finish, is_table, paths_below, write_list, write_rows_and_totals
from rocketstore.cli.text import note
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.known_names import explain_unknown_names
from rocketstore.store.usage.message_usage import COLUMNS, FIELDS, basis


def run(
    store: MessageStore,
    by: Any,
    topic: tuple[str, ...],
    exact: bool,
    totals: bool,
    disks: bool,
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    if by is None and (topic or exact):
        raise click.UsageError("--topic and --exact are for messages: also give --by")
    if disks and (by is not None or totals):
        raise click.UsageError("--disks shows no messages and no sums: give it alone")
    if by is None:
        show_parts(store, view, totals=totals, disks=disks)
    else:
        show_messages(store, by, topic, view, exact=exact, totals=totals)


def show_parts(store: MessageStore, view: RowsView, *, totals: bool, disks: bool) -> None:
    """Write the parts of a store, their sums and its disks."""
    usage = store.du()
    total = dict(zip(PARTS, usage.total(), strict=True))
    below = paths_below(Path(str(store.path)))
    if not disks:
        write_rows_and_totals(
            [dict(zip(PARTS, part, strict=True)) for part in usage],
            [{name: total[name] for name in PART_TOTALS}],
            view,
            lambda rows: in_percent(below(rows)),
            columns=PARTS,
            total_columns=PART_TOTALS,
            only_totals=totals,
        )
    if disks or (not totals and is_table(view.output_format) and view.columns is None):
        write_list(DISKS, usage.disks, view, in_percent)
    finish(usage.reasons)


def show_messages(
    store: MessageStore, by: Any, topics: tuple[str, ...], view: RowsView, *, exact: bool, totals: bool
) -> None:
    """Write what the messages of each group take, and the sums."""
    with warnings.catch_warnings(action="ignore"):  # unknown topics are among the problems
        usage = store.du(by=by, topic=topics or None, exact=exact)
    columns = [FIELDS[name].name for name in COLUMNS[by]]
    total = usage.total()
    sums = total.messages, total.log_bytes, total.queue_bytes, usage.other_bytes, usage.is_exact
    write_rows_and_totals(
        [dict(zip(columns, cells, strict=True)) for cells in usage.cells()],
        [dict(zip(USAGE_TOTALS, sums, strict=True))],
        view,
        in_percent,
        columns=columns,
        total_columns=USAGE_TOTALS,
        only_totals=totals,
    )
    for text in (f"counted {basis(is_exact=exact)}", *usage.notes):
        note(f"{store.path}: {text}")
    finish([*usage.reasons, *explain_unknown_names(store, topics, ())])


def in_percent(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table, with shares in percent."""
    return [
        {name: f"{value:.1%}" if isinstance(value, float) else value for name, value in row.items()} for row in rows
    ]
