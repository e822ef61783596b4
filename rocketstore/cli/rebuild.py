"""``rocketstore rebuild``: consume queues and index from the commit log alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.formats import finish, format_option, note, write_rows
from rocketstore.cli.options import (
    COUNT,
    PATH,
    broker_conf_option,
    broker_config,
    compat_option,
    refusing,
    write_elsewhere_option,
)
from rocketstore.cli.progress import byte_progress
from rocketstore.cli.sizes import size_option
from rocketstore.config import DEFAULT_SIZES
from rocketstore.layout.geometry import known_config
from rocketstore.limits import LONG_MAX
from rocketstore.rebuild.files import zone_of
from rocketstore.rebuild.rebuild import rebuild as rebuild_store
from rocketstore.recovery.queues import QUEUE_PARTS

__all__ = ["rebuild"]


@click.command()
@click.argument("store", type=PATH)
@click.option("--index", is_flag=True, help="Only the index, unless --consume-queue is given, too.")
@click.option("--consume-queue", is_flag=True, help="Only the consume queues, unless --index is given, too.")
@click.option("--topic", "topics", multiple=True, help="Only the consume queues of this topic; may be given again.")
@click.option("--out", type=PATH, help="Build in this new directory; STORE is only read then.")
@compat_option("The RocketMQ release to build as: 5.3.3 indexes no tags, for one.")
@click.option("--tz", metavar="ZONE", callback=refusing(zone_of),
              help="Zone of the times that index files are named by, as UTC.  [default: local]")
@click.option("--memory", metavar="SIZE", default="1G", show_default=True, callback=size_option(0, LONG_MAX),
              help="About the most.")
@click.option("--threads", type=COUNT, metavar="N", help="That read the log.  [default: one a processor]")
@broker_conf_option
@write_elsewhere_option
@format_option
@click.pass_context
def rebuild(
    ctx: click.Context, /, store: Path, index: bool, consume_queue: bool, topics: tuple[str, ...], out: Path | None,
    compat: str | None, write_elsewhere: bool, output_format: str | None, **options: Any,
) -> None:
    """Build the consume queues and the index of STORE, which no broker may run on, from its commit log alone.

    The old ones are kept as *.bak-TIME until they are deleted. A torn tail of the log is cut as recover does. STORE is
    not changed before everything is built. Run the same command again after an interruption: it begins anew.
    """
    if index and topics:
        raise click.UsageError("--index: is built of all topics, so not with --topic")
    both = index == consume_queue
    options |= {"index": index or both, "consume_queue": consume_queue or both, "topics": topics or None, "out": out}
    with byte_progress("rebuild") as options["progress"]:
        try:
            config = broker_config(ctx, compat)
            if config is None and compat is not None:
                # rebuild_store finds the file sizes of the parts that it keeps.
                config = replace(known_config(store, replaced=DEFAULT_SIZES), compat=compat)
            if write_elsewhere:
                config = replace(config or known_config(store, replaced=DEFAULT_SIZES), write_elsewhere=True)
            report = rebuild_store(store, config=config, **options)
        except KeyboardInterrupt:
            note(f"{out or store}: was interrupted; run the same command again, it begins anew")
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
    write_rows([[row]], output_format)
    for text in report.notes:
        note(text)
    missing = (topic for topic in topics if not any((report.out / part / topic).exists() for part in QUEUE_PARTS))
    finish(f"{store}: its commit log has no message for topic {topic!r}" for topic in missing)
