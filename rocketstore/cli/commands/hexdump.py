"""The options of ``rocketstore hexdump``."""

from typing import Any

import click

from rocketstore.cli.columns import FIELDS
from rocketstore.cli.completion import complete_topics
from rocketstore.cli.options.basics import CommandOfOffsets
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import store_argument


@click.command(cls=CommandOfOffsets)
@store_argument
@click.argument(
    "where", nargs=-1, required=True, metavar="OFFSET | ID | TOPIC QUEUE OFFSET", shell_complete=complete_topics
)
@rows_options(*FIELDS)
def hexdump(**options: Any) -> None:
    """Show one record of STORE field by field.

    The record is given by the physical offset of one of its bytes, by its offset message id, or by topic, queue id and
    queue offset. The queue offset -1 is the last message of the queue.

    A damaged record is shown up to the field that does not fit, and the exit status is 1. Without --full, a table shows
    the first 256 bytes of each field.
    """
    from rocketstore.cli.hexdump import run

    run(**options)
