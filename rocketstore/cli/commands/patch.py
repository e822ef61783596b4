"""The options of ``rocketstore patch``."""

from typing import Any

import click

from rocketstore.cli.columns import LOST_MESSAGES
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import COUNT, PATH
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import broker_conf_option, write_elsewhere_option


@click.command(cls=GroupedCommand)
@click.argument("store", type=PATH)
@click.option("--dry-run", is_flag=True, help="Change nothing, and only show the lost messages.")
@click.option("--threads", type=COUNT, help="Parts of the log to check at once.  [default: processors, at most 4]")
@broker_conf_option
@write_elsewhere_option
@rows_options(*LOST_MESSAGES, has_limit=False)
@click.pass_context
def patch(ctx: click.Context, /, **options: Any) -> None:
    """Put records in place of damaged ones in the log of STORE, and show each lost message. Stop the broker first.

    A broker ends its log at damaged bytes, and loses all messages behind them. The units of queues know which messages
    stood there. Each gets a record of the same place and size, with a body of blanks and the property DAMAGED=1. All
    other messages keep their offsets and ids. Bytes to which no unit leads become records that nobody consumes.

    The old bytes are saved in rocketstore-cut. The command can be repeated, also after it was killed. Then verify
    STORE.

    Damage stays if units contradict each other, or where the broker itself reads messages. Standard error says why, and
    salvage copies the rest. The exit status is 1 if a message is lost, or if damage stays.
    """
    from rocketstore.cli.repair.patch import run

    run(ctx, **options)
