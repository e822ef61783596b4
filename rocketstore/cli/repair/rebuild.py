"""``rocketstore rebuild``: build consume queues and index from the commit log."""

from pathlib import Path
from typing import Any

import click

from rocketstore.cli.formats import RowsView, finish, write_rows
from rocketstore.cli.options import (
    COUNT,
    PATH,
    allow_unreadable_option,
    broker_conf_option,
    broker_config,
    compat_option,
    config_with,
    deleted_option,
    geometry_options,
    geometry_settings,
    refusing,
    rows_options,
    size_option,
    write_elsewhere_option,
)
from rocketstore.cli.progress import byte_progress
from rocketstore.cli.text import note
from rocketstore.dispatch.topic_lives import topic_notes
from rocketstore.index.geometry import IndexGeometry
from rocketstore.limits import LONG_MAX
from rocketstore.rebuild.files import zone_of
from rocketstore.rebuild.rebuild import rebuild as rebuild_store
from rocketstore.survey.places import StorePlaces

__all__ = ["rebuild"]

COLUMNS = ("minPhyOffset", "maxPhyOffset", "queues", "indexFiles", "indexItems", "out", "backups")


@click.command()
@click.argument("store", type=PATH)
@click.option("--index", is_flag=True, help="Build only the index, unless --consume-queue is also given.")
@click.option("--consume-queue", is_flag=True, help="Build only the consume queues, unless --index is also given.")
@click.option("--topic", "topics", multiple=True, help="Build only the consume queues of this topic. May be repeated.")
@click.option("--out", type=PATH, help="Build in this new directory, and leave STORE unchanged.")
@compat_option("The RocketMQ release to build for. For example, releases before 5.4 do not index tags.")
@click.option(
    "--tz",
    metavar="ZONE",
    callback=refusing(zone_of),
    help="Time zone of the names of index files, for example UTC.  [default: local]",
)
@size_option("--memory", 0, LONG_MAX, default="1G", show_default=True, help="Approximate limit of the memory.")
@click.option("--threads", type=COUNT, metavar="N", help="Threads that read the log.  [default: one per processor]")
@deleted_option("Build queues of deleted topics too.")
@geometry_options
@broker_conf_option
@write_elsewhere_option
@allow_unreadable_option
@rows_options(*COLUMNS, has_limit=False)
@click.pass_context
def rebuild(
    ctx: click.Context,
    /,
    store: Path,
    index: bool,
    consume_queue: bool,
    topics: tuple[str, ...],
    out: Path | None,
    compat: str | None,
    write_elsewhere: bool,
    allow_unreadable: bool,
    geometry: IndexGeometry | None,
    view: RowsView,
    **options: Any,
) -> None:
    """Build the consume queues and the index of STORE from its commit log. Stop the broker of STORE first.

    Messages of deleted topics get no place in a queue. Standard error counts and names them.

    The old directories are kept as *.bak-TIME. A torn tail of the log is cut as recover cuts it. STORE is not changed
    until everything is built. After an interruption, run the same command again. It starts from the beginning.
    """
    if index and topics:
        raise click.UsageError("--index and --topic: the index has all topics, so give only one of the options")
    both = index == consume_queue
    options |= {"index": index or both, "consume_queue": consume_queue or both, "topics": topics or None, "out": out}
    with byte_progress("rebuild") as options["progress"]:
        try:
            settings: dict[str, Any] = {
                "compat": compat,
                "write_elsewhere": write_elsewhere,
                "allow_unreadable": allow_unreadable,
            }
            settings |= geometry_settings(geometry)
            config = config_with(broker_config(ctx, compat), store, **settings)
            report = rebuild_store(store, config=config, **options)
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
    for text in [*report.notes, *topic_notes(report.deleted, report.undeclared)]:
        note(text)
    parts = StorePlaces.of(report.out).queue_parts
    missing = (topic for topic in topics if not any((part / topic).exists() for part in parts))
    finish(f"{store}: its commit log has no message for topic {topic!r}" for topic in missing)
