"""The names of files and directories in the root of a store. No other module joins such a name to a path.

The rooms below ``survey`` get paths as arguments. This module is below them for ``CommitLog.open``, which users call
with the directory of a log, and which looks at the store around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic

from rocketstore.disk.store_path import AnyPath

QUEUE_PARTS = PLAIN_QUEUES, BATCH_QUEUES, EXT_FILES = "consumequeue", "batchconsumequeue", "consumequeue_ext"
INDEX = "index"
LOG_DIRECTORY = "commitlog"  # new files get the mode of the files in it
ROCKSDB_QUEUES = "consumequeue_rocksdb"
SAVED_CUTS = "rocketstore-cut"
# The directories that mark an unfinished root, which these functions fill.
COPY_WORK, CONVERT_WORK = "rocketstore-copy", "rocketstore-convert"
SPLIT_WORK, SALVAGE_WORK = "rocketstore-split", "rocketstore-salvage"


@dataclass(frozen=True)
class DLedgerPlaces(Generic[AnyPath]):
    """The paths in the directory of DLedger's log, of which any may be missing. Source: DLedgerConfig."""

    directory: AnyPath

    @property
    def data(self) -> AnyPath:
        """The files of entries, unless the configuration names other directories for them."""
        return self.directory / "data"

    @property
    def index(self) -> AnyPath:
        return self.directory / "index"

    @property
    def checkpoint(self) -> AnyPath:
        return self.directory / "checkpoint"

    @property
    def term(self) -> AnyPath:
        return self.directory / "currterm"

    @property
    def parts(self) -> tuple[AnyPath, ...]:
        return self.data, self.index, self.checkpoint, self.term


@dataclass(frozen=True)
class RootPlaces(Generic[AnyPath]):
    """The paths in a root directory, of which any may be missing. Links are not resolved, and nothing is looked up.

    Attributes: root: the directory of the store, or another one with the parts of a store.
    Source: StorePathConfigHelper.
    """

    root: AnyPath

    @property
    def default_log(self) -> AnyPath:
        """The directory of a commit log for which the configuration names no other one."""
        return self.root / LOG_DIRECTORY

    # ---- queues and index ----------------------------------------------------------------------------------

    @property
    def plain_queues(self) -> AnyPath:
        """The directory of all plain queues: below it are one directory for each topic, and in it one for each id."""
        return self.root / PLAIN_QUEUES

    @property
    def batch_queues(self) -> AnyPath:
        """The directory of all batch queues, as ``plain_queues``."""
        return self.root / BATCH_QUEUES

    @property
    def ext_files(self) -> AnyPath:
        """The directory of the ext files of all plain queues, as ``plain_queues``."""
        return self.root / EXT_FILES

    @property
    def queue_parts(self) -> tuple[AnyPath, AnyPath, AnyPath]:
        """The directories of plain queues, batch queues and ext files."""
        return self.plain_queues, self.batch_queues, self.ext_files

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

    @property
    def broker_identity(self) -> AnyPath:
        """The cluster, name and id of a broker in controller mode. Source: BrokerMetadata."""
        return self.root / "brokerIdentity"

    @property
    def epoch_file(self) -> AnyPath:
        """Where the epochs of a broker with a controller begin in the log. Source: EpochFileCache."""
        return self.root / "epochFileCheckpoint"

    @property
    def copy_manifest(self) -> AnyPath:
        """The list of files of a copy on a remote file system."""
        return self.root / "rocketstore-copy.json"

    @property
    def write_intent(self) -> AnyPath:
        """The intent of a write by Spark that is not committed."""
        return self.root / "rocketstore-intent.json"

    # ---- DLedger -------------------------------------------------------------------------------------------

    def dledger_logs(self, names: Iterable[str]) -> list[AnyPath]:
        """Return the places of DLedger's log by their names, one for each member of its group that used this root.

        Parameters: names: of the entries of the root.
        """
        return [self.root / name for name in sorted(names) if name.startswith("dledger-")]

    def dledger(self, self_id: str) -> AnyPath:
        """The directory of DLedger's log of a member. Source: DLedgerConfig.getDefaultPath."""
        return self.root / f"dledger-{self_id}"

    # ---- formats that are only read ------------------------------------------------------------------------

    @property
    def queue_databases(self) -> tuple[AnyPath, AnyPath]:
        """The directories that may have a RocksDB of queues. Older brokers use the directory of plain queues."""
        return self.root / ROCKSDB_QUEUES, self.plain_queues

    @property
    def rocksdb(self) -> AnyPath:
        """The RocksDB of index, timers and transactions."""
        return self.root / "rocksdbstore"

    @property
    def pop_database(self) -> AnyPath:
        """The RocksDB of messages that consumers popped. Source: PopConsumerRocksdbStore."""
        return self.root / "kvStore"

    @property
    def compaction(self) -> AnyPath:
        return self.root / "compaction"

    @property
    def compacted_logs(self) -> AnyPath:
        """The directory with one directory for each compacted topic."""
        return self.root / "compaction" / "compactionLog"

    @property
    def compacted_queues(self) -> AnyPath:
        """The directory with the units of all compacted topics, as ``compacted_logs``."""
        return self.root / "compaction" / "compactionCq"

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

    @property
    def timer_metrics(self) -> AnyPath:
        return self.root / "config" / "timermetrics"
