"""Plans of lookups: the driver lists the files of a store or of an index, and tasks open them without listing."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import pickle
from collections.abc import Collection
from typing import NamedTuple

from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.disk.storage import held_lists
from rocketstore.disk.store_path import StorePath
from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_plan import IndexPlan
from rocketstore.index.index_service import IndexService
from rocketstore.index.rocks_index import RocksIndex
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_chunk import LogChunk
from rocketstore.query.coverage import Coverage
from rocketstore.query.query_other_logs import OtherSources
from rocketstore.spark.source.plan import find_committed_view, planning
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.survey import Survey
from rocketstore.tier.tier_source import StoredTier


class RocksIndexPlan(NamedTuple):
    """The RocksDB of a store's index. A task must list its directory, since RocksDB itself does.

    Attributes: remote_copy_limit: as for ``RocksDatabase``.
    """

    path: StorePath
    remote_copy_limit: int

    def open(self, log: CommitLog) -> RocksIndex:
        """Open the RocksDB when it is read first. Parameters: log: the commit log, into which entries lead."""
        return RocksIndex(RocksDatabase(self.path, remote_copy_limit=self.remote_copy_limit), log)


class StorePlan(NamedTuple):
    """The log and the index of a store, for queries by key as the store was when it was planned.

    Attributes: name: the same for the same plan; tasks keep what they open by it. key_index: None if the store has no
    index. others: where tiered storage and compacted topics are; None if they are not read.
    """

    name: str
    log: LogChunk
    key_index: IndexPlan | RocksIndexPlan | None
    others: OtherSources | None = None

    def open(self) -> Coverage:
        """Open log and index. Directories are listed only if a file is missing or has damage. Raises: as the parts."""
        log = self.log.open()
        if isinstance(self.key_index, RocksIndexPlan):
            return Coverage(log, self.key_index.open(log))
        index = None
        if self.key_index is not None:
            with contextlib.suppress(FileNotFoundError):  # the directory was removed after the plan was made
                index = self.key_index.open()
        assert not isinstance(index, IndexFile)
        return Coverage(log, index)


class KeyIndexPlan(NamedTuple):
    """An index alone, whose offsets are not verified. Attributes: name: as of ``StorePlan``."""

    name: str
    files: IndexPlan

    def open(self) -> IndexFile | IndexService:
        """Open the index. Raises: as ``IndexPlan.open``; OSError that names the setting if address space is missing."""
        try:
            return self.files.open()
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            reason = (
                "no address space to map the index: raise spark.executor.pyspark.memory, which limits the address "
                "space of Python workers, by the size of the index, or leave it unset"
            )
            raise OSError(errno.ENOMEM, reason, str(self.files.path)) from error


def plan_store(
    survey: Survey, topics: Collection[str] | None = None, *, tiered: bool = False, compacted: bool = False
) -> StorePlan:
    """Plan queries by key in a store that an entry has begun with. Raises: as a query of the store.

    Parameters: topics: of the queries; None for all. tiered, compacted: as for ``rocketstore.open``.
    """
    with MessageStore.of_survey(survey, tiered=tiered, compacted=compacted) as store, planning(store):
        log, found = store.commit_log, store.key_index
        view = find_committed_view(store, again=True)
        index: IndexPlan | RocksIndexPlan | None = None
        if isinstance(found, RocksIndex):
            index = RocksIndexPlan(found.database.path, found.database.remote_copy_limit)
        elif isinstance(found, IndexService):
            index = IndexPlan.of(found)
        end = view.records_end
        planned = LogChunk.of(log, log.min_phy_offset, end, whole_to=end, view=view)
        others = plan_other_sources(store, topics) if store.reads_other_logs else None
        return StorePlan(name_of(planned, index, others), planned, index, others)


def plan_other_sources(store: MessageStore, topics: Collection[str] | None) -> OtherSources:
    """Find which other logs a store reads, and list the files of its tiered storage, so that tasks list none.

    Parameters: as ``plan_store``.
    """
    found = store.find_other_sources(topics)
    return found._replace(tier=found.tier.plan(topics)) if isinstance(found.tier, StoredTier) else found


def plan_index(path: StorePath, geometry: IndexGeometry | None) -> KeyIndexPlan:
    """Plan lookups in an index file, or in the index files of a directory.

    Raises: FileNotFoundError; OSError; as ``IndexFile.open`` and ``IndexService.open``.
    """
    with held_lists(path):
        plan = plan_directory(path, geometry) if path.is_dir() else IndexPlan.of_file(path, geometry)
    return KeyIndexPlan(name_of(plan), plan)


def plan_directory(path: StorePath, geometry: IndexGeometry | None) -> IndexPlan:
    if not index_paths(path) and any(path.iterdir()):
        reason = "no index files here: give a store's root, an index file, or the directory of a store's index"
        raise FileNotFoundError(errno.ENOENT, reason, str(path))
    slots, items = geometry or (None, None)
    with IndexService.open(path, hash_slot_num=slots, index_num=items) as index:
        return IndexPlan.of(index)


def name_of(*parts: object) -> str:
    return hashlib.sha256(pickle.dumps(parts)).hexdigest()
