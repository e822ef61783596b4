"""``rocketstore convert``: write a store anew, with other sizes of files or for another release."""

from pathlib import Path
from typing import Any

import click

from rocketstore.cli.columns import STALE_IDS
from rocketstore.cli.formats import RowsView, write_list
from rocketstore.cli.settings import broker_config, config_with
from rocketstore.cli.text import note
from rocketstore.convert.convert import convert as convert_store
from rocketstore.dispatch.topic_lives import topic_notes
from rocketstore.text_values import format_count


def run(
    ctx: click.Context,
    /,
    store: Path,
    new: Path,
    allow_unreadable: bool,
    view: RowsView,
    **options: Any,
) -> None:
    """Run the command with the values of its options."""
    config = config_with(broker_config(ctx), store, allow_unreadable=allow_unreadable)
    report = convert_store(store, new, config=config, progress=True, **options)
    write_list(STALE_IDS, report.stale_ids, view)
    note(
        f"{report.out}: {format_count(report.records, 'record')}, {report.min_phy_offset} to {report.max_phy_offset}; "
        f"{format_count(report.moved, 'record')} at other physical offsets; {format_count(report.queues, 'queue')}; "
        f"{format_count(report.index_items, 'index item')}"
    )
    for text in [*report.notes, *topic_notes(report.deleted, report.undeclared, report.doubtful)]:
        note(text)
