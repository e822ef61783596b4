"""The options of ``rocketstore expire``."""

from typing import Any

import click

from rocketstore.cli.columns import EXPIRING, EXPIRY_TOTALS, GROUP_LOSSES, QUEUE_LOSSES
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.output import fail_if_option, rows_options
from rocketstore.cli.options.stores import store_argument
from rocketstore.cli.options.times import keep_broker_zone, time_option


@click.command(cls=GroupedCommand)
@store_argument
@click.option("--hours", type=float, help="In place of fileReservedTime: files that were not changed for so long.")
@time_option("--before", "In place of fileReservedTime: files that were not changed since then, written as for cat.")
@click.option(
    "--tz",
    metavar="NAME",
    is_eager=True,
    callback=keep_broker_zone,
    help="The broker's time zone, such as Asia/Shanghai, in which deleteWhen is.  [default: local]  Also that of the "
    "times that are shown, and of --before.  [default: UTC]",
)
@click.option("--queues", is_flag=True, help="Only show the messages that each queue loses.")
@click.option("--groups", is_flag=True, help="Only show the messages that consumer groups have not consumed and lose.")
@click.option("--totals", is_flag=True, help="Only show the sums.")
@fail_if_option("unconsumed", *EXPIRY_TOTALS[:4])
@click.option("--apply", is_flag=True, help="Delete the files, unless --fail-if is met. A broker must not run.")
@rows_options(
    *dict.fromkeys([*EXPIRING, *QUEUE_LOSSES, *GROUP_LOSSES, *EXPIRY_TOTALS]), has_limit=False, has_zone=False
)
@click.pass_context
def expire(ctx: click.Context, /, **options: Any) -> None:
    """Show which files of STORE a broker would delete, when, and what is lost by that.

    The settings are those of --broker-conf, or else RocketMQ's defaults: files that were not changed for 72 hours are
    deleted from 4 to 5 o'clock, and at once if a disk is used by more than 75 %. Above 85 % files of any age are
    deleted. isForced marks these. The newest file of the log always stays.

    A table also has the losses of queues and consumer groups. Nothing is deleted without --apply. The exit status is 1
    if the answer may be wrong. --fail-if "unconsumed > 0" is about messages that groups have not consumed. A message
    that two groups have not consumed counts twice.
    """
    from rocketstore.cli.expire import run

    run(ctx, **options)
