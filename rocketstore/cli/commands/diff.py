"""The options of ``rocketstore diff``."""

from typing import Any

import click

from rocketstore.cli.columns import DIFFERENCES
from rocketstore.cli.completion import complete_topics
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH, STORE
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import broker_conf_option, tiered_option


@click.command(cls=GroupedCommand)
@click.argument("a", type=STORE)
@click.argument("b", type=STORE)
@click.option("--by-content", is_flag=True, help="Compare messages, where physical offsets differ.")
@click.option(
    "--topic", multiple=True, shell_complete=complete_topics, help="Only queues of this topic. May be repeated."
)
@broker_conf_option
@click.option("--broker-conf-b", type=PATH, help="The properties file of B's broker. --broker-conf is that of A.")
@tiered_option
@rows_options(*DIFFERENCES)
@click.pass_context
def diff(ctx: click.Context, /, **options: Any) -> None:
    """Compare the stores A and B: log, queues, index, configuration and consumer offsets. Both are only read.

    Each row shows a difference with its first message. Rows of one kind, at most 1,000, are in the order of the store.
    The exit status is 0 if the stores are the same, and 1 if they differ or a part cannot be read. Brokers may be
    running.

    --by-content compares stores whose physical offsets differ, such as a converted one: messages with the same topic,
    queue and queue offset.
    """
    from rocketstore.cli.diff import run

    run(ctx, **options)
