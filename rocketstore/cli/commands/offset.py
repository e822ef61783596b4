"""The options of ``rocketstore offset``."""

from typing import Any

import click

from rocketstore.cli.completion import complete_queue_ids, complete_topics
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import QUEUE_ID, once_option
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import store_argument, tier_options
from rocketstore.cli.options.times import exact_times_option, time_option


@click.command(cls=GroupedCommand)
@store_argument
@tier_options
@time_option("--time", "ISO 8601, epoch ms, or a time such as 1h or 10:00, as for cat.", required=True)
@once_option(
    "--topic", shell_complete=complete_topics, help="Show queue offsets of this topic, not the physical offset."
)
@click.option(
    "--queue",
    "queue_ids",
    type=QUEUE_ID,
    multiple=True,
    shell_complete=complete_queue_ids,
    help="Only this queue id. May be repeated.",
)
@click.option("--upper", is_flag=True, help="With --topic: find the last message of that time or earlier.")
@exact_times_option
@rows_options("topic", "queueId", "queueOffset", "phyOffset")
def offset(**options: Any) -> None:
    """Find the first message of STORE that was stored at a time or later.

    Without a message of that time or later, the result is the offset that the next message will get. With --upper and
    without a message of that time or earlier, the result is the first offset of the queue. A note says so.

    Files of the log whose first messages are far from TIME are skipped. A note then says what this assumes about
    clocks. With --topic, the result is that of a broker, which assumes that no clock was set back. With --exact-times,
    nothing is assumed.
    """
    from rocketstore.cli.offset import run

    run(**options)
