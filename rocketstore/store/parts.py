"""StoreParts: the parts of a store, each opened when it is first used: log, index, queues and small files."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketstore.config import StoreConfig
from rocketstore.disk.storage import is_remote
from rocketstore.errors import StoreClosedError, UnsupportedFormatError
from rocketstore.index.index_service import IndexService
from rocketstore.index.key_lookup import KeyIndex
from rocketstore.kernels.queue_id import QueueId
from rocketstore.lazy import lazy_property
from rocketstore.log.commit_log import CommitLog
from rocketstore.made_by import made_by
from rocketstore.messages.topics import is_file_name
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.config_values import TopicConfig
from rocketstore.state.lock_file import is_held
from rocketstore.store.opened_index import OpenedIndex
from rocketstore.store.opened_log import OpenedLog
from rocketstore.store.opened_queues import OpenedQueues
from rocketstore.store.stamped_values import StampedValues
from rocketstore.survey.broker_config import BrokerConfig, open_tables
from rocketstore.survey.formats import StoreFormats, find_formats
from rocketstore.survey.places import AnyPlaces
from rocketstore.tier.places import TierPlaces

if TYPE_CHECKING:
    from rocketstore.store.writer import StoreWriter


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
        self._log = OpenedLog(places, config, writer, leftovers=leftovers)
        self._index = OpenedIndex(places, config, self._log, writer)
        self._queues = OpenedQueues(places, config, self._log, is_written=writer is not None, is_tiered=tiered)
        # A writer changes its store, and the stamp does not see the tier and the compaction.
        keeps = mode == "r" and not (tiered or compacted or is_remote(self.path))
        self._stamped = StampedValues(places) if keeps else None
        self._closed = False

    # ---- log -----------------------------------------------------------------------------------------------

    @lazy_property
    def commit_log(self) -> CommitLog:
        """The commit log. Raises: FileNotFoundError."""
        return self._log.log

    @property
    def is_bounded(self) -> bool:
        """Whether log and queues end where a broker ends them. False after a crash, with leftovers, and in a writer."""
        return self._log.is_bounded

    # ---- index ---------------------------------------------------------------------------------------------

    @property
    def index(self) -> IndexService | None:
        """The index with its current files; None if the store has no index. Queries skip its damaged files.

        Raises: UnsupportedFormatError for an index in RocksDB; CorruptFileError for a damaged file; ValueError if no
        file shows its geometry.
        """
        self._require_open()
        index = self._index.find_files()
        if index is not None and index.damaged:
            raise next(iter(index.damaged.values()))
        return index

    @property
    def key_index(self) -> KeyIndex | None:
        """The index that queries by key use: its files, or else a RocksDB. None if the store has no index.

        Raises: UnsupportedFormatError for an index in RocksDB, without its extra.
        """
        self._require_open()
        return self._index.find()

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

        Raises: UnsupportedFormatError if the queues are in RocksDB, without its extra, and the log does not give them.
        """
        self._require_open()
        self._dispatch_pending()
        return self._queues.served.queues()

    def queue_ids(self, topic: str) -> list[int]:
        """Return the sorted queue ids of a topic on disk, none for an unknown topic.

        Raises: as ``queues``.
        """
        self._require_open()
        self._dispatch_pending()
        return self._queues.find_ids(topic)

    def consume_queue(self, topic: str, queue_id: int) -> StoredQueue:
        """Open a queue. Some hundred queues stay open; use a queue at once, or keep it and close it.

        Of a compacted topic this is the queue from which consumers are served: its units lead into ``queue.log``, a log
        of its own. A writer opens the queue of all messages.

        Raises: KeyError if the queue is missing; as ``queues``.
        """
        self._require_open()
        self._dispatch_pending()
        return self._queues.open(QueueId(topic, operator.index(queue_id)))

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
        return self._queues.open_of_log(QueueId(topic, operator.index(queue_id)))

    @property
    def reads_other_logs(self) -> bool:
        """Whether scans also read compacted topics or tiered storage."""
        return self.tiered or self.compacted

    @property
    def tier(self) -> TierPlaces:
        """Where the broker's files are in tiered storage, as it was found first.

        Raises: ValueError if no path is known; StoreError; OSError.
        """
        return self._queues.tier

    def find_missing_units(self) -> list[str]:
        """Return a note if the queues are in RocksDB, and the last messages of the log have no units there.

        A broker writes units without RocksDB's write-ahead log: the last ones are only in its memory, and are lost if
        it is killed. Raises: StoreError, OSError.
        """
        self._require_open()
        return self._queues.find_missing_units()

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
