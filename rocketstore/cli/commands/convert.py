"""The options of ``rocketstore convert``."""

from typing import Any

import click

from rocketstore.cli.columns import STALE_IDS
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH, compat_option
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.sizes import new_size_options
from rocketstore.cli.options.stores import allow_unreadable_option, broker_conf_option, deleted_option


@click.command(cls=GroupedCommand)
@click.argument("store", type=PATH)
@click.argument("new", type=PATH)
@new_size_options
@compat_option("The RocketMQ release that will read NEW.  [default: that of STORE]")
@deleted_option("Give messages of deleted topics a place in their queues too.")
@broker_conf_option
@allow_unreadable_option
@rows_options(*STALE_IDS, has_limit=False, has_zone=False)
@click.pass_context
def convert(ctx: click.Context, /, **options: Any) -> None:
    """Write STORE anew in the directory NEW, with other sizes of files or for another release. STORE is not changed.

    NEW has plain files: DLedger's log, and queues, topics, groups and offsets in RocksDB, become files. Queue offsets
    do not change. Stop the broker of STORE first. With --broker-conf, the settings of STORE are read from its broker's
    file.

    If the size of the log's files changes, physical offsets change. Each row shows the messages of a topic with an id
    in a property that no longer leads to its message. After an interruption, run the same command again.
    """
    from rocketstore.cli.transfer.convert import run

    run(ctx, **options)
