"""MessageStore: all parts of a store together."""

from __future__ import annotations

import contextlib
import functools
import io
import operator
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self

from rocketstore.config import Compat, StoreConfig, require_config
from rocketstore.disk.descriptors import require_descriptors_to_expire, require_descriptors_to_read
from rocketstore.disk.lock_file import is_held
from rocketstore.disk.mapped_file import Mappings, check_mode
from rocketstore.disk.storage import RemotePath, held_lists, is_remote, local_path, to_path
from rocketstore.dispatch.follow import DispatchRequest, follow, follow_batches
from rocketstore.dispatch.reput import OwnDispatcher
from rocketstore.errors import CorruptFileError, StoreClosedError, StoreError, UnsupportedFormatError
from rocketstore.index.index_service import MAX_MSGS_NUM_BATCH, IndexService, index_paths
from rocketstore.jobs.intent import UncommittedRecords
from rocketstore.kernels.columns import require_int64
from rocketstore.kernels.queue_id import QueueId
from rocketstore.layout.geometry import read_saved, require_store, saved_path
from rocketstore.layout.layout import StoreLayout, look_at_store, require_file_log
from rocketstore.lazy import lazy_property
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_rule import EndRule, Evidence, StoreState
from rocketstore.log.log_writer import StoreTimestamp, require_uninterrupted
from rocketstore.log.put_result import PutMessageResult, PutMessagesResult
from rocketstore.log.scan import Scan
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.message_id import phy_offset_of
from rocketstore.messages.topics import is_file_name
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.queue_directories import queue_directories, queue_ids_in
from rocketstore.state.broker_config import BrokerConfig, TopicConfig, read_topics
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.store.expiry import ExpiredFiles
from rocketstore.store.get_message import GetMessageResult, get_message
from rocketstore.store.query import MAX_SCAN, Coverage, QueryMessageResult, QueryMessagesResult, query_messages
from rocketstore.store.summary import ConsumerLag, StoreSummary, consumer_lag, describe, summary
from rocketstore.store.writer import StoreWriter, open_writer

__all__ = ["MessageStore"]

MAX_QUEUES = 256  # kept open
MAX_MAPPED_QUEUE_FILES = 128  # of all queues: each mapping takes a descriptor, and macOS gives a process 256

P = ParamSpec("P")


def of_log(method: Callable[Concatenate[CommitLog, P], Scan]) -> Callable[Concatenate[MessageStore, P], Scan]:
    """Make the method of a store that calls one of its log, with its parameters and documentation."""

    @functools.wraps(method)
    def call(self: MessageStore, /, *args: P.args, **options: P.kwargs) -> Scan:
        return method(self.commit_log, *args, **options)

    return call


class MessageStore:
    """A store as a broker left it, or as one is writing it. Made by ``rocketstore.open``; a context manager.

    Each part is opened when it is first used, and one that is damaged, missing or in a format that is not read says so
    then; the others work. Attributes: path, the root; mode; config; leftovers, whether old records and units behind the
    ends of log and queues are read too.
    Source: DefaultMessageStore.
    """

    def __init__(
        self,
        path: Path,
        config: StoreConfig,
        mode: str = "r",
        writer: StoreWriter | None = None,
        leftovers: bool = False,
    ) -> None:
        self.path = path
        self.mode = mode
        self.config = config
        self.leftovers = leftovers
        self._writer = writer
        self._queues: OrderedDict[tuple[str, int], ConsumeQueue] = OrderedDict()
        self._mappings = Mappings(MAX_MAPPED_QUEUE_FILES)
        self._index: IndexService | None = None
        self._layout: StoreLayout | None = None
        self._covered: Coverage | None = None
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | RemotePath,
        mode: str = "r",
        *,
        config: StoreConfig | None = None,
        leftovers: bool = False,
    ) -> Self:
        """Open a store; the documentation is ``rocketstore.open``'s."""
        require_config(config)
        check_mode(mode)
        if leftovers and mode != "r":
            raise ValueError(f"leftovers={leftovers!r}: only mode 'r' reads them: a writer appends at the log's end")
        root = to_path(path) if mode == "r" else local_path(path)
        if mode == "a":
            return cls._open_writer(root, mode, config)
        given, config = config, config or StoreConfig()
        require_descriptors_to_read(root)
        require_store(root, config)
        if mode == "r":
            return cls(root, config, leftovers=leftovers)
        return cls._open_writer(root, mode, given)

    @classmethod
    def of_plan(cls, path: Path, config: StoreConfig, log: CommitLog | None) -> Self:
        """Make a reader of a store from the plan of another process, such as the driver of a job. Nothing is listed.

        Parameters: log: the commit log, which the reader closes; None to open it when it is first used.
        """
        self = cls(path, config)
        if log is not None:
            vars(self)["commit_log"] = log
        return self

    @classmethod
    def _open_writer(cls, root: Path, mode: str, config: StoreConfig | None) -> Self:
        if config is not None:
            config.commit_log_paths(root, writable=True)  # refuses one that has none before anything is made
        writer = open_writer(root, mode, config)
        return cls(root, writer.config, mode, writer)

    # ---- parts ---------------------------------------------------------------------------------------------

    @lazy_property
    def commit_log(self) -> CommitLog:
        """The commit log. Raises: FileNotFoundError; UnsupportedFormatError for a log of DLedger's."""
        self._require_open()
        paths = self.config.commit_log_paths(self.path)
        require_file_log(self.path, self.config, "read")
        log = CommitLog.open(
            [path for path in paths if path.is_dir()] or paths,
            mapped_file_size=self.config.mapped_file_size_commit_log,
            force_verify_prop_crc=self.config.force_verify_prop_crc,
            message_delay_level=self.config.message_delay_level,
        )
        if self._writer is not None:
            log.whole_to = self._writer.phy_offset
            return log
        if not is_remote(self.path):  # Spark's sink writes into no remote store
            log.find_limit = UncommittedRecords(self.path, log).find_begin
        if not self.leftovers:
            last_files = Compat.of(self.config.compat).last_files
            verifies_crc = self.config.check_crc_on_recover and not is_remote(self.path)
            log.ending.rule = EndRule(self._find_state, self._find_evidence, last_files, verifies_crc)
        return log

    def _find_state(self) -> StoreState:
        """Find whether the store was stopped, is being written, or crashed. A remote store is checked only once."""
        if is_remote(self.path):
            return self._remote_state
        if not os.path.lexists(self._abort):
            return StoreState.STOPPED
        with contextlib.suppress(OSError):
            return StoreState.RUNNING if self.is_locked else StoreState.CRASHED
        return StoreState.CRASHED

    def _find_evidence(self) -> Evidence:
        """Read the evidence of the files checkpoint and lock about the end of the log. Unreadable files give none."""
        physic, confirm, lock = None, 0, None
        with contextlib.suppress(OSError, StoreError):
            point = self.checkpoint
            if (self.path / "checkpoint").exists():
                physic, confirm = point.physic_msg_timestamp, point.confirm_phy_offset
        with contextlib.suppress(OSError):
            lock = int((self.path / "lock").stat().st_mtime * 1000)
        return Evidence(physic, confirm, lock)

    @property
    def is_bounded(self) -> bool:
        """Whether log and queues end where a broker ends them. False after a crash, with leftovers, and in a writer."""
        is_read = self._writer is None and not self.leftovers
        return is_read and self._find_state() != StoreState.CRASHED

    @lazy_property
    def _abort(self) -> str:
        return str(self.path / "abort")

    @lazy_property
    def _remote_state(self) -> StoreState:
        return StoreState.STOPPED if self.last_exit_ok else StoreState.CRASHED

    @property
    def index(self) -> IndexService | None:
        """The index, with the files there are now; None if there is none. Queries read it without damaged files.

        Raises: UnsupportedFormatError for one in RocksDB; CorruptFileError; ValueError if no file shows its geometry.
        """
        index = self._readable_index
        if index is not None and index.damaged:
            raise next(iter(index.damaged.values()))
        return index

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
        directory = self.path / "index"
        with contextlib.suppress(FileNotFoundError):  # it is renamed just now
            if directory.is_dir() and index_paths(directory):
                # The one before it is let go, not closed: a query may be in it.
                self._index = index = self._open_index(directory)
                return index
        look_at_store(self.path, self.config).require_file_index("read")
        return None

    def _open_index(self, directory: Path) -> IndexService:
        """Open the index; where its files do not show their geometry, with the one that their writer noted."""
        config = self.config
        options: dict[str, Any] = {"compat": config.compat, "max_msgs_num_batch": config.max_msgs_num_batch}
        options["_passes_over_damage"] = True
        slots, items = config.max_hash_slot_num, config.max_index_num
        try:
            return IndexService.open(directory, hash_slot_num=slots, index_num=items, **options)
        except ValueError:
            noted = read_saved(saved_path(self.path))
            if slots or items or not noted:
                raise
        slots, items = noted.get("max_hash_slot_num"), noted.get("max_index_num")
        return IndexService.open(directory, hash_slot_num=slots, index_num=items, **options)

    @property
    def _coverage(self) -> Coverage:
        index, covered = self._readable_index, self._covered
        if covered is None or covered.index is not index:
            self._covered = covered = Coverage(self.commit_log, index)
        return covered

    @property
    def checkpoint(self) -> StoreCheckpoint:
        """The checkpoint as it is now; zeros if there is none. Raises: CorruptFileError."""
        if self._writer is not None:
            return self._writer.checkpoint
        return StoreCheckpoint.open(self.path / "checkpoint")

    @property
    def broker_config(self) -> BrokerConfig:
        """The files of ``config`` as they are now; they are read each time."""
        return BrokerConfig.open(self.path, self.config)

    @property
    def topics(self) -> dict[str, TopicConfig]:
        """The topics of topics.json, by name; none if the broker has them in RocksDB."""
        return read_topics(self.path, self.config)

    @property
    def last_exit_ok(self) -> bool:
        """Whether there is no ``abort`` file, which a running broker has and a crashed one leaves.

        Source: DefaultMessageStore.isTempFileExist.
        """
        return not (self.path / "abort").exists()

    @property
    def is_locked(self) -> bool:
        """Whether a process, a broker or this one, has the store open for writing. Of a remote one: False."""
        return is_held(self.path / "lock")

    # ---- queues --------------------------------------------------------------------------------------------

    def queues(self) -> Iterator[QueueId]:
        """Give (topic, queue id) of all queues on disk, sorted.

        Raises: UnsupportedFormatError if they are in RocksDB.
        """
        self._require_open()
        self._dispatch_pending()
        self._require_file_queues()
        paths = (path for kind in QUEUE_KINDS for path in queue_directories(self.path / kind.directory_name))
        found = {QueueId(path.parent.name, int(path.name)) for path in paths}
        return iter(sorted(found))

    def _queue_ids(self, topic: str) -> list[int]:
        """The queue ids of a topic, sorted."""
        self._require_open()
        self._dispatch_pending()
        self._require_file_queues()
        kinds = QUEUE_KINDS if is_file_name(topic) else ()
        found = sorted({number for kind in kinds for number in queue_ids_in(self.path / kind.directory_name / topic)})
        if not found and self._layout is not None:
            self._layout.require_file_queues("read", topic)
        return found

    def consume_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Open a queue. Some hundred are kept open; use one at once, or keep it and close it.

        Raises: KeyError if there is none; UnsupportedFormatError if queues are in RocksDB.
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

    @property
    def layout(self) -> StoreLayout:
        """The parts of the store in formats that are not read, as they are now."""
        self._require_open()
        return look_at_store(self.path, self.config)

    def _require_file_queues(self) -> None:
        """Raise UnsupportedFormatError if the queues are in RocksDB.

        A store without any RocksDB is checked only once, since this is called for each queue that is opened.
        """
        if self._layout is None or not self._layout.is_plain:
            self._layout = look_at_store(self.path, self.config)
        self._layout.require_file_queues("read")

    def _open_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        self._require_file_queues()
        if is_file_name(topic):
            for kind in QUEUE_KINDS:
                directory = self.path / kind.directory_name / topic / str(queue_id)
                size = getattr(self.config, kind.size_name)
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    queue = kind.open(directory, mapped_file_size=size, commit_log=self._log_or_none)
                    queue.mappings = self._mappings
                    return queue
        if self._layout is not None:
            self._layout.require_file_queues("read", topic)
        raise KeyError(f"{self.path}: there is no queue {queue_id} of topic {topic!r}")

    def consume_queue_ext(self, topic: str, queue_id: int) -> ConsumeQueueExt:
        """Open the ext files of a queue. Raises: KeyError if there are none."""
        self._require_open()
        if is_file_name(topic):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return ConsumeQueueExt.open(
                    self.path / ConsumeQueueExt.directory_name / topic / str(operator.index(queue_id)),
                    mapped_file_size=self.config.mapped_file_size_consume_queue_ext,
                )
        raise KeyError(f"{self.path}: there is no ext file of queue {queue_id} of topic {topic!r}")

    @property
    def _log_or_none(self) -> CommitLog | None:
        try:
            return self.commit_log
        except (OSError, UnsupportedFormatError):
            return None

    # ---- time and lag --------------------------------------------------------------------------------------

    def get_offset_by_time(
        self, topic: str, timestamp: int, queue_id: int | None = None, boundary: str = "lower"
    ) -> int | dict[int, int]:
        """Find queue offsets by store time, epoch ms.

        Parameters: queue_id: None for all queues of the topic. boundary: "lower": the first message of that time or
        later; "upper": the last of that time or earlier.
        Returns: the queue offset, or a dict of them by queue id. Raises: KeyError for a queue that there is not.
        Source: DefaultMessageStore.getOffsetInQueueByTime.
        """
        self.commit_log.refresh()
        if queue_id is not None:
            return self.consume_queue(topic, queue_id).get_offset_by_time(timestamp, boundary)
        ids = self._queue_ids(topic)
        if not ids:
            raise KeyError(f"{self.path}: there is no topic {topic!r}")
        return {queue: self.consume_queue(topic, queue).get_offset_by_time(timestamp, boundary) for queue in ids}

    def get_phy_offset_by_time(self, timestamp: int) -> int:
        """Find the physical offset of the first message of a store time, epoch ms, or later; the log's end if none is.

        Looks for the last file that begins before that time: clocks that went back in between are not seen, nor are
        messages that cannot be read. Raises: TypeError, ValueError for a time that is no long.
        """
        require_int64(timestamp=timestamp)
        log = self.commit_log
        begin = log.min_phy_offset
        for file in reversed(log.queue.files):
            first = log.find_message(file.file_from_offset)
            if first is not None and first.store_timestamp < timestamp:
                begin = file.file_from_offset
                break
        found = log.scan(begin, columns=["phy_offset"], begin_timestamp=timestamp, on_corrupt="skip", batch_size=1)
        for batch in found:
            return int(batch.phy_offset[0])
        return found.position

    def consumer_lag(self, group: str | None = None) -> Iterator[ConsumerLag]:
        """Yield how far consumer groups, or one of them, are behind the ends of their queues.

        The offsets are from consumerOffset.json, or from lmqConsumerOffset.json if the broker has enableLmq. A queue
        that is not on disk has no messages.
        Raises: UnsupportedFormatError, with the first item, if the broker has the offsets in RocksDB.
        """
        self._require_open()
        return consumer_lag(self, group)

    # ---- messages ------------------------------------------------------------------------------------------

    scan = of_log(CommitLog.scan)

    def get_message(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_msg_nums: int = 32,
        *,
        tags: str | None = None,
        limits: str | None = None,
    ) -> GetMessageResult:
        """Read messages of a queue, from a queue offset on, as a consumer does.

        Parameters: max_msg_nums: so many at most. tags: "a||b", or "*" or None for all. limits: "broker" also ends
        where a broker does: at the end of the queue's file, at 800 units, at its limits of bytes.
        Returns: GetMessageResult: a status of RocketMQ's and the queue offset to go on with.
        Raises: ValueError, TypeError for what cannot be asked; UnsupportedFormatError; CorruptFileError.
        Source: DefaultMessageStore.getMessage.
        """
        try:
            queue = self.consume_queue(topic, queue_id)
        except KeyError:
            return GetMessageResult.without_queue()
        ext = None
        if tags is not None:
            with contextlib.suppress(KeyError):
                ext = self.consume_queue_ext(topic, queue_id)
        place = operator.index(queue_offset), operator.index(max_msg_nums)
        read = self.commit_log, queue, *place, tags, limits, ext
        try:
            return get_message(*read)
        except (CorruptFileError, FileNotFoundError):
            # Its first file has expired since it was listed; whatever is damaged is so again.
            return get_message(*read)

    def look_message_by_offset(self, phy_offset: int) -> Message | None:
        """Read the message at a physical offset, bytes; None if none begins there.

        Source: DefaultMessageStore.lookMessageByOffset.
        """
        return self.commit_log.find_message(phy_offset)

    def query_message_by_id(self, offset_msg_id: str) -> Message | None:
        """Read the message of an offset message id, None if it is not there. Raises: ValueError if it is no id.

        Source: MQAdminImpl.viewMessage.
        """
        message = self.look_message_by_offset(phy_offset_of(offset_msg_id))
        return message if message is not None and message.offset_msg_id == offset_msg_id.upper() else None

    def query_messages(
        self,
        topic: Any,
        keys: Any,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: int = 0,
        end_timestamp: int = LONG_MAX,
        *,
        index_type: str | None = None,
        max_scan: int = MAX_SCAN,
        threads: int = 1,
    ) -> QueryMessagesResult:
        """Find the messages of many keys by the index, and verify each on its record.

        The index's own times, which are of whole seconds and sometimes wrong, are not used: chains are walked to their
        end in every file that may have messages of the log. So nothing is hidden, and nothing is there twice.

        Parameters: topic: str, or a column of n str. keys: as for ``hash_keys``; a key is a word of KEYS, or UNIQ_KEY.
        max_num: messages of a key at most, the newest. begin_timestamp, end_timestamp: store time, epoch ms, inclusive.
        index_type: "U" looks at UNIQ_KEY alone, "T" for tags. max_scan: when more index entries of a key than these
        were read and the same file has still more, its search ends, and the answer is incomplete; they are read in
        steps, so somewhat more may be. threads: so many at once, of keys at most.
        Returns: QueryMessagesResult, which says whether and why it may be incomplete.
        Raises: ValueError, TypeError for keys that are no strings; UnsupportedFormatError; CorruptFileError for damage
        that a search comes to. A damaged index file among others is passed over, and a reason.
        Source: DefaultMessageStore.queryMessage, which returns collisions, and 64 at most.
        """
        times = begin_timestamp, end_timestamp
        return query_messages(self._coverage, topic, keys, max_num, *times, index_type, max_scan, threads)

    def query_message(
        self,
        topic: str,
        key: str,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: int = 0,
        end_timestamp: int = LONG_MAX,
        *,
        index_type: str | None = None,
        max_scan: int = MAX_SCAN,
    ) -> QueryMessageResult:
        """Find the messages of a key, newest first.

        Parameters, raises: as ``query_messages``, for one key. Returns: QueryMessageResult.
        Source: DefaultMessageStore.queryMessage.
        """
        times = begin_timestamp, end_timestamp
        found = self.query_messages(topic, [key], max_num, *times, index_type=index_type, max_scan=max_scan)
        return QueryMessageResult(found.messages, bool(found.complete[0]), found.reasons)

    def query_message_by_unique_key(self, topic: str, uniq_key: str) -> QueryMessageResult:
        """Find the messages with a unique key, which a client gives as message id.

        Returns, raises: as ``query_message``. Source: MQAdminImpl.queryMessageByUniqKey.
        """
        return self.query_message(topic, uniq_key, index_type="U")

    def query_message_by_tag(
        self,
        topic: str,
        tag: str,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: int = 0,
        end_timestamp: int = LONG_MAX,
        *,
        max_scan: int = MAX_SCAN,
    ) -> QueryMessageResult:
        """Find the messages with these tags, by the entries that RocketMQ puts since 5.4.0.

        Parameters: tag: all of a message's TAGS. The others, returns, raises: as ``query_message``.
        Source: IndexService.queryOffset with INDEX_TAG_TYPE.
        """
        times = begin_timestamp, end_timestamp
        return self.query_message(topic, tag, max_num, *times, index_type="T", max_scan=max_scan)

    # ---- writing -------------------------------------------------------------------------------------------

    def put_message(self, message: Message, *, store_timestamp: StoreTimestamp = None) -> PutMessageResult:
        """Append a message. It is dispatched within a millisecond, and before any query of this object.

        A queue_id that the topic does not have gives it all queues up to that one, for good: 100 makes 101. Of one from
        65536 on topics.json does not tell a broker, which would keep something for each. A body that was read
        decompressed, as ``scan`` gives it, is stored so. To keep the bytes read the columns raw_body and sys_flag, too:
        ``scan(columns=["topic", ..., "raw_body", "sys_flag"])``.

        Parameters: store_timestamp: epoch ms; None for now; "given": the message's own, and its store host, as it was
        read from another store. Returns: PutMessageResult; with flush_disk_type "SYNC_FLUSH" it is on the disk then.
        Raises: PutMessageError for one that is refused: nothing is written; OSError, StoreError: it may be lost, and
        the store takes no more. Source: DefaultMessageStore.putMessage.
        """
        writer = self._writer
        if writer is None or self._closed:
            writer = self._writing()
        return writer.put_message(message, store_timestamp)

    def put_messages(
        self, messages: Iterable[Message] | MessageBatch | Any, *, store_timestamp: StoreTimestamp = None
    ) -> PutMessagesResult:
        """Append messages in order; of a list or a MessageBatch all or, if one is refused, none.

        Queue ids and bodies are taken as ``put_message`` takes them.

        Parameters: messages: Message objects, a MessageBatch, or an Arrow table (a pyarrow, pandas or polars one) with
        the columns that tables have, topic and body at least. An iterator or a table is taken piece by piece, and a
        list with messages for light queues or with inner batches one by one. store_timestamp: as ``put_message``.
        Returns: PutMessagesResult. Raises: as ``put_message``; of a table also as ``MessageBatch.of_arrow``.
        Source: DefaultMessageStore.putMessage, for each.
        """
        return self._writing().put_messages(messages, store_timestamp)

    def put_batch(
        self, batch: Message, messages: Sequence[Message], *, store_timestamp: StoreTimestamp = None
    ) -> PutMessagesResult:
        """Append messages of one queue as a client's batch: one after the other in one file, with one store time.

        A batch is not compressed, as a client's is not: all bodies are stored decompressed.

        Parameters: batch: what they have in common: topic, queue, hosts, times, system flags; some releases add its
        properties to those of each. Returns: PutMessagesResult. Raises: as ``put_message``.
        Source: DefaultMessageStore.putMessages.
        """
        result = self._writing().put_batch(batch, messages, store_timestamp)
        assert isinstance(result, PutMessagesResult)
        return result

    def create_topic(self, topic: str, queue_nums: int | None = None, *, queue_type: str | None = None) -> None:
        """Add a topic to topics.json, or queues to one. A topic that is put to without this gets the default.

        Parameters: queue_nums: None for config.default_topic_queue_nums. queue_type: "BatchCQ" for one of inner
        batches, before its first message. Raises: ValueError, TypeError; OSError.
        Source: TopicConfigManager.updateTopicConfig.
        """
        self._writing().create_topic(topic, queue_nums, queue_type)

    def add_dispatcher(self, dispatcher: OwnDispatcher) -> None:
        """Have a function called with what is dispatched, after queues and index have it; it may get it twice.

        What it raises ends the writing, as an error of the disk does.
        Parameters: dispatcher: takes a MessageBatch. Raises: TypeError; io.UnsupportedOperation in mode "r".
        Source: DefaultMessageStore.addDispatcher.
        """
        if not callable(dispatcher):
            raise TypeError(f"dispatcher={dispatcher!r}: a function was expected")
        self._writing().reput.add(dispatcher)

    def delete_expired_files(
        self, *, hours: float | None = None, before_phy_offset: int | None = None, dry_run: bool = False
    ) -> ExpiredFiles:
        """Delete the oldest files of the log that have expired, never the last, and their part of queues and index.

        Parameters: hours: since a file was changed; None for config.file_reserved_time, or any time if
        ``before_phy_offset`` is given: only files that end there or before. dry_run: change nothing.
        Returns: what was, or would be, deleted. Raises: ValueError; OSError; io.UnsupportedOperation in mode "r".
        Source: CleanCommitLogService, CleanConsumeQueueService.
        """
        writer = self._writing()
        require_descriptors_to_expire(self.path)
        return writer.delete_expired_files(self.queues(), hours, before_phy_offset, dry_run)

    def flush(self) -> None:
        """Return when all that was put, with queues, index and checkpoint, is on the disk.

        Raises: OSError, StoreError: it may be lost; io.UnsupportedOperation in mode "r". Source: MessageStore.flush.
        """
        self._writing().flush()

    def _writing(self) -> StoreWriter:
        self._require_open()
        if self._writer is None:
            raise io.UnsupportedOperation(f"{self.path} is open for reading: open it with mode 'a' to write to it")
        return self._writer

    def _dispatch_pending(self) -> None:
        if self._writer is not None:
            self._writer.dispatch_pending()

    def follow(
        self,
        from_phy_offset: int | None = None,
        *,
        poll: float | None = 0.001,
        stop: threading.Event | None = None,
    ) -> Iterator[DispatchRequest]:
        """Give each message as it is dispatched, also while something else writes the store.

        Parameters: from_phy_offset: bytes; None for the log's beginning. To go on later, take the last request's
        phy_offset and size together. poll: seconds between two looks; None ends where the log ends now. stop: ends it.
        Returns: iterator of DispatchRequest. Raises: CorruptFileError for damage that records follow.
        Source: ReputMessageService.doReput.
        """
        return follow(self.commit_log, from_phy_offset, poll, stop)

    def follow_batches(
        self,
        from_phy_offset: int | None = None,
        *,
        columns: Iterable[str] | None = None,
        poll: float | None = 0.001,
        stop: threading.Event | None = None,
    ) -> Iterator[MessageBatch]:
        """Give messages as ``follow`` does, in batches.

        Parameters: columns: as for ``scan``. The others, raises: as ``follow``. Returns: iterator of MessageBatch.
        """
        names = None if columns is None else list(columns)  # which are asked for again and again
        return follow_batches(self.commit_log, from_phy_offset, poll, stop, names)

    # ---- the rest ------------------------------------------------------------------------------------------

    def summary(self, *, count_messages: bool = True) -> StoreSummary:
        """Look at all parts. Returns: StoreSummary; what cannot be read is None there, and among the problems.

        Parameters: count_messages: also count those of all queues, each of which is opened for that.
        """
        self._require_open()
        with held_lists(self.path):
            return summary(self, count_messages)

    def close(self) -> None:
        """Close all parts, and leave a store that was written as a broker does.

        Without it, or ``with``, the next opening to write, or a broker, recovers a store as after a crash.
        Later calls for messages, queues and index, and to write, raise StoreClosedError.
        Raises: OSError, StoreError if what was put cannot be brought to the disk; RuntimeError from a signal's handler
        that interrupts a call of this thread, which it would wait for. Source: DefaultMessageStore.shutdown.
        """
        if self._writer is not None:
            if self._writer.reput.is_current:
                raise StoreError(f"{self.path}: cannot be closed by its own dispatcher")
            require_uninterrupted(self._writer, self.path)
        with contextlib.ExitStack() as stack:  # each is closed, whatever closing another raises
            for part in (self.__dict__.get("commit_log"), self._index):
                if part is not None:
                    stack.callback(part.close)
            if self._writer is not None:
                stack.callback(vars(self).update, _closed=True)
                self._writer.close()
        self._closed = True
        while self._queues:
            self._queues.popitem()[1].close()
        self._mappings.clear()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.path} is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self._writer is not None:
            raise TypeError(f"{self.path} is open for writing: only a reader can be pickled")
        return _reopen, (type(self), self.path, self.config, self.leftovers)

    def __repr__(self) -> str:
        return f"<MessageStore {str(self.path)!r}{', closed' if self._closed else ': ' + describe(self)}>"


def _reopen(cls: type[MessageStore], path: Path, config: StoreConfig, leftovers: bool) -> MessageStore:
    return cls.open(path, config=config, leftovers=leftovers)


