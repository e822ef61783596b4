"""The options of ``rocketstore report``."""

from typing import Any

import click

from rocketstore.cli.options import PATH, size_option, store_argument
from rocketstore.limits import LONG_MAX


@click.command()
@store_argument
@click.option("-o", "--output", type=PATH, required=True, help="The HTML file to write.")
@size_option("--sample", 1 << 20, LONG_MAX, help="Read at most this much of the log.  [default: 10g]")
@click.option("--force", is_flag=True, help="Replace the HTML file if it exists.")
@click.pass_context
def report(ctx: click.Context, /, **options: Any) -> None:
    """Write one HTML page with charts about STORE: messages, queues, index, consumer lag, expiry, findings of verify.

    The page needs no network. If the log is larger than --sample, ranges spread over it are read, verify checks samples
    only, and the page says so. The command needs the extra "report".
    """
    from rocketstore.cli.transfer.report import run

    run(ctx, **options)
