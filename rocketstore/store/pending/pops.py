"""Popped messages that are invisible: not acknowledged, and not revived. Source: PopReviveService, PopCheckPoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rocketstore.disk.rocksdb.rocks_database import KeyRange
from rocketstore.errors import StoreError
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.messages.message import Message
from rocketstore.messages.topics import RETRY_PREFIX, REVIVE_PREFIX
from rocketstore.queue.queue_source import StoredQueue, offset_range
from rocketstore.state.config_json import parse_json
from rocketstore.store.pending.databases import read_rows
from rocketstore.store.pending.deliveries import Candidate, find_undelivered
from rocketstore.store.pending.found import Found
from rocketstore.store.pending.pending_message import POP, PendingMessage
from rocketstore.store.pending.system_queues import QueueRecord, QueueRecords, body_of, read_queue
from rocketstore.store.readable_store import ReadableStore, log_of
from rocketstore.tier.joined_queue import parts_of

REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
POP_FAMILY = "popState"
EARLY = 1000  # ms: a check point comes to the revive topic so long before the message is visible again
MOST = LONG_MAX // 2
CHECK_POINT, ACK, BATCH_ACK = "ck", "ack", "bAck"
BATCH_COLUMNS = "queue_offset", "keys", "uniq_key", "born_timestamp"


class Pop(NamedTuple):
    """What a check point and its acknowledgements share: topic, group, queue, first queue offset, time of the pop."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    timestamp: int  # epoch ms


class Popped(NamedTuple):
    """A popped message: its place, and when it is visible again, epoch ms."""

    topic: str
    group: str
    queue_id: int
    queue_offset: int
    due_timestamp: int


# ---- check points in the log -------------------------------------------------------------------------------


def find_pops(store: ReadableStore, timers: QueueRecords) -> Found:
    """Find the popped messages that are invisible.

    Check points and acknowledgements wait in the timer topic, and come to the revive topic when they are due. The check
    points up to the broker's saved consumer offset of the revive topic, and the one at that offset, are finished. A
    broker that was killed may have finished later ones: the retry topic then has their messages.

    Parameters: timers: all messages of the timer topic.
    """
    in_revive, done, problems = _read_revive_topics(store)
    waiting = [record.message for record in timers.records if _is_bookkeeping(record.message)]
    messages = [*waiting, *(record.message for record in in_revive)]
    acknowledged = {ack for message in messages for ack in _acknowledged_in(message)}
    check_points = {found[0]: found[1] for message in messages if (found := _check_point_in(message)) is not None}
    popped = [
        Popped(pop.topic, pop.group, pop.queue_id, queue_offset, due)
        for pop, (due, queue_offsets) in check_points.items()
        if pop not in done
        for queue_offset in queue_offsets
        if (pop, queue_offset) not in acknowledged
    ]
    candidates = [candidate for each in popped if (candidate := _candidate_of(store, each)) is not None]
    return Found(_open_batches(store, find_undelivered(store, candidates)), problems)


def _is_bookkeeping(message: Message) -> bool:
    return (message.properties.get("REAL_TOPIC") or "").startswith(REVIVE_PREFIX)


def _read_revive_topics(store: ReadableStore) -> tuple[list[QueueRecord], set[Pop], list[str]]:
    """Read the revive topics of the broker: their messages, the check points that are done, and problems."""
    offsets = store.broker_config.consumer_offsets.get(REVIVE_GROUP, {})
    records, problems = [], []
    done: set[Pop] = set()
    for topic, queue_id in store.queues():
        if not topic.startswith(REVIVE_PREFIX):
            continue
        found = read_queue(store, topic, queue_id)
        last_done = offsets.get(topic, {}).get(queue_id, -1)
        below = (record.message for record in found.records if record.queue_offset <= last_done)
        done |= {check_point[0] for message in below if (check_point := _check_point_in(message)) is not None}
        records += found.records
        problems += found.problems
    return records, done, problems


def _check_point_in(message: Message) -> tuple[Pop, tuple[int, list[int]]] | None:
    """Return the pop of a check point, when its messages are visible again, and their queue offsets.

    Messages that were acknowledged before the check point was written have a bit in its map and are left out.
    """
    if message.tags != CHECK_POINT:
        return None
    fields = _fields_of(body_of(message))
    pop, count, invisible = _pop_of(fields), _member(fields, "n"), _member(fields, "it")
    if pop is None or not _are_numbers(count, invisible) or not 0 <= count <= 64:
        return None
    differences, bits = _member(fields, "d"), _member(fields, "bm")
    steps = differences if isinstance(differences, list) and len(differences) == count else range(count)
    acknowledged = bits if _are_numbers(bits) else 0
    offsets = [
        pop.start_offset + step
        for place, step in enumerate(steps)
        if _are_numbers(step) and not acknowledged >> place & 1
    ]
    return pop, (pop.timestamp + invisible, offsets)


def _acknowledged_in(message: Message) -> Iterator[tuple[Pop, int]]:
    """Yield the pop and the queue offset of each message that an acknowledgement names."""
    if message.tags not in (ACK, BATCH_ACK):
        return
    fields = _fields_of(body_of(message))
    pop = _pop_of(fields)
    many = _member(fields, "aol")
    offsets = many if message.tags == BATCH_ACK and isinstance(many, list) else [_member(fields, "ao")]
    if pop is not None:
        yield from ((pop, offset) for offset in offsets if _are_numbers(offset))


def _pop_of(fields: Mapping[str, Any]) -> Pop | None:
    texts = [_member(fields, name) for name in ("t", "c")]
    numbers = [_member(fields, name) for name in ("q", "so", "pt")]
    if all(isinstance(text, str) for text in texts) and _are_numbers(*numbers) and abs(numbers[0]) <= INT_MAX:
        return Pop(*texts, *numbers)
    return None


def _fields_of(body: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; none for anything else."""
    with contextlib.suppress(ValueError, RecursionError):
        fields = parse_json(body)
        if isinstance(fields, dict):
            return fields
    return {}


def _member(fields: Mapping[str, Any], name: str) -> Any:
    """Return a member, whose type the caller must check; None without one."""
    return fields.get(name)


def _are_numbers(*values: Any) -> bool:
    """Return whether all values are integers of which a sum of two is an int64."""
    return all(isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST for value in values)


# ---- rows of RocksDB ---------------------------------------------------------------------------------------


def find_pops_in_rocksdb(store: ReadableStore) -> Found:
    """Find the invisible messages of brokers with popConsumerKVServiceEnable: each has a row until it is acknowledged.

    Source: PopConsumerRocksdbStore, PopConsumerRecord.
    """
    rows, problems = read_rows(store, store.places.pop_database, POP_FAMILY, KeyRange())
    popped = [each for _, value in rows if (each := _popped_of(_fields_of(value))) is not None]
    if len(popped) < len(rows):
        problems.append(f"{store.places.pop_database}: {len(rows) - len(popped)} rows are no popped messages")
    candidates = [candidate for each in popped if (candidate := _candidate_of(store, each)) is not None]
    return Found(_open_batches(store, [candidate.row for candidate in candidates]), problems)


def _popped_of(fields: Mapping[str, Any]) -> Popped | None:
    texts = [_member(fields, name) for name in ("topicId", "groupId")]
    numbers = [_member(fields, name) for name in ("queueId", "offset", "popTime", "invisibleTime")]
    if not all(isinstance(text, str) for text in texts) or not _are_numbers(*numbers) or abs(numbers[0]) > INT_MAX:
        return None
    topic, group = texts
    queue_id, offset, pop_time, invisible = numbers
    return Popped(topic, group, queue_id, offset, pop_time + invisible)


# ---- the popped message ------------------------------------------------------------------------------------


def _candidate_of(store: ReadableStore, popped: Popped) -> Candidate | None:
    """Return a popped message as a candidate; None if it has expired, since it is never delivered again."""
    if _is_expired(store, popped):
        return None
    message = _read_message(store, popped)
    row = PendingMessage(
        kind=POP,
        topic=_origin_topic(popped),
        queue_id=popped.queue_id,
        keys=() if message is None else tuple(message.keys),
        uniq_key=None if message is None else message.uniq_key,
        due_timestamp=popped.due_timestamp,
        check_times=None,
        group=popped.group,
        queue_offset=popped.queue_offset,
        popped_topic=popped.topic,
        born_timestamp=None if message is None else message.born_timestamp,
        phy_offset=-1 if message is None else message.phy_offset,
    )
    reconsume_times = 0 if message is None else message.reconsume_times
    return Candidate(row, _retry_topics(popped), reconsume_times + 1, popped.due_timestamp - EARLY)


def _is_expired(store: ReadableStore, popped: Popped) -> bool:
    try:
        return popped.queue_offset < store.consume_queue(popped.topic, popped.queue_id).min_queue_offset
    except KeyError:
        return False


def _read_message(store: ReadableStore, popped: Popped) -> Message | None:
    """Read a popped message; None if it cannot be read."""
    with contextlib.suppress(KeyError, IndexError, StoreError, OSError):
        part = _find_part(store, popped.topic, popped.queue_id, popped.queue_offset)
        if part is not None:
            return log_of(store, part).find_message(part[popped.queue_offset].phy_offset)
    return None


def _find_part(store: ReadableStore, topic: str, queue_id: int, queue_offset: int) -> StoredQueue | None:
    """Return the part of a queue that has a queue offset; None without such a part. Raises: KeyError; as a queue."""
    parts = parts_of(store.consume_queue(topic, queue_id))
    return next((part for part in parts if queue_offset in range(*offset_range(part))), None)


def _open_batches(store: ReadableStore, rows: Sequence[PendingMessage]) -> list[PendingMessage]:
    """Return the rows of popped records, with the messages of an inner batch in place of its record.

    A check point names the first queue offset of an inner batch, and so does each acknowledgement of it: all messages
    of the batch are popped together, and acknowledged together. Source: PopMessageProcessor.appendCheckPoint.
    """
    return [each for row in rows for each in _messages_of(store, row)]


def _messages_of(store: ReadableStore, row: PendingMessage) -> list[PendingMessage]:
    """Return a row for each message of a popped record; the row itself if the record cannot be read."""
    if row.popped_topic is None or row.queue_offset is None or row.phy_offset < 0:
        return [row]
    part = _find_part(store, row.popped_topic, row.queue_id, row.queue_offset)
    if part is None or not part.has_batches:
        return [row]
    offsets = np.array([row.phy_offset], np.int64)
    batch, _ = log_of(store, part).find_messages(offsets, columns=BATCH_COLUMNS, containers=False)
    return [
        row._replace(
            queue_offset=message.queue_offset,
            keys=tuple(message.keys),
            uniq_key=message.uniq_key,
            born_timestamp=message.born_timestamp,
        )
        for message in batch
    ] or [row]


def _retry_topics(popped: Popped) -> tuple[str, ...]:
    """Return the topics to which a message may be revived. Source: KeyBuilder.buildPopRetryTopic."""
    if popped.topic.startswith(RETRY_PREFIX):
        return (popped.topic,)
    return f"{RETRY_PREFIX}{popped.group}_{popped.topic}", f"{RETRY_PREFIX}{popped.group}+{popped.topic}"


def _origin_topic(popped: Popped) -> str:
    """Return the topic to which a message was sent: the name of a retry topic ends with it."""
    for joint in "_+":
        prefix = f"{RETRY_PREFIX}{popped.group}{joint}"
        if popped.topic.startswith(prefix):
            return popped.topic.removeprefix(prefix)
    return popped.topic
