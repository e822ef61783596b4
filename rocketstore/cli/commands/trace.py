"""The options of ``rocketstore trace``."""

from typing import Any

import click

from rocketstore.cli.columns import TRACE
from rocketstore.cli.completion import complete_topics
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import once_option
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import compacted_option, stores_argument, tier_options


@click.command(cls=GroupedCommand)
@stores_argument(words=("key",))
@tier_options
@compacted_option
@once_option("--key", help="A key of the message, or the unique key.")
@once_option("--unique-key", help="The unique key. Clients show it as the message id.")
@once_option("--id", help="The offset message id.")
@click.option(
    "--topic",
    multiple=True,
    shell_complete=complete_topics,
    help="With --key: only messages sent to this topic. May be repeated.",
)
@rows_options(*TRACE, has_broker=True)
def trace(**options: Any) -> None:
    """Show the life of a message, one row for each event.

    The events are its records (produced, stored, delayed, timed, prepared, committed or rolled back, failed, retried,
    dead), for what it waits, which consumer groups are behind it, and what clients wrote to the trace topic.

    The index finds the records in all topics. eventTimestamp is the store time of a record, and the due time of a
    message that waits. consumed: the group's offset is behind the message, which also holds if the group failed, or if
    its tags left the message out. It has no time, and is last. Of a key, the newest 64 messages are shown.

    The exit status is 1 if nothing is found, or if the answer may be incomplete.
    """
    from rocketstore.cli.trace import run

    run(**options)
