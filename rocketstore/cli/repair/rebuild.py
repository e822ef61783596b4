"""``rocketstore rebuild``: build consume queues and index from the commit log."""

from pathlib import Path
from typing import Any

import click

from rocketstore.cli.formats import RowsView, finish, write_rows
from rocketstore.cli.settings import broker_config, config_with, geometry_settings
from rocketstore.cli.text import note
from rocketstore.dispatch.topic_lives import topic_notes
from rocketstore.index.geometry import IndexGeometry
from rocketstore.rebuild.rebuild import rebuild as rebuild_store
from rocketstore.survey.places import StorePlaces


def run(
    ctx: click.Context,
    /,
    store: Path,
    index: bool,
    consume_queue: bool,
    topic: tuple[str, ...],
    out: Path | None,
    compat: str | None,
    write_elsewhere: bool,
    allow_unreadable: bool,
    geometry: IndexGeometry | None,
    view: RowsView,
    **options: Any,
) -> None:
    """Run the command with the values of its options."""
    if index and topic:
        raise click.UsageError("--index and --topic: the index has all topics, so give only one of the options")
    both = index == consume_queue
    options |= {"index": index or both, "consume_queue": consume_queue or both, "topic": topic or None, "out": out}
    try:
        settings: dict[str, Any] = {
            "compat": compat,
            "write_elsewhere": write_elsewhere,
            "allow_unreadable": allow_unreadable,
        }
        settings |= geometry_settings(geometry)
        config = config_with(broker_config(ctx, compat), store, **settings)
        report = rebuild_store(store, config=config, progress=True, **options)
    except KeyboardInterrupt:
        note(f"{out or store}: was interrupted; run the same command again, it starts from the beginning")
        raise
    row = {
        "minPhyOffset": report.min_phy_offset,
        "maxPhyOffset": report.max_phy_offset,
        "queues": report.queues,
        "indexFiles": report.index_files,
        "indexItems": report.index_items,
        "out": str(report.out),
        "backups": [str(path) for path in report.backups],
    }
    write_rows([row], view)
    for text in [*report.notes, *topic_notes(report.deleted, report.undeclared, report.doubtful)]:
        note(text)
    parts = StorePlaces.of(report.out).queue_parts
    missing = (name for name in topic if not any((part / name).exists() for part in parts))
    finish(f"{store}: its commit log has no message for topic {name!r}" for name in missing)
