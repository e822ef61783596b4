"""The options of ``rocketstore pending``."""

from typing import Any

import click

from rocketstore.cli.columns import PENDING, PENDING_TOTALS
from rocketstore.cli.completion import complete_groups, complete_topics
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.output import fail_if_option, rows_options
from rocketstore.cli.options.stores import stores_argument
from rocketstore.cli.options.times import time_option

KINDS = "delay", "timer", "half", "pop", "retry"


@click.command(cls=GroupedCommand)
@stores_argument(words=("topic", "group"))
@click.option("--topic", multiple=True, shell_complete=complete_topics, help="Only this topic. May be repeated.")
@click.option(
    "--group", multiple=True, shell_complete=complete_groups, help="Only this consumer group. May be repeated."
)
@click.option("--kind", multiple=True, type=click.Choice(KINDS), help="Only this kind. May be repeated.")
@time_option("--since", "Only messages that are due at this time or later, written as for cat.")
@time_option("--until", "Only messages that are due before this time.")
@click.option("--overdue", is_flag=True, help="Only messages that are due before now.")
@click.option("--totals", is_flag=True, help="Only show the number of messages by kind, topic and hour.")
@fail_if_option("messages", "checkTimes")
@rows_options(*dict.fromkeys([*PENDING, *PENDING_TOTALS, "age"]), has_broker=True)
def pending(**options: Any) -> None:
    """Show the messages that wait, and until when.

    delay: with a delay level. timer: with a time of delivery. half: of a transaction without commit or rollback;
    checkTimes is the number of checks. pop: popped and not acknowledged; queueId and queueOffset are its place in
    poppedTopic. retry: a consumer failed and gets it again; topic is its retry topic.

    Half messages have no due time: --since, --until and --overdue leave them out.

    The checkpoints of the broker say which messages are delivered. What a killed broker delivered after its last
    checkpoint is found in the topics themselves. The exit status is 1 if the answer may be incomplete.
    --fail-if "rows > 100" is about the number of all messages, "messages > 100" about those of a kind, topic and hour.
    """
    from rocketstore.cli.pending import run

    run(**options)
