"""Find the messages of keys in tiered storage, and those that the consumers of compacted topics get."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rocketstore.disk.closable import Closable
from rocketstore.kernels.message_columns import message_fields
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.compression import is_wrong_crc
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch, empty_batch
from rocketstore.query.other_logs import OtherLog, choose_queues, find_rows_of_log, plan_other_logs, scan_other_logs
from rocketstore.query.query_messages import QueryMessagesResult, limit_reason
from rocketstore.query.read_few import OnWrongCrc, read_batch
from rocketstore.queue.queue_source import QueueSource, StoredQueue
from rocketstore.tier.tier_index import TierIndex
from rocketstore.tier.tier_source import TierSource

Times = tuple[int, int]  # the first and the last store time, epoch ms, both inclusive


class OtherSources(NamedTuple):
    """Where a query by key finds messages that are not in the commit log.

    Attributes: tier: None if tiered storage is not read. compacted: the ids of the queues that are read from the
    compaction. shared_topics: the topics that also have queues which are not read from the compaction. logs: the logs
    of the compacted queues, at least those of the queried topics.
    """

    tier: TierSource | None
    compacted: frozenset[QueueId]
    shared_topics: frozenset[str]
    logs: list[OtherLog]


def find_other_sources(
    tier: TierSource | None,
    compacted: frozenset[QueueId],
    topics: Collection[str] | None,
    local_queues: QueueSource[StoredQueue],
    all_queues: QueueSource[StoredQueue],
) -> OtherSources:
    """Find where queries of some topics, None for all, find messages that are not in the commit log.

    Parameters: local_queues: the queues of the store without tiered storage. all_queues: the same queues, and those of
    the tiered storage that is read.
    """
    queues = choose_queues(sorted(compacted), topics, None)
    names = {queue.topic for queue in queues}
    shared = {
        name for name in names if any(QueueId(name, each) not in compacted for each in all_queues.queue_ids(name))
    }
    return OtherSources(tier, compacted, frozenset(shared), plan_other_logs(local_queues, queues, queues))


def add_other_messages(
    found: QueryMessagesResult,
    sources: OtherSources,
    topics: Sequence[str],
    keys: Sequence[str],
    times: Times,
    index_type: str | None,
    limit: int | None,
    on_wrong_crc: OnWrongCrc,
) -> QueryMessagesResult:
    """Add the messages of other logs to the answer of a query, which has those of the commit log.

    Of a queue that is read from the compaction, the messages of the commit log are replaced.

    Parameters: topics, keys: of each row. index_type, limit, on_wrong_crc: as of the query.
    """
    of_compaction = _query_compacted(sources.logs, topics, keys, times, index_type, on_wrong_crc)
    compacted_topics = {queue.topic for queue in sources.compacted}
    hidden = dict.fromkeys(sources.compacted, LONG_MAX)  # the log gives no message of these queues
    reasons = dict.fromkeys(reason for reason in found.reasons if reason != limit_reason(limit))
    complete, has_more, batches = found.complete.copy(), found.has_more.copy(), []
    with _TierQuery(sources.tier, times, index_type, on_wrong_crc) as tier:
        for row, (topic, key) in enumerate(zip(topics, keys, strict=True)):
            batch = found[row]
            if topic in compacted_topics:
                # Messages of compacted queues, which are left out here, may have used up the limit.
                complete[row] |= topic not in sources.shared_topics
                has_more[row] &= topic in sources.shared_topics
                batch = batch.take(find_rows_of_log(hidden, batch))
                batch = _join(batch, of_compaction.get((topic, key), []))
            older = tier.find(topic, key)
            batch = _join(batch, older.batches)
            batches.append(batch[:limit])
            has_more[row] |= limit is not None and len(batch) > limit
            complete[row] &= not older.reasons and not has_more[row]
            reasons |= dict.fromkeys(older.reasons)
    if has_more.any():
        reasons[limit_reason(limit)] = None
    return found.with_messages(batches, complete, has_more, list(reasons))


def pair_topics_with_keys(topics: Any, keys: Any) -> tuple[list[str], list[str]]:
    """Return topic and key of each row of a query. Parameters: as of ``MessageStore.query_messages``."""
    words = [keys] if isinstance(keys, str) else _texts_of(keys)
    return [topics] * len(words) if isinstance(topics, str) else _texts_of(topics), words


def _texts_of(column: Any) -> list[str]:
    """Return the strings of a list, or of a column of NumPy, pandas, polars or Arrow."""
    found = (getattr(column, name, None) for name in ("to_pylist", "tolist", "to_list"))
    to_list = next(filter(None, found), None)
    return list(column if to_list is None else to_list())


def words_of(message: Message, index_type: str | None) -> set[str | None]:
    """Return the words of a message that a query of this type compares with a key. Parameters: as of a query."""
    if index_type == "T":
        return {message.tags}
    return {message.uniq_key} if index_type == "U" else {message.uniq_key, *message.keys}


def find_keys_of(message: Message, keys: Collection[str], times: Times, index_type: str | None) -> set[str]:
    """Return those of the keys by which a query finds a message. Parameters: times, index_type: as of the query."""
    if not times[0] <= message.store_timestamp <= times[1]:
        return set()
    return {word for word in words_of(message, index_type) if word is not None and word in keys}


def _query_compacted(
    logs: Iterable[OtherLog],
    topics: Sequence[str],
    keys: Sequence[str],
    times: Times,
    index_type: str | None,
    on_wrong_crc: OnWrongCrc,
) -> dict[tuple[str, str], list[MessageBatch]]:
    """Find the messages of keys that consumers of compacted topics get. The log of each queue is read once."""
    words: dict[str, set[str]] = {}
    for topic, key in zip(topics, keys, strict=True):
        words.setdefault(topic, set()).add(key)
    answers: dict[tuple[str, str], list[MessageBatch]] = {}
    for log in logs:
        wanted = words.get(log.queue.topic)
        if wanted is not None:
            for key, batch in _find_in(log, wanted, times, index_type, on_wrong_crc).items():
                answers.setdefault((log.queue.topic, key), []).append(batch)
    return answers


def _find_in(
    log: OtherLog, keys: Collection[str], times: Times, index_type: str | None, on_wrong_crc: OnWrongCrc
) -> dict[str, MessageBatch]:
    """Return the messages of each key in the log of one compacted queue, by key."""
    conditions: dict[str, Any] = {"topic": [log.queue.topic]} | ({} if index_type == "T" else {"key": sorted(keys)})
    if on_wrong_crc == "ignore":
        conditions["verify_crc"] = False
    scans = (scan.adapted(warns=False, marks_crc=True) for scan in scan_other_logs([log], conditions))
    found = MessageBatch.join([empty_batch(message_fields()), *(batch for scan in scans for batch in scan)])
    rows: dict[str, list[int]] = {}
    for row, message in enumerate(found):
        for key in find_keys_of(message, keys, times, index_type):
            rows.setdefault(key, []).append(row)
            if on_wrong_crc == "raise" and is_wrong_crc(error := found.find_body_errors().get(row)):
                raise error
    return {key: found.take(of_key) for key, of_key in rows.items()}


class _OlderMessages(NamedTuple):
    """The messages of a key in a tier, and the reasons why messages may be missing."""

    batches: list[MessageBatch]
    reasons: list[str]


class _TierQuery(Closable):
    """Finds the messages of keys by all segments of the tier's index, and verifies each message on its record.

    A broker skips segments that were made after its local log began, and misses their messages. The tier indexes no
    tags. Source: TieredMessageStore.queryMessageAsync, MessageStoreFetcherImpl.queryMessageAsync.
    """

    def __init__(
        self, source: TierSource | None, times: Times, index_type: str | None, on_wrong_crc: OnWrongCrc
    ) -> None:
        """Parameters: source: None if tiered storage is not read. times, index_type, on_wrong_crc: of the query."""
        self._on_wrong_crc: OnWrongCrc = on_wrong_crc
        self._source = source
        self._times = times
        self._index_type = index_type
        self._index: TierIndex | None = None
        self._logs: dict[QueueId, CommitLog] = {}

    def find(self, topic: str, key: str) -> _OlderMessages:
        if self._source is None:
            return _OlderMessages([], [])
        if self._index_type == "T":
            return _OlderMessages([], ["the index of tiered storage has no tags"])
        if self._index is None:
            self._index = self._source.open_index()
        if not len(self._index):
            return _OlderMessages([], ["tiered storage has no index"])
        hits = self._index.find(topic, key)
        queues: dict[int, list[int]] = {}
        for queue_id, position in hits.positions:
            queues.setdefault(queue_id, []).append(position)
        known = self._source.queue_ids(topic) if queues else []
        batches = [
            self._read(self._source, QueueId(topic, queue_id), queues[queue_id], key)
            for queue_id in sorted(queues.keys() & {*known})
        ]
        return _OlderMessages(batches, hits.problems)

    def _read(self, source: TierSource, queue: QueueId, positions: list[int], key: str) -> MessageBatch:
        """Read the messages at positions of a queue's log, as far as they have the key and are of the wanted times."""
        if queue not in self._logs:
            self._logs[queue] = source.open_log(queue)
        messages = read_batch(self._logs[queue], positions, self._on_wrong_crc)
        rows = [
            row
            for row, message in enumerate(messages)
            if (message.topic, message.queue_id) == queue
            and find_keys_of(message, [key], self._times, self._index_type)
        ]
        return messages.take(rows).without_phy_offsets()

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
        for log in self._logs.values():
            log.close()


def _join(local: MessageBatch, others: list[MessageBatch]) -> MessageBatch:
    """Return the messages of a store and of other logs, newest first, each once."""
    known = set(zip(local.queue_id.tolist(), local.queue_offset.tolist(), strict=True))
    older = []
    for batch in others:
        places = enumerate(zip(batch.queue_id.tolist(), batch.queue_offset.tolist(), strict=True))
        older.append(batch.take([row for row, place in places if place not in known]))
    joined = MessageBatch.join([local, *older])
    if len(joined) == len(local):
        return joined
    return joined.take(np.argsort(-joined.store_timestamp, kind="stable"))
