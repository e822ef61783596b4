"""UnitBuilder: the units of the records that a broker has dispatched only in its memory, built from the log."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.storage import is_remote
from rocketstore.dispatch.built_queues import MAX_LOG
from rocketstore.dispatch.light_queues import with_more
from rocketstore.dispatch.request_chunks import RequestChunks
from rocketstore.dispatch.topic_lives import Restarts, rows_by_queue
from rocketstore.errors import StoreError
from rocketstore.kernels.layout import ROCKSDB_UNIT
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.queue.built_units import BuiltUnits
from rocketstore.queue.rocks_units import RocksUnits, UnitPlace
from rocketstore.text_values import format_count

MAX_UNITS = 1 << 23  # 400 MB; a broker writes its units to RocksDB before it has so many in memory


class UnitBuilder:
    """The units of the records after the checkpoint of RocksDB. A broker dispatches these records when it starts.

    The records get the same units as from the broker: a later record of a queue offset replaces an earlier one.

    Attributes: begin, end: the part of the log that was read, bytes; -1 before the first update. problem: why records
    from ``end`` on have no units; None if every record has its unit.

    Source: RocksDBConsumeQueueStore.getDispatchFromPhyOffset.
    """

    def __init__(self, log: CommitLog, config: StoreConfig) -> None:
        self.begin = self.end = -1
        self.problem: str | None = None
        self._log = log
        # A broker stores the offsets of a message in its light queues only if it makes these queues.
        self._config = replace(config, enable_multi_dispatch=True, enable_lmq=True)
        self._max_log = min(MAX_LOG, config.remote_copy_limit) if is_remote(log.directories[0]) else MAX_LOG
        self._lock = threading.Lock()
        self._database_version = -1  # of the RocksDB when its checkpoint was read
        self._seen_log_end = -1  # end of the log that was seen last
        self._count = 0
        self._rows: dict[QueueId, list[np.ndarray]] = {}  # REQUEST[n], in the order of the log
        self._units_by_queue: dict[QueueId, BuiltUnits | None] = {}

    def __len__(self) -> int:
        """Return the number of units."""
        return self._count

    def update(self, units: RocksUnits) -> None:
        """Add the units of new records, and drop those that RocksDB has now. Raises: as RocksDatabase."""
        with self._lock:
            if units.database.opened != self._database_version:
                checkpoint = units.read_checkpoint() or 0
                self._database_version = units.database.opened
                self._begin_at(max(checkpoint, self._log.min_phy_offset))
            log_end = self._log.max_phy_offset
            if log_end < self.end:  # it was cut
                self._clear(min(self.begin, log_end))
            if log_end > max(self.end, self._seen_log_end):
                self._seen_log_end = log_end
                self._add(log_end)

    def queues(self) -> Collection[QueueId]:
        """Return the queues that have units here."""
        return self._rows.keys()

    def find(self, queue: QueueId, units: RocksUnits) -> BuiltUnits | None:
        """Return the units of a queue; None without any. Parameters: units: those in RocksDB."""
        if queue not in self._rows:
            return None
        last = units.find_ends(queue).last
        with self._lock:
            if queue not in self._units_by_queue and queue in self._rows:
                self._units_by_queue[queue] = make_units(queue, np.concatenate(self._rows[queue]), last)
            return self._units_by_queue.get(queue)

    def _begin_at(self, begin: int) -> None:
        """Keep the units of the records from a physical offset on."""
        if not self.begin <= begin < self.end:
            self._clear(begin)
            return
        self.begin = begin
        self._seen_log_end = -1
        self._units_by_queue.clear()
        for queue, parts in list(self._rows.items()):
            left = [rows for part in parts if len(rows := part[part["phy_offset"] >= begin])]
            self._count -= sum(map(len, parts)) - sum(map(len, left))
            if left:
                self._rows[queue] = left
            else:
                del self._rows[queue]

    def _clear(self, begin: int) -> None:
        self._rows.clear()
        self._units_by_queue.clear()
        self.begin = self.end = begin
        self._seen_log_end, self._count = -1, 0

    def _add(self, log_end: int) -> None:
        """Add the units of the records up to a physical offset. An error ends them, and is the problem."""
        self.problem = None
        if log_end - self.begin > self._max_log:
            self.problem = f"their records have {log_end - self.begin} bytes, more than {self._max_log}"
            return
        chunks = RequestChunks(self._log, self._config, self.end, log_end)
        try:
            for chunk in chunks:
                if self._count + len(chunk.requests) > MAX_UNITS:
                    self.problem = f"their records have more than {format_count(MAX_UNITS, 'unit')}"
                    return
                requests, queues = with_more(self._log, self._config, chunk.requests, chunks.queues, ())
                for queue, rows in rows_by_queue(requests, queues):
                    self._rows.setdefault(queue, []).append(requests[rows])
                    self._units_by_queue.pop(queue, None)
                self._count += len(requests)
                self.end = chunk.end
        except (StoreError, ValueError, OSError) as error:
            self.problem = str(error)


def make_units(queue: QueueId, rows: np.ndarray, last: UnitPlace | None) -> BuiltUnits | None:
    """Return the units of a queue's last records. None if no record gets a unit.

    Parameters: rows: REQUEST[n], in the order of the log. last: the last unit of the queue in RocksDB.
    """
    restarts = Restarts()
    if last is not None and last.phy_offset < rows["phy_offset"][0]:
        restarts.add(queue, *(np.array([value], np.int64) for value in (*last, 1)))
    columns = rows["phy_offset"], rows["msg_base_offset"], rows["batch_size"].astype(np.int64)
    restarts.add(queue, *columns)
    restarts.finish()
    is_left = (rows["msg_base_offset"] >= 0) & ~restarts.are_earlier(queue, *columns[:2])
    newest = rows[is_left][::-1]
    if len(newest) == 0:
        return None
    offsets, at = np.unique(newest["msg_base_offset"], return_index=True)
    units = np.empty(len(offsets), ROCKSDB_UNIT)
    for name in ROCKSDB_UNIT.names or ():
        units[name] = newest[name][at]
    return BuiltUnits(offsets, units, bool(restarts.of_queue(queue)))
