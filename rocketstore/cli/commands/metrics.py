"""The options of ``rocketstore metrics``."""

from typing import Any

import click

from rocketstore.cli.options import PATH, store_argument


@click.command()
@store_argument
@click.option("-o", "--output", type=PATH, help="Replace this file atomically.  [default: standard output]")
def metrics(**options: Any) -> None:
    """Write numbers of STORE in the text format of OpenMetrics: messages, disk, consumer lag, pending messages.

    A cron job that writes a file NAME.prom for the textfile collector of Prometheus's node exporter makes a dashboard.

    The exit status is 1 if a part cannot be read. The other numbers are written then, and rocketstore_read_problems is
    the number of problems that make them incomplete.
    """
    from rocketstore.cli.metrics import run

    run(**options)
