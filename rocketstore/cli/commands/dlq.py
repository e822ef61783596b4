"""The options of ``rocketstore dlq``."""

from typing import Any

import click

from rocketstore.cli.columns import DEAD, DEAD_TOTALS
from rocketstore.cli.completion import complete_groups, complete_topics
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import stores_argument
from rocketstore.cli.options.times import time_options


@click.command(cls=GroupedCommand)
@stores_argument(words=("group", "topic"))
@click.option(
    "--topic", multiple=True, shell_complete=complete_topics, help="Only messages sent to this topic. May be repeated."
)
@click.option(
    "--group", multiple=True, shell_complete=complete_groups, help="Only this consumer group. May be repeated."
)
@time_options
@click.option("--retry", is_flag=True, help="Show the messages of retry topics instead, also those that were consumed.")
@click.option("--totals", is_flag=True, help="Only show the number of messages by group and topic.")
@rows_options(*dict.fromkeys([*DEAD, *DEAD_TOTALS]), has_broker=True)
def dlq(**options: Any) -> None:
    """Show the messages that consumer groups could not process: those of %DLQ% topics.

    topic and queueId are where a message was sent; queueId is empty if that record is not found. originMessageId is the
    id that the client noted: the offset message id of that record, or the unique key for an orderly consumer.
    reconsumeTimes are failures. bornTimestamp is the time of the send, storeTimestamp that of the last failure.
    storedTopic and queueOffset are the place of the message. Why a message died is not on the disk.

    The exit status is 1 if the answer may be incomplete.
    """
    from rocketstore.cli.dlq import run

    run(**options)
