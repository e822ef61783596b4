"""StoreParts: the parts of a store, each opened when it is first used: log, index, queues and small files."""

from __future__ import annotations

import contextlib
import operator
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketstore.config import StoreConfig
from rocketstore.disk.file_run_reader import Mappings
from rocketstore.disk.rocksdb.reader_program import find_missing_reader
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.disk.storage import is_remote
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreClosedError, UnsupportedFormatError
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_service import IndexService
from rocketstore.index.key_lookup import KeyIndex
from rocketstore.index.rocks_index import RocksIndex
from rocketstore.jobs.intent import UncommittedRecords
from rocketstore.kernels.queue_id import QueueId
from rocketstore.lazy import lazy_property
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_evidence import UnfinishedRecords
from rocketstore.log.log_end import StoreState
from rocketstore.made_by import made_by
from rocketstore.messages.topics import is_file_name
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.compacted_queue import CompactedQueues
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.file_queues import FileQueues
from rocketstore.queue.light_queues_beside import LightQueuesBeside
from rocketstore.queue.queue_source import QueueSource, StoredQueue
from rocketstore.queue.rocks_queues import RocksQueues
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.config_values import TopicConfig
from rocketstore.state.lock_file import is_held
from rocketstore.store.stamped_values import StampedValues
from rocketstore.survey.broker_config import BrokerConfig, open_tables
from rocketstore.survey.compacted_topics import choose_compacted_topics, open_compacted_log
from rocketstore.survey.cut_proof import StoreEvidence
from rocketstore.survey.formats import StoreFormats, find_formats
from rocketstore.survey.open_log import find_uncommitted, open_log
from rocketstore.survey.open_tier import open_tier
from rocketstore.survey.places import AnyPlaces
from rocketstore.survey.store_index import open_store_index
from rocketstore.tier.joined_queue import JoinedQueues
from rocketstore.tier.places import TierPlaces
from rocketstore.tier.segments import open_tier_log

if TYPE_CHECKING:
    from rocketstore.store.writer import StoreWriter


MAX_QUEUES = 256  # queues that are kept open
MAX_MAPPED_QUEUE_FILES = 128  # of all queues: each mapping takes a descriptor, and macOS gives a process 256


@made_by("rocketstore.open(path)")
class StoreParts:
    """The parts of a store. ``MessageStore`` adds reading and writing messages.

    A part that is damaged, missing or in an unsupported format raises an error at its first use. The other parts work.
    """

    def __init__(
        self,
        places: AnyPlaces,
        config: StoreConfig,
        mode: str = "r",
        writer: StoreWriter | None = None,
        leftovers: bool = False,
        tiered: bool = False,
        compacted: bool = False,
    ) -> None:
        self.path = places.root
        self.places = places
        self.mode = mode
        self.config = config
        self.leftovers = leftovers
        self.tiered = tiered
        self.compacted = compacted
        self._writer = writer
        self._queues: OrderedDict[tuple[str, int], StoredQueue] = OrderedDict()
        self._mappings = Mappings(MAX_MAPPED_QUEUE_FILES)
        self._index: IndexService | None = None
        self._queue_database: RocksQueues | None = None
        self._index_database: RocksIndex | None = None
        self._formats: StoreFormats | None = None
        self._chosen_topics: tuple[tuple[str, ...], frozenset[str]] = (), frozenset()
        # A writer changes its store, and the stamp does not see the tier and the compaction.
        keeps = mode == "r" and not (tiered or compacted or is_remote(self.path))
        self._stamped = StampedValues(places) if keeps else None
        self._closed = False

    # ---- log -----------------------------------------------------------------------------------------------

    @lazy_property
    def commit_log(self) -> CommitLog:
        """The commit log. Raises: FileNotFoundError."""
        self._require_open()
        if self._writer is not None:
            return open_log(self.places, self.config, whole_to=self._writer.phy_offset)
        evidence = None if self.leftovers else self._evidence
        return open_log(self.places, self.config, evidence=evidence, unfinished=self._find_unfinished())

    def _find_unfinished(self) -> UnfinishedRecords | None:
        """Return what finds the records at the end of the log that readers leave out."""
        if not self.leftovers:
            uncommitted = find_uncommitted(self.places, self.config, self._evidence.find_store_state)
            if uncommitted is not None:
                return uncommitted
        return None if is_remote(self.path) else UncommittedRecords(self.path)  # Spark's sink writes local stores

    @lazy_property
    def _evidence(self) -> StoreEvidence:
        return StoreEvidence(self.places, self.config)

    @property
    def is_bounded(self) -> bool:
        """Whether log and queues end where a broker ends them. False after a crash, with leftovers, and in a writer."""
        is_read = self._writer is None and not self.leftovers
        return is_read and self._evidence.find_store_state() != StoreState.CRASHED

    # ---- index ---------------------------------------------------------------------------------------------

    @property
    def index(self) -> IndexService | None:
        """The index with its current files; None if the store has no index. Queries skip its damaged files.

        Raises: UnsupportedFormatError for an index in RocksDB; CorruptFileError for a damaged file; ValueError if no
        file shows its geometry.
        """
        index = self._readable_index
        if index is not None and index.damaged:
            raise next(iter(index.damaged.values()))
        return index

    @property
    def key_index(self) -> KeyIndex | None:
        """The index that queries by key use: its files, or else a RocksDB. None if the store has no index.

        Raises: UnsupportedFormatError for an index in RocksDB, without its extra.
        """
        path = None if self._writer is not None else find_formats(self.places, self.config).index_database
        if path is None or find_missing_reader() is not None or self._has_index_files():
            return self._readable_index
        if self._index_database is None:
            database = RocksDatabase(path, remote_copy_limit=self.config.remote_copy_limit)
            self._index_database = RocksIndex(database, self.commit_log)
        return self._index_database

    def _has_index_files(self) -> bool:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return bool(index_paths(self.places.index))
        return False

    @property
    def _readable_index(self) -> IndexService | None:
        """The index without its damaged files."""
        self._require_open()
        if self._writer is not None:
            self._writer.dispatch_pending()
            return self._writer.index
        index = self._index
        if index is not None:
            with contextlib.suppress(FileNotFoundError, ValueError):  # it was renamed, or shows no geometry
                index.refresh()
                return index
        directory = self.places.index
        with contextlib.suppress(FileNotFoundError):  # the directory was renamed between the calls
            if directory.is_dir() and index_paths(directory):
                # The previous index is dropped, not closed: a query of another thread may still use it.
                self._index = index = open_store_index(self.places, self.config)
                return index
        self.formats.require_file_index()
        return None

    # ---- small files ---------------------------------------------------------------------------------------

    @property
    def checkpoint(self) -> StoreCheckpoint:
        """The current checkpoint; all zeros if the file is missing. Raises: CorruptFileError."""
        if self._writer is not None:
            return self._writer.checkpoint
        return StoreCheckpoint.open(self.places.checkpoint)

    @property
    def broker_config(self) -> BrokerConfig:
        """The current files of ``config``. Every call reads them again."""
        return BrokerConfig.of_tables(open_tables(self.places, self.config))

    @property
    def topics(self) -> dict[str, TopicConfig]:
        """The broker's topics by name, of topics.json or RocksDB. Empty if they cannot be read."""
        return open_tables(self.places, self.config).read_topics()

    @property
    def last_exit_ok(self) -> bool:
        """Whether there is no ``abort`` file, which a running broker has and a crashed one leaves.

        Source: DefaultMessageStore.isTempFileExist.
        """
        return not self.places.abort.exists()

    @property
    def is_locked(self) -> bool:
        """Whether a process, a broker or this one, has the store open for writing. False for a remote store."""
        return is_held(self.places.lock)

    @property
    def formats(self) -> StoreFormats:
        """The present formats of the store's parts."""
        self._require_open()
        return find_formats(self.places, self.config)

    # ---- queues --------------------------------------------------------------------------------------------

    def queues(self) -> Iterator[QueueId]:
        """Return an iterator of the ids (topic, queue_id) of all queues on disk, sorted.

        Raises: UnsupportedFormatError if the queues are in RocksDB, without its extra.
        """
        self._require_open()
        self._dispatch_pending()
        return self._queue_source.queues()

    def queue_ids(self, topic: str) -> list[int]:
        """Return the sorted queue ids of a topic on disk, none for an unknown topic.

        Raises: UnsupportedFormatError if the queues are in RocksDB, without its extra.
        """
        self._require_open()
        self._dispatch_pending()
        found = self._queue_source.queue_ids(topic)
        if not found and self._formats is not None:
            self._formats.require_readable_queues(topic)
        return found

    def consume_queue(self, topic: str, queue_id: int) -> StoredQueue:
        """Open a queue. Some hundred queues stay open; use a queue at once, or keep it and close it.

        Of a compacted topic this is the queue from which consumers are served: its units lead into ``queue.log``, a log
        of its own. A writer opens the queue of all messages.

        Raises: KeyError if the queue is missing; UnsupportedFormatError for queues in RocksDB, without its extra.
        """
        self._require_open()
        self._dispatch_pending()
        key = topic, operator.index(queue_id)
        queue = self._queues.pop(key, None)
        if queue is None or not queue.directory.is_dir():
            queue = self._open_queue(*key)
        self._queues[key] = queue
        if len(self._queues) > MAX_QUEUES:
            self._queues.popitem(last=False)
        return queue

    def consume_queue_ext(self, topic: str, queue_id: int) -> ConsumeQueueExt:
        """Open the ext files of a queue. Raises: KeyError if they are missing."""
        self._require_open()
        if is_file_name(topic):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return ConsumeQueueExt.open(
                    self.places.queue(ConsumeQueueExt, topic, operator.index(queue_id)),
                    mapped_file_size=self.config.mapped_file_size_consume_queue_ext,
                )
        raise KeyError(f"{self.path}: there is no ext file of queue {queue_id} of topic {topic!r}")

    def log_queue(self, topic: str, queue_id: int) -> StoredQueue:
        """Open the queue whose units lead into the commit log: of a compacted topic, that of all messages.

        Raises: as ``consume_queue``.
        """
        self._require_open()
        self._dispatch_pending()
        if topic not in self._compacted_topics and not self.tiered:
            return self.consume_queue(topic, queue_id)
        return self._require_queue(self._queues_of_log.open(topic, queue_id), topic, queue_id)

    def _open_queue(self, topic: str, queue_id: int) -> StoredQueue:
        return self._require_queue(self._queue_source.open(topic, queue_id), topic, queue_id)

    def _require_queue(self, queue: StoredQueue | None, topic: str, queue_id: int) -> StoredQueue:
        if queue is not None:
            return queue
        if self._formats is not None:
            self._formats.require_readable_queues(topic)
        raise KeyError(f"{self.path}: there is no queue {queue_id} of topic {topic!r}")

    @property
    def _queue_source(self) -> QueueSource[StoredQueue]:
        """The queues as consumers read them. With ``tiered``, also their messages that are only in the tier."""
        queues = self._served_queues
        if not self.tiered:
            return queues
        places = self.tier
        return JoinedQueues(queues, places, lambda queue: open_tier_log(places.log(queue), self.config))

    @property
    def reads_other_logs(self) -> bool:
        """Whether scans also read compacted topics or tiered storage."""
        return self.tiered or self.compacted

    @lazy_property
    def tier(self) -> TierPlaces:
        """Where the broker's files are in tiered storage, as it was found first.

        Raises: ValueError if no path is known; StoreError; OSError.
        """
        return open_tier(self.places, self.config)

    @property
    def _served_queues(self) -> QueueSource[StoredQueue]:
        topics = self._compacted_topics
        if not topics:
            return self._queues_of_log
        directories = self.places.compacted_queues, self.places.compacted_logs
        return CompactedQueues(
            self._queues_of_log,
            topics,
            directories,
            lambda path: open_compacted_log(path, self.config),
            self._mappings,
        )

    @property
    def _compacted_topics(self) -> frozenset[str]:
        """The topics whose consumers are served from the compaction. A writer reads what it writes."""
        if self._writer is not None:
            return frozenset()
        names = self._find_readable_formats().compacted_topics
        if self._chosen_topics[0] != names:
            self._chosen_topics = names, choose_compacted_topics(self.places, self.config, names)
        return self._chosen_topics[1]

    @property
    def _queues_of_log(self) -> QueueSource[StoredQueue]:
        """The queues whose units lead into the commit log, in the format from which consumers are served."""
        formats = self._find_readable_formats()
        if formats.queue_database is not None and formats.are_queues_in_database:
            return self._open_queue_database(formats.queue_database)
        if formats.queue_database is not None and formats.has_light_queues and find_missing_reader() is None:
            return LightQueuesBeside(self._file_queues, self._open_queue_database(formats.queue_database))
        return self._file_queues

    @property
    def _file_queues(self) -> FileQueues:
        directories = {kind: self.places.queues(kind) for kind in QUEUE_KINDS}
        sizes = {kind: getattr(self.config, kind.size_name) for kind in QUEUE_KINDS}
        return FileQueues(directories, sizes, lambda: commit_log_or_none(self), self._mappings)

    def _open_queue_database(self, path: StorePath) -> RocksQueues:
        if self._queue_database is None or self._queue_database.database.path != path:
            database = RocksDatabase(path, remote_copy_limit=self.config.remote_copy_limit)
            self._queue_database = RocksQueues(database, lambda: commit_log_or_none(self), self._find_end_of_units)
        return self._queue_database

    def _find_end_of_units(self) -> int | None:
        """Return the physical offset from which on units are leftovers, None if all units count."""
        log = commit_log_or_none(self) if self.is_bounded else None
        return None if log is None or not log.file_run.files else log.max_phy_offset

    def find_missing_units(self) -> list[str]:
        """Return a note if the queues are in RocksDB, and the last messages of the log have no units there.

        A broker writes units without RocksDB's write-ahead log: the last ones are only in its memory, and are lost if
        it is killed. Raises: StoreError, OSError.
        """
        formats = self.formats
        if formats.queue_database is None or not formats.are_queues_in_database or find_missing_reader() is not None:
            return []
        checkpoint, log = self._open_queue_database(formats.queue_database).read_checkpoint(), commit_log_or_none(self)
        begin = None if log is None else max(checkpoint or 0, log.min_phy_offset)
        if log is None or begin is None or begin >= log.max_phy_offset:
            return []
        return [
            f"{formats.queue_database}: the messages of the log from byte {begin} to {log.max_phy_offset} are not in "
            "these queues: their units are in the broker's memory, or were lost when it was killed. The log has them, "
            "and rebuild makes queues in files"
        ]

    def _find_readable_formats(self) -> StoreFormats:
        """Find in which formats the queues are.

        A store without any RocksDB is checked only once, since this is called for each queue that is opened.

        Raises: UnsupportedFormatError if the queues are in RocksDB, without its extra.
        """
        if self._formats is None or not self._formats.is_plain:
            self._formats = find_formats(self.places, self.config)
        self._formats.require_readable_queues()
        return self._formats

    # ---- state ---------------------------------------------------------------------------------------------

    def _dispatch_pending(self) -> None:
        if self._writer is not None:
            self._writer.dispatch_pending()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.path} is closed")


def commit_log_or_none(store: StoreParts) -> CommitLog | None:
    """Return the commit log of a store, None if it is missing or in an unsupported format."""
    try:
        return store.commit_log
    except (OSError, UnsupportedFormatError):
        return None
