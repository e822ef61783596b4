"""The options of ``rocketstore count``."""

from typing import Any

import click

from rocketstore.cli.columns import COUNTS
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.selection import filter_options, selection_options, unconsumed_options
from rocketstore.cli.options.stores import compacted_option, stores_argument, tier_options


@click.command(cls=GroupedCommand)
@stores_argument(words=("topic",))
@click.option(
    "--by",
    metavar="A,B",
    help="A row for each value of one or several of topic, queue, tag, day, hour, minute, born_host, store_host, "
    "reconsume_times.",
)
@tier_options
@compacted_option
@selection_options
@filter_options
@unconsumed_options
@rows_options(*COUNTS, has_broker=True)
def count(**options: Any) -> None:
    """Count the messages of STORE that meet all conditions, and the bytes of their records.

    Without --by, there is one row. Days, hours and minutes are those of the store time in the zone of --tz. A
    terminal also gets a bar for each row. One grouping that is no time has the most frequent values first; else rows
    are sorted by their values.

    --unconsumed counts the messages that a consumer group still gets.

    The log is read. The exit status is 1 if a part of it is damaged, or if no message is found.
    """
    from rocketstore.cli.count import run

    run(**options)
