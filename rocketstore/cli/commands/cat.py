"""The options of ``rocketstore cat``."""

from typing import Any

import click

from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import COUNT, COUNT_OR_NONE
from rocketstore.cli.options.output import BODY_RULE, format_option, view_options
from rocketstore.cli.options.selection import filter_options, selection_options, unconsumed_options
from rocketstore.cli.options.stores import compacted_option, stores_argument, tier_options


@click.command(cls=GroupedCommand, epilog=BODY_RULE)
@stores_argument(words=("topic",))
@tier_options
@compacted_option
@selection_options
@filter_options
@unconsumed_options
@click.option(
    "--follow",
    "-f",
    is_flag=True,
    help="Show new messages until Ctrl-C, from the end of the log or --tail, --since or --begin-offset on.",
)
@click.option("--tail", type=COUNT_OR_NONE, help="Only the last N messages that meet the conditions, and new ones.")
@click.option("--limit", type=COUNT, help="Largest number of messages.")
@view_options(has_broker=True)
@format_option
def cat(**options: Any) -> None:
    """Show the messages of STORE that meet all conditions, in the order of the commit log; of several stores
    in the order of their store times.

    --unconsumed shows the messages that a consumer group still gets, queue by queue. JSON then has their kind: queue;
    retry: a delayed retry; pop: popped and not acknowledged. It cannot be combined with the other conditions.

    The exit status is 1 if no message is found. Damaged records, and records that are deleted before they are read, are
    left out. Standard error names their offsets, and the exit status is 1. A message whose body cannot be decoded is
    shown. A warning gives the number of these messages.
    """
    from rocketstore.cli.cat import run

    run(**options)
