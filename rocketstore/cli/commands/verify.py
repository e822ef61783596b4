"""The options of ``rocketstore verify``."""

from typing import Any

import click

from rocketstore.cli.columns import FINDING_KINDS, FINDINGS
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import COUNT, PATH
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.sizes import geometry_options
from rocketstore.cli.options.stores import broker_conf_option, tier_path_option


@click.command(cls=GroupedCommand)
@click.argument("store", type=PATH, required=False)
@click.option("--quick", is_flag=True, help="Check only headers, ends and samples.")
@click.option("--threads", type=COUNT, help="Parts of the log to check at once.  [default: processors, at most 4]")
@click.option("--list", "lists_kinds", is_flag=True, help="Only list all kinds of findings.")
@geometry_options
@broker_conf_option
@tier_path_option
@rows_options(*dict.fromkeys([*FINDINGS, *FINDING_KINDS]))
@click.pass_context
def verify(ctx: click.Context, /, **options: Any) -> None:
    """Compare log, queues, index and checkpoint of STORE with each other, and show each problem. Change nothing.

    A broker may be running. The exit status is 1 if there is a finding of severity error.
    """
    from rocketstore.cli.verify import run

    run(ctx, **options)
