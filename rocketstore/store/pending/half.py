"""Half messages: of transactions that are neither committed nor rolled back."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from rocketstore.disk.rocksdb.rocks_database import KeyRange
from rocketstore.java_text import parse_int, parse_long
from rocketstore.messages.message import Message
from rocketstore.store.pending.databases import LONG, Row, long_in, read_rows
from rocketstore.store.pending.deliveries import Candidate, find_undelivered, targets_of
from rocketstore.store.pending.found import Found
from rocketstore.store.pending.pending_message import HALF, PendingMessage
from rocketstore.store.pending.system_queues import QueueRecord, body_of, number_of, read_queue, real_place
from rocketstore.store.readable_store import ReadableStore

HALF_TOPIC, OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"
ROCKS_HALF_TOPIC, ROCKS_OP_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRANSACTIONS_FAMILY = "trans"
CHECKS = struct.Struct(">ii")  # check times, size of the record


# ---- in files ----------------------------------------------------------------------------------------------


def find_half(store: ReadableStore) -> Found:
    """Find the open half messages of brokers that keep transactions in files.

    Half messages before the broker's consumer offset are closed or have a later copy. From that offset on, each check
    appends another copy of a half message, and only the newest copy counts. A transaction is closed if an op message
    names the newest or the first copy, or if the real topic, or the topic of messages that were given up, has the
    message.
    Source: TransactionalMessageServiceImpl.
    """
    offsets = store.broker_config.consumer_offsets.get(GROUP, {}).get(HALF_TOPIC, {})
    candidates, problems = [], []
    for queue_id in store.queue_ids(HALF_TOPIC):
        found = read_queue(store, HALF_TOPIC, queue_id, offsets.get(queue_id, 0))
        ops = read_queue(store, OP_TOPIC, queue_id)
        settled = {offset for record in ops.records for offset in _offsets_in(record.message)}
        candidates += [
            _candidate_of(record.message, begin)
            for record, begin in _newest_copies(found.records)
            if settled.isdisjoint(_numbers_of(record.message, record.queue_offset))
        ]
        problems += [*found.problems, *ops.problems]
    return Found(find_undelivered(store, candidates), problems)


def _newest_copies(records: Iterable[QueueRecord]) -> list[tuple[QueueRecord, int]]:
    """Return the newest copy of each half message, and the store time of its first copy, epoch ms."""
    newest: dict[str | int, tuple[QueueRecord, int]] = {}
    for record in records:
        key = record.message.uniq_key or record.queue_offset
        _, begin = newest.get(key, (record, record.message.store_timestamp))
        newest[key] = record, begin
    return list(newest.values())


def _offsets_in(op: Message) -> set[int]:
    """Return the queue offsets of half messages that an op message names. Source: TransactionalMessageUtil."""
    texts = body_of(op).decode("utf-8", "replace").split(",")
    return {offset for text in texts if (offset := parse_long(text)) is not None}


def _numbers_of(half: Message, queue_offset: int) -> set[int]:
    """Return the queue offsets by which an op message may name a half message: its own, and that of its first copy."""
    return {queue_offset, number_of(half, "TRAN_PREPARED_QUEUE_OFFSET", queue_offset)}


def _candidate_of(message: Message, begin: int) -> Candidate:
    row = _row_of(message, parse_int(message.properties.get("TRANSACTION_CHECK_TIMES") or "") or 0)
    return Candidate(row, (*targets_of(message), GIVEN_UP_TOPIC), message.reconsume_times, begin)


def _row_of(message: Message, check_times: int) -> PendingMessage:
    topic, queue_id = real_place(message)
    return PendingMessage(
        kind=HALF,
        topic=topic,
        queue_id=queue_id,
        keys=tuple(message.keys),
        uniq_key=message.uniq_key,
        due_timestamp=None,
        check_times=check_times,
        group=None,
        queue_offset=None,
        popped_topic=None,
        born_timestamp=message.born_timestamp,
        phy_offset=message.phy_offset,
    )


# ---- in RocksDB --------------------------------------------------------------------------------------------


def find_half_in_rocksdb(store: ReadableStore) -> Found:
    """Find the open half messages of brokers with transRocksDBEnable. Source: TransMessageRocksDBStore.

    The rows of the RocksDB are the open ones. Messages behind ``lastOffsetPy`` are not in it yet.
    """
    queue_ids = store.queue_ids(ROCKS_HALF_TOPIC)
    if not queue_ids:
        return Found([], [])
    rows, problems = read_rows(store, store.places.rocksdb, TRANSACTIONS_FAMILY, KeyRange())
    is_unreadable = bool(problems)
    check_times = _check_times_of(rows)
    taken_in = long_in(rows, b"lastOffsetPy") or 0
    settled = set()
    found = []
    for queue_id in queue_ids:
        halves, ops = read_queue(store, ROCKS_HALF_TOPIC, queue_id), read_queue(store, ROCKS_OP_TOPIC, queue_id)
        settled |= {number_of(record.message, "TRANS_OFFSET", -1) for record in ops.records}
        found += [record.message for record in halves.records]
        problems += [*halves.problems, *ops.problems]
    is_open = [
        message
        for message in found
        if message.phy_offset not in settled
        and (message.phy_offset in check_times or message.phy_offset >= taken_in or is_unreadable)
    ]
    return Found([_row_of(message, check_times.get(message.phy_offset, 0)) for message in is_open], problems)


def _check_times_of(rows: Iterable[Row]) -> dict[int, int]:
    """Return the check times of each open half message, by the physical offset of its record."""
    return {
        LONG.unpack_from(key)[0]: CHECKS.unpack(value)[0]
        for key, value in rows
        if key[LONG.size : LONG.size + 1] == b"@" and len(value) == CHECKS.size
    }


# ---- op messages of given half messages ----------------------------------------------------------------------


def find_op(store: ReadableStore, halves: Sequence[Message]) -> Message | None:
    """Return the op message that closed one of the half messages of a transaction; None if there is none."""
    in_files = [half for half in halves if half.topic == HALF_TOPIC]
    for queue_id in dict.fromkeys(half.queue_id for half in in_files):
        numbers = {number for half in in_files for number in _numbers_of(half, half.queue_offset)}
        for record in read_queue(store, OP_TOPIC, queue_id).records:
            if not numbers.isdisjoint(_offsets_in(record.message)):
                return record.message
    phy_offsets = {half.phy_offset for half in halves if half.topic == ROCKS_HALF_TOPIC}
    for queue_id in store.queue_ids(ROCKS_OP_TOPIC) if phy_offsets else []:
        for record in read_queue(store, ROCKS_OP_TOPIC, queue_id).records:
            if number_of(record.message, "TRANS_OFFSET", -1) in phy_offsets:
                return record.message
    return None
