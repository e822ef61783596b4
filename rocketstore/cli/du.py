"""``rocketstore du``: show what takes the space of a store."""

import warnings
from collections.abc import Sequence
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.columns import DISKS, PART_TOTALS, PARTS, USAGE_TOTALS
from rocketstore.cli.conditions import Condition, require_columns
from rocketstore.cli.formats import RowsView, finish_checked, is_table, paths_below, write_rows, write_rows_and_totals
from rocketstore.cli.several import AskedStores, RowsAnswer, unknown_names
from rocketstore.cli.text import note
from rocketstore.cli.times import find_zone
from rocketstore.kernels.message_columns import BROKER
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.usage.message_usage import COLUMNS, FIELDS, describe_source


def run(
    stores: AskedStores,
    by: Any,
    topic: tuple[str, ...],
    exact: bool,
    totals: bool,
    disks: bool,
    fail_if: tuple[Condition, ...],
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    if by is None and (topic or exact):
        raise click.UsageError("--topic and --exact are for messages: also give --by")
    if disks and (by is not None or totals):
        raise click.UsageError("--disks shows no messages and no sums: give it alone")
    require_columns(fail_if, *columns_of(by))
    if by is None:
        show_parts(stores, view, fail_if, totals=totals, disks=disks)
    else:
        show_messages(stores, by, topic, view, fail_if, exact=exact, totals=totals)


def columns_of(by: Any) -> tuple[Sequence[str], str]:
    """Return the columns of rows and sums that have numbers, and which lists have the others."""
    if by is None:
        return (*PARTS, *DISKS), "is a column of du --by topic: also give --by"
    names = [FIELDS[name].name for name in COLUMNS[by]]
    if "queueBytes" in names:
        return (*names, *USAGE_TOTALS), "is a column of du without --by"
    return (
        [*names, *(name for name in USAGE_TOTALS if name != "queueBytes")],
        "is a column of du without --by, or of du --by topic and --by queue",
    )


def show_parts(stores: AskedStores, view: RowsView, fail_if: Sequence[Condition], *, totals: bool, disks: bool) -> None:
    """Write the parts of stores, their sums and their disks."""
    found = stores.ask(parts_of)
    sums = stores.with_total(found.sums)
    below = {broker: paths_below(Path(str(store.path))) for broker, store in stores.stores.items()}

    def for_people(rows: Sequence[Row]) -> list[Row]:
        return in_percent([below[row.get(BROKER, "")]([row])[0] for row in rows])

    if not disks:
        write_rows_and_totals(
            found.rows,
            sums,
            view,
            for_people,
            columns=stores.columns(PARTS),
            total_columns=stores.columns(PART_TOTALS),
            only_totals=totals,
            totals_for_people=stores.for_people(list),
        )
    if disks or (not totals and is_table(view.output_format) and view.columns is None):
        write_rows(found.others, view, in_percent, columns=stores.columns(DISKS))
    finish_checked(found.problems, fail_if, found.rows, sums, found.others)


def parts_of(store: MessageStore) -> RowsAnswer:
    """Return the parts of a store, their sums and, as other rows, its disks."""
    usage = store.du()
    total = dict(zip(PARTS, usage.total(), strict=True))
    parts: list[Row] = [dict(zip(PARTS, part, strict=True)) for part in usage]
    space: list[Row] = [dict(zip(DISKS, disk, strict=True)) for disk in usage.disks]
    return RowsAnswer(parts, [{name: total[name] for name in PART_TOTALS}], usage.reasons, {}, space)


def show_messages(
    stores: AskedStores,
    by: Any,
    topics: tuple[str, ...],
    view: RowsView,
    fail_if: Sequence[Condition],
    *,
    exact: bool,
    totals: bool,
) -> None:
    """Write what the messages of each group take, and the sums."""
    found = stores.ask(partial(messages_of, by=by, topics=topics, exact=exact, zone=find_zone()))
    sums = stores.with_total(found.sums)
    write_rows_and_totals(
        found.rows,
        sums,
        view,
        in_percent,
        columns=stores.columns(FIELDS[name].name for name in COLUMNS[by]),
        total_columns=stores.columns(USAGE_TOTALS),
        only_totals=totals,
        totals_for_people=stores.for_people(list),
    )
    for row in found.others:
        note(row["note"])
    finish_checked(found.problems, fail_if, found.rows, sums)


def messages_of(
    store: MessageStore, by: Any, topics: tuple[str, ...], *, exact: bool, zone: tzinfo | None
) -> RowsAnswer:
    """Return what the messages of each group of a store take, the sums, and, as other rows, notes."""
    with warnings.catch_warnings(action="ignore"):  # unknown topics are among the problems
        usage = store.du(by=by, topic=topics or None, exact=exact, tz=zone)
    columns = [FIELDS[name].name for name in COLUMNS[by]]
    total = usage.total()
    sums = total.messages, total.log_bytes, total.queue_bytes, usage.other_bytes, usage.is_exact
    rows: list[Row] = [dict(zip(columns, cells, strict=True)) for cells in usage.cells()]
    totals_row: Row = dict(zip(USAGE_TOTALS, sums, strict=True))
    texts = f"counted {describe_source(is_exact=exact)}", *usage.notes
    notes: list[Row] = [{"note": f"{store.path}: {text}"} for text in texts]
    return RowsAnswer(rows, [totals_row], usage.reasons, unknown_names(store, topics, ()), notes)


def in_percent(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table, with shares in percent."""
    return [
        {name: f"{value:.1%}" if isinstance(value, float) else value for name, value in row.items()} for row in rows
    ]
