"""``rocketstore ls``: the queues of a store."""

from functools import partial

import click

from rocketstore.cli.elsewhere import note_elsewhere
from rocketstore.cli.formats import Row, format_option, write_parts
from rocketstore.cli.options import store_argument, unknown_topics
from rocketstore.store.message_store import MessageStore
from rocketstore.store.missing import describe_lost_queues

__all__ = ["ls"]

COLUMNS = ("topic", "queueId", "minOffset", "maxOffset", "messages", "bytes")
UNITS = 1 << 20  # to read at once


@click.command()
@store_argument
@click.option("--topic", "topics", multiple=True, help="Of this topic only; may be given again.")
@format_option
def ls(store: MessageStore, topics: tuple[str, ...], output_format: str | None) -> None:
    """List the topics and queues of STORE, with their queue offsets.

    maxOffset is that of the next message; bytes are those of the messages' records in the commit log.
    """
    queues = [queue for queue in store.queues() if not topics or queue[0] in topics]
    parts = (partial(rows_of, store, *queue) for queue in queues)
    lost = None if queues else describe_lost_queues(store)
    problems = [lost] if lost else unknown_topics(store, topics)
    note_elsewhere(store, [topic for topic, _ in queues])
    write_parts(parts, output_format, [*problems, *store.layout.problems()], columns=COLUMNS)


def rows_of(store: MessageStore, topic: str, queue_id: int) -> list[Row]:
    queue = store.consume_queue(topic, queue_id)
    begin, end = max(queue.min_queue_offset, 0), queue.max_queue_offset
    size = 0
    for first in range(begin, end, UNITS):
        units = queue[first : min(first + UNITS, end)]
        own = ~units.is_filler & (units.queue_offsets >= first)  # a batch that began before was counted there
        size += int(units.sizes[own].sum(dtype="int64"))
    return [dict(zip(COLUMNS, (topic, queue_id, begin, end, end - begin, size), strict=True))]
