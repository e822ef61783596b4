"""The options of ``rocketstore ls``."""

from typing import Any

import click

from rocketstore.cli.columns import QUEUES
from rocketstore.cli.completion import complete_topics
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import stores_argument, tier_options


@click.command(cls=GroupedCommand)
@stores_argument(words=("topic",))
@tier_options
@click.option("--topic", multiple=True, shell_complete=complete_topics, help="Only this topic. May be repeated.")
@rows_options(*QUEUES, has_broker=True)
def ls(**options: Any) -> None:
    """List the topics and queues of STORE, with their queue offsets.

    maxOffset is the offset that the next message will get. bytes is the size of the records in the commit log. The exit
    status is 1 if there is no queue.
    """
    from rocketstore.cli.ls import run

    run(**options)
