"""``rocketstore ls``: list the queues of a store."""

from functools import partial

import click

from rocketstore.cli.completion import complete_topics
from rocketstore.cli.formats import Row, RowsView, write_parts
from rocketstore.cli.options import rows_options, store_argument
from rocketstore.cli.store_notes import note_elsewhere, unknown_topics
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.missing import describe_lost_queues

__all__ = ["ls"]

COLUMNS = ("topic", "queueId", "minOffset", "maxOffset", "messages", "bytes")


@click.command()
@store_argument
@click.option(
    "--topic", "topics", multiple=True, shell_complete=complete_topics, help="Only this topic. May be repeated."
)
@rows_options(*COLUMNS)
def ls(store: MessageStore, topics: tuple[str, ...], view: RowsView) -> None:
    """List the topics and queues of STORE, with their queue offsets.

    maxOffset is the offset that the next message will get. bytes is the size of the records in the commit log. The exit
    status is 1 if there is no queue.
    """
    queues = [queue for queue in store.queues() if not topics or queue[0] in topics]
    parts = (partial(rows_of, store, *queue) for queue in queues)
    lost = None if queues else describe_lost_queues(store)
    problems = [lost] if lost else unknown_topics(store, topics)
    note_elsewhere(store, [topic for topic, _ in queues])
    problems += store.layout.problems()
    if not queues and not problems:
        problems = [f"{store.path}: has no queues"]
    write_parts(parts, view, problems, columns=COLUMNS)


def rows_of(store: MessageStore, topic: str, queue_id: int) -> list[Row]:
    queue = store.consume_queue(topic, queue_id)
    begin, end = max(queue.min_queue_offset, 0), queue.max_queue_offset
    size = queue.count_bytes(begin, end)
    return [dict(zip(COLUMNS, (topic, queue_id, begin, end, end - begin, size), strict=True))]
