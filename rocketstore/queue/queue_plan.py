"""QueuePlan: the files of a queue as the driver of a distributed job listed them, for a task that reads units."""

from __future__ import annotations

import bisect
from typing import Any, NamedTuple, Self

from rocketstore.disk.closable import Closable
from rocketstore.disk.file_run_reader import FROM_OFFSET, RunFile
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.queue.built_units import BuiltUnits, PlannedUnits
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.queue.rocks_consume_queue import RocksConsumeQueue
from rocketstore.queue.rocks_queues import RocksQueues
from rocketstore.queue.unit_run import UnitRun


class QueuePlan(NamedTuple):
    """The files of a queue. A task opens them without listing the directory, unless a file is missing.

    Attributes: mapped_file_size: the length of a complete file, bytes. files: as the driver listed them, in order.
    """

    kind: type[ConsumeQueue]
    directory: StorePath
    mapped_file_size: int
    files: list[RunFile]

    @classmethod
    def of(cls, queue: ConsumeQueue, begin: int = 0, end: int = LONG_MAX) -> Self:
        """Plan the units of an open queue from ``begin`` to before ``end``, positions in its files, bytes."""
        files = queue.run.files
        first = max(bisect.bisect_right(files, begin, key=FROM_OFFSET) - 1, 0)
        last = bisect.bisect_left(files, end, key=FROM_OFFSET)
        return cls(type(queue), queue.directory, queue.mapped_file_size, list(files[first:last]))

    @classmethod
    def of_run(cls, kind: type[ConsumeQueue], run: UnitRun) -> Self:
        """Plan all units of a queue whose files are listed. Parameters: kind: of the queue."""
        return cls(kind, run.directory, run.file_run.mapped_file_size, list(run.files))

    def open(self, log: Any) -> ConsumeQueue:
        """Open the queue. Parameters: log: as for ``ConsumeQueue.open``."""
        return self.kind.of_files(self.directory, self.files, self.mapped_file_size, log)


class RocksQueuePlan(NamedTuple):
    """A queue whose units are in RocksDB. A task must list its directory, since RocksDB itself does.

    Attributes: path: of the RocksDB. remote_copy_limit: as for ``RocksDatabase``. log_end: the physical offset from
    which on units are leftovers; None if all units count. built: the last units of the queue, which the RocksDB lacks.
    """

    path: StorePath
    remote_copy_limit: int
    log_end: int | None
    queue: QueueId
    built: BuiltUnits | None

    @classmethod
    def of(cls, queue: RocksConsumeQueue, begin: int = 0, end: int = LONG_MAX) -> Self:
        """Plan the units of an open queue. Parameters: begin, end: bytes, 20 for each queue offset."""
        database, built = queue.database, queue.find_built_units()
        if built is not None:
            built = built.between(begin // queue.unit_size, end // queue.unit_size)
        name = QueueId(queue.topic, queue.queue_id)
        return cls(database.path, database.remote_copy_limit, queue.find_log_end(), name, built)

    def find_log_end(self) -> int | None:
        """Return ``log_end``."""
        return self.log_end


AnyQueuePlan = QueuePlan | RocksQueuePlan


def plan_queue(queue: StoredQueue, begin: int = 0, end: int = LONG_MAX) -> AnyQueuePlan:
    """Plan the units of an open queue, whose units lead into the commit log. Parameters: as for ``QueuePlan.of``."""
    if isinstance(queue, RocksConsumeQueue):
        return RocksQueuePlan.of(queue, begin, end)
    if not isinstance(queue, ConsumeQueue):
        raise TypeError(f"{queue.directory}: a queue whose units lead into the commit log was expected")
    return QueuePlan.of(queue, begin, end)


class PlannedQueues(Closable):
    """Opens the planned queues of one store in a task. Queues in RocksDB share one database."""

    def __init__(self, log: Any) -> None:
        """Parameters: log: into which units lead, or None."""
        self._log = log
        self._database: RocksDatabase | None = None

    def open(self, plan: AnyQueuePlan) -> StoredQueue | None:
        """Open a queue. Return None if RocksDB has no units of it any more. Raises: OSError; as ``RocksDatabase``."""
        if isinstance(plan, QueuePlan):
            return plan.open(self._log)
        if self._database is None:
            self._database = RocksDatabase(plan.path, remote_copy_limit=plan.remote_copy_limit)
        built = PlannedUnits({} if plan.built is None else {plan.queue: plan.built})
        return RocksQueues(self._database, built, self._find_log, plan.find_log_end).open(*plan.queue)

    def _find_log(self) -> Any:
        return self._log

    def close(self) -> None:
        """Close the RocksDB."""
        if self._database is not None:
            self._database.close()
