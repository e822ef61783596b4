"""QueueOffsets: the queue offsets of the messages that salvage copies, without gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.dispatch.light_queues import more_queues
from rocketstore.dispatch.queue_ids import MAX_DECLARED_QUEUES
from rocketstore.dispatch.topic_lives import TopicLives
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import read_message
from rocketstore.kernels.dispatch import MULTI_DISPATCH, RequestScanner
from rocketstore.kernels.layout import INNER_MESSAGE_HEAD
from rocketstore.kernels.queue_id import QueueId
from rocketstore.kernels.salvage import assign_queue_offsets, count_messages
from rocketstore.limits import LONG_MAX

ONE = np.ones(1, np.int64)
MIN_INNER_MESSAGE = INNER_MESSAGE_HEAD.itemsize + 2  # bytes of a message in a batch; 2 for the length of properties


class Assigned(NamedTuple):
    """The queue offsets of records.

    Attributes: offsets: int64[n]. inner_bases: row and INNER_BASE of each batch whose offset changed. left_out:
    physical offsets of the records that get no unit in a queue, int64[n].
    """

    offsets: np.ndarray
    inner_bases: list[tuple[int, str]]
    left_out: dict[QueueId, np.ndarray]


class QueueOffsets:
    """Gives the messages of each queue offsets without gaps. The last message of a queue keeps its own.

    First call ``count`` for all records, then ``start``, then ``assign`` for all records in the order of the log.

    A light queue keeps the offsets that its messages name, and so does a queue that gets units from messages of other
    queues. A broker closes the gaps there: the units behind a gap move up. ``misplaced`` counts their messages.

    Records that ``lives`` leaves out keep their queue offsets and get no unit. ``left_out`` counts them. If ``lives``
    must read the log again, count the records in a new object, with the same ``lives``.
    """

    def __init__(self, scanner: RequestScanner, config: StoreConfig, lives: TopicLives | None) -> None:
        """Parameters: lives: None to leave out no records."""
        self.scanner, self.config, self.lives = scanner, config, lives
        self.left_out: dict[QueueId, int] = {}
        self.counts, self.messages, self.ends = (np.zeros(0, np.int64) for _ in range(3))  # by the scanner's queues
        self.begins = np.zeros(0, np.int64)  # lowest offset of each queue
        self.batches: set[str] = set()  # topics
        self.named: dict[tuple[str, QueueId], int] = {}  # topic and a queue that its messages name: lowest offset

    def count(self, requests: np.ndarray, buffer: Buffer, base: int) -> None:
        """Count messages by queue. An offset that is larger than the number of records before it is damage."""
        named = list(self._named_queues(requests, buffer, base, ()))  # batches are known at the end
        self._add_to_lives(requests, named)
        requests = requests[~self._are_left_out(requests)]
        added = len(self.scanner.queues) - len(self.counts)
        self.counts, self.messages, self.ends = (
            np.append(column, np.zeros(added, np.int64)) for column in (self.counts, self.messages, self.ends)
        )
        self.begins = np.append(self.begins, np.full(added, LONG_MAX))
        queues, batch_sizes = requests["queue"], requests["batch_size"]
        count_messages(
            queues,
            requests["phy_offset"],
            requests["msg_base_offset"],
            batch_sizes,
            self.counts,
            self.messages,
            self.begins,
            self.ends,
            MIN_INNER_MESSAGE,
        )
        for queue in np.unique(queues[batch_sizes != 1]):
            self.batches.add(self.scanner.queues[queue][0])
        for _, topic, other, offset in named:
            self.named[topic, other] = min(offset, self.named.get((topic, other), LONG_MAX))

    def _add_to_lives(self, requests: np.ndarray, named: Iterable[tuple[int, str, QueueId, int]]) -> None:
        """Add records to ``lives``. Parameters: named: as ``_named_queues`` yields them."""
        if self.lives is None:
            return
        self.lives.add_requests(with_valid_offsets(requests), self.scanner.queues)
        for row, _, other, offset in named:
            self.lives.add(other, requests["phy_offset"][row : row + 1], np.array([offset]), ONE)

    def _are_left_out(self, requests: np.ndarray) -> np.ndarray:
        """Return whether records that were added to ``lives`` get no unit in their own queue, bool[n]."""
        if self.lives is None:
            return np.zeros(len(requests), bool)
        return self.lives.are_requests_left_out(with_valid_offsets(requests), self.scanner.queues)

    def start(self, batch_topics: Iterable[str]) -> None:
        """Find the first offset of each queue, after all messages were counted."""
        self.batches.update(batch_topics)
        queues = self.scanner.queues[: len(self.counts)]
        named: dict[QueueId, int] = {}
        for (topic, queue), offset in self.named.items():
            if not self.batches & {topic, queue[0]}:
                named[queue] = min(offset, named.get(queue, LONG_MAX))
        self.is_batch = np.array([topic in self.batches for topic, _ in queues], bool)
        self.is_kept = np.array([queue in named for queue in queues], bool)
        self.next = np.maximum(self.ends - np.where(self.is_batch, self.messages, self.counts), 0)
        self.changed = np.zeros(len(queues), np.int64)
        self.misplaced: dict[QueueId, int] = {}
        self._ends_of_kept: dict[QueueId, int] = {}
        own = dict(zip(queues, self.begins.tolist(), strict=True))
        self.begins_late = bool(self.next[(self.counts > 0) & ~self.is_kept].any()) or any(
            min(offset, own.get(queue, LONG_MAX)) > 0 for queue, offset in named.items()
        )

    def assign(self, requests: np.ndarray, buffer: Buffer, base: int) -> Assigned:
        """Return the queue offsets of messages."""
        queues, old = requests["queue"], requests["msg_base_offset"]
        named = list(self._named_queues(requests, buffer, base, self.batches))
        are_left_out = self._are_left_out(requests)
        has_unit = ~are_left_out
        new = old.copy()
        new[has_unit] = assign_queue_offsets(
            queues[has_unit], requests["batch_size"][has_unit], self.is_batch.view(np.uint8), self.next
        )
        new = np.where(self.is_kept[queues], old, new)
        is_changed = new != old
        np.add.at(self.changed, queues[is_changed], 1)
        left_out = self._find_left_out(requests, are_left_out, named)
        self._find_misplaced(requests, has_unit, named, left_out)
        inner_bases = [(row, str(new[row])) for row in np.flatnonzero(self.is_batch[queues] & is_changed).tolist()]
        return Assigned(new, inner_bases, left_out)

    def _find_left_out(
        self, requests: np.ndarray, are_left_out: np.ndarray, named: Iterable[tuple[int, str, QueueId, int]]
    ) -> dict[QueueId, np.ndarray]:
        """Return the physical offsets of the records that get no unit in a queue, and count them."""
        found: dict[QueueId, list[int]] = {}
        for number, phy_offset in requests[["queue", "phy_offset"]][are_left_out].tolist():
            found.setdefault(self.scanner.queues[number], []).append(phy_offset)
        for row, _, other, offset in named if self.lives is not None else ():
            place = requests["phy_offset"][row : row + 1]
            if self.lives is not None and self.lives.are_left_out(other, place, np.array([offset]))[0]:
                found.setdefault(other, []).append(int(place[0]))
        for queue, phy_offsets in found.items():
            self.left_out[queue] = self.left_out.get(queue, 0) + len(phy_offsets)
        return {queue: np.array(sorted(phy_offsets), np.int64) for queue, phy_offsets in found.items()}

    def _find_misplaced(
        self,
        requests: np.ndarray,
        has_unit: np.ndarray,
        named: Iterable[tuple[int, str, QueueId, int]],
        left_out: dict[QueueId, np.ndarray],
    ) -> None:
        """Count the messages whose units a broker puts elsewhere than their offsets say, or drops.

        Parameters: has_unit: whether each record has a unit in its own queue, bool[n].
        """
        found = [
            (row, other, offset)
            for row, _, other, offset in named
            if other[0] not in self.batches and int(requests["phy_offset"][row]) not in left_out.get(other, ())
        ]
        for row in np.flatnonzero(self.is_kept[requests["queue"]] & has_unit).tolist():
            request = requests[row]
            found.append((row, self.scanner.queues[request["queue"]], int(request["msg_base_offset"])))
        for _, queue, offset in sorted(found, key=lambda unit: unit[0]):
            end = self._ends_of_kept.get(queue, offset)
            if offset != end:
                self.misplaced[queue] = self.misplaced.get(queue, 0) + 1
            if offset >= end:
                self._ends_of_kept[queue] = end + 1

    def _named_queues(
        self, requests: np.ndarray, buffer: Buffer, base: int, batch_topics: Iterable[str]
    ) -> Iterator[tuple[int, str, QueueId, int]]:
        """Yield row, topic, queue and offset for each queue that INNER_MULTI_DISPATCH of a message names."""
        rows = np.flatnonzero(requests["flags"] & MULTI_DISPATCH) if self.config.enable_multi_dispatch else ()
        for row in rows:
            fields = read_message(buffer, base, int(requests["phy_offset"][row]), at_rest=True)[1]
            if fields is not None:
                own = self.scanner.queues[requests["queue"][row]]
                for other, offset in more_queues(own, fields["properties"], self.config, {*batch_topics}):
                    yield int(row), own[0], other, offset

    def topics(self) -> dict[str, int]:
        """Return the least number of queues that each topic has."""
        found: dict[str, int] = {}
        for (topic, queue_id), count in zip(self.scanner.queues, self.counts.tolist(), strict=False):
            if count and 0 <= queue_id < MAX_DECLARED_QUEUES:
                found[topic] = max(found.get(topic, 1), queue_id + 1)
        return found

    def renumbered(self) -> dict[QueueId, int]:
        """Return how many messages of each queue got another offset."""
        changed = zip(self.scanner.queues, self.changed.tolist(), strict=False)
        return {queue: count for queue, count in changed if count}


def with_valid_offsets(requests: np.ndarray) -> np.ndarray:
    """Return requests in which damaged queue offsets are -1. The requests themselves stay unchanged."""
    are_damaged = requests["msg_base_offset"] > requests["phy_offset"] // MIN_INNER_MESSAGE
    if not are_damaged.any():
        return requests
    requests = requests.copy()
    requests["msg_base_offset"][are_damaged] = -1
    return requests
