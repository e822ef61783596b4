"""The options of ``rocketstore metrics``."""

from typing import Any

import click

from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH
from rocketstore.cli.options.stores import stores_argument


@click.command(cls=GroupedCommand)
@stores_argument()
@click.option("-o", "--output", type=PATH, help="Replace this file atomically.  [default: standard output]")
def metrics(**options: Any) -> None:
    """Write numbers of STORE in the text format of OpenMetrics: messages, disk, consumer lag, pending messages.

    For a dashboard, let a cron job write a file NAME.prom for the textfile collector of Prometheus's node exporter.

    If a part cannot be read, the other numbers are written and the exit status is 1. rocketstore_read_problems is the
    number of problems that make the numbers incomplete.
    """
    from rocketstore.cli.metrics import run

    run(**options)
