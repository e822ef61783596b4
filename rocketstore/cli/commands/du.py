"""The options of ``rocketstore du``."""

from typing import Any

import click

from rocketstore.cli.columns import DISKS, PART_TOTALS, PARTS, USAGE, USAGE_TOTALS
from rocketstore.cli.completion import complete_topics
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.output import fail_if_option, rows_options
from rocketstore.cli.options.stores import stores_argument

NUMBERS = (
    "totalBytes", "usedBytes", "freeBytes", "usedShare", "files", "messages", "items", "preallocatedBytes", "fileBytes",
    "sparseBytes", "diskBytes", "share", "logBytes", "queueBytes", "otherBytes",
)  # fmt: skip
GROUPINGS = "topic", "queue", "day", "hour", "tag"


@click.command(cls=GroupedCommand)
@stores_argument(words=("topic",))
@click.option("--by", type=click.Choice(GROUPINGS), help="Show the messages of each of these instead of the parts.")
@click.option(
    "--topic", multiple=True, shell_complete=complete_topics, help="With --by: only this topic. May be repeated."
)
@click.option("--exact", is_flag=True, help="With --by: count the records of the log, which reads the whole log.")
@click.option("--totals", is_flag=True, help="Only show the sums.")
@click.option("--disks", is_flag=True, help="Only show the disks, and the space that they have left.")
@fail_if_option(*NUMBERS)
@rows_options(*dict.fromkeys([*PARTS, *PART_TOTALS, *DISKS, *USAGE, *USAGE_TOTALS]), has_broker=True)
def du(**options: Any) -> None:
    """Show what takes the space of STORE, the largest first.

    Without --by: the parts of the store. fileBytes are the lengths of the files. usedBytes have records, units or
    items; preallocatedBytes were allocated in advance or are not used any more. diskBytes are the disk space that the
    files occupy; sparseBytes are holes.

    With --by: messages, the bytes of their records, and the disk space that the files of their queues occupy. They are
    counted by the units of the queues: tags by their hashes, days and hours of --tz by some store times of each queue.
    otherBytes of the log are blanks, and records without a unit. --exact reads the log instead.

    The exit status is 1 if a part cannot be read. Without --by, --fail-if also knows the disks: "usedShare > 80%".
    usedShare is usedBytes / (usedBytes + freeBytes), as a broker computes it. totalBytes also counts space that is
    reserved for root.
    """
    from rocketstore.cli.du import run

    run(**options)
