"""The options of ``rocketstore rebuild``."""

from typing import Any

import click

from rocketstore.cli.columns import BUILT
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import COUNT, PATH, compat_option, refusing
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.sizes import geometry_options, size_option
from rocketstore.cli.options.stores import (
    allow_unreadable_option,
    broker_conf_option,
    deleted_option,
    write_elsewhere_option,
)
from rocketstore.limits import LONG_MAX
from rocketstore.text_values import find_time_zone


def check_zone(text: str) -> None:
    """Raise ValueError for an unknown time zone."""
    find_time_zone(text)


@click.command(cls=GroupedCommand)
@click.argument("store", type=PATH)
@click.option("--index", is_flag=True, help="Build only the index, unless --consume-queue is also given.")
@click.option("--consume-queue", is_flag=True, help="Build only the consume queues, unless --index is also given.")
@click.option("--topic", multiple=True, help="Build only the consume queues of this topic. May be repeated.")
@click.option("--out", type=PATH, help="Build in this new directory, and leave STORE unchanged.")
@compat_option("The RocketMQ release to build for. For example, releases before 5.4 do not index tags.")
@click.option(
    "--tz",
    metavar="ZONE",
    callback=refusing(check_zone),
    help="Time zone of the names of index files, for example UTC.  [default: local]",
)
@size_option("--memory", 0, LONG_MAX, default="1G", show_default=True, help="Approximate limit of the memory.")
@click.option("--threads", type=COUNT, metavar="N", help="Threads that read the log.  [default: one per processor]")
@deleted_option("Build queues of deleted topics too.")
@geometry_options
@broker_conf_option
@write_elsewhere_option
@allow_unreadable_option
@rows_options(*BUILT, has_limit=False, has_zone=False)
@click.pass_context
def rebuild(ctx: click.Context, /, **options: Any) -> None:
    """Build the consume queues and the index of STORE from its commit log. Stop the broker of STORE first.

    Messages of deleted topics get no place in a queue. Standard error counts and names them.

    The old directories are kept as *.bak-TIME. A torn tail of the log is cut as recover cuts it. STORE is not changed
    until everything is built. After an interruption, run the same command again. It starts from the beginning.
    """
    from rocketstore.cli.repair.rebuild import run

    run(ctx, **options)
