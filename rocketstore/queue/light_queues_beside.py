"""LightQueuesBeside: queues in files, and light queues that are only in a RocksDB beside them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from rocketstore.kernels.queue_id import QueueId
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX
from rocketstore.queue.queue_source import QueueSource, StoredQueue


@dataclass(frozen=True)
class LightQueuesBeside:
    """The queues of a broker that writes files and RocksDB, and serves its consumers from the files.

    It may write light queues only into RocksDB (combineCQUseRocksdbForLmq). Source: CombineConsumeQueueStore.
    """

    files: QueueSource[StoredQueue]
    database: QueueSource[StoredQueue]

    def queues(self) -> Iterator[QueueId]:
        """Return the ids of all queues, sorted."""
        light = (queue for queue in self.database.queues() if _is_light(queue.topic))
        return iter(dict.fromkeys(heapq.merge(self.files.queues(), light)))

    def queue_ids(self, topic: str) -> list[int]:
        """Return the sorted queue ids of a topic, none for an unknown topic."""
        return self.files.queue_ids(topic) or (self.database.queue_ids(topic) if _is_light(topic) else [])

    def open(self, topic: str, queue_id: int) -> StoredQueue | None:
        """Open a queue. Return None if it is missing."""
        found = self.files.open(topic, queue_id)
        return self.database.open(topic, queue_id) if found is None and _is_light(topic) else found


def _is_light(topic: str) -> bool:
    return topic.startswith(LIGHT_QUEUE_PREFIX)
