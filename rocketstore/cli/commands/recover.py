"""The options of ``rocketstore recover``."""

from typing import Any

import click

from rocketstore.cli.columns import RECOVERY_STEPS
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH, compat_option
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.sizes import geometry_options
from rocketstore.cli.options.stores import (
    allow_unreadable_option,
    broker_conf_option,
    deleted_option,
    write_elsewhere_option,
)


@click.command(cls=GroupedCommand)
@click.argument("store", type=PATH)
@click.option("--policy", type=click.Choice(["complete", "broker"]), default="complete", show_default=True)
@click.option("--dry-run", is_flag=True, help="Only show the steps, and the messages that would be lost.")
@click.option(
    "--cut-at-damage",
    is_flag=True,
    help="Also cut the log at damaged bytes. Sound messages behind them are lost.",
)
@compat_option("The RocketMQ release to recover as.  [default: the release that STORE names as its writer, else 5.5.1]")
@deleted_option("With policy complete, build queues of deleted topics again.")
@geometry_options
@broker_conf_option
@write_elsewhere_option
@allow_unreadable_option
@rows_options(*RECOVERY_STEPS, has_limit=False)
@click.pass_context
def recover(ctx: click.Context, /, **options: Any) -> None:
    """Recover STORE after a crash, and show each step. Stop the broker of STORE first.

    complete: cut only a torn tail of the commit log, and old records behind a proved cut of a broker. Keep their bytes
    in rocketstore-cut, and complete queues and index. If sound messages follow damaged bytes, change nothing, unless
    --cut-at-damage is given.
    broker: do the same as a broker of 5.3.3, 5.5.0 or 5.5.1 at its next start.

    Policy complete builds no queues of deleted topics. Standard error counts and names their messages.

    A second table has the messages that are lost, by topic. The exit status is 1 if the log was cut.
    """
    from rocketstore.cli.repair.recover import run

    run(ctx, **options)
