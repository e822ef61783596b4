"""MessageStore: an open store, which reads, queries, writes and summarises its messages."""

from __future__ import annotations

import contextlib
import functools
import io
import operator
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, overload

from rocketstore.config import StoreConfig, require_config
from rocketstore.disk.closable import Closable
from rocketstore.disk.descriptors import require_descriptors_to_expire
from rocketstore.disk.mapped_file import Mode, check_mode
from rocketstore.disk.storage import held_lists, is_remote, local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.dispatch.follow import COLUMNS, DispatchRequest, follow_batches, requests_of
from rocketstore.errors import StoreClosedError, StoreError, text_of
from rocketstore.extras import import_extra
from rocketstore.index.index_service import MAX_MSGS_NUM_BATCH, IndexService, IndexType
from rocketstore.index.key_lookup import KeyIndex
from rocketstore.kernels.column_names import Names
from rocketstore.kernels.plain_put import PlainPutStore, put_plain
from rocketstore.kernels.queue_id import QueueId
from rocketstore.keywords import suggests_keywords
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.hash_sample import HashSample
from rocketstore.log.scan import Scan
from rocketstore.made_by import made_by
from rocketstore.messages.arguments import (
    NOT_GIVEN,
    NotGiven,
    integer_list,
    list_if_iterator,
    split_tags,
    text_list,
    text_set,
)
from rocketstore.messages.found_messages import FoundMessages
from rocketstore.messages.given_rows import put_times
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.message_id import phy_offset_of
from rocketstore.messages.put_result import PutMessageResult, PutMessagesResult
from rocketstore.messages.put_rules import GivenTime, put_time
from rocketstore.messages.rows import Rows
from rocketstore.preview import Preview, Previewed
from rocketstore.progress import Progress
from rocketstore.query.by_time import PhyOffsetByTime, find_phy_offset_by_time
from rocketstore.query.coverage import Coverage
from rocketstore.query.get_message import GetMessageResult, get_message, get_message_of_queue
from rocketstore.query.other_logs import (
    OtherLog,
    choose_queues,
    follow_all_logs,
    has_offset_bounds,
    leave_out_queues,
    plan_other_logs,
    scan_all_logs,
)
from rocketstore.query.query_messages import (
    MAX_SCAN,
    QueryMessageResult,
    QueryMessagesResult,
    join_results,
    query_message,
    query_messages,
    topic_and_key,
)
from rocketstore.query.query_other_logs import (
    OtherSources,
    add_other_messages,
    find_other_sources,
    pair_topics_with_keys,
)
from rocketstore.query.read_few import OnWrongCrc
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.file_queues import FileQueues
from rocketstore.queue.queue_source import Boundary, StoredQueue
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.config_values import TopicConfig
from rocketstore.state.lock_file import is_held
from rocketstore.store.expiry import ExpiredFiles
from rocketstore.store.message_tables import MessageTables
from rocketstore.store.opened_index import OpenedIndex
from rocketstore.store.opened_log import OpenedLog
from rocketstore.store.opened_queues import OpenedQueues
from rocketstore.store.overview.known_names import (
    explain_unknown_group,
    explain_unknown_names,
    explain_unknown_topic,
    known_topics,
    warn_conditions,
    warn_unknown_topics,
)
from rocketstore.store.overview.lag import ConsumerLag, consumer_lag
from rocketstore.store.overview.missing import describe_unknown_queue, describe_unknown_topic
from rocketstore.store.overview.summary import StoreSummary, summarize
from rocketstore.store.overview.topic_tables import preview_store
from rocketstore.store.record_planner import RecordPlanner
from rocketstore.store.stamped_values import StampedValues
from rocketstore.store.store_views import StoreViews
from rocketstore.store.topic import Topic
from rocketstore.store.topics import Topics
from rocketstore.survey.broker_config import BrokerConfig, open_tables
from rocketstore.survey.formats import StoreFormats, find_formats
from rocketstore.survey.open_tier import find_index_slots
from rocketstore.survey.places import AnyPlaces
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.survey import Survey
from rocketstore.text_values import Time, Zone, begin_ms, end_ms, epoch_ms, find_time_zone, ms_or_none, parse_share
from rocketstore.tier.places import TierPlaces
from rocketstore.tier.tier_source import StoredTier

# Methods that few callers use import their modules themselves: opening a store would take a third longer.
if TYPE_CHECKING:
    from pathlib import Path

    from rocketstore.dataset.store_dataset import StoreDataset
    from rocketstore.dispatch.reput import OwnDispatcher
    from rocketstore.incremental.new_part import NewPart
    from rocketstore.sql.statement import SqlResult
    from rocketstore.store.overview.dead_letters import DeadMessages
    from rocketstore.store.overview.unconsumed import Unconsumed
    from rocketstore.store.pending.pending_message import PendingMessages
    from rocketstore.store.trace.trace_event import MessageTrace
    from rocketstore.store.usage.counts import Counts
    from rocketstore.store.usage.disk_usage import DiskUsage
    from rocketstore.store.usage.expiry_plan import ExpiryPlan
    from rocketstore.store.usage.message_usage import MessageUsage
    from rocketstore.store.usage.metrics import Metrics
    from rocketstore.store.writer import StoreWriter

P = ParamSpec("P")
Found = TypeVar("Found", bound=FoundMessages)


def method_of_log(method: Callable[Concatenate[CommitLog, P], Scan]) -> Callable[Concatenate[MessageStore, P], Scan]:
    """Make a method of a store that calls a method of its log, with the same parameters and documentation.

    Unknown topics give a warning: only the store knows its topics.
    """

    @functools.wraps(method)
    def call(self: MessageStore, /, *args: P.args, **options: P.kwargs) -> Scan:
        return self._scan_all(args, options, stacklevel=4)

    return call


@made_by("rocketstore.open(path)")
class MessageStore(MessageTables, Previewed, Closable, PlainPutStore):
    """A store that a broker left, is writing, or that this process writes. ``rocketstore.open`` makes it.

    ``store["Orders"]`` is a topic, ``"Orders" in store`` asks whether there is one, and an iteration yields all topics.
    It is a context manager. Each part is opened when it is first used. A part that is damaged, missing or in an
    unsupported format raises an error at its first use; the other parts work.

    Methods of a writer raise RuntimeError if the thread is in another call of the same writer, since they could wait
    for that call forever. This happens in a signal handler, a finalizer, a callback of the garbage collector, or a
    method of a value that is being encoded. A put that need not wait for the call may succeed.

    If the root of a writer is moved, removed or replaced, its methods raise StoreError within about a second. What was
    put is then in the moved store.

    Attributes: path: the root. mode. config. leftovers: whether old records and units behind the ends of log and queues
    are read too. tiered: whether messages that are only in tiered storage are read too. compacted: whether scans and
    queries give the messages of compacted topics that consumers get, instead of those of the log. opening_notes: texts
    about the opening for writing, which the repr shows too: sizes that the store keeps in place of those of
    ``StoreConfig.small()``, the notes of the recovery, and its assumptions.
    Source: DefaultMessageStore.

    Examples:
    >>> with rocketstore.open("demo") as store:
    ...     print(len(store["Orders"]), "Orders" in store)
    100 True
    """

    _word = "store"

    def __init__(
        self,
        places: AnyPlaces,
        config: StoreConfig,
        mode: str = "r",
        writer: StoreWriter | None = None,
        *,
        leftovers: bool = False,
        tiered: bool = False,
        compacted: bool = False,
        opening_notes: Sequence[str] = (),
    ) -> None:
        self.path = places.root
        self.places = places
        self.mode = mode
        self.config = config
        self.leftovers = leftovers
        self.tiered = tiered
        self.compacted = compacted
        self.opening_notes = opening_notes
        # A writer changes its store, and the stamp does not see the tier and the compaction.
        is_kept = mode == "r" and not (tiered or compacted or is_remote(self.path))
        self._writer = writer
        if writer is not None and not writer.waits_for_disk:
            self._set_plain_put(writer.plain_put)
        self._log = OpenedLog(places, config, writer, leftovers=leftovers)
        self._index = OpenedIndex(places, config, self._log, writer)
        self._queues = OpenedQueues(places, config, self._log, is_written=writer is not None, is_tiered=tiered)
        self._stamped = StampedValues(places) if is_kept else None
        self._results: weakref.WeakSet[FoundMessages] = weakref.WeakSet()
        self._views = StoreViews(self._log, self._index, self._stamped)
        self._closed = False

    # ---- opening -------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | StorePath,
        mode: Mode = "r",
        *,
        config: StoreConfig | None = None,
        leftovers: bool = False,
        tiered: bool = False,
        compacted: bool = False,
    ) -> Self:
        """Open a store. ``rocketstore.open`` has the documentation."""
        require_config(config)
        check_mode(mode)
        if leftovers and mode != "r":
            raise ValueError(f"leftovers={leftovers!r}: only mode 'r' reads them: a writer appends at the log's end")
        if (tiered or compacted) and mode != "r":
            raise ValueError(f"tiered={tiered!r}, compacted={compacted!r}: only mode 'r' reads more than the log")
        if mode == "r":
            return cls.of_entry("open r", path, config, leftovers=leftovers, tiered=tiered, compacted=compacted)
        return cls.of_writing_entry(f"open {mode}", path, mode, config)

    @classmethod
    def of_entry(
        cls,
        entry: str,
        path: str | os.PathLike[str] | StorePath,
        config: StoreConfig | None = None,
        *,
        leftovers: bool = False,
        tiered: bool = False,
        compacted: bool = False,
    ) -> Self:
        """Open a store for reading. Parameters: entry: a name of ENTRIES, whose requirements are checked."""
        survey = begin_entry(entry, path, config)
        return cls.of_survey(survey, leftovers=leftovers, tiered=tiered, compacted=compacted)

    @classmethod
    def of_survey(
        cls, survey: Survey, *, leftovers: bool = False, tiered: bool = False, compacted: bool = False
    ) -> Self:
        """Open the store that an entry found, for reading. Raises: StoreError without the tier."""
        store = cls(survey.places, survey.settings, leftovers=leftovers, tiered=tiered, compacted=compacted)
        if tiered:
            _ = store.tier  # raises an error if it is missing
        return store

    @classmethod
    def of_writing_entry(
        cls, entry: str, path: str | os.PathLike[str] | StorePath, mode: Literal["r+", "a"], config: StoreConfig | None
    ) -> Self:
        """Open a store for writing. Parameters: entry: a name of ENTRIES, whose requirements are checked."""
        from rocketstore.store.open_writer import open_writer  # a reader needs neither writer nor recovery

        writer = open_writer(entry, local_path(path), mode, config)
        return cls(writer.places, writer.config.as_store_config(), mode, writer, opening_notes=writer.opening_notes)

    # ---- writing -------------------------------------------------------------------------------------------

    def put_message(self, message: Message, *, store_timestamp: GivenTime = None) -> PutMessageResult:
        """Append a message. It is dispatched within some 20 milliseconds, and before any query of this object.

        A queue_id that the topic does not have gives the topic all queues up to that id, for good: 100 makes 101
        queues. topics.json does not list queues from 65536 on, since a broker keeps memory for each listed queue. A
        body that was read decompressed, as ``scan`` gives it, is stored decompressed. To keep the stored bytes, also
        read the columns raw_body and sys_flag: ``scan(columns=["topic", ..., "raw_body", "sys_flag"])``.

        Parameters: store_timestamp: epoch ms, a datetime, a date or an ISO 8601 text; None for now; "given": keep the
        store time and store host that the message has from another store. Returns: PutMessageResult; with
        flush_disk_type "SYNC_FLUSH" the message is then on the disk. Raises: PutMessageError for a message that is
        refused: nothing is written; OSError, StoreError: the message may be lost, and the store accepts no more
        messages. Source: DefaultMessageStore.putMessage.

        Examples:
        >>> with rocketstore.open("new", "a", config=StoreConfig.small()) as store:
        ...     put = store.put_message(Message("Orders", b"first", keys=["order-1"], tags="paid"))
        >>> put.phy_offset, put.queue_offset
        (0, 0)
        """
        # Hot path: a class with ``__getattr__`` has slow attributes, so this call reads none.
        if store_timestamp is None:
            result: PutMessageResult | None = put_plain(self, message)
            if result is not None:
                return result
        return self._writing().put_message(message, put_time(store_timestamp))

    def put_messages(
        self,
        messages: Iterable[Message | Mapping[str, Any]] | MessageBatch | Any,
        *,
        store_timestamp: GivenTime | Iterable[Time] = None,
    ) -> PutMessagesResult:
        """Append messages in order. Of a list or a MessageBatch, all or, if a message is refused, none are appended.

        Queue ids and bodies follow the rules of ``put_message``.

        Parameters: messages: Message objects, a MessageBatch, or an Arrow table (of pyarrow, pandas or polars) with the
        columns that tables have, topic and body at least; or dicts with these columns, such as
        ``{"topic": "Orders", "body": "first", "keys": "order-1"}``. An iterator or a table is appended in parts. A list
        with messages for light queues or with inner batches is appended message by message. store_timestamp: as
        ``put_message``, or a time for each message.
        Returns: PutMessagesResult. Raises: as ``put_message``; TypeError, ValueError for a dict with unknown columns or
        wrong values, and for another number of times than of messages; for a table also as ``MessageBatch.of_arrow``.
        Source: DefaultMessageStore.putMessage, for each.
        """
        return self._writing().put_messages(messages, put_times(store_timestamp))

    def put_batch(
        self, batch: Message, messages: Sequence[Message], *, store_timestamp: GivenTime = None
    ) -> PutMessagesResult:
        """Append messages of one queue as a client's batch: consecutive, in one file, with one store time.

        Bodies are stored decompressed, since a client compresses no batch.

        Parameters: batch: the common fields of the messages: topic, queue, hosts, times, system flags. Some releases
        add its properties to the properties of each message. Returns: PutMessagesResult. Raises: as ``put_message``.
        Source: DefaultMessageStore.putMessages.
        """
        return self._writing().put_batch(batch, messages, put_time(store_timestamp))

    def create_topic(self, topic: str, queue_nums: int | None = None, *, queue_type: str | None = None) -> None:
        """Add a topic to topics.json, or add queues to a topic. Putting to an unknown topic adds it with the default.

        Parameters: queue_nums: None for config.default_topic_queue_nums. queue_type: "BatchCQ" for a topic of inner
        batches; only before its first message. Raises: ValueError, TypeError; OSError.
        Source: TopicConfigManager.updateTopicConfig.
        """
        self._writing().create_topic(topic, queue_nums, queue_type)

    def add_dispatcher(self, dispatcher: OwnDispatcher) -> None:
        """Call a function with the messages that were dispatched to queues and index. A message may be repeated.

        An exception of the function stops the writer, as an error of the disk does.
        Parameters: dispatcher: a function of a MessageBatch. Raises: TypeError; io.UnsupportedOperation in mode "r".
        Source: DefaultMessageStore.addDispatcher.
        """
        if not callable(dispatcher):
            raise TypeError(f"dispatcher={dispatcher!r}: a function was expected")
        self._writing().add_dispatcher(dispatcher)

    def delete_expired_files(
        self, *, hours: float | None = None, before_phy_offset: int | None = None, dry_run: bool = False
    ) -> ExpiredFiles:
        """Delete the oldest expired files of the log, never the last, with their files of queues and index.

        Parameters: hours: since a file was changed; None for config.file_reserved_time, or any time if
        ``before_phy_offset`` is given: delete only files that end there or before. dry_run: change nothing.
        Returns: the deleted files; in a dry run the files that would be deleted. Raises: ValueError; OSError;
        io.UnsupportedOperation in mode "r".
        Source: CleanCommitLogService, CleanConsumeQueueService.
        """
        writer = self._writing()
        require_descriptors_to_expire(self.path)
        return writer.delete_expired_files(self.queues(), hours, before_phy_offset, dry_run)

    def flush(self) -> None:
        """Write all messages that were put, with queues, index and checkpoint, to the disk, and wait for it.

        Raises: OSError, StoreError: messages may be lost; io.UnsupportedOperation in mode "r".
        Source: MessageStore.flush.
        """
        self._writing().flush()

    def _writing(self) -> StoreWriter:
        self._require_open()
        if self._writer is None:
            raise io.UnsupportedOperation(f"{self.path} is open for reading: open it with mode 'a' to write to it")
        return self._writer

    # ---- log -----------------------------------------------------------------------------------------------

    @property
    def commit_log(self) -> CommitLog:
        """The commit log. Raises: FileNotFoundError."""
        return self._log.log

    def find_commit_log(self) -> CommitLog | None:
        """Return the commit log, None if it is missing or in an unsupported format."""
        return self._log.find()

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
    def topic_configs(self) -> dict[str, TopicConfig]:
        """The broker's topics by name, of topics.json or RocksDB. Empty if they cannot be read.

        A broker lists topics without messages too. ``topics`` are those with messages.
        """
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
        return self._complete_queues().consumer_queues.queues()

    def queue_ids(self, topic: str) -> list[int]:
        """Return the sorted queue ids of a topic on disk, none for an unknown topic.

        Raises: as ``queues``.
        """
        return self._complete_queues().find_ids(topic)

    def consume_queue(self, topic: str, queue_id: int) -> StoredQueue:
        """Open a queue. Some hundred queues stay open; use a queue at once, or keep it and close it.

        Of a compacted topic this is the queue from which consumers are served: its units lead into ``queue.log``, a log
        of its own. A writer opens the queue of all messages.

        Raises: KeyError if the queue is missing; as ``queues``.
        """
        return self._complete_queues().open(QueueId(topic, operator.index(queue_id)))

    def consume_queue_ext(self, topic: str, queue_id: int) -> ConsumeQueueExt:
        """Open the ext files of a queue. Raises: KeyError if they are missing."""
        self._require_open()
        return self._queues.open_ext(QueueId(topic, operator.index(queue_id)))

    def log_queue(self, topic: str, queue_id: int) -> StoredQueue:
        """Open the queue whose units lead into the commit log: of a compacted topic, that of all messages.

        Raises: as ``consume_queue``.
        """
        return self._complete_queues().open_log_queue(QueueId(topic, operator.index(queue_id)))

    def find_file_queues(self) -> FileQueues | None:
        """Return the queues whose units lead into the commit log, in files; None if they are in a RocksDB."""
        return self._complete_queues().find_file_queues()

    def describe_missing_units(self) -> list[str]:
        """Return a problem if the queues are in RocksDB, and lack the last messages of the log.

        A broker writes units without RocksDB's write-ahead log: the last ones are only in its memory, and are lost if
        it is killed. They are built from the log, and are missing only if the log cannot be read.
        Raises: StoreError, OSError.
        """
        self._require_open()
        return self._queues.describe_missing_units()

    def describe_built_units(self) -> list[str]:
        """Return a note if the last units of queues in RocksDB are built from the log. Raises: StoreError, OSError."""
        self._require_open()
        return self._queues.describe_built_units()

    def _complete_queues(self) -> OpenedQueues:
        """Return the queues when they have all messages that were put. Raises: StoreClosedError; StoreError."""
        self._require_open()
        if self._writer is not None:
            self._writer.dispatch_pending()
        return self._queues

    # ---- scan ----------------------------------------------------------------------------------------------

    scan = method_of_log(CommitLog.scan)

    def _scan_for_caller(self, options: dict[str, Any]) -> Scan:
        return self._scan_all((), options, stacklevel=5)

    def _scan_all(self, offsets: tuple[Any, ...], options: dict[str, Any], stacklevel: int) -> Scan:
        """Return a scan of all logs. Parameters: offsets, options: the arguments of ``CommitLog.scan``."""
        # An iterator could be read only once.
        conditions: dict[str, Any] = {name: list_if_iterator(value) for name, value in options.items()}
        conditions["containers"] = bool(conditions.get("containers"))
        scan = self._plan_by_queues(self.commit_log.scan(*offsets, **conditions), conditions)
        if self.reads_other_logs and not has_offset_bounds(offsets, conditions):
            scan = scan_all_logs(scan, self.find_compacted_queues(), self.plan_other_logs, conditions)
        others = {name: conditions.get(name) for name in ("tag", "key", "queue_ids")}
        warn_conditions(self, text_list(conditions.get("topic"), "topic"), others, stacklevel)
        return scan.explained_by(functools.partial(explain_empty_scan, self, conditions))

    def scan_log(self, **conditions: Any) -> Scan:
        """Return a scan of the commit log alone, without a warning of unknown topics.

        Parameters: conditions: as for ``scan``, but no iterators.
        """
        conditions["containers"] = bool(conditions.get("containers"))
        scan = self._plan_by_queues(self.commit_log.scan(**conditions), conditions)
        return scan.explained_by(functools.partial(explain_empty_scan, self, conditions))

    def _plan_by_queues(self, scan: Scan, conditions: Mapping[str, Any]) -> Scan:
        """Let a scan of topics read only the records to which the queues lead, where that is faster and complete."""
        planner = self.find_record_planner(conditions)
        return scan if planner is None else scan.planned_by(planner)

    def find_record_planner(self, conditions: Mapping[str, Any]) -> RecordPlanner | None:
        """Return a planner for scans of the commit log with these conditions; None if they read the complete log.

        Parameters: conditions: as for ``scan_log``.
        """
        topics, queue_ids = text_list(conditions.get("topic"), "topic"), integer_list(conditions.get("queue_ids"))
        reads_all = conditions.get("plan", "auto") == "scan" or conditions.get("verify_crc", False)
        is_plain = self.mode == "r" and not (self.leftovers or self.reads_other_logs or is_remote(self.path))
        sample = conditions.get("sample")
        if (topics is None and sample is None) or reads_all or not is_plain:
            return None
        tags = split_tags(conditions.get("tag"))
        chosen = None if sample is None else HashSample.of_share(parse_share(sample))
        return RecordPlanner(self.commit_log, self._queues, self._stamped, topics, queue_ids, tags, chosen)

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

    def find_compacted_queues(self) -> frozenset[QueueId]:
        """Return the queues whose messages are read from the compaction in place of the log."""
        return self._queues.find_compacted_queues() if self.compacted else frozenset()

    def leave_out_compacted(self, scan: Scan) -> Scan:
        """Return a scan of the log without the messages of the queues that are read from the compaction."""
        return leave_out_queues(scan, self.find_compacted_queues())

    def plan_other_logs(
        self, topics: Iterable[str] | None = None, queue_ids: Iterable[int] | None = None
    ) -> list[OtherLog]:
        """Plan to read the logs that are not the commit log, if the store was opened with ``tiered`` or ``compacted``.

        Parameters: topics, queue_ids: only queues of these; None for all. Raises: OSError; StoreError.
        """
        if not self.reads_other_logs:
            return []
        self._require_open()
        source = self._queues.consumer_queues
        return plan_other_logs(source, choose_queues(source.queues(), topics, queue_ids), self.find_compacted_queues())

    @suggests_keywords
    def dataset(
        self,
        *,
        columns: str | Iterable[str] | None = None,
        topic: str | Iterable[str] | None = None,
        tag: str | Iterable[str] | None = None,
        key: str | Iterable[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        tz: Zone = "UTC",
        limit: int | None = None,
        on_corrupt: Literal["raise", "skip"] = "raise",
        charset: str = "utf-8",
        names: Names = "rocketmq",
        verify_crc: bool = True,
        containers: bool = False,
        progress: Progress = False,
    ) -> StoreDataset:
        """Return the messages as a ``pyarrow.dataset.Dataset``, which DuckDB and other libraries query.

        A query reads only the columns that it needs. A filter on topic, tags, queueId, phyOffset, storeTimestamp or
        uniqKey reads fewer messages; Arrow computes any other filter. A filter on topic and uniqKey uses the index.

        Parameters: columns: as for ``scan``; None: also ``body_text``, which is null if a body is no text, and
        ``body_json``, which is null if that text is no JSON. Both cost nothing unless a query reads them. The names in
        the dataset are those of tables, such as queueId. topic, tag, key, since, until, tz: conditions of all messages
        of the dataset, as for ``scan``. With topic and key the index is used. limit: the dataset has only the first
        messages that meet them. on_corrupt: as for ``scan``; what is skipped gives a UserWarning. charset: of the
        bodies, for both columns. names: of the columns, also in filters: "rocketmq": such as queueId; "python": such as
        queue_id. verify_crc: compare bodies with their CRC; a body that does not match is null, ``bodyError`` says so,
        and a UserWarning has the number. containers: as for ``scan``. progress: of each query that scans the log, as
        for ``scan``.
        Raises: ModuleNotFoundError without pyarrow; ValueError, TypeError as ``scan``.

        Notes: A filter that uses the index finds the messages that the index holds. Items that are missing before,
        between or after the index files are noticed, and the log is scanned instead. The log is also scanned for topics
        with inner batches: the index does not have the keys of the messages in them. A gap inside one index file cannot
        be noticed: messageIndexEnable=false for a while leaves one. Only a scan finds the messages of a gap, and rolled
        back messages.
        Source: none.

        Examples:
        >>> rocketstore.open("demo").dataset().count_rows()
        101
        """
        import_extra("pyarrow.dataset", "arrow")
        from rocketstore.dataset.dataset_reader import Conditions, DatasetReader
        from rocketstore.dataset.store_dataset import StoreDataset

        conditions = Conditions.of(topic, tag, key, since, until, limit, tz)
        options: dict[str, Any] = {"on_corrupt": on_corrupt, "charset": charset, "progress": progress}
        self.commit_log.scan(**options)  # raises errors of these arguments
        warn_conditions(self, conditions.topics, {"tag": conditions.tags, "key": conditions.keys}, stacklevel=4)
        reader = DatasetReader(self, conditions, **options, verify_crc=verify_crc, containers=containers)
        return StoreDataset(reader, columns, names=names)

    def sql(
        self,
        statement: str,
        *,
        tables: Mapping[str, Any] | None = None,
        files: bool = False,
        on_corrupt: Literal["raise", "skip"] = "raise",
        tz: Zone = "UTC",
        verify_crc: bool = True,
        containers: bool = False,
    ) -> SqlResult:
        """Return the rows that a SELECT or EXPLAIN of DuckDB finds.

        Tables: ``messages``, the columns of ``dataset``, with ``body_text`` and ``body_json``, which are null if a body
        is not UTF-8 or no JSON; ``queues``, the units of all consume queues; ``topics``; ``groups``; ``lag``;
        ``index_files``; ``pending``. A table is computed if the statement names it. A query of messages reads only what
        it needs, as ``dataset`` says.

        Parameters: tables: more tables by name: all that DuckDB reads, such as tables of Arrow, pandas and polars, and
        the results of rocketstore; ``tables={"findings": rocketstore.verify(path)}`` are those of the command. files:
        let the statement read files too, as in ``FROM 'a.parquet'``. on_corrupt, verify_crc, containers: as for
        ``dataset``. tz: the time zone in which the statement sees times, as for ``scan``.
        Returns: SqlResult, with all rows in memory. Raises: ValueError for a wrong statement; StoreError for damaged
        records; ModuleNotFoundError without DuckDB.
        Source: none.

        Examples:
        >>> with rocketstore.open("demo") as store:
        ...     print(store.sql("SELECT topic, count(*) AS n FROM messages GROUP BY topic ORDER BY n"))
        <SqlResult: 2 rows>
        topic     n
        Users     1
        Orders  100
        """
        from rocketstore.sql.statement import run_statement, user_tables
        from rocketstore.store.overview.sql_tables import tables_of_store

        self._require_open()
        own = tables_of_store(self, on_corrupt, verify_crc=verify_crc, containers=containers)
        return run_statement(statement, own | user_tables(tables or {}), files=files, zone=find_time_zone(tz))

    @suggests_keywords
    def export_new(
        self,
        directory: str | os.PathLike[str],
        state: str | os.PathLike[str],
        *,
        columns: str | Iterable[str] | None = None,
        topic: str | Iterable[str] | None = None,
        tag: str | Iterable[str] | None = None,
        key: str | Iterable[str] | None = None,
        where: str | None = None,
        on_corrupt: Literal["raise", "skip"] = "raise",
        progress: Progress = False,
    ) -> NewPart:
        """Write the messages that are new since the last call as one more Parquet file of a directory.

        The first call writes all messages of the log. If no message is new, no file is written. A process that is
        killed in a call leaves no incomplete file by the name of a part: the next call completes or replaces it.

        Parameters: directory: is made if it is missing. state: the file that keeps up to which offset the log was read;
        it may be in the directory. columns, topic, tag, key, on_corrupt, progress: as for ``scan``. where: a condition
        of SQL, as for ``Where``. Each call for a state must have the same columns and conditions.
        Returns: NewPart. Raises: StoreError if the state belongs to other conditions, another directory or another
        log, if the log was cut since, or if another process exports to the directory; ModuleNotFoundError without
        pyarrow; OSError; as ``scan``.
        Source: none.
        """
        from rocketstore.incremental.new_part import export_new_part
        from rocketstore.incremental.parquet_part import write_parquet
        from rocketstore.sql.where import Where

        if self.reads_other_logs:
            raise ValueError("tiered and compacted messages have no offsets in the log: export_new reads the log alone")
        conditions: dict[str, Any] = {
            "columns": text_list(columns, "columns"),
            "topic": text_list(topic, "topic"),
            "tag": text_list(tag, "tag"),
            "key": text_list(key, "key"),
        }
        others = {name: conditions[name] for name in ("tag", "key")}
        warn_conditions(self, conditions["topic"], others, stacklevel=4)
        wheres = () if where is None else (Where(where),)
        skipped: list[str] = []

        def write(path: Path, begin: int, end: int) -> int:
            options = conditions | {"on_corrupt": on_corrupt, "progress": progress}
            scan = self.scan_log(begin_offset=begin, end_offset=end, **options).filtered(*wheres)
            rows = write_parquet(path, scan, conditions["columns"])
            skipped.extend(str(part.error) for part in scan.skipped)
            return rows

        asked = {"format": "parquet", **conditions, "where": where}
        part = export_new_part(self.commit_log, local_path(directory), local_path(state), asked, "parquet", write)
        return part._replace(reasons=[*part.reasons, *skipped])

    def may_have_inner_batches(self, topics: Iterable[str]) -> bool:
        """Return whether messages of topics may be in inner batches.

        False if the store has queues, and no batch queues; or if each of the topics has plain queues, and no batch
        queues.
        """
        plain, batches = (self.places.queues(kind) for kind in QUEUE_KINDS)
        if not batches.is_dir():
            return not plain.is_dir() and self.formats.queue_database is None
        has_batches = (topic for topic in topics if (batches / topic).is_dir() or not (plain / topic).is_dir())
        return next(has_batches, None) is not None

    # ---- by time -------------------------------------------------------------------------------------------

    @overload
    def get_offset_by_time(
        self,
        topic: str,
        timestamp: Time,
        queue_id: None = None,
        boundary: Boundary = "lower",
        *,
        exact_times: bool = False,
        tz: Zone = "UTC",
    ) -> dict[int, int]: ...
    @overload
    def get_offset_by_time(
        self,
        topic: str,
        timestamp: Time,
        queue_id: int,
        boundary: Boundary = "lower",
        *,
        exact_times: bool = False,
        tz: Zone = "UTC",
    ) -> int: ...
    def get_offset_by_time(
        self,
        topic: str,
        timestamp: Time,
        queue_id: int | None = None,
        boundary: Boundary = "lower",
        *,
        exact_times: bool = False,
        tz: Zone = "UTC",
    ) -> int | dict[int, int]:
        """Find queue offsets by store time.

        The answers are those of a broker. Its search is binary and assumes that store times never go back.

        Parameters: timestamp: epoch ms, a datetime, a date or an ISO 8601 text. queue_id: None for all queues of the
        topic. boundary: "lower": the first message of that time or later; "upper": the last message of that time or
        earlier. exact_times: read the times of all messages, without that assumption. tz: as for ``scan``.
        Returns: the queue offset, or a dict from queue id to queue offset. Raises: KeyError for a missing queue.
        Source: DefaultMessageStore.getOffsetInQueueByTime.
        """
        timestamp = epoch_ms(timestamp, "timestamp", find_time_zone(tz))
        self.commit_log.refresh()
        if queue_id is not None:
            return self.consume_queue(topic, queue_id).get_offset_by_time(timestamp, boundary, exact_times=exact_times)
        ids = self.queue_ids(topic)
        if not ids:
            raise KeyError(describe_unknown_topic(self, topic))
        return {
            queue: self.consume_queue(topic, queue).get_offset_by_time(timestamp, boundary, exact_times=exact_times)
            for queue in ids
        }

    def find_phy_offset_by_time(
        self, timestamp: Time, *, exact_times: bool = False, tz: Zone = "UTC"
    ) -> PhyOffsetByTime:
        """Find the physical offset of the first message that was stored at a time or later.

        The answer is the end of the log if there is no later message. Messages that cannot be read are ignored. Files
        whose first messages, and those of their neighbours, are more than a day older than the time are not read. Their
        messages are all older, unless the clock was ahead by more than a day within a file, and was corrected in it.
        Parameters: timestamp: epoch ms, a datetime, a date or an ISO 8601 text. exact_times: read every file.
        tz: as for ``scan``.
        Returns: PhyOffsetByTime, which says whether files were not read. Raises: TypeError, ValueError for other times.
        Source: none.

        Examples:
        >>> rocketstore.open("demo").find_phy_offset_by_time(0).phy_offset
        0
        """
        first_time = epoch_ms(timestamp, "timestamp", find_time_zone(tz))
        return find_phy_offset_by_time(self.commit_log, first_time, exact_times=exact_times)

    def get_phy_offset_by_time(self, timestamp: Time, *, exact_times: bool = False, tz: Zone = "UTC") -> int:
        """Return the physical offset of the first message that was stored at a time or later.

        Parameters, raises: as ``find_phy_offset_by_time``, which also says whether the answer is certain.
        """
        return self.find_phy_offset_by_time(timestamp, exact_times=exact_times, tz=tz).phy_offset

    # ---- by queue, offset and id ---------------------------------------------------------------------------

    @suggests_keywords
    def get_message(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_msg_nums: int = 32,
        *,
        tag: str | Iterable[str] | None = None,
        limits: Literal["broker"] | None = None,
        verify_crc: bool = True,
    ) -> GetMessageResult:
        """Read messages of a queue as a consumer does, starting at a queue offset.

        Parameters: max_msg_nums: the largest number of messages to return. tag: "a||b", or several tags; "*" or None
        for all. limits: "broker" also ends where a broker ends a read: at the end of the queue's file, after 800 units,
        and at the broker's limits of bytes. verify_crc: compare bodies with their CRC; never done with limits="broker".
        Returns: GetMessageResult: a status of RocketMQ and the queue offset of the next read. A unit that leads to no
        sound record of the queue gives no message. With limits="broker" a record of another queue is a message, as for
        a broker.
        Raises: ValueError, TypeError for invalid arguments; UnsupportedFormatError; CorruptFileError, also if a body
        does not match its CRC.
        Source: DefaultMessageStore.getMessage.

        Examples:
        >>> [message.body for message in rocketstore.open("demo").get_message("Orders", 0, 10, 2)]
        [b'order 10', b'order 11']
        """
        self._require_open()
        name = QueueId(topic, operator.index(queue_id))
        place = operator.index(queue_offset), operator.index(max_msg_nums)
        ext = None if tag is None else self._queues.find_ext(name)
        view = self._views.find_kept_queue_view(name)
        if view is not None:
            return self._kept_readable(get_message(view, name, *place, tag, limits, ext, verify_crc))
        try:
            queue = self.consume_queue(*name)
        except KeyError:
            return GetMessageResult.without_queue(lambda: explain_missing_queue(self, name))
        look = functools.partial(self._views.view_queue, name)
        return self._kept_readable(get_message_of_queue(queue, look, name, *place, tag, limits, ext, verify_crc))

    def look_message_by_offset(self, phy_offset: int, *, verify_crc: bool = True) -> Message | None:
        """Read the message at a physical offset, bytes; None if no message begins there.

        Parameters: verify_crc: compare the body with its CRC. Raises: CorruptFileError if it does not match.
        Source: DefaultMessageStore.lookMessageByOffset.
        """
        return self.commit_log.find_sound_message(phy_offset, verify_crc=verify_crc)

    def query_message_by_id(self, msg_id: str, *, verify_crc: bool = True) -> Message | None:
        """Read the message of an offset message id, or the newest one of a client's message id; None if it is missing.

        A client's message id is the unique key of the message, its ``uniq_key``: the index finds it in all topics. An
        offset message id is the message's ``msg_id``, and needs no index.

        Parameters: verify_crc: compare the body with its CRC. Raises: ValueError for an id that no message can have;
        CorruptFileError if the body does not match its CRC, or for damage that the search meets.
        Source: DefaultMQAdminExtImpl.viewMessage.
        """
        if not isinstance(msg_id, str):
            raise TypeError(f"msg_id={msg_id!r:.80}: a str was expected")
        with contextlib.suppress(ValueError):
            phy_offset = phy_offset_of(msg_id)
            message = self.look_message_by_offset(phy_offset, verify_crc=False)
            if message is not None and message.msg_id == msg_id.upper():
                return self.look_message_by_offset(phy_offset) if verify_crc else message
        keys = [*dict.fromkeys([msg_id, msg_id.upper()])]
        found = self._query_keys(None, keys, 1, (LONG_MIN, LONG_MAX), "U", "raise" if verify_crc else "ignore")
        if found:
            return found.messages[0]
        phy_offset_of(msg_id)  # raises for a text that is no id
        return None

    # ---- by key --------------------------------------------------------------------------------------------

    @property
    def coverage(self) -> Coverage:
        """The index and the log that queries by key read, and which messages they may miss."""
        self._require_open()
        return self._views.find_coverage()

    @suggests_keywords
    def query_messages(
        self,
        topic: Any = None,
        key: Any = NOT_GIVEN,
        limit: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
        *,
        tz: Zone = "UTC",
        index_type: IndexType | None = None,
        max_scan: int = MAX_SCAN,
        threads: int = 1,
        verify_crc: bool = True,
    ) -> QueryMessagesResult:
        """Find the messages of many keys by the index, and verify each message on its record.

        The times in the index are whole seconds and sometimes wrong. The query does not use them: it walks chains to
        their end in every file that may have messages of the log. So it hides no message and returns each once. After
        several queries with times it reads the store times of all messages to which the entries of a full file lead.
        From then on, it leaves the file out if all of them are outside the times of a query.

        Parameters: topic: str, or a column of n str; None for all topics. key: one key, or several as for
        ``hash_keys``; a key is a word of KEYS, or UNIQ_KEY. A single argument is the key. limit: the largest number of
        messages for a key, the newest; None for all. since, until: store time, from the first to before the second:
        epoch ms, a datetime, a date or an ISO 8601 text. tz: the time zone of times that name none, as for ``scan``.
        index_type: "U" searches only UNIQ_KEY, "T" searches tags. max_scan: when more index entries with the hash of a
        key than this number led to no message of the answer and the same file has more of them, the search for the key
        ends and its answer is incomplete; entries are read in steps, so the search may read somewhat more. threads: the
        number of threads; at most one for each key is used. verify_crc: compare bodies with their CRC when they are
        read.
        Returns: QueryMessagesResult, which says whether and why it may be incomplete. If a key has more messages than
        ``limit``, its answer is incomplete, and ``has_more`` is true. Its ``why`` says why keys have no message.
        Raises: ValueError, TypeError for keys that are no strings; UnsupportedFormatError; CorruptFileError for damage
        that the search meets, and when a message is read whose body does not match its CRC. A damaged index file among
        others is skipped, and is a reason for an incomplete answer.
        Source: DefaultMessageStore.queryMessage, which returns collisions, and at most 64 messages.
        """
        on_wrong_crc: OnWrongCrc = "raise" if verify_crc else "ignore"
        times = time_bounds(since, until, tz)
        topics, keys = map(list_if_iterator, topic_and_key(topic, key))
        found = self._query_keys(topics, keys, limit, times, index_type, on_wrong_crc, max_scan, threads)
        if not found and isinstance(topics, str):
            warn_unknown_topics(self, [topics], stacklevel=4)
        if (found.offsets[1:] > found.offsets[:-1]).all():
            return found
        return found.explained_by(functools.partial(explain_missing_keys, self, topics, keys, index_type, times))

    def query_keys(
        self,
        topic: Any,
        key: Any,
        limit: int | None,
        since: Time | None,
        until: Time | None,
        index_type: IndexType | None,
        on_wrong_crc: OnWrongCrc,
    ) -> QueryMessagesResult:
        """Find the messages of many keys for a caller of this package, without a warning of unknown topics.

        Parameters: as of ``query_messages``. on_wrong_crc: how the result reads bodies that do not match their CRC.
        """
        return self._query_keys(topic, key, limit, time_bounds(since, until, "UTC"), index_type, on_wrong_crc)

    def _query_keys(
        self,
        topic: Any,
        key: Any,
        limit: int | None,
        times: tuple[int, int],
        index_type: IndexType | None,
        on_wrong_crc: OnWrongCrc,
        max_scan: int = MAX_SCAN,
        threads: int = 1,
    ) -> QueryMessagesResult:
        """Find the messages of many keys. Parameters: topic: None for all topics. Others: as of ``query_keys``."""
        self._require_open()
        if topic is None:
            options = index_type, on_wrong_crc, max_scan, threads
            names = known_topics(self) or [""]
            parts = [self._query_keys(name, key, limit, times, *options) for name in names]
            joined = MessageBatch.join([part.messages for part in parts])
            newness = joined.store_timestamp if self.reads_other_logs else joined.phy_offset
            return join_results(parts, joined, newness, limit)
        view = self._views.view_index(index_type)
        found = query_messages(view, topic, key, limit, *times, index_type, max_scan, threads, on_wrong_crc)
        return self._query_other_logs(found, topic, key, times, index_type, limit, on_wrong_crc)

    def find_other_sources(self, topics: Collection[str] | None) -> OtherSources:
        """Find where queries by key read other logs, as the store was opened with ``tiered`` or ``compacted``.

        Parameters: topics: of the queries; None for all.
        """
        self._require_open()
        tier = None
        if self.tiered:
            tier = StoredTier(self.tier, self.config, self.places.tiered_index, find_index_slots(self.config))
        compacted = self.find_compacted_queues()
        if not compacted:
            return OtherSources(tier, compacted, frozenset(), [])
        return find_other_sources(tier, compacted, topics, self._queues.local_queues, self._queues.consumer_queues)

    def _query_other_logs(
        self,
        found: QueryMessagesResult,
        topics: Any,
        keys: Any,
        times: tuple[int, int],
        index_type: IndexType | None,
        limit: int | None,
        on_wrong_crc: OnWrongCrc,
    ) -> QueryMessagesResult:
        """Add the messages of other logs to the answer of a query, if the store was opened so."""
        if not self.reads_other_logs:
            return found
        names, words = pair_topics_with_keys(topics, keys)
        sources = self.find_other_sources({*names})
        return add_other_messages(found, sources, names, words, times, index_type, limit, on_wrong_crc)

    def _query_message(
        self,
        topic: str | None,
        key: str | NotGiven,
        limit: int | None,
        times: tuple[int, int],
        index_type: IndexType | None,
        max_scan: int,
        verify_crc: bool,
    ) -> QueryMessageResult:
        """Find the messages of a key for a method that a user called: a warning names the line of that call."""
        self._require_open()
        on_wrong_crc: OnWrongCrc = "raise" if verify_crc else "ignore"
        topic, word = (topic, key) if topic is not None and isinstance(key, str) else topic_and_key(topic, key)
        if topic is None or self.reads_other_logs:
            found = self._query_keys(topic, [word], limit, times, index_type, on_wrong_crc, max_scan)
            result = found.of_only_key()
        else:
            view = self._views.view_index(index_type)
            result = query_message(view, topic, word, limit, times, index_type, max_scan, on_wrong_crc)
        if not result:
            warn_unknown_topics(self, None if topic is None else [topic], stacklevel=5)
            result = result.explained_by(
                functools.partial(explain_missing_keys, self, topic, [word], index_type, times, [0])
            )
        return self._kept_readable(result)

    @suggests_keywords
    def query_message(
        self,
        topic: str | None = None,
        key: str | NotGiven = NOT_GIVEN,
        limit: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
        *,
        tz: Zone = "UTC",
        index_type: IndexType | None = None,
        max_scan: int = MAX_SCAN,
        verify_crc: bool = True,
    ) -> QueryMessageResult:
        """Find the messages of a key, newest first.

        Parameters, raises: as ``query_messages``, for one key; a single argument is the key, which is searched in all
        topics. Returns: QueryMessageResult. If it is empty, its ``why`` is the reason.
        Source: DefaultMessageStore.queryMessage.

        Examples:
        >>> rocketstore.open("demo").query_message("Orders", "order-7")[0].body
        b'order 7'
        """
        return self._query_message(topic, key, limit, time_bounds(since, until, tz), index_type, max_scan, verify_crc)

    @suggests_keywords
    def query_message_by_unique_key(
        self, topic: str | None = None, uniq_key: str | NotGiven = NOT_GIVEN, *, verify_crc: bool = True
    ) -> QueryMessageResult:
        """Find the messages with a unique key, which a client gives as message id.

        Parameters, returns, raises: as ``query_message``. Source: MQAdminImpl.queryMessageByUniqKey.
        """
        return self._query_message(topic, uniq_key, None, (LONG_MIN, LONG_MAX), "U", MAX_SCAN, verify_crc)

    @suggests_keywords
    def query_message_by_tag(
        self,
        topic: str | None = None,
        tag: str | NotGiven = NOT_GIVEN,
        limit: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
        *,
        tz: Zone = "UTC",
        max_scan: int = MAX_SCAN,
        verify_crc: bool = True,
    ) -> QueryMessageResult:
        """Find the messages with these tags. RocketMQ adds index entries of tags since 5.4.0.

        Parameters: tag: the full TAGS of a message. Other parameters, returns, raises: as ``query_message``.
        Source: IndexService.queryOffset with INDEX_TAG_TYPE.
        """
        return self._query_message(topic, tag, limit, time_bounds(since, until, tz), "T", max_scan, verify_crc)

    # ---- follow --------------------------------------------------------------------------------------------

    def follow(
        self,
        from_phy_offset: int | None = None,
        *,
        poll: float | None = 0.001,
        stop: threading.Event | None = None,
    ) -> Iterator[DispatchRequest]:
        """Yield each message as it is dispatched, also while another process writes the store.

        Parameters: from_phy_offset: bytes; None for the beginning of the log. To resume later, pass the sum of
        phy_offset and size of the last request. poll: seconds between two checks of the log; None stops at the log's
        current end. stop: ends the iteration.
        Returns: iterator of DispatchRequest. Raises: CorruptFileError for damage that records follow.

        Notes: A store that was opened with ``tiered`` or ``compacted`` begins with the messages that are in other logs,
        if ``from_phy_offset`` is None. Later messages of compacted topics come from the log.
        Source: ReputMessageService.doReput.
        """
        return requests_of(self._follow(from_phy_offset, COLUMNS, poll, stop))

    def follow_batches(
        self,
        from_phy_offset: int | None = None,
        *,
        columns: str | Iterable[str] | None = None,
        poll: float | None = 0.001,
        stop: threading.Event | None = None,
    ) -> Iterator[MessageBatch]:
        """Yield messages as ``follow`` does, in batches.

        Parameters: columns: as for ``scan``. Other parameters, raises: as ``follow``. Returns: iterator of
        MessageBatch.
        """
        names = text_list(columns, "columns")  # an iterator could be read only once
        return self._follow(from_phy_offset, names, poll, stop)

    def _follow(
        self, from_phy_offset: int | None, columns: list[str] | None, poll: float | None, stop: threading.Event | None
    ) -> Iterator[MessageBatch]:
        log = self.commit_log
        if from_phy_offset is not None or not self.reads_other_logs:
            return follow_batches(log, from_phy_offset, poll, stop, columns)
        return follow_all_logs(log, self.plan_other_logs, poll, stop, columns)

    # ---- summary and lag -----------------------------------------------------------------------------------

    def summary(self, *, count_messages: bool = True) -> StoreSummary:
        """Summarise all parts of the store.

        Parameters: count_messages: also count the messages of all queues; this opens each queue.
        Returns: StoreSummary. A value that cannot be read is None, and the reason is among its problems.
        """
        self._require_open()
        with held_lists(self.path):
            return summarize(self, count_messages=count_messages)

    def info(self) -> StoreSummary:
        """Return the summary of the store, as ``summary`` does. ``rocketstore info`` shows it."""
        return self.summary()

    @suggests_keywords
    def consumer_lag(
        self,
        group: str | Iterable[str] | None = None,
        *,
        topic: str | Iterable[str] | None = None,
        log_bytes: bool = False,
    ) -> Rows[ConsumerLag]:
        """Return how far consumer groups are behind the ends of their queues, one ConsumerLag for each queue.

        The offsets are from consumerOffset.json, or from lmqConsumerOffset.json if the broker has enableLmq, or from
        the broker's RocksDB. The queues
        are the read queues of each topic of which the group has an offset. A queue without an offset counts from 0. A
        queue that is not on disk has no messages.

        Parameters: group, topic: one or several; None for all. An unknown name gives a warning. log_bytes: also count
        the bytes of the messages that were not consumed; this reads all their units.
        Returns: a sequence of rows with the methods to_arrow, to_pandas and to_polars.
        Raises: StoreError if the offsets are in a RocksDB that cannot be read.
        """
        return self._find_lag(group, topic, log_bytes, stacklevel=4)

    @suggests_keywords
    def lag(
        self, group: str | Iterable[str] | None = None, *, topic: str | Iterable[str] | None = None
    ) -> Rows[ConsumerLag]:
        """Return how far consumer groups are behind, as ``consumer_lag`` does. ``rocketstore lag`` shows it."""
        return self._find_lag(group, topic, log_bytes=False, stacklevel=4)

    def _find_lag(
        self,
        group: str | Iterable[str] | None,
        topic: str | Iterable[str] | None,
        log_bytes: bool,
        stacklevel: int,
    ) -> Rows[ConsumerLag]:
        self._require_open()
        groups, topics = text_set(group, "group"), text_set(topic, "topic")
        for text in explain_unknown_names(self, topics, groups):
            warnings.warn(text, stacklevel=stacklevel)
        return consumer_lag(self, groups, topics, log_bytes=log_bytes)

    @suggests_keywords
    def pending(
        self,
        *,
        topic: str | Iterable[str] | None = None,
        group: str | Iterable[str] | None = None,
        kind: str | Iterable[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        tz: Zone = "UTC",
        limit: int | None = None,
    ) -> PendingMessages:
        """Return the messages that wait: delayed, timed, of open transactions, popped but not acknowledged, or retried.

        The broker's checkpoints tell which messages are delivered. A broker that was killed may have delivered more: a
        message is left out if the topic to which it goes has it.

        Parameters: topic, group, kind: one or several; PendingMessage has the kinds. since, until: due times, from the
        first to before the second; half messages have none and are left out then. limit: the largest number of
        messages, the first by due time. tz: as for ``scan``. An unknown topic or group gives a warning, if no message
        is found.
        Returns: a sequence of rows with the methods to_arrow, to_pandas and to_polars. Its ``reasons`` say
        why it may be incomplete. Raises: ValueError for an unknown kind or a wrong time; UnsupportedFormatError for
        queues in RocksDB, without its extra; CorruptFileError.
        Source: ScheduleMessageService, TimerMessageStore, TransactionalMessageServiceImpl, PopReviveService.

        Examples:
        >>> rocketstore.open("demo").pending(topic="Orders")
        <Rows: 0>
        """
        from rocketstore.store.pending.find_pending import PendingFilter, find_pending
        from rocketstore.store.pending.pending_message import KINDS

        self._require_open()
        kinds = text_set(kind, "kind")
        for name in kinds or ():
            if name not in KINDS:
                raise ValueError(f"kind={name!r:.80}: must be one of {', '.join(KINDS)}")
        require_limit(limit)
        zone = find_time_zone(tz)
        begin, end = ms_or_none(since, "since", zone), ms_or_none(until, "until", zone)
        wanted = PendingFilter(text_set(topic, "topic"), text_set(group, "group"), kinds, begin, end)
        found = find_pending(self, wanted, limit)
        for text in [] if found else explain_unknown_names(self, wanted.topics, wanted.groups):
            warnings.warn(text, stacklevel=3)
        return found

    @suggests_keywords
    def dead_letters(
        self,
        *,
        topic: str | Iterable[str] | None = None,
        group: str | Iterable[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        tz: Zone = "UTC",
        limit: int | None = None,
        retry: bool = False,
    ) -> DeadMessages:
        """Return the messages that consumer groups could not process, from the topics of dead letters (%DLQ%).

        Parameters: topic, group: one or several; the topic is that to which a message was sent. since, until: store
        times, from the first to before the second. tz: as for ``scan``. limit: the largest number of messages. retry:
        return the messages of the retry topics (%RETRY%) instead, also those that were consumed. An unknown topic or
        group gives a warning, if no message is found.
        Returns: a sequence of rows with the methods to_arrow, to_pandas and to_polars. Its ``reasons`` say
        why it may be incomplete. Raises: ValueError for a wrong time or limit; UnsupportedFormatError for queues in
        RocksDB, without its extra; CorruptFileError.
        Source: AbstractSendMessageProcessor.consumerSendMsgBack.

        Examples:
        >>> rocketstore.open("demo").dead_letters(group="billing")
        <Rows: 0>
        """
        from rocketstore.store.overview.dead_letters import DeadFilter, find_dead_letters

        self._require_open()
        require_limit(limit)
        zone = find_time_zone(tz)
        begin, end = ms_or_none(since, "since", zone), ms_or_none(until, "until", zone)
        wanted = DeadFilter(text_set(group, "group"), text_set(topic, "topic"), begin, end, limit)
        found = find_dead_letters(self, wanted, retry=retry)
        for text in [] if found else explain_unknown_names(self, wanted.topics, wanted.groups):
            warnings.warn(text, stacklevel=3)
        return found

    @suggests_keywords
    def unconsumed(
        self,
        group: str,
        *,
        subscribe: str | Iterable[str] | None = None,
        start: Literal["first", "last"] = "first",
        limit: int | None = None,
    ) -> Unconsumed:
        """Return the messages that a consumer group still gets: queue by queue, then its delayed and popped messages.

        Messages wait in the queues from the group's offset on, also in its retry topics. Delayed retries have the kind
        "retry", and messages that were popped and not acknowledged have the kind "pop". An offset before the beginning
        of a queue counts as this beginning; behind an offset beyond the end there is no message.

        Parameters: group. subscribe: the topics that its consumers read, each with tags if they want only some: "TOPIC"
        or "TOPIC=TagA || TagB"; one or several. None for the topics in which the group has offsets. start: where
        consumers begin in a queue without an offset: "first"; or "last", for which a broker gives all messages of a
        queue that begins at 0. limit: the largest number of messages.
        Returns: a sequence of rows with the methods to_arrow, to_pandas and to_polars. Its ``totals`` have
        messages, bytes and the oldest time of each queue, its ``reasons`` say why it may be incomplete. An unknown
        group gives a warning, unless ``subscribe`` is given. Raises: ValueError for wrong arguments; StoreError if the
        offsets are in a RocksDB that cannot be read.
        Source: RebalancePushImpl.computePullFromWhere, ConsumerManageProcessor.

        Examples:
        >>> len(rocketstore.open("demo").unconsumed("billing"))
        60
        """
        from rocketstore.store.overview.unconsumed import find_unconsumed, parse_subscriptions

        self._require_open()
        require_limit(limit)
        if start not in ("first", "last"):
            raise ValueError(f"start={start!r}: must be 'first' or 'last'")
        subscribed = parse_subscriptions(subscribe)
        found = find_unconsumed(self, group, subscribed, start, limit)
        if not found and subscribed is None and (text := explain_unknown_group(self, group)) is not None:
            warnings.warn(text, stacklevel=3)
        return found

    @suggests_keywords
    def trace(
        self,
        key: str | None = None,
        *,
        uniq_key: str | None = None,
        msg_id: str | None = None,
        topic: str | Iterable[str] | None = None,
        limit: int = MAX_MSGS_NUM_BATCH,
    ) -> MessageTrace:
        """Return the life of a message: one event for each of its records, for each group, and for what it waits for.

        The index finds the records in all topics, also in the broker's own: of delays, timers, transactions, retries
        and dead letters. The events of clients are from the trace topics, if the clients write them.

        Parameters: give one of key, uniq_key and msg_id. key: a key, or a unique key. uniq_key: the id that a client
        shows. msg_id: an offset message id. topic: with a key, only messages that were sent to it; one or several.
        limit: the largest number of messages of a key, the newest.
        Returns: a sequence of rows with the methods to_arrow, to_pandas and to_polars. It is empty if no
        message is found. Its ``reasons`` say why events may be missing. An unknown topic gives a warning, if no message
        is found. Raises: ValueError for wrong arguments; UnsupportedFormatError for queues in RocksDB, without its
        extra; CorruptFileError.
        Source: MessageTrackView and TraceView of RocketMQ's dashboard, which show a part of this.

        Examples:
        >>> for event in rocketstore.open("demo").trace("order-7", topic="Orders"):
        ...     print(event.kind, event.topic, event.queue_offset, event.group)
        produced Orders None None
        stored Orders 7 None
        consumed Orders 7 billing
        """
        from rocketstore.store.trace.find_trace import TraceQuestion, find_trace

        self._require_open()
        if sum(name is not None for name in (key, uniq_key, msg_id)) != 1:
            raise ValueError("give one of key, uniq_key and msg_id")
        topics = text_set(topic, "topic")
        if topics is not None and key is None:
            raise ValueError(f"topic={topic!r:.80}: only a key needs a topic")
        require_limit(limit)
        found = find_trace(self, TraceQuestion(key, uniq_key, msg_id, topics, limit))
        for text in [] if found else explain_unknown_names(self, topics, None):
            warnings.warn(text, stacklevel=3)
        return found

    # ---- space ---------------------------------------------------------------------------------------------

    @overload
    def du(self, *, by: None = None) -> DiskUsage: ...
    @overload
    def du(
        self,
        *,
        by: Literal["topic", "queue", "day", "hour", "tag"],
        topic: str | Iterable[str] | None = None,
        exact: bool = False,
        tz: Zone = "UTC",
        progress: Progress = False,
    ) -> MessageUsage: ...
    @suggests_keywords
    def du(
        self,
        *,
        by: str | None = None,
        topic: str | Iterable[str] | None = None,
        exact: bool = False,
        tz: Zone = "UTC",
        progress: Progress = False,
    ) -> DiskUsage | MessageUsage:
        """Return what takes the space: the parts of the store, or the messages of each topic, queue, day, hour or tag.

        Messages are counted by the units of the queues, which is fast: records without a unit, such as rolled back
        messages, are then in ``other_bytes``.

        Parameters: by: None for the parts with their files, and the disks with the space that they have left. topic:
        one or several; None for all. exact: count the records of the log, which reads the whole log. tz: the time zone
        of days and hours, as for ``scan``. progress: of
        the scan with ``exact``, as for ``scan``.
        Returns: a sequence of rows, the largest first, with the methods to_arrow, to_pandas and to_polars.
        Its ``reasons`` say why numbers may be wrong. Raises: ValueError for another grouping, or if ``topic`` or
        ``exact`` is given without a grouping.

        Examples:
        >>> [(row.topic, row.messages) for row in rocketstore.open("demo").du(by="topic")]
        [('Orders', 100), ('Users', 1)]
        """
        from rocketstore.store.usage.disk_usage import measure_disk
        from rocketstore.store.usage.message_usage import GROUPINGS, measure_messages

        self._require_open()
        zone = find_time_zone(tz)
        topics = text_set(topic, "topic")
        if by is None:
            if topics is not None or exact:
                raise ValueError("topic and exact are for messages: also give by")
            return measure_disk(self)
        if by not in GROUPINGS:
            raise ValueError(f"by={by!r}: must be one of {', '.join(GROUPINGS)}, or None")
        warn_unknown_topics(self, topics, stacklevel=4)
        return measure_messages(self, by, topics, exact=exact, zone=zone, progress=progress)

    @overload
    def count(
        self,
        by: None = None,
        *,
        topic: str | Iterable[str] | None = None,
        tag: str | Iterable[str] | None = None,
        key: str | Iterable[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        tz: Zone = "UTC",
        where: str | None = None,
        progress: Progress = False,
    ) -> int: ...
    @overload
    def count(
        self,
        by: str | Iterable[str],
        *,
        topic: str | Iterable[str] | None = None,
        tag: str | Iterable[str] | None = None,
        key: str | Iterable[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        tz: Zone = "UTC",
        where: str | None = None,
        progress: Progress = False,
    ) -> Counts: ...
    @suggests_keywords
    def count(
        self,
        by: str | Iterable[str] | None = None,
        *,
        topic: str | Iterable[str] | None = None,
        tag: str | Iterable[str] | None = None,
        key: str | Iterable[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        tz: Zone = "UTC",
        where: str | None = None,
        progress: Progress = False,
    ) -> Counts | int:
        """Count messages and the bytes of their records by topic, time, tag and so on. It reads the whole log.

        Parameters: by: None for the number of messages; or one or several of topic, queue, tag, day, hour, minute,
        born_host, store_host and reconsume_times, also with commas between them; days, hours and minutes are those of
        the store time. The other conditions are those of ``scan``: topic, tag, key: one or several. since, until: store
        times, from the first to before the second. tz: the time zone of days and hours, and of times that name none, as
        for ``scan``. where: a condition of SQL, as for ``Where``. progress: as for ``scan``. The bytes of an inner
        batch count with the first of its messages that meets the conditions.
        Returns: an int without ``by``; else a sequence of rows with the methods to_arrow, to_pandas and to_polars. Its
        ``reasons`` name damaged ranges of the log. Raises: ValueError for an unknown name or a wrong time; without
        ``by`` also StoreError for a damaged range.

        Examples:
        >>> rocketstore.open("demo").count("topic,queue", topic="Orders")
        <Counts: 1 row by topic, queue>
        topic   queue_id  messages  log_bytes
        Orders         0       100      12880
        """
        from rocketstore.sql.where import Where
        from rocketstore.store.usage.counts import count_messages, parse_groupings
        from rocketstore.store.usage.group_counter import GroupCounter
        from rocketstore.store.usage.message_usage import scan_options

        self._require_open()
        conditions: dict[str, Any] = {"topic": topic, "tag": tag, "key": key, "since": since, "until": until, "tz": tz}
        wheres = () if where is None else (Where(where, tz=tz),)
        if by is None:
            return self._scan_all((), conditions | {"progress": progress}, stacklevel=5).filtered(*wheres).count()
        groupings = parse_groupings(by)
        options = scan_options(GroupCounter(groupings))
        scan = self._scan_all((), conditions | {"progress": progress} | options, stacklevel=5).filtered(*wheres)
        return count_messages(groupings, scan, find_time_zone(tz))

    def metrics(self) -> Metrics:
        """Return numbers of the store for a monitoring system: messages, disk, consumer lag, pending messages.

        Returns: a sequence of samples with the methods to_arrow, to_pandas and to_polars. Its ``text`` has the samples
        in the format of OpenMetrics, and its ``reasons`` say why numbers are missing.
        """
        from rocketstore.store.usage.metrics import read_metrics

        self._require_open()
        with held_lists(self.path):
            return read_metrics(self)

    @suggests_keywords
    def expiry(self, *, hours: float | None = None, before: Time | None = None, tz: Zone = None) -> ExpiryPlan:
        """Return the files that a broker would delete, and when, and the messages that are lost by that.

        The age of a file of the log counts from its last change. A broker deletes files that are old enough at the
        hours of deleteWhen, and at once if a disk is used by more than diskMaxUsedSpaceRatio. Above
        diskSpaceCleanForciblyRatio it deletes files of any age. The last file of the log always stays. The settings are
        those of the broker's properties file (``config``), or RocketMQ's defaults.

        Parameters: hours: in place of fileReservedTime. before: in place of it: files that were not changed since then
        are old enough. tz: the broker's time zone, by name, or as a tzinfo, in which deleteWhen is; None for that of
        this machine. If it is given, it is also the zone of a time ``before`` that names none; else that is UTC.
        Returns: a sequence of files, oldest first, with the methods to_arrow, to_pandas and to_polars. Its ``queues``
        and ``groups`` are the messages that queues and consumer groups lose. Nothing is deleted;
        ``delete_expired_files`` does so. Raises: ValueError for a wrong time, number or time zone, or if both hours and
        before are given; StoreError, OSError if the log cannot be read.
        Source: CleanCommitLogService.

        Examples:
        >>> plan = rocketstore.open("demo").expiry(hours=72)
        >>> plan.min_phy_offset, list(plan.groups)
        (0, [])
        """
        from rocketstore.store.usage.expiry_plan import plan_expiry

        self._require_open()
        if hours is not None and before is not None:
            raise ValueError("give hours or before, not both")
        zone = find_time_zone(tz)
        latest = ms_or_none(before, "before", UTC if tz is None else zone)
        return plan_expiry(self, hours, latest, zone)

    # ---- topics --------------------------------------------------------------------------------------------

    def __getitem__(self, topic: str) -> Topic:
        """Return a topic that has a queue on disk. Raises: KeyError; UnsupportedFormatError for queues in RocksDB."""
        if not isinstance(topic, str):
            raise TypeError(f"store[{topic!r:.80}]: a store has topics by name, such as store['Orders']")
        if topic not in self:
            text = explain_unknown_topic(self, topic) or f"{self.path}: topic {topic!r} has no queue"
            raise KeyError(text)
        return Topic(self, topic)

    def _describe_unknown(self, name: str) -> str:
        with contextlib.suppress(OSError, StoreError):
            if name in self:
                return f": did you mean store[{name!r}]?"
        return super()._describe_unknown(name)

    @property
    def topics(self) -> Topics:
        """The topics that have messages, by name. ``topic_configs`` has all topics of the broker."""
        return Topics(self)

    def __contains__(self, topic: object) -> bool:
        """Return whether a topic, or the name of a topic, has a queue on disk."""
        name = topic.name if isinstance(topic, Topic) else topic
        return isinstance(name, str) and bool(self.queue_ids(name))

    def __iter__(self) -> Iterator[Topic]:
        """Yield the topics that have a queue on disk, sorted by name."""
        return (Topic(self, name) for name in dict.fromkeys(topic for topic, _ in self.queues()))

    # ---- reasons ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reopened(self) -> Iterator[MessageStore]:
        """Give this store to a ``with`` block. If it was closed, open the same store again for reading, for the block.

        Raises: as ``rocketstore.open``.
        """
        if not self._closed:
            yield self
            return
        with MessageStore.open(
            self.path, config=self.config, leftovers=self.leftovers, tiered=self.tiered, compacted=self.compacted
        ) as store:
            yield store

    # ---- closing -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all parts. A store that was written is left as a broker that stops cleanly leaves it.

        If a writer is not closed, by this method or by ``with``, the next opening for writing, or a broker, recovers
        the store as after a crash. Later calls for messages, queues and index, and to write, raise StoreClosedError.
        Raises: OSError, StoreError if messages that were put cannot be written to the disk; NestedCallError in the
        middle of another call of this thread, for example from a signal handler.
        Source: DefaultMessageStore.shutdown.
        """
        if self._writer is not None:
            if self._writer.reput.is_current:
                raise StoreError(f"{self.path}: cannot be closed by its own dispatcher")
            self._writer.busy.require_idle("close")
        with contextlib.ExitStack() as stack:  # closes each part, even if closing another part raises
            for part in (self._log, self._index, self._queues):
                stack.callback(part.close)
            stack.callback(self._read_columns)
            stack.callback(self._end_reads)
            if self._writer is not None:
                self._writer.close()

    def _kept_readable(self, found: Found) -> Found:
        """Return a result after noting it: its columns are read at their first use, or when the store closes."""
        self._results.add(found)
        return found

    def _read_columns(self) -> None:
        """Read the columns of results that are still used, since they cannot be read from a closed store."""
        for found in [*self._results]:
            with contextlib.suppress(StoreError, OSError):
                _ = found.messages

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.path} is closed")

    def _end_reads(self) -> None:
        """Let later reads and writes raise StoreClosedError."""
        self._closed = True

    def __del__(self) -> None:
        writer = self.__dict__.get("_writer")
        if writer is not None and not self._closed and writer.lock_file.owned:  # a fork has a copy
            text = f"{self.path}: the store was opened to write and is not closed: use with, or close()"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    def __reduce__(self) -> tuple[object, ...]:
        names = "config", "leftovers", "tiered", "compacted"
        options = {name: getattr(self, name) for name in names}
        return self._reduce_reader(self.path, is_writer=self._writer is not None, **options)

    def _preview(self) -> Preview:
        return Preview(f"MessageStore {str(self.path)!r}, closed") if self._closed else preview_store(self)


def require_limit(limit: int | None) -> None:
    """Raise ValueError for a negative number of rows."""
    if limit is not None and limit < 0:
        raise ValueError(f"limit={limit} must not be negative")


def explain_missing_queue(store: MessageStore, queue: QueueId) -> str:
    """Return why a read of a queue found no message: the store does not have the queue."""
    try:
        return describe_unknown_queue(store, *queue) or f"queue {queue.queue_id} of topic {queue.topic!r} was deleted"
    except (OSError, StoreError) as error:
        return text_of(error)


def explain_empty_scan(store: MessageStore, conditions: Mapping[str, Any]) -> str:
    """Return why no message meets the conditions of a scan. Parameters: conditions: as of ``CommitLog.scan``."""
    from rocketstore.store.not_found import explain_empty_scan  # only scans without a message need it

    return explain_empty_scan(store, conditions)


def explain_missing_keys(
    store: MessageStore,
    topics: Any,
    keys: Any,
    index_type: IndexType | None,
    times: tuple[int, int],
    missing: Sequence[int],
) -> str:
    """Return why some keys of a query have no message. Parameters: as of the query. missing: their numbers."""
    from rocketstore.store.not_found import explain_keys  # only questions without an answer need it

    return explain_keys(store, topics, keys, index_type, times, missing)


def time_bounds(since: Time | None, until: Time | None, tz: Zone) -> tuple[int, int]:
    """Return the first and the last millisecond of a range of times. Parameters: tz: of times that name no zone."""
    zone = find_time_zone(tz)
    return begin_ms(since, "since", zone), end_ms(until, "until", zone)
