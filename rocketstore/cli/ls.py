"""``rocketstore ls``: list the queues of a store."""

from functools import partial

from rocketstore.cli.columns import QUEUES
from rocketstore.cli.formats import RowsView, finish, read_parts, write_rows
from rocketstore.cli.several import AskedStores, RowsAnswer
from rocketstore.cli.store_notes import note_elsewhere, unknown_topics
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.missing import describe_lost_queues


def run(stores: AskedStores, topic: tuple[str, ...], view: RowsView) -> None:
    """Run the command with the values of its options."""
    found = stores.ask(partial(queues_of, topics=topic, limit=view.limit))
    write_rows(found.rows, view, columns=stores.columns(QUEUES))
    finish(found.problems)


def queues_of(store: MessageStore, topics: tuple[str, ...], limit: int | None) -> RowsAnswer:
    """Return the queues of a store. Parameters: limit: of the rows that are shown."""
    queues = [queue for queue in store.queues() if not topics or queue[0] in topics]
    lost = None if queues else describe_lost_queues(store)
    unknown = {} if lost else unknown_topics(store, topics)
    note_elsewhere(store, [topic for topic, _ in queues])
    problems = [*([lost] if lost else []), *store.formats.problems()]
    if not queues and not problems and not unknown:
        problems = [f"{store.path}: has no queues"]
    found = read_parts((partial(rows_of, store, *queue) for queue in queues), limit)
    return RowsAnswer(found.rows, problems=[*problems, *found.problems], unknown=unknown)


def rows_of(store: MessageStore, topic: str, queue_id: int) -> list[Row]:
    queue = store.consume_queue(topic, queue_id)
    bounds = queue.bounds
    size = queue.count_bytes(bounds.begin, bounds.end)
    return [dict(zip(QUEUES, (topic, queue_id, bounds.begin, bounds.end, bounds.messages, size), strict=True))]
