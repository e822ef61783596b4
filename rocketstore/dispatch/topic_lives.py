"""Decide which records belong to topics that were deleted, or that were deleted and created again.

A broker that deletes a topic removes its queues and its entry in topics.json, and forgets its queue offsets. The
records stay in the commit log until they expire. If the topic is created again, its queues begin at offset 0. A life of
a topic is the time from its creation to its deletion. The log may have records of several lives of a topic. Only the
records of the last life get units.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.dispatch.light_queues import MAX_QUEUE_OFFSET
from rocketstore.kernels.queue_id import QueueId
from rocketstore.lazy import lazy_property
from rocketstore.limits import LONG_MAX
from rocketstore.messages.topics import SYSTEM_TOPIC_PREFIXES, is_file_name
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.queue_directories import queue_ids_in
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.formats import find_formats
from rocketstore.survey.places import AnyPlaces
from rocketstore.text_values import format_count

MAX_NAMED = 10  # queues and topics in a note
TAIL = 3  # records: one that may be a restart, and two before it


class UnitFilter(Protocol):
    """Decides for a Dispatcher which records get no unit. ``TopicLives`` describes the methods."""

    @property
    def must_read_again(self) -> bool: ...
    def add(self, queue: QueueId, phy_offsets: np.ndarray, queue_offsets: np.ndarray, counts: np.ndarray) -> None: ...
    def are_left_out(self, queue: QueueId, phy_offsets: np.ndarray, queue_offsets: np.ndarray) -> np.ndarray: ...


class QueueTail(NamedTuple):
    """The last records of a queue that were added: int64[n], at most TAIL. The last one has not been judged yet."""

    phy_offsets: np.ndarray
    queue_offsets: np.ndarray
    counts: np.ndarray


class Restarts:
    """Where the queue offsets of queues began again.

    A record belongs to an earlier life of its topic if its queue offset is not below that of a later record of the same
    queue. Add the records of the whole log first, in its order, and call ``finish``. Two kinds of records are ignored:
    records without a valid queue offset, and a single record whose offset does not fit the records before and behind
    it. Its offset may be damaged.

    Source: DefaultMessageStore.deleteTopics, QueueOffsetOperator.remove.
    """

    def __init__(self) -> None:
        self._tails: dict[QueueId, QueueTail] = {}
        self._firsts: dict[QueueId, tuple[int, int]] = {}  # physical offset and queue offset of the first record
        # Physical offset and queue offset of the records with which the offsets began again; both ascend.
        self._restarts: dict[QueueId, list[tuple[int, int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._restarts)

    def add(self, queue: QueueId, phy_offsets: np.ndarray, queue_offsets: np.ndarray, counts: np.ndarray) -> None:
        """Add records of a queue, int64[n]. Records that were added before are ignored.

        Parameters: counts: the number of queue offsets that each record takes.
        """
        tail = self._tails.get(queue, NO_TAIL)
        is_new = are_valid(queue_offsets) & (np.diff(phy_offsets, prepend=-1) > 0)
        if len(tail.phy_offsets):
            is_new &= phy_offsets > tail.phy_offsets[-1]
        added = QueueTail(phy_offsets[is_new], queue_offsets[is_new], counts[is_new])
        if len(added.phy_offsets) == 0:
            return
        self._firsts.setdefault(queue, (int(added.phy_offsets[0]), int(added.queue_offsets[0])))
        records = QueueTail(*map(np.concatenate, zip(tail, added, strict=True)))
        offsets = records.queue_offsets
        for row in (np.flatnonzero(np.diff(offsets) <= 0) + 1).tolist():
            if len(tail.phy_offsets) - 1 <= row < len(offsets) - 1 and is_restart(records, row):
                self._add_restart(queue, int(records.phy_offsets[row]), int(offsets[row]))
        self._tails[queue] = QueueTail(*(column[-TAIL:] for column in records))

    def finish(self) -> None:
        """Judge the last record of each queue, which no record follows.

        A topic that was created again may have one message so far. After a loss of units, a broker assigns the last
        queue offsets again. Any other low offset may be damaged.
        """
        for queue, tail in self._tails.items():
            row = len(tail.phy_offsets) - 1
            offset = int(tail.queue_offsets[row])
            is_expected = offset == 0 or offset >= tail.queue_offsets[max(row - 2, 0)]
            if row > 0 and is_expected and is_restart(tail, row):
                self._add_restart(queue, int(tail.phy_offsets[row]), offset)

    def _add_restart(self, queue: QueueId, phy_offset: int, queue_offset: int) -> None:
        restarts = self._restarts.setdefault(queue, [])
        while restarts and restarts[-1][1] >= queue_offset:  # the later and lower restart includes it
            restarts.pop()
        restarts.append((phy_offset, queue_offset))

    def are_earlier(self, queue: QueueId, phy_offsets: np.ndarray, queue_offsets: np.ndarray) -> np.ndarray:
        """Return whether records of a queue belong to an earlier life of their topic, bool[n]."""
        return are_earlier(self.of_queue(queue), phy_offsets, queue_offsets)

    def of_queue(self, queue: QueueId) -> Sequence[tuple[int, int]]:
        """Return physical offset and queue offset of the records with which the offsets of a queue began again."""
        return self._restarts.get(queue, ())

    def queues(self) -> set[QueueId]:
        """Return the queues whose records were added."""
        return {*self._tails}

    def last_record(self, queue: QueueId) -> int:
        """Return the physical offset of the last record of a queue, -1 without a record."""
        tail = self._tails.get(queue)
        return -1 if tail is None else int(tail.phy_offsets[-1])

    def created_again_at(self, queue: QueueId) -> int:
        """Return the physical offset of the record with which a queue began again at queue offset 0, -1 without one.

        A topic that is created again begins at 0. At another offset, a broker assigned the last offsets again.
        """
        restarts = self.of_queue(queue)
        return restarts[0][0] if restarts and restarts[0][1] == 0 else -1  # the first restart is the lowest

    def life_begin(self, queue: QueueId) -> int:
        """Return the physical offset of the first record of a queue's last life, -1 if this is older than the log.

        Parameters: queue: one of ``queues()``.
        """
        phy_offset, queue_offset = self._firsts[queue]
        created_again_at = self.created_again_at(queue)
        if created_again_at >= 0:
            return created_again_at
        return phy_offset if queue_offset == 0 else -1


def are_earlier(restarts: Sequence[tuple[int, int]], phy_offsets: np.ndarray, queue_offsets: np.ndarray) -> np.ndarray:
    """Return whether records of a queue belong to an earlier life of their topic, bool[n].

    Parameters: restarts: as ``Restarts.of_queue`` returns them. phy_offsets, queue_offsets: of the records, int64[n].
    """
    result = np.zeros(len(phy_offsets), bool)
    if restarts:
        begins, offsets = np.array(restarts, np.int64).T
        following = begins.searchsorted(
            phy_offsets, "right"
        )  # the first restart behind each record has the lowest offset
        is_before = following < len(begins)
        result[is_before] = queue_offsets[is_before] >= offsets[following[is_before]]
        result &= are_valid(queue_offsets)
    return result


def is_restart(records: QueueTail, row: int) -> bool:
    """Return whether the queue offsets began again with the record of a row.

    They did not if its offset is above the offset of the record before it. They also did not if only one of these two
    records does not fit the others: its offset may be damaged.
    """
    offsets = records.queue_offsets
    before, offset = offsets[row - 1], offsets[row]
    if offset > before:
        return False
    if row > 1 and before > offset > offsets[row - 2]:
        return False
    if row + 1 == len(offsets):
        return True
    following = offsets[row + 1]
    return bool(following <= before or following in (offset + 1, offset + records.counts[row]))


NO_TAIL = QueueTail(*(np.zeros(0, np.int64) for _ in range(3)))


def are_valid(queue_offsets: np.ndarray) -> np.ndarray:
    """Return whether records with these queue offsets can have units, bool[n]."""
    result: np.ndarray = (queue_offsets >= 0) & (queue_offsets <= MAX_QUEUE_OFFSET)
    return result


@dataclass
class KnownTopics:
    """What the files of a store say about its topics.

    Attributes: declared: the topics in topics.json; empty if the file is missing or damaged, or if the broker has its
    topics in RocksDB. is_stopped: whether the store was stopped cleanly. After a crash, the disk may lack
    the newest topics.json and queues.
    """

    places: AnyPlaces
    config: StoreConfig
    declared: Collection[str]
    is_stopped: bool
    _queue_ids: dict[str, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, places: AnyPlaces, config: StoreConfig, *, is_stopped: bool) -> KnownTopics:
        return cls(places, config, open_tables(places, config).read_declared_topics(), is_stopped)

    def is_undeclared(self, topic: str) -> bool:
        """Return whether topics.json lacks a topic. A broker creates its own topics without an entry there."""
        return bool(self.declared) and topic not in self.declared and is_deletable(topic)

    def was_deleted(self, topic: str) -> bool:
        """Return whether a topic was deleted: topics.json lacks it, and it has no queue."""
        return self.is_undeclared(topic) and self.shows_missing_queues and not self.queue_ids(topic)

    @lazy_property
    def shows_missing_queues(self) -> bool:
        """Whether a queue without a directory has no units. Unknown after a crash, or if all queues are missing."""
        places = self.places
        if not self.is_stopped or not any(places.queues(kind).is_dir() for kind in QUEUE_KINDS):
            return False
        return find_formats(places, self.config).queue_database is None

    def has_directory(self, queue: QueueId) -> bool:
        """Return whether a queue has a directory."""
        return queue.queue_id in self.queue_ids(queue.topic)

    def queue_ids(self, topic: str) -> frozenset[int]:
        """Return the ids of the queues of a topic that have a directory. Each topic is listed once."""
        if topic not in self._queue_ids:
            parts = [self.places.topic(kind, topic) for kind in QUEUE_KINDS] if is_file_name(topic) else []
            self._queue_ids[topic] = frozenset(queue_id for part in parts for queue_id in queue_ids_in(part))
        return self._queue_ids[topic]


@dataclass(frozen=True)
class DeletedTopics:
    """The messages of deleted topics that were left out, and the topics and queues in doubt that were kept.

    Attributes: messages: records that got no unit, by topic and queue id. undeclared: topics that topics.json lacks,
    and whose messages were kept, because they have queues or the store was not stopped cleanly. doubtful: queues
    without a directory whose messages were kept, though their topic may have been deleted and created again.
    """

    messages: Mapping[QueueId, int] = field(default_factory=dict)
    undeclared: Sequence[str] = ()
    doubtful: Sequence[QueueId] = ()

    def joined(self, other: DeletedTopics) -> DeletedTopics:
        """Return the messages and topics of both. A queue that is in both has the same messages in both."""
        undeclared = sorted({*self.undeclared, *other.undeclared})
        doubtful = sorted({*self.doubtful, *other.doubtful})
        messages = dict(sorted({**other.messages, **self.messages}.items()))
        return DeletedTopics(messages, tuple(undeclared), tuple(doubtful))


class LastLife(NamedTuple):
    """Evidence about the last life of a topic, from the records of its queues that have a directory.

    The evidence shows whether a queue without a directory was deleted. If the last record of the queue is before
    ``created_again_at``, the queue was deleted with its topic. If this record is not before ``known_from``, it belongs
    to the last life, and the directory was lost.

    Attributes: created_again_at: the physical offset of the last record with which a queue began again at queue offset
    0, -1 without such a record. known_from: the physical offset of the oldest record that certainly belongs to the last
    life, -1 if this life is older than the log, LONG_MAX without a record.
    """

    created_again_at: int = -1
    known_from: int = LONG_MAX

    def with_queue(self, created_again_at: int, life_begin: int) -> LastLife:
        """Return the evidence with one more queue. Parameters: as ``Restarts`` returns them for this queue."""
        return LastLife(max(self.created_again_at, created_again_at), min(self.known_from, life_begin))


class TopicLives:
    """Decides which records get no unit, because they belong to a deleted topic or to an earlier life of a topic.

    Records of a deleted topic are known at once. Whether a record belongs to an earlier life is only known when all
    later records of the log were added. So the caller adds the records of the whole log, and calls ``finish``. If this
    returns True, records were judged wrongly so far, and the caller reads the log a second time.
    """

    def __init__(self, known: KnownTopics) -> None:
        self.known = known
        self.is_finished = False
        self._restarts = Restarts()
        self._last_lives: dict[str, LastLife] = {}

    @property
    def must_read_again(self) -> bool:
        """Whether records that were judged so far may belong to an earlier life."""
        return bool(self._restarts) and not self.is_finished

    def add(self, queue: QueueId, phy_offsets: np.ndarray, queue_offsets: np.ndarray, counts: np.ndarray) -> None:
        """Add records of a queue, int64[n], in the order of the log.

        Parameters: counts: the number of queue offsets that each record takes.
        """
        self._restarts.add(queue, phy_offsets, queue_offsets, counts)

    def add_requests(self, requests: np.ndarray, queues: Sequence[QueueId]) -> None:
        """Add the records of requests, REQUEST[n], in the order of the log."""
        for queue, rows in rows_by_queue(requests, queues):
            self.add(queue, *(requests[name][rows] for name in ("phy_offset", "msg_base_offset", "batch_size")))

    def finish(self) -> bool:
        """Judge the last records. Call it after all records of the log. Return whether the log must be read again."""
        if self.is_finished:
            return False
        self._restarts.finish()
        must_read_again = self.must_read_again
        self.is_finished = True
        self._last_lives = self._find_last_lives() if self.known.shows_missing_queues else {}
        return must_read_again

    def _find_last_lives(self) -> dict[str, LastLife]:
        """Return the evidence about the last life of each topic that has a queue with records and a directory."""
        lives: dict[str, LastLife] = {}
        restarts = self._restarts
        for queue in restarts.queues():
            if self.known.has_directory(queue):
                life = lives.get(queue.topic, LastLife())
                lives[queue.topic] = life.with_queue(restarts.created_again_at(queue), restarts.life_begin(queue))
        return lives

    def are_left_out(self, queue: QueueId, phy_offsets: np.ndarray, queue_offsets: np.ndarray) -> np.ndarray:
        """Return whether records of a queue get no unit, bool[n]. Parameters: int64[n]."""
        if self.is_queue_left_out(queue):
            return np.ones(len(phy_offsets), bool)
        return self._restarts.are_earlier(queue, phy_offsets, queue_offsets)

    def are_requests_left_out(self, requests: np.ndarray, queues: Sequence[QueueId]) -> np.ndarray:
        """Return whether the records of requests, REQUEST[n], get no unit, bool[n]."""
        result = np.zeros(len(requests), bool)
        if not any(self._may_be_left_out(queues[number]) for number in np.unique(requests["queue"])):
            return result
        for queue, rows in rows_by_queue(requests, queues):
            phy_offsets, queue_offsets = requests["phy_offset"][rows], requests["msg_base_offset"][rows]
            result[rows] = self.are_left_out(queue, phy_offsets, queue_offsets)
        return result

    def _may_be_left_out(self, queue: QueueId) -> bool:
        """Return whether any record of a queue gets no unit."""
        return self.is_queue_left_out(queue) or bool(self._restarts.of_queue(queue))

    def restarts_of(self, queue: QueueId) -> Sequence[tuple[int, int]]:
        """Return where the offsets of a queue began again, for ``are_earlier``."""
        return self._restarts.of_queue(queue)

    def is_queue_left_out(self, queue: QueueId) -> bool:
        """Return whether no record of a queue gets a unit: its topic was deleted, or created again without it."""
        return self.known.was_deleted(queue[0]) or self._was_deleted_with_topic(queue)

    def _was_deleted_with_topic(self, queue: QueueId) -> bool:
        """Return whether a queue is missing because its topic was deleted and created again without this queue."""
        life, last_record = self._last_lives.get(queue[0]), self._restarts.last_record(queue)
        if life is None or last_record >= min(life.created_again_at, life.known_from):
            return False
        return not self.known.has_directory(queue)

    def is_queue_doubtful(self, queue: QueueId) -> bool:
        """Return whether a queue without a directory is kept, though its topic may have been created again without it.

        A queue is in doubt in two cases: the other queues of its topic show neither that it was deleted nor that its
        directory was lost, or they show both. Call this after ``finish``.
        """
        known = self.known
        if not known.shows_missing_queues or known.was_deleted(queue[0]) or not is_deletable(queue[0]):
            return False
        if not is_file_name(queue[0]):  # such a queue has never had a directory, and is not built
            return False
        life, last_record = self._last_lives.get(queue[0], LastLife()), self._restarts.last_record(queue)
        seems_deleted, seems_lost = last_record < life.created_again_at, last_record >= life.known_from
        return seems_deleted == seems_lost and not known.has_directory(queue)

    def result(self, left_out: Mapping[QueueId, int]) -> DeletedTopics:
        """Return what was left out and what was kept. Parameters: left_out: numbers of records by queue."""
        queues = self._restarts.queues()
        topics = sorted({topic for topic, _ in queues})
        kept = [topic for topic in topics if self.known.is_undeclared(topic) and not self.known.was_deleted(topic)]
        doubtful = sorted(queue for queue in queues if self.is_queue_doubtful(queue))
        return DeletedTopics(dict(sorted(left_out.items())), tuple(kept), tuple(doubtful))


def is_deletable(topic: str) -> bool:
    """Return whether a topic can be deleted and created again. A broker keeps its own topics."""
    return not topic.startswith(SYSTEM_TOPIC_PREFIXES)


class LeftOutRecords:
    """Leaves out the records whose physical offsets are given: int64[n] for each queue."""

    must_read_again = False

    def __init__(self, phy_offsets: Mapping[QueueId, np.ndarray]) -> None:
        self._phy_offsets = phy_offsets

    def add(self, queue: QueueId, phy_offsets: np.ndarray, queue_offsets: np.ndarray, counts: np.ndarray) -> None:
        """Ignore the records. Those that get no unit are already known."""

    def are_left_out(self, queue: QueueId, phy_offsets: np.ndarray, queue_offsets: np.ndarray) -> np.ndarray:
        """Return whether records of a queue get no unit, bool[n]. Parameters: int64[n]."""
        return np.isin(phy_offsets, self._phy_offsets.get(queue, ()))


def rows_by_queue(requests: np.ndarray, queues: Sequence[QueueId]) -> Iterator[tuple[QueueId, np.ndarray]]:
    """Yield the rows of requests of each queue, in their order. Parameters: queues: by the numbers in requests."""
    order = np.argsort(requests["queue"], kind="stable")
    numbers = requests["queue"][order]
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for first, last in pairwise(bounds):
        if first < last:
            yield queues[numbers[first]], order[first:last]


def topic_notes(
    messages: Mapping[QueueId, int],
    undeclared: Sequence[str],
    doubtful: Sequence[QueueId],
    option: str = "--deleted",
) -> list[str]:
    """Return notes for users about deleted topics.

    Parameters: messages, undeclared, doubtful: as in ``DeletedTopics``. option: the option that includes the messages.
    """
    notes = []
    if messages:
        names = (f"{topic}/{queue_id}: {count}" for (topic, queue_id), count in messages.items())
        count = format_count(sum(messages.values()), "message")
        notes.append(f"{count} of deleted topics left out ({first_names(names)}); {option} brings them back")
    if undeclared:
        topics = format_count(len(undeclared), "topic")
        reason = (
            "that topics.json lacks: a topic counts as deleted only without queues, in a store that was stopped cleanly"
        )
        notes.append(f"kept {topics} ({first_names(undeclared)}) {reason}")
    if doubtful:
        names = (f"{topic}/{queue_id}" for topic, queue_id in doubtful)
        reason = "each directory was lost, or its topic was deleted and created again without this queue"
        notes.append(
            f"kept {format_count(len(doubtful), 'queue')} without a directory ({first_names(names)}): {reason}"
        )
    return notes


def first_names(names: Iterable[str]) -> str:
    """Return the first names, separated by commas, and the number of the others."""
    listed = list(names)
    more = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return ", ".join(listed[:MAX_NAMED]) + more
