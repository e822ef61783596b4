"""The options of ``rocketstore get``."""

from typing import Any

import click

from rocketstore.cli.completion import complete_queue_ids, complete_topics
from rocketstore.cli.options.basics import COUNT, QUEUE_ID, QUEUE_OFFSET, CommandOfOffsets
from rocketstore.cli.options.output import BODY_RULE, format_option, view_options
from rocketstore.cli.options.selection import crc_option, tags_option
from rocketstore.cli.options.stores import store_argument, tier_options


@click.command(epilog=BODY_RULE, cls=CommandOfOffsets)
@store_argument
@tier_options
@click.argument("topic", shell_complete=complete_topics)
@click.argument("queue_id", metavar="QUEUE", type=QUEUE_ID, shell_complete=complete_queue_ids)
@click.argument("queue_offset", metavar="OFFSET", type=QUEUE_OFFSET)
@click.option("--limit", type=COUNT, default=1, show_default=True, help="Largest number of messages.")
@tags_option('Only messages with one of these tags: "a || b".')
@crc_option
@view_options()
@format_option
def get(**options: Any) -> None:
    """Show messages of a queue of STORE, beginning at a queue offset. -1 is the last message, -2 the one before.

    The exit status is 1 if no message is found, and RocketMQ's status gives the reason. It is also 1 if a record is
    damaged, or if a body does not match its CRC.
    """
    from rocketstore.cli.get import run

    run(**options)
