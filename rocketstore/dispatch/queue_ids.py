"""QueueIds: the queue ids of the next messages, and the topics and queues that topics.json lacks so far."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Iterator

from rocketstore.config import SizedConfig
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.messages.topics import SYSTEM_TOPIC_PREFIXES
from rocketstore.state.json_tables import JsonTables, batch_topics

MAX_DECLARED_QUEUES = 1 << 16  # a broker keeps memory for each queue that topics.json declares


class QueueIds:
    """Gives queue ids to new messages by the number of queues of each topic. Safe to use from several threads.

    Attributes: batch_topics: the topics of batch queues.
    """

    def __init__(self, tables: JsonTables, root: HeldDirectory, config: SizedConfig, batch_topics: set[str]) -> None:
        self._tables = tables
        self._root = root
        self._config = config
        self.batch_topics = batch_topics
        self._topics = tables.read_topics()
        self._new_queues: dict[str, int] = {}  # the number of queues, by topics that topics.json lacks so far
        self._turns: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
        self._lock = threading.Lock()

    def next_queue_id(self, topic: str) -> int:
        """Return the queue of the next message without a queue id."""
        return next(self._turns[topic]) % self._queue_nums(topic)

    def next_queue_ids(self, topic: str, count: int) -> list[int]:
        """Reserve the queue ids of the next ``count`` messages. Message i gets ``ids[i % len(ids)]`` of the result."""
        first, queue_nums = next(self._turns[topic]), self._queue_nums(topic)
        self._turns[topic] = itertools.count(first + count)
        return [turn % queue_nums for turn in range(first, first + min(count, queue_nums))]

    def _queue_nums(self, topic: str) -> int:
        found = self._topics.get(topic)
        return max(found.write_queue_nums if found is not None else self._config.default_topic_queue_nums, 1)

    def declare(self, topic: str, queue_id: int) -> None:
        """Note that a topic needs queues 0 to ``queue_id``. ``save`` adds the missing ones to topics.json.

        A ``queue_id`` of ``MAX_DECLARED_QUEUES`` or more is not noted.
        """
        found = self._topics.get(topic)
        if found is None or max(found.write_queue_nums, found.read_queue_nums) <= queue_id:
            least = self._config.default_topic_queue_nums if found is None else 1
            needed = queue_id + 1 if queue_id < MAX_DECLARED_QUEUES else least
            with self._lock:
                self._new_queues[topic] = max(self._new_queues.get(topic, least), needed)

    def save(self) -> None:
        """Add the declared queues to topics.json, except those of system topics, which a broker makes itself."""
        if not self._new_queues:
            return
        with self._lock:
            new = {
                topic: count for topic, count in self._new_queues.items() if not topic.startswith(SYSTEM_TOPIC_PREFIXES)
            }
            if new:
                self._tables.extend_topics(new, held=self._root)
            self._new_queues = {}  # last: a thread that finds it empty assumes that topics.json is complete

    def extend(self, topic: str, queue_nums: int, queue_type: str | None) -> None:
        """Add a topic, or queues of a topic, to topics.json now."""
        types = {} if queue_type is None else {topic: queue_type}
        self._tables.extend_topics({topic: queue_nums}, types, held=self._root)
        self._topics = self._tables.read_topics()
        self.batch_topics |= batch_topics(self._topics)
