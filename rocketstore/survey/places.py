"""The paths of a store. No other module joins the name of a file or directory of a store to a path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from rocketstore.config import StoreConfig
from rocketstore.disk.store_path import AnyPath, StorePath
from rocketstore.queue.batch_consume_queue import BatchConsumeQueue
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt

__all__ = ["INDEX", "QUEUE_PARTS", "ROCKSDB_QUEUES", "SAVED_CUTS", "AnyPlaces", "QueueKind", "StorePlaces"]

QueueKind = type[ConsumeQueue] | type[ConsumeQueueExt]
QUEUE_NAMES: dict[QueueKind, str] = {
    ConsumeQueue: "consumequeue",
    BatchConsumeQueue: "batchconsumequeue",
    ConsumeQueueExt: "consumequeue_ext",
}
QUEUE_PARTS = (*QUEUE_NAMES.values(),)  # relative to the root, as is INDEX
INDEX = "index"
ROCKSDB_QUEUES = "consumequeue_rocksdb"
SAVED_CUTS = "rocketstore-cut"


@dataclass(frozen=True)
class StorePlaces(Generic[AnyPath]):
    """The paths of a store, of which any may be missing. Links are not resolved, and nothing is looked up.

    Attributes: root: the directory of the store, or another one with the parts of a store. log_directories: the
    directories of the commit log, read-only ones last. Source: StorePathConfigHelper.
    """

    root: AnyPath
    log_directories: tuple[StorePath, ...]

    @classmethod
    def of(cls, root: AnyPath, config: StoreConfig | None = None) -> StorePlaces[AnyPath]:
        """Parameters: config: names the directories of the commit log; None for the directory in the root alone."""
        if config is None:
            return cls(root, (root / "commitlog",))
        return cls(root, tuple(config.commit_log_paths(root)))

    @property
    def default_log(self) -> AnyPath:
        """The directory of a commit log for which the configuration names no other one."""
        return self.root / "commitlog"

    # ---- queues and index ----------------------------------------------------------------------------------

    def queues(self, kind: QueueKind) -> AnyPath:
        """Return the directory of all queues of a kind, or of their ext files."""
        return self.root / QUEUE_NAMES[kind]

    def topic(self, kind: QueueKind, topic: str) -> AnyPath:
        """Return the directory of the queues of a topic, or of their ext files."""
        return self.root / QUEUE_NAMES[kind] / topic

    def queue(self, kind: QueueKind, topic: str, queue_id: int | str) -> AnyPath:
        """Return the directory of a queue, or of its ext files."""
        return self.root / QUEUE_NAMES[kind] / topic / str(queue_id)

    @property
    def queue_parts(self) -> tuple[AnyPath, ...]:
        """The directories of plain queues, batch queues and ext files."""
        return tuple(self.root / name for name in QUEUE_PARTS)

    @property
    def index(self) -> AnyPath:
        return self.root / INDEX

    # ---- small files ---------------------------------------------------------------------------------------

    @property
    def checkpoint(self) -> AnyPath:
        return self.root / "checkpoint"

    @property
    def abort(self) -> AnyPath:
        return self.root / "abort"

    @property
    def abort_backup(self) -> AnyPath:
        return self.root / "abort.bak"

    @property
    def lock(self) -> AnyPath:
        return self.root / "lock"

    @property
    def config(self) -> AnyPath:
        """The directory of topics, consumer groups and offsets."""
        return self.root / "config"

    def config_file(self, name: str) -> AnyPath:
        return self.root / "config" / name

    @property
    def saved_settings(self) -> AnyPath:
        """The settings that the last rocketstore writer saved."""
        return self.root / "config" / "rocketstore.json"

    @property
    def saved_cuts(self) -> AnyPath:
        """The directory of bytes that recovery cut off the log."""
        return self.root / SAVED_CUTS

    # ---- formats that are not read -------------------------------------------------------------------------

    def find_dledger_logs(self) -> Iterator[AnyPath]:
        """Yield the directories of DLedger's log."""
        return self.root.glob("dledger-*")

    @property
    def queue_databases(self) -> tuple[AnyPath, AnyPath]:
        """The directories that may have a RocksDB of queues. Older brokers use the directory of plain queues."""
        return self.root / ROCKSDB_QUEUES, self.queues(ConsumeQueue)

    @property
    def rocksdb(self) -> AnyPath:
        """The RocksDB of index, timers and transactions."""
        return self.root / "rocksdbstore"

    @property
    def compaction(self) -> AnyPath:
        return self.root / "compaction"

    @property
    def compacted_logs(self) -> AnyPath:
        """The directory with one directory for each compacted topic."""
        return self.root / "compaction" / "compactionLog"

    @property
    def tiered_index(self) -> AnyPath:
        return self.root / "tiered_index_file"

    @property
    def tiered_metadata(self) -> AnyPath:
        return self.root / "config" / "tieredStoreMetadata.json"

    @property
    def timer_wheel(self) -> AnyPath:
        return self.root / "timerwheel"

    @property
    def timer_log(self) -> AnyPath:
        return self.root / "timerlog"

    @property
    def timer_checkpoint(self) -> AnyPath:
        return self.root / "config" / "timercheck"


AnyPlaces = StorePlaces[Path] | StorePlaces[StorePath]  # of a function that only reads
