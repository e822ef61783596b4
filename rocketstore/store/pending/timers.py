"""Timer messages, which a producer sent with a time of delivery. Source: TimerMessageStore."""

from __future__ import annotations

import contextlib
import struct
from typing import NamedTuple

from rocketstore.disk.rocksdb.rocks_database import KeyRange
from rocketstore.disk.small_file import read_file_start
from rocketstore.limits import LONG_MAX
from rocketstore.messages.message import Message
from rocketstore.messages.topics import REVIVE_PREFIX
from rocketstore.store.pending.databases import long_in, read_rows
from rocketstore.store.pending.deliveries import Candidate, find_undelivered, targets_of
from rocketstore.store.pending.found import Found
from rocketstore.store.pending.pending_message import TIMER, PendingMessage
from rocketstore.store.pending.system_queues import QueueRecord, QueueRecords, number_of, read_queue, real_place
from rocketstore.store.readable_store import ReadableStore

TIMER_TOPIC = "rmq_sys_wheel_timer"
RECALL_TAG = "_RECALL_TAG_"
CHECKPOINT = struct.Struct(">qqq")  # lastReadTimeMs, lastTimerLogFlushPos, lastTimerQueueOffset
TIMER_FAMILY = "timer"


class TimerProgress(NamedTuple):
    """How far a broker is. A message is delivered if its queue offset and its due time are below these bounds."""

    queue_offset: int
    timestamp: int  # epoch ms


def read_timer_queue(store: ReadableStore) -> QueueRecords:
    """Read all messages of the timer topic."""
    parts = [read_queue(store, TIMER_TOPIC, queue_id) for queue_id in store.queue_ids(TIMER_TOPIC)]
    return QueueRecords(
        [row for part in parts for row in part.records], [text for part in parts for text in part.problems]
    )


def find_timers(store: ReadableStore, timers: QueueRecords) -> Found:
    """Find the timer messages that are neither delivered nor recalled. Parameters: timers: of ``read_timer_queue``.

    A broker that was killed may be further than its checkpoint: then the real topic has the message.
    """
    progress, problems = read_timer_progress(store)
    recalled = {recall for record in timers.records if (recall := _recall_of(record.message)) is not None}
    rolls = _newest_rolls(timers)
    candidates = [
        _candidate_of(record.message)
        for record in timers.records
        if is_user_message(record.message)
        and not (record.queue_offset < progress.queue_offset and due_of(record.message) < progress.timestamp)
        and recalled.isdisjoint(_recall_keys(record.message))
        and number_of(record.message, "TIMER_ROLL_TIMES", 0) == rolls[_roll_key(record)]
    ]
    return Found(find_undelivered(store, candidates), [*timers.problems, *problems])


def read_timer_progress(store: ReadableStore) -> tuple[TimerProgress, list[str]]:
    """Read how far the broker is, from its RocksDB of timers if it has one, else from config/timercheck."""
    rows, problems = read_rows(
        store, store.places.rocksdb, TIMER_FAMILY, KeyRange(b"a")
    )  # keys of messages begin with 0
    timestamp = long_in(rows, b"timeline_checkpoint")
    if timestamp is not None:
        return TimerProgress(long_in(rows, b"sys_topic_scan_offset_checkpoint") or 0, timestamp), problems
    data = b""
    with contextlib.suppress(FileNotFoundError):
        data = read_file_start(store.places.timer_checkpoint, CHECKPOINT.size)
    last_read, _, queue_offset = CHECKPOINT.unpack(data.ljust(CHECKPOINT.size, b"\0"))
    return TimerProgress(queue_offset, last_read), problems


def is_user_message(message: Message) -> bool:
    """Return whether a message of the timer topic will be delivered to consumers."""
    topic = message.properties.get("REAL_TOPIC") or ""
    return not topic.startswith(REVIVE_PREFIX) and "TIMER_DEL_UNIQKEY" not in message.properties


def due_of(message: Message) -> int:
    return number_of(message, "TIMER_OUT_MS", LONG_MAX)


def _recall_of(message: Message) -> tuple[str, int] | None:
    """Return which message a recall deletes: its key and its due time. None for another message."""
    key = message.properties.get("TIMER_DEL_UNIQKEY")
    return None if key is None else (key, due_of(message))


def _recall_keys(message: Message) -> list[tuple[str, int]]:
    """Return the ways in which a recall may name a message. Source: TimerMessageStore.buildDeleteKey."""
    topic, _ = real_place(message)
    return [(f"{message.uniq_key}", due_of(message)), (f"{topic}+{message.uniq_key}", due_of(message))]


def _roll_key(record: QueueRecord) -> tuple[str, str | None, int]:
    """Return what a message and its later copies share. A message without a unique key has no copies."""
    message = record.message
    without_key = record.queue_offset if message.uniq_key is None else -1
    return real_place(message)[0], message.uniq_key, without_key


def _newest_rolls(timers: QueueRecords) -> dict[tuple[str, str | None, int], int]:
    """Return how often each message was appended again because it is due beyond the reach of the wheel."""
    rolls: dict[tuple[str, str | None, int], int] = {}
    for record in timers.records:
        if is_user_message(record.message):
            key = _roll_key(record)
            rolls[key] = max(rolls.get(key, 0), number_of(record.message, "TIMER_ROLL_TIMES", 0))
    return rolls


def _candidate_of(message: Message) -> Candidate:
    topic, queue_id = real_place(message)
    due = number_of(message, "TIMER_OUT_MS", -1)
    row = PendingMessage(
        kind=TIMER,
        topic=topic,
        queue_id=queue_id,
        keys=tuple(message.keys),
        uniq_key=message.uniq_key,
        due_timestamp=None if due == -1 else due,
        check_times=None,
        group=None,
        queue_offset=None,
        popped_topic=None,
        born_timestamp=message.born_timestamp,
        phy_offset=message.phy_offset,
    )
    return Candidate(row, targets_of(message), message.reconsume_times, max(due, message.store_timestamp))
