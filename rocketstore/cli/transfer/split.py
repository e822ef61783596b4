"""``rocketstore split``: write a store of its own for each topic."""

from pathlib import Path
from typing import Any

import click

from rocketstore.cli.columns import SPLIT_PARTS
from rocketstore.cli.formats import RowsView, finish, write_list
from rocketstore.cli.settings import broker_config, config_with
from rocketstore.cli.text import note
from rocketstore.convert.split import split as split_store
from rocketstore.dispatch.topic_lives import topic_notes


def run(
    ctx: click.Context,
    /,
    store: Path,
    new: Path,
    topic: tuple[str, ...],
    allow_unreadable: bool,
    view: RowsView,
    **options: Any,
) -> None:
    """Run the command with the values of its options."""
    config = config_with(broker_config(ctx), store, allow_unreadable=allow_unreadable)
    report = split_store(store, new, topic=topic or None, config=config, progress=True, **options)
    rows = ((part.part, str(part.path), list(part.topics), *part[3:]) for part in report.parts)
    write_list(SPLIT_PARTS, rows, view)
    for text in [*report.notes, *topic_notes(report.deleted, report.undeclared, report.doubtful)]:
        note(text)
    written = {name for part in report.parts for name in part.topics}
    named = {*topic} or {name for names in (options["parts"] or {}).values() for name in names}
    finish(f"{store}: its commit log has no message for topic {name!r}" for name in sorted(named - written))
