"""``rocketstore offset``: find offsets by time."""

from functools import partial

import click

from rocketstore.cli.formats import RowsView, write_parts, write_rows
from rocketstore.cli.store_notes import note_assumptions, note_elsewhere
from rocketstore.cli.text import note
from rocketstore.limits import LONG_MAX
from rocketstore.messages.text_rows import Row
from rocketstore.queue.queue_source import Boundary
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.missing import describe_unknown_queue, describe_unknown_topic
from rocketstore.text_values import format_time


def run(
    store: MessageStore,
    time: int,
    topic: str | None,
    queue_ids: tuple[int, ...],
    upper: bool,
    exact_times: bool,
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    nothing = f"no message was stored at {format_time(time) or time} or"
    if topic is None:
        if queue_ids or upper:
            raise click.UsageError("--queue and --upper need --topic")
        found, _, reasons = store.find_phy_offset_by_time(time, exact_times=exact_times)
        write_rows([{"phyOffset": found}], view)
        note_assumptions(store, reasons)
        note_elsewhere(store)
        if found >= store.commit_log.max_phy_offset:
            note(f"{store.path}: {nothing} later: {found} is the end of the log")
        return
    known = [number for name, number in store.queues() if name == topic]
    if not known:
        raise click.ClickException(str(describe_unknown_topic(store, topic)))
    problems = [
        describe_unknown_queue(store, topic, number) for number in dict.fromkeys(queue_ids) if number not in known
    ]
    boundary: Boundary = "upper" if upper else "lower"
    queues = [number for number in known if not queue_ids or number in queue_ids]
    without_message: list[int] = []

    def rows_of(queue_id: int) -> list[Row]:
        found = store.get_offset_by_time(topic, time, queue_id, boundary, exact_times=exact_times)
        queue = store.consume_queue(topic, queue_id)
        if upper:
            first, later = max(queue.min_queue_offset, 0), min(time + 1, LONG_MAX)
            of_later = store.get_offset_by_time(topic, later, queue_id, exact_times=exact_times)
            is_missing = found <= first and of_later <= first
        else:
            is_missing = found == queue.max_queue_offset
        if is_missing:
            without_message.append(queue_id)
        return [{"topic": topic, "queueId": queue_id, "queueOffset": found}]

    try:
        write_parts((partial(rows_of, number) for number in queues), view, problems)
    finally:
        note_elsewhere(store, [topic])
        if without_message:
            ids = ", ".join(map(str, without_message))
            end = "earlier: this is the first offset" if upper else "later: the next message will get this offset"
            note(f"{topic}, queue {ids}: {nothing} {end}")
