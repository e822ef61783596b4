"""``rocketstore get``: show messages by queue offset."""

import contextlib

import click
import numpy as np

from rocketstore.cli.formats import finish
from rocketstore.cli.settings import offset_from_end
from rocketstore.cli.store_notes import note_bad_bodies, note_elsewhere, note_leftovers
from rocketstore.cli.text import command
from rocketstore.cli.view.messages import MessageView, write_messages
from rocketstore.limits import INT_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.in_queue import rows_in_queue
from rocketstore.query.get_message import GetMessageResult, GetMessageStatus
from rocketstore.queue.units import ConsumeQueueUnits
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.missing import describe_unknown_queue


def run(
    store: MessageStore,
    topic: str,
    queue_id: int,
    queue_offset: int,
    limit: int,
    tag: str | None,
    view: MessageView,
    output_format: str | None,
) -> None:
    """Run the command with the values of its options."""
    if queue_offset < 0:
        with contextlib.suppress(KeyError):  # get_message answers for a missing queue
            queue_offset = offset_from_end(store.consume_queue(topic, queue_id), queue_offset)
    found = store.get_message(topic, queue_id, queue_offset, limit, tag=tag)
    note_elsewhere(store, [topic])
    place = f"{topic}, queue {queue_id}, offset"
    if found.status != GetMessageStatus.FOUND:
        note_leftovers(store.commit_log)
        reason = describe_unknown_queue(store, topic, queue_id) or reason_of(found, tag)
        raise click.ClickException(f"{place} {queue_offset}: {found.status}: {reason}")
    queue = store.consume_queue(topic, queue_id)
    log = store.commit_log if queue.log is None else queue.log
    bad_bodies = BadBodies()
    batches = log.reader.with_bodies(found.messages, INT_MAX, bad_bodies)
    conditions = {"topic": (topic,), "queue_ids": (queue_id,), "tag": tag}
    # In a light queue, messages have the topics and the offsets of their own queues.
    messages = [
        message
        for batch in view.messages(log, batches)
        for message in batch
        if view.has_containers or message.topic != topic or message.queue_offset >= queue_offset
    ]
    write_messages([messages[:limit]], output_format, view.with_conditions(conditions), is_result=True)
    note_bad_bodies(bad_bodies)
    units = queue[queue_offset : found.next_begin_offset]
    problems = [
        f"{place} {number}: {problem}: {command('hexdump', store.path, at)} shows its bytes"
        for number, at, problem in damaged_units(log, units, topic, queue_id)
    ]
    finish(problems)


def reason_of(found: GetMessageResult, tag: str | None) -> str:
    """Return why no message of a queue was found. Parameters: tag: an expression; None for all."""
    if found.status == GetMessageStatus.NO_MATCHED_MESSAGE and tag is not None:
        return f"no message up to queue offset {found.next_begin_offset - 1} has one of the tags"
    if found.min_offset == found.max_offset:
        return f"the queue is empty, and its next offset is {found.max_offset}"
    return f"the queue has offsets {found.min_offset} to {found.max_offset - 1}"


def damaged_units(log: CommitLog, units: ConsumeQueueUnits, topic: str, queue_id: int) -> list[tuple[int, int, str]]:
    """Return queue offset, physical offset and problem of each unit that leads into the log to no record of the queue.

    Parameters: topic, queue_id: of the queue.
    """
    batch, statuses = log.find_messages(units.phy_offsets, columns=["topic", "queue_id", "properties"])
    bad = (statuses != 0) & (units.phy_offsets >= log.min_phy_offset) & ~units.is_filler
    if bad.any():
        bad &= units.phy_offsets < log.look(again=True).records_end
    problems = dict.fromkeys(np.flatnonzero(bad).tolist(), "cannot be read")
    own = rows_in_queue(batch, topic, queue_id)
    rows = np.flatnonzero(statuses == 0).tolist()
    for place in sorted(set(range(len(batch))).difference(own.tolist())):
        problems[rows[place]] = f"is of another queue, {batch[place].topic}/{batch[place].queue_id}"
    return [
        (int(units.queue_offsets[row]), at := int(units.phy_offsets[row]), f"the record at physical offset {at} {text}")
        for row, text in sorted(problems.items())
    ]
