"""The options of ``rocketstore report``."""

from typing import Any

import click

from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH
from rocketstore.cli.options.sizes import size_option
from rocketstore.cli.options.stores import store_argument
from rocketstore.cli.options.times import keep_broker_zone
from rocketstore.limits import LONG_MAX


@click.command(cls=GroupedCommand)
@store_argument
@click.option("-o", "--output", type=PATH, required=True, help="The HTML file to write.")
@size_option("--sample", 1 << 20, LONG_MAX, help="Read at most this much of the log.  [default: 10g]")
@click.option(
    "--tz",
    metavar="NAME",
    is_eager=True,
    callback=keep_broker_zone,
    help="Time zone of all times, such as Asia/Shanghai or local.  [default: UTC]  Also the broker's, in which "
    "deleteWhen is.  [default: local]",
)
@click.option("--force", is_flag=True, help="Replace the HTML file if it exists.")
@click.pass_context
def report(ctx: click.Context, /, **options: Any) -> None:
    """Write one HTML page about STORE: whether it is sound, what to do, and charts of what is in it.

    The page needs no network and no script. Findings of verify, consumer lag, disk and expiry, messages and topics come
    first, then index files, queues and gaps. If the log is larger than --sample, ranges spread over it are read, verify
    checks samples only, and the page says so.
    """
    from rocketstore.cli.transfer.report import run

    run(ctx, **options)
