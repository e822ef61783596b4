"""``rocketstore get``: show messages by queue offset."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import click
import numpy as np

from rocketstore.cli.formats import finish
from rocketstore.cli.settings import offset_from_end
from rocketstore.cli.store_notes import (
    SHOW_WRONG,
    WRONG_BODY,
    note_bad_bodies,
    note_elsewhere,
    note_leftovers,
    tier_words,
)
from rocketstore.cli.text import command
from rocketstore.cli.view.inner_batches import without_containers
from rocketstore.cli.view.messages import MessageView, write_messages
from rocketstore.kernels.columns import masked_rows, unmasked_values
from rocketstore.kernels.commit_log import WRONG_CRC
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import INT_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.arguments import split_tags
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.in_queue import rows_in_queue
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.query.get_message import GetMessageResult, GetMessageStatus
from rocketstore.queue.batch_consume_queue import BatchConsumeQueue
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.queue.units import ConsumeQueueUnits
from rocketstore.store.message_store import MessageStore
from rocketstore.store.not_found import find_commas
from rocketstore.store.overview.missing import describe_unknown_queue
from rocketstore.store.readable_store import log_of
from rocketstore.tier.joined_queue import parts_of
from rocketstore.tier.tier_queue import TierQueue


def run(
    store: MessageStore,
    topic: str,
    queue_id: int,
    queue_offset: int,
    limit: int,
    tag: str | None,
    verify_crc: bool,
    view: MessageView,
    output_format: str | None,
) -> None:
    """Run the command with the values of its options."""
    if queue_offset < 0:
        with contextlib.suppress(KeyError):  # get_message answers for a missing queue
            queue_offset = offset_from_end(store.consume_queue(topic, queue_id), queue_offset)
    queue = QueueId(topic, queue_id)
    place = f"{topic}, queue {queue_id}, offset"
    opens_batches = tag is not None and not view.has_containers and has_batches(store, queue)
    tag_of_units = None if opens_batches else tag
    first = store.get_message(*queue, queue_offset, limit, tag=tag_of_units, verify_crc=False)
    note_elsewhere(store, [topic])
    if first.status != GetMessageStatus.FOUND:
        note_leftovers(store.commit_log)
        reasons = [describe_unknown_queue(store, *queue) or str(first.why), *find_commas([tag or ""])]
        raise click.ClickException(f"{place} {queue_offset}: {first.status}: {'; '.join(reasons)}")
    answers = read_on(store, queue, queue_offset, first, limit) if opens_batches else [(queue_offset, first)]
    tags = split_tags(tag) if opens_batches else None
    found = read_messages(store, queue, answers, queue_offset, limit, tags, verify_crc=verify_crc, view=view)
    if opens_batches and not found.messages and not found.damaged:
        reason = f"no message from queue offset {queue_offset} to {found.end - 1} has one of the tags"
        raise click.ClickException(f"{place} {queue_offset}: {GetMessageStatus.NO_MATCHED_MESSAGE}: {reason}")
    conditions = {"topic": (topic,), "queue_ids": (queue_id,), "tag": tag}
    write_messages([found.messages], output_format, view.with_conditions(conditions), is_result=True)
    note_bad_bodies(found.bad_bodies)
    finish(f"{place} {unit.queue_offset}: {unit.problem}" for unit in found.damaged)


class DamagedUnit(NamedTuple):
    """A unit that leads to no record of its queue, or to a record whose body does not match its CRC.

    Attributes: queue_offset. phy_offset: bytes; None in tiered storage, where messages have none. problem: as text.
    """

    queue_offset: int
    phy_offset: int | None
    problem: str


def has_batches(store: MessageStore, queue: QueueId) -> bool:
    """Return whether a queue has inner batches, whose units have no tags. False for a missing queue."""
    try:
        return isinstance(store.consume_queue(*queue), BatchConsumeQueue)
    except KeyError:
        return False


def read_on(
    store: MessageStore, queue: QueueId, begin: int, found: GetMessageResult, limit: int
) -> Iterator[tuple[int, GetMessageResult]]:
    """Yield a read of a queue and the reads that follow it to the queue's end, each with its first queue offset.

    Parameters: begin: the queue offset at which the first read began. found: its result. limit: units of each read.
    """
    while begin < found.next_begin_offset:
        yield begin, found
        begin = found.next_begin_offset
        found = store.get_message(*queue, begin, limit, verify_crc=False)


class QueueMessages(NamedTuple):
    """Messages of a queue. Attributes: end: the queue offset after the last unit that was read."""

    messages: list[Message]
    damaged: list[DamagedUnit]
    bad_bodies: BadBodies
    end: int


def read_messages(
    store: MessageStore,
    name: QueueId,
    answers: Iterable[tuple[int, GetMessageResult]],
    queue_offset: int,
    limit: int,
    tags: Collection[str] | None,
    *,
    verify_crc: bool,
    view: MessageView,
) -> QueueMessages:
    """Return the first ``limit`` messages of some reads of a queue. Later reads are not made.

    Parameters: answers: the reads, each with its first queue offset. queue_offset: of the first message to return; the
    first unit may have earlier messages of an inner batch. tags: of the messages; None for all.
    """
    queue = store.consume_queue(*name)
    log = log_of(store, queue)
    damaged: list[DamagedUnit] = []
    messages: list[Message] = []
    bad_bodies = BadBodies()
    end = queue_offset
    for begin, found in answers:
        end = found.next_begin_offset
        damaged += find_damage(store, queue, name, begin, end, verify_crc=verify_crc)
        records = log.reader.with_bodies(without_damaged(found.messages, damaged), INT_MAX, bad_bodies)
        for batch in records if view.has_containers else without_containers(log, records):
            messages += [
                message
                for message in batch
                # A message of a light queue has the topic and the queue offset of the queue to which it was sent.
                if (view.has_containers or message.topic != name.topic or message.queue_offset >= queue_offset)
                and (tags is None or message.tags in tags)
            ]
        if len(messages) >= limit:
            break
    return QueueMessages(messages[:limit], damaged, bad_bodies, end)


def find_damage(
    store: MessageStore, queue: StoredQueue, name: QueueId, begin: int, end: int, *, verify_crc: bool
) -> list[DamagedUnit]:
    """Find the damaged units of a range of queue offsets. Parameters: verify_crc: compare bodies with their CRC."""
    found = []
    for part in parts_of(queue):
        log = log_of(store, part)
        is_tier = isinstance(part, TierQueue)
        has_own_log = part.is_compacted or is_tier
        first, last = max(begin, part.min_queue_offset), min(end, part.max_queue_offset)
        units = part[first : max(first, last)]
        for number, at, problem in damaged_units(log, units, name, has_own_log=has_own_log, verify_crc=verify_crc):
            advice = f"{command('hexdump', store.path, at)} shows its bytes"
            if has_own_log:
                verify = command("verify", store.path, *tier_words(store))
                advice = f"its log is {log.directories[0]}, which {verify} checks"
            found.append(DamagedUnit(number, None if is_tier else at, f"{problem}: {advice}"))
    return found


def without_damaged(messages: MessageBatch, damaged: Sequence[DamagedUnit]) -> MessageBatch:
    """Return the messages of a queue without those of damaged units."""
    if not damaged:
        return messages
    are_masked = masked_rows(messages.phy_offset)
    phy_offsets = [unit.phy_offset for unit in damaged if unit.phy_offset is not None]
    is_bad = np.isin(np.where(are_masked, -1, unmasked_values(messages.phy_offset)), phy_offsets)
    of_tier = [unit.queue_offset for unit in damaged if unit.phy_offset is None]
    is_bad |= are_masked & np.isin(messages.queue_offset, of_tier)
    return messages.take(np.flatnonzero(~is_bad))


def damaged_units(
    log: CommitLog, units: ConsumeQueueUnits, queue: QueueId, *, has_own_log: bool, verify_crc: bool
) -> list[tuple[int, int, str]]:
    """Return queue offset, physical offset and problem of each unit that leads into the log to no record of the queue.

    A unit that leads behind the end of the commit log is a leftover of a crash, and is not returned. In a queue with a
    log of its own, a unit that leads behind the end of that log is damaged.
    """
    columns = ["topic", "queue_id", "properties"]
    batch, statuses = log.find_messages(units.phy_offsets, columns=columns, verify_crc=verify_crc)
    has_expired = (units.phy_offsets < log.min_phy_offset) & ~(has_own_log & (units.phy_offsets < 0))
    bad = (statuses != 0) & ~has_expired & ~units.is_filler
    if bad.any() and not has_own_log:
        bad &= units.phy_offsets < log.look(again=True).records_end
    problems = dict.fromkeys(np.flatnonzero(bad).tolist(), "cannot be read")
    wrong_crc = np.isin(statuses, WRONG_CRC) & ~units.is_filler
    problems |= dict.fromkeys(np.flatnonzero(wrong_crc).tolist(), f"{WRONG_BODY}: {SHOW_WRONG}")
    own = rows_in_queue(batch, *queue)
    rows = np.flatnonzero(statuses == 0).tolist()
    for place in sorted(set(range(len(batch))).difference(own.tolist())):
        problems[rows[place]] = f"is of another queue, {batch[place].topic}/{batch[place].queue_id}"
    return [
        (int(units.queue_offsets[row]), at := int(units.phy_offsets[row]), f"the record at physical offset {at} {text}")
        for row, text in sorted(problems.items())
    ]
