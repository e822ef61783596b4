"""``rocketstore ls``: list the queues of a store."""

from functools import partial

from rocketstore.cli.columns import QUEUES
from rocketstore.cli.formats import RowsView, write_parts
from rocketstore.cli.store_notes import note_elsewhere, unknown_topics
from rocketstore.messages.text_rows import Row
from rocketstore.queue.queue_source import offset_range
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.missing import describe_lost_queues


def run(store: MessageStore, topic: tuple[str, ...], view: RowsView) -> None:
    """Run the command with the values of its options."""
    queues = [queue for queue in store.queues() if not topic or queue[0] in topic]
    parts = (partial(rows_of, store, *queue) for queue in queues)
    lost = None if queues else describe_lost_queues(store)
    problems = [lost] if lost else unknown_topics(store, topic)
    note_elsewhere(store, [topic for topic, _ in queues])
    problems += store.formats.problems()
    if not queues and not problems:
        problems = [f"{store.path}: has no queues"]
    write_parts(parts, view, problems, columns=QUEUES)


def rows_of(store: MessageStore, topic: str, queue_id: int) -> list[Row]:
    queue = store.consume_queue(topic, queue_id)
    begin, end = offset_range(queue)
    size = queue.count_bytes(begin, end)
    return [dict(zip(QUEUES, (topic, queue_id, begin, end, len(queue), size), strict=True))]
