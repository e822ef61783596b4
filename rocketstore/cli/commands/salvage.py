"""The options of ``rocketstore salvage``."""

from typing import Any

import click

from rocketstore.cli.columns import LOST_RANGES
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import allow_unreadable_option, broker_conf_option, deleted_option


@click.command(cls=GroupedCommand)
@click.argument("store", type=PATH)
@click.option("--out", type=PATH, help="The new store: a directory that is empty, or does not exist.")
@click.option("--dry-run", is_flag=True, help="Write nothing, and only show what would be lost.")
@deleted_option("Give messages of deleted topics a place in their queues too.")
@broker_conf_option
@allow_unreadable_option
@rows_options(*LOST_RANGES, has_limit=False)
@click.pass_context
def salvage(ctx: click.Context, /, **options: Any) -> None:
    """Copy all sound messages of STORE into a new store, and show the bytes that were lost. STORE is not changed.

    STORE is the root of a store, a directory of commit log files with any names, or one of these files. Each row shows
    a range of bytes without a sound message. A second table has the messages that are lost, by topic: queues
    lead to them, but no sound record of them is left. The exit status is 0 if nothing was lost, 1 if bytes were lost.

    After a lost range, messages get other physical offsets. Before a lost range, messages get other queue offsets: the
    newest message of a queue keeps its offset, so that no consumer misses a message.

    Messages of deleted topics are copied, but get no place in a queue. Standard error counts and names them.
    """
    from rocketstore.cli.repair.salvage import run

    run(ctx, **options)
