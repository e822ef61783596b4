"""MessageStore: open a store, write to it, summarise it, close it."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from rocketstore.config import StoreConfig, require_config
from rocketstore.disk.closable import Closable
from rocketstore.disk.descriptors import require_descriptors_to_expire
from rocketstore.disk.mapped_file import Mode, check_mode
from rocketstore.disk.storage import held_lists, local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.messages.arguments import text_set
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.put_result import PutMessageResult, PutMessagesResult
from rocketstore.messages.put_rules import GivenTime, put_time
from rocketstore.messages.rows import Rows
from rocketstore.preview import Preview, Previewed
from rocketstore.store.expiry import ExpiredFiles
from rocketstore.store.overview.dead_letters import DeadFilter, DeadMessages, find_dead_letters
from rocketstore.store.overview.known_names import explain_unknown_group, explain_unknown_names, explain_unknown_topic
from rocketstore.store.overview.lag import ConsumerLag, consumer_lag
from rocketstore.store.overview.summary import StoreSummary, summarize
from rocketstore.store.overview.topic_tables import preview_store
from rocketstore.store.pending.find_pending import PendingFilter, find_pending
from rocketstore.store.pending.pending_message import KINDS, PendingMessages
from rocketstore.store.reader import StoreReader
from rocketstore.store.topic import Topic
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.survey import Survey
from rocketstore.text_values import Time, epoch_ms

if TYPE_CHECKING:
    from rocketstore.dispatch.reput import OwnDispatcher
    from rocketstore.store.writer import StoreWriter


class MessageStore(Previewed, StoreReader, Closable):
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
    queries give the messages of compacted topics that consumers get, instead of those of the log.
    Source: DefaultMessageStore.

    Examples:
    >>> with rocketstore.open("demo") as store:
    ...     print(len(store["Orders"]), "Orders" in store)
    100 True
    """

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
        return cls(writer.places, writer.config.as_store_config(), mode, writer)

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
        writer = self._writer
        if writer is None or self._closed:
            writer = self._writing()
        if store_timestamp is None and (result := writer.put_plain(message)) is not None:
            return result
        return writer.put_message(message, put_time(store_timestamp))

    def put_messages(
        self, messages: Iterable[Message] | MessageBatch | Any, *, store_timestamp: GivenTime = None
    ) -> PutMessagesResult:
        """Append messages in order. Of a list or a MessageBatch, all or, if a message is refused, none are appended.

        Queue ids and bodies follow the rules of ``put_message``.

        Parameters: messages: Message objects, a MessageBatch, or an Arrow table (of pyarrow, pandas or polars) with the
        columns that tables have, topic and body at least. An iterator or a table is appended in parts. A list with
        messages for light queues or with inner batches is appended message by message. store_timestamp: as
        ``put_message``.
        Returns: PutMessagesResult. Raises: as ``put_message``; for a table also as ``MessageBatch.of_arrow``.
        Source: DefaultMessageStore.putMessage, for each.
        """
        return self._writing().put_messages(messages, put_time(store_timestamp))

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

    # ---- summary and lag -----------------------------------------------------------------------------------

    def summary(self, *, count_messages: bool = True) -> StoreSummary:
        """Summarise all parts of the store.

        Parameters: count_messages: also count the messages of all queues; this opens each queue.
        Returns: StoreSummary. A value that cannot be read is None, and the reason is among its problems.
        """
        self._require_open()
        with held_lists(self.path):
            return summarize(self, count_messages=count_messages)

    def consumer_lag(self, group: str | None = None) -> Rows[ConsumerLag]:
        """Return how far consumer groups are behind the ends of their queues, one ConsumerLag for each queue.

        The offsets are from consumerOffset.json, or from lmqConsumerOffset.json if the broker has enableLmq, or from
        the broker's RocksDB. The queues
        are the read queues of each topic of which the group has an offset. A queue without an offset counts from 0. A
        queue that is not on disk has no messages.

        Parameters: group: None for all groups. An unknown group gives a warning.
        Returns: a sequence that also converts itself: ``to_arrow``, ``to_pandas``, ``to_polars``.
        Raises: StoreError if the offsets are in a RocksDB that cannot be read.
        """
        self._require_open()
        if group is not None and (text := explain_unknown_group(self, group)) is not None:
            warnings.warn(text, stacklevel=2)
        return consumer_lag(self, group)

    def pending(
        self,
        *,
        topic: str | Iterable[str] | None = None,
        group: str | Iterable[str] | None = None,
        kind: str | Iterable[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int | None = None,
    ) -> PendingMessages:
        """Return the messages that wait: delayed, timed, of open transactions, popped but not acknowledged, or retried.

        The broker's checkpoints tell which messages are delivered. A broker that was killed may have delivered more: a
        message is left out if the topic to which it goes has it.

        Parameters: topic, group, kind: one or several; PendingMessage has the kinds. since, until: due times, from the
        first to before the second; half messages have none and are left out then. limit: the largest number of
        messages, the first by due time. An unknown topic or group gives a warning, if no message is found.
        Returns: a sequence that also converts itself: ``to_arrow``, ``to_pandas``, ``to_polars``. Its ``reasons`` say
        why it may be incomplete. Raises: ValueError for an unknown kind or a wrong time; UnsupportedFormatError for
        queues in RocksDB, without its extra; CorruptFileError.
        Source: ScheduleMessageService, TimerMessageStore, TransactionalMessageServiceImpl, PopReviveService.

        Examples:
        >>> rocketstore.open("demo").pending(topic="Orders")
        <Rows: 0>
        """
        self._require_open()
        kinds = text_set(kind, "kind")
        for name in kinds or ():
            if name not in KINDS:
                raise ValueError(f"kind={name!r:.80}: must be one of {', '.join(KINDS)}")
        require_limit(limit)
        begin = None if since is None else epoch_ms(since, "since")
        end = None if until is None else epoch_ms(until, "until")
        wanted = PendingFilter(text_set(topic, "topic"), text_set(group, "group"), kinds, begin, end)
        found = find_pending(self, wanted, limit)
        for text in [] if found else explain_unknown_names(self, wanted.topics or (), wanted.groups or ()):
            warnings.warn(text, stacklevel=2)
        return found

    def dead_letters(
        self,
        *,
        topic: str | Iterable[str] | None = None,
        group: str | Iterable[str] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int | None = None,
        retry: bool = False,
    ) -> DeadMessages:
        """Return the messages that consumer groups could not process, from the topics of dead letters (%DLQ%).

        Parameters: topic, group: one or several; the topic is that to which a message was sent. since, until: store
        times, from the first to before the second. limit: the largest number of messages. retry: return the messages of
        the retry topics (%RETRY%) instead, also those that were consumed. An unknown topic or group gives a warning, if
        no message is found.
        Returns: a sequence that also converts itself: ``to_arrow``, ``to_pandas``, ``to_polars``. Its ``reasons`` say
        why it may be incomplete. Raises: ValueError for a wrong time or limit; UnsupportedFormatError for queues in
        RocksDB, without its extra; CorruptFileError.
        Source: AbstractSendMessageProcessor.consumerSendMsgBack.

        Examples:
        >>> rocketstore.open("demo").dead_letters(group="billing")
        <Rows: 0>
        """
        self._require_open()
        require_limit(limit)
        begin = None if since is None else epoch_ms(since, "since")
        end = None if until is None else epoch_ms(until, "until")
        wanted = DeadFilter(text_set(group, "group"), text_set(topic, "topic"), begin, end, limit)
        found = find_dead_letters(self, wanted, retry=retry)
        for text in [] if found else explain_unknown_names(self, wanted.topics or (), wanted.groups or ()):
            warnings.warn(text, stacklevel=2)
        return found

    # ---- topics --------------------------------------------------------------------------------------------

    def __getitem__(self, topic: str) -> Topic:
        """Return a topic that has a queue on disk. Raises: KeyError; UnsupportedFormatError for queues in RocksDB."""
        if topic not in self:
            text = explain_unknown_topic(self, topic) or f"{self.path}: topic {topic!r} has no queue"
            raise KeyError(text)
        return Topic(self, topic)

    def __contains__(self, topic: object) -> bool:
        """Return whether a topic, or the name of a topic, has a queue on disk."""
        name = topic.name if isinstance(topic, Topic) else topic
        return isinstance(name, str) and bool(self.queue_ids(name))

    def __iter__(self) -> Iterator[Topic]:
        """Yield the topics that have a queue on disk, sorted by name."""
        return (Topic(self, name) for name in dict.fromkeys(topic for topic, _ in self.queues()))

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
            stack.callback(self._end_reads)
            if self._writer is not None:
                self._writer.close()

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
