"""The options of ``rocketstore query``."""

from typing import Any

import click

from rocketstore.cli.completion import complete_topics
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import COUNT, once_option
from rocketstore.cli.options.output import BODY_RULE, format_option, view_options
from rocketstore.cli.options.selection import crc_option, tags_option
from rocketstore.cli.options.sizes import geometry_options
from rocketstore.cli.options.stores import compacted_option, stores_or_index_argument, tier_options
from rocketstore.cli.options.times import exact_times_option, time_options


@click.command(cls=GroupedCommand, epilog=BODY_RULE)
@stores_or_index_argument(words=("topic", "id", "key"))
@tier_options
@compacted_option
@click.option(
    "--topic", multiple=True, shell_complete=complete_topics, help="The topic of the messages. May be repeated."
)
@click.option("--key", multiple=True, help="A key of the messages, or the unique key. May be repeated.")
@once_option("--unique-key", help="The unique key. Clients show it as the message id.")
@tags_option('Messages with one of these tags: "a || b". RocketMQ indexes tags since 5.4.0.')
@once_option("--id", help="The message id: that of a client, or the offset message id. It needs no topic.")
@time_options
@exact_times_option
@click.option("--limit", "most", type=COUNT, help="Largest number of messages. Of index files, at most 64.")
@crc_option
@geometry_options
@view_options(has_broker=True)
@format_option
def query(**options: Any) -> None:
    """Find messages in PATH: a store, an index directory or an index file.

    In a store, search by --key, --unique-key or --tag (newest first), by --id, or by --since and --until alone (oldest
    first). Each message that the index finds is compared with the question. Without --topic, all topics are searched.

    A search by --since and --until alone skips files of the log whose first messages are far from these times. A note
    then says what this assumes about clocks. With --exact-times, and with a key, a tag or an id, no message is missed
    because of a wrong clock.

    In index files, the result is physical offsets by hash and whole seconds, as a broker finds them. Offsets of
    messages with other keys may be among them.

    The exit status is 1 if nothing is found, or if a body does not match its CRC.
    """
    from rocketstore.cli.query import run

    run(**options)
