"""``rocketstore get``: messages by queue offset."""

import click

from rocketstore.cli.formats import format_option, write_rows
from rocketstore.cli.messages import BODY_RULE, message_rows, result_for_people
from rocketstore.cli.options import COUNT, OFFSET, QUEUE_ID, store_argument, tags_option
from rocketstore.store.get_message import GetMessageStatus
from rocketstore.store.message_store import MessageStore

__all__ = ["get"]


@click.command(epilog=BODY_RULE)
@store_argument
@click.argument("topic")
@click.argument("queue_id", metavar="QUEUE", type=QUEUE_ID)
@click.argument("queue_offset", metavar="OFFSET", type=OFFSET)
@click.option("--max", "max_num", type=COUNT, default=1, show_default=True, help="At most so many.")
@tags_option('With one of these tags: "a || b".')
@format_option
def get(store: MessageStore, topic: str, queue_id: int, queue_offset: int, max_num: int, tags: str | None,
        output_format: str | None) -> None:
    """Read messages of a queue of STORE, from a queue offset on.

    If there is none, the exit status is 1, and RocketMQ's status says why.
    """
    found = store.get_message(topic, queue_id, queue_offset, max_num, tags=tags)
    if not len(found.messages):
        hashed = found.status == GetMessageStatus.FOUND  # tags of the same hash code, and not the same
        raise click.ClickException(
            f"{topic}, queue {queue_id}, offset {queue_offset}: "
            f"{GetMessageStatus.NO_MATCHED_MESSAGE if hashed else found.status}: "
            f"the queue has offsets {found.min_offset} to {found.max_offset}"
        )
    write_rows([message_rows(found.messages)], output_format, result_for_people)
