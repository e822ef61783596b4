"""RocksQueues: the queues of a store whose units are in RocksDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rocketstore.disk.closable import Closable
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.kernels.queue_id import QueueId
from rocketstore.queue.built_units import BuiltUnitSource, CompletedUnits
from rocketstore.queue.rocks_consume_queue import RocksConsumeQueue
from rocketstore.queue.rocks_units import RocksUnits


class RocksQueues(Closable):
    """The queues of one RocksDB.

    Attributes: database. Source: RocksDBConsumeQueueStore.
    """

    def __init__(
        self,
        database: RocksDatabase,
        built: BuiltUnitSource,
        find_log: Callable[[], Any],
        find_log_end: Callable[[], int | None],
    ) -> None:
        """Parameters: built: the last units, which the RocksDB lacks. find_log: returns the log into which units lead,
        None without one. find_log_end: returns the physical offset, bytes, from which on units are leftovers; None if
        all units count.
        """
        self.database = database
        self._units = CompletedUnits(RocksUnits(database), built)
        self._find_log = find_log
        self._find_log_end = find_log_end

    def queues(self) -> Iterator[QueueId]:
        """Return the ids of all queues that have had units, sorted. Raises: as RocksDatabase."""
        return self._units.queues()

    def queue_ids(self, topic: str) -> list[int]:
        """Return the sorted queue ids of a topic, none for an unknown topic. Raises: as RocksDatabase."""
        return self._units.queue_ids(topic)

    def open(self, topic: str, queue_id: int) -> RocksConsumeQueue | None:
        """Open a queue. Return None if it is missing. Raises: as RocksDatabase."""
        queue = QueueId(topic, queue_id)
        self._units.refresh()
        if self._units.find_ends(queue).last is None:
            return None
        return RocksConsumeQueue(self._units, queue, self._find_log(), self._find_log_end)

    def refresh(self) -> None:
        """Look whether a broker has written into the RocksDB or the log. Raises: as RocksDatabase."""
        self._units.refresh()

    def close(self) -> None:
        """Close the RocksDB."""
        self.database.close()
