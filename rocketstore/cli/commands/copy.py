"""The options of ``rocketstore copy``."""

from typing import Any

import click

from rocketstore.cli.columns import COPIED_PARTS
from rocketstore.cli.completion import complete_topics
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import STORE
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import broker_conf_option
from rocketstore.cli.options.times import time_option


@click.command(cls=GroupedCommand)
@click.argument("store", type=STORE)
@click.argument("new", type=STORE)
@time_option("--since", "Only the files of the log from the one on that has the first message of this time.")
@click.option(
    "--topic", multiple=True, shell_complete=complete_topics, help="Only messages of this topic. May be repeated."
)
@click.option("--credentials", is_flag=True, help="Also copy files of access control and users in STORE/config.")
@broker_conf_option
@rows_options(*COPIED_PARTS, has_limit=False)
@click.pass_context
def copy(ctx: click.Context, /, **options: Any) -> None:
    """Copy STORE to the directory NEW, which is empty or missing. A broker may be writing STORE.

    The copy has every message that was acknowledged before, ends with a complete message, and is a store after a clean
    stop: a broker starts on it. At the end it is compared with STORE. After kill -9, the same command begins anew. Each
    row shows a part of the copy.

    On a remote file system, such as s3://bucket/store, NEW may have an earlier copy. Only files that changed
    are written then.

    A broker with transientStorePoolEnable acknowledges messages that are in no file yet: stop it first.
    """
    from rocketstore.cli.transfer.copy import run

    run(ctx, **options)
