"""The options of ``rocketstore lag``."""

from typing import Any

import click

from rocketstore.cli.columns import AGE, LAG_TOTALS, LAGS
from rocketstore.cli.completion import complete_groups
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.output import fail_if_option, rows_options
from rocketstore.cli.options.stores import stores_argument, tier_options


@click.command(cls=GroupedCommand)
@stores_argument(words=("group",))
@tier_options
@click.option(
    "--group", multiple=True, shell_complete=complete_groups, help="Only this consumer group. May be repeated."
)
@click.option("--totals", is_flag=True, help="Only show the sum for each group.")
@click.option("--bytes", "log_bytes", is_flag=True, help="Also count the bytes of these messages, as logBytes.")
@fail_if_option("lag", AGE)
@rows_options(*dict.fromkeys([*LAGS, *LAG_TOTALS, "age"]), has_broker=True)
def lag(**options: Any) -> None:
    """Show the number of messages that each consumer group has not consumed yet, for each queue.

    All read queues of each topic for which the group has a saved offset are shown, as a broker reports them. A queue
    without an offset counts from 0.

    A table also has the sum for each group; --totals shows only the sums. The age is that of the oldest message that
    the group has not consumed. logBytes is null without --bytes. topicExists is false
    for offsets of a topic that was deleted.

    The offsets are read from config/consumerOffset.json. A broker with enableLmq keeps them in
    config/lmqConsumerOffset.json instead. The exit status is 1 for a store without queues.
    --fail-if "age > 1h" is about the oldest message that a group has not consumed.
    """
    from rocketstore.cli.lag import run

    run(**options)
