"""OpenedQueues: the queues of a store, in the format from which its consumers are served."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from dataclasses import replace
from functools import partial

from rocketstore.config import StoreConfig
from rocketstore.disk.file_run_reader import Mappings
from rocketstore.disk.rocksdb.reader_program import find_missing_reader
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.disk.store_path import StorePath
from rocketstore.dispatch.built_queues import FILE_SIZE, BuiltQueues
from rocketstore.dispatch.topic_lives import KnownTopics
from rocketstore.dispatch.unit_builder import UnitBuilder
from rocketstore.errors import StoreError, UnsupportedFormatError
from rocketstore.kernels.queue_id import QueueId
from rocketstore.lazy import lazy_property
from rocketstore.messages.topics import is_file_name
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.built_units import PlannedUnits
from rocketstore.queue.compacted_queue import CompactedQueues
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.file_queues import FileQueues
from rocketstore.queue.light_queues_beside import LightQueuesBeside
from rocketstore.queue.queue_source import QueueSource, StoredQueue
from rocketstore.queue.rocks_queues import RocksQueues
from rocketstore.store.opened_log import OpenedLog
from rocketstore.survey.compacted_topics import choose_compacted_topics, open_compacted_log
from rocketstore.survey.formats import StoreFormats, find_formats
from rocketstore.survey.open_tier import open_tier
from rocketstore.survey.places import AnyPlaces
from rocketstore.text_values import format_count
from rocketstore.tier.joined_queue import JoinedQueues, may_lack_messages
from rocketstore.tier.places import TierPlaces

MAX_QUEUES = 256  # queues that are kept open
REASON_FOR_BUILT_UNITS = "their units were only in the memory of a broker"
MAX_MAPPED_QUEUE_FILES = 128  # of all queues: each mapping takes a descriptor, and macOS gives a process 256


class OpenedQueues:
    """The queues of a store. Some hundred of them stay open."""

    def __init__(
        self, places: AnyPlaces, config: StoreConfig, log: OpenedLog, *, is_written: bool, is_tiered: bool
    ) -> None:
        """Parameters: is_written: whether this process writes the store: it reads what it writes, and no compaction.

        is_tiered: whether messages that are only in tiered storage are read too.
        """
        self._places = places
        self._config = config
        self._log = log
        self._is_written = is_written
        self._is_tiered = is_tiered
        self._opened: OrderedDict[QueueId, StoredQueue] = OrderedDict()
        self._mappings = Mappings(MAX_MAPPED_QUEUE_FILES)
        self._database: RocksQueues | None = None
        self._unit_builder: UnitBuilder | None = None  # of the database
        self._built: BuiltQueues | None = None
        self._formats: StoreFormats | None = None
        self._chosen_topics: tuple[tuple[str, ...], frozenset[str]] = (), frozenset()

    # ---- queues --------------------------------------------------------------------------------------------

    def find_ids(self, topic: str) -> list[int]:
        """Return the sorted queue ids of a topic on disk, none for an unknown topic. Raises: UnsupportedFormatError."""
        found = self.consumer_queues.queue_ids(topic)
        if not found and self._formats is not None:
            self._formats.require_light_queues(topic)
        return found

    def open(self, queue_id: QueueId) -> StoredQueue:
        """Open a queue as consumers read it, or return it if it is open. Raises: KeyError; UnsupportedFormatError."""
        queue = self._opened.pop(queue_id, None)
        is_outdated = queue is not None and self._is_tiered and may_lack_messages(queue)
        if queue is None or is_outdated or not queue.directory.is_dir():
            queue = self._require(self.consumer_queues.open(*queue_id), queue_id)
        self._opened[queue_id] = queue
        if len(self._opened) > MAX_QUEUES:
            self._opened.popitem(last=False)
        return queue

    def open_log_queue(self, queue_id: QueueId) -> StoredQueue:
        """Open the queue whose units lead into the commit log. Raises: KeyError; UnsupportedFormatError."""
        if queue_id.topic not in self._compacted_topics and not self._is_tiered:
            return self.open(queue_id)
        return self._require(self.log_queues.open(*queue_id), queue_id)

    def open_ext(self, queue_id: QueueId) -> ConsumeQueueExt:
        """Open the ext files of a queue. Raises: KeyError."""
        found = self.find_ext(queue_id)
        if found is None:
            queue = f"queue {queue_id.queue_id} of topic {queue_id.topic!r}"
            raise KeyError(f"{self._places.root}: there is no ext file of {queue}")
        return found

    def find_ext(self, queue_id: QueueId) -> ConsumeQueueExt | None:
        """Open the ext files of a queue; None if they are missing."""
        if not is_file_name(queue_id.topic):
            return None
        size = self._config.mapped_file_size_consume_queue_ext
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return ConsumeQueueExt.open(self._places.queue(ConsumeQueueExt, *queue_id), mapped_file_size=size)
        return None

    def _require(self, queue: StoredQueue | None, queue_id: QueueId) -> StoredQueue:
        if queue is not None:
            return queue
        if self._formats is not None:
            self._formats.require_light_queues(queue_id.topic)
        raise KeyError(f"{self._places.root}: there is no queue {queue_id.queue_id} of topic {queue_id.topic!r}")

    # ---- sources -------------------------------------------------------------------------------------------

    @property
    def consumer_queues(self) -> QueueSource[StoredQueue]:
        """The queues as consumers read them; with ``is_tiered`` also their messages that are only in the tier."""
        return JoinedQueues(self.local_queues, self.tier, self._config) if self._is_tiered else self.local_queues

    @property
    def local_queues(self) -> QueueSource[StoredQueue]:
        """The queues as consumers read them, without tiered storage: those of compacted topics are the compaction's."""
        compacted = self._find_compacted()
        return self.log_queues if compacted is None else compacted

    def find_compacted_queues(self) -> frozenset[QueueId]:
        """Return the ids of the queues that consumers read from the compaction."""
        found = self._find_compacted()
        return frozenset() if found is None else found.compacted()

    def _find_compacted(self) -> CompactedQueues | None:
        topics = self._compacted_topics
        if not topics:
            return None
        directories = self._places.compacted_queues, self._places.compacted_logs
        open_log = partial(open_compacted_log, config=self._config)
        return CompactedQueues(self.log_queues, topics, directories, open_log, self._mappings)

    @lazy_property
    def tier(self) -> TierPlaces:
        """Where the broker's files are in tiered storage, as it was found first. Raises: as ``open_tier``."""
        return open_tier(self._places, self._config)

    @property
    def _compacted_topics(self) -> frozenset[str]:
        """The topics whose consumers are served from the compaction."""
        if self._is_written:
            return frozenset()
        names = self._find_formats().compacted_topics
        if self._chosen_topics[0] != names:
            self._chosen_topics = names, choose_compacted_topics(self._places, self._config, names)
        return self._chosen_topics[1]

    @property
    def log_queues(self) -> QueueSource[StoredQueue]:
        """The queues whose units lead into the commit log, in the format from which consumers are served."""
        formats = self._find_formats()
        if formats.queue_database is not None and formats.are_queues_in_database:
            problem = find_missing_reader()
            if problem is not None:
                return self._build(f"{formats.queue_database}: the queues are in RocksDB: {problem}")
            return self._open_database(formats.queue_database)
        if formats.queue_database is not None and formats.has_light_queues and find_missing_reader() is None:
            return LightQueuesBeside(self._in_files, self._open_database(formats.queue_database))
        return self._in_files

    def find_file_queues(self) -> FileQueues | None:
        """Return the queues in files, which end where their valid units end. None if queues are in a RocksDB."""
        return None if self._find_formats().queue_database is not None else replace(self._in_files, find_log=no_log)

    @lazy_property
    def _in_files(self) -> FileQueues:
        directories = {kind: self._places.queues(kind) for kind in QUEUE_KINDS}
        sizes = {kind: getattr(self._config, kind.size_name) for kind in QUEUE_KINDS}
        return FileQueues(directories, sizes, self._log.find, self._mappings)

    def _open_database(self, path: StorePath) -> RocksQueues:
        if self._database is None or self._database.database.path != path:
            database = RocksDatabase(path, remote_copy_limit=self._config.remote_copy_limit)
            log = self._log.find()
            self._unit_builder = None if log is None or not log.file_run.files else UnitBuilder(log, self._config)
            built = PlannedUnits({}) if self._unit_builder is None else self._unit_builder
            self._database = RocksQueues(database, built, self._log.find, self._find_end_of_units)
        return self._database

    def _build(self, reason: str) -> FileQueues:
        """Return queues that are built from the log. Parameters: reason: why those of the store are not read.

        Raises: UnsupportedFormatError if the log is missing, damaged or too long.
        """
        log = self._log.find()
        if log is None or not log.file_run.files:
            raise UnsupportedFormatError(reason)
        try:
            if self._built is None:
                known = KnownTopics.of(self._places, self._config, is_stopped=False)
                self._built = BuiltQueues(log, self._config, known)
            directory = self._built.update()
        except (StoreError, ValueError) as error:
            raise UnsupportedFormatError(f"{reason}. They cannot be built from the log: {error}") from error
        return FileQueues({ConsumeQueue: directory}, {ConsumeQueue: FILE_SIZE}, self._log.find, self._mappings)

    def _find_end_of_units(self) -> int | None:
        """Return the physical offset from which on units are leftovers, None if all units count."""
        log = self._log.find() if self._log.is_bounded else None
        return None if log is None or not log.file_run.files else log.max_phy_offset

    def _find_formats(self) -> StoreFormats:
        """Find in which formats the queues are.

        A store without any RocksDB is checked only once, since this is called for each queue that is opened.
        """
        if self._formats is None or not self._formats.is_plain:
            self._formats = find_formats(self._places, self._config)
        return self._formats

    # ---- missing units, and closing ------------------------------------------------------------------------

    def describe_missing_units(self) -> list[str]:
        """Return a problem if the last messages of the log are not in the queues. Raises: StoreError, OSError."""
        builder = self._find_builder()
        if builder is None or builder.problem is None:
            return []
        begin, log_end = builder.end, max(builder.end, self._log.log.max_phy_offset)
        return [
            f"{self._places.root}: the messages of the log from byte {begin} to {log_end} are not in the queues: "
            f"{REASON_FOR_BUILT_UNITS}, and they cannot be built from the log: {builder.problem}"
        ]

    def describe_built_units(self) -> list[str]:
        """Return a note if the last units of queues in RocksDB are built from the log. Raises: StoreError, OSError."""
        builder = self._find_builder()
        if builder is None or not len(builder):
            return []
        count = format_count(len(builder), "unit")
        return [
            f"{self._places.root}: {count} of the messages from byte {builder.begin} of the log on are built from the "
            f"log: {REASON_FOR_BUILT_UNITS}. Delay levels are those of the configuration"
        ]

    def _find_builder(self) -> UnitBuilder | None:
        """Return the units that are built from the log because the RocksDB lacks them; None without such a RocksDB."""
        formats = find_formats(self._places, self._config)
        if formats.queue_database is None or not formats.are_queues_in_database or formats.must_build_queues:
            return None
        self._open_database(formats.queue_database).refresh()
        return self._unit_builder

    def close(self) -> None:
        """Close the queues that are open."""
        try:
            for queues in (self._database, self._built):
                if queues is not None:
                    queues.close()
        finally:
            while self._opened:
                self._opened.popitem()[1].close()
            self._mappings.clear()


def no_log() -> None:
    """Return None: the log of queues whose end does not depend on a log."""
