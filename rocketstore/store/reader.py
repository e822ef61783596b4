"""StoreReader: reading the messages of a store by queue, by offset, by time and by key, and following the log."""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, overload

from rocketstore.dataset.dataset_reader import DatasetReader
from rocketstore.disk.store_path import StorePath
from rocketstore.dispatch.follow import COLUMNS, DispatchRequest, follow_batches, requests_of
from rocketstore.errors import CorruptFileError
from rocketstore.extras import import_extra
from rocketstore.index.index_service import MAX_MSGS_NUM_BATCH, IndexService, IndexType, require_index_type
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.scan import Scan
from rocketstore.messages.arguments import integer_list, text_list
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.message_id import phy_offset_of
from rocketstore.query.by_time import PhyOffsetByTime, find_phy_offset_by_time
from rocketstore.query.coverage import Coverage, IndexView
from rocketstore.query.get_message import GetMessageResult, QueueView, get_message, get_message_of_parts
from rocketstore.query.other_logs import (
    OtherLog,
    choose_queues,
    outside_of,
    plan_other_logs,
    scan_other_logs,
)
from rocketstore.query.query_messages import (
    MAX_SCAN,
    QueryMessageResult,
    QueryMessagesResult,
    query_message,
    query_messages,
)
from rocketstore.query.query_other_logs import OtherSources, add_other_messages
from rocketstore.queue.compacted_queue import CompactedQueues
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.queue_source import Boundary, StoredQueue
from rocketstore.store.overview.known_names import warn_unknown_topics
from rocketstore.store.overview.missing import describe_unknown_topic
from rocketstore.store.parts import StoreParts
from rocketstore.survey.open_tier import find_index_slots
from rocketstore.text_values import Time, end_ms, epoch_ms
from rocketstore.tier.joined_queue import parts_of
from rocketstore.tier.tier_queue import TierQueue
from rocketstore.tier.tier_source import StoredTier

if TYPE_CHECKING:
    from rocketstore.dataset.store_dataset import StoreDataset


P = ParamSpec("P")


def method_of_log(method: Callable[Concatenate[CommitLog, P], Scan]) -> Callable[Concatenate[StoreReader, P], Scan]:
    """Make a method of a store that calls a method of its log, with the same parameters and documentation.

    Unknown topics give a warning: only the store knows its topics.
    """

    @functools.wraps(method)
    def call(self: StoreReader, /, *args: P.args, **options: P.kwargs) -> Scan:
        # An iterator could be read only once.
        conditions: dict[str, Any] = {
            name: list(value) if isinstance(value, Iterator) else value for name, value in options.items()
        }
        scan = self.with_other_logs(method(self.commit_log, *args, **conditions), args, conditions)
        warn_unknown_topics(self, text_list(conditions.get("topics"), "topics") or ())
        return scan

    return call


class StoreReader(StoreParts):
    """The methods of ``MessageStore`` that read messages."""

    _known_coverage: Coverage | None = None

    scan = method_of_log(CommitLog.scan)

    def with_other_logs(self, scan: Scan, bounds: tuple[Any, ...], conditions: dict[str, Any]) -> Scan:
        """Let a scan of the log also read compacted topics and tiered storage, if the store was opened so.

        Messages of a part of the log, by physical offsets, are only those of the log.

        Parameters: bounds, conditions: the arguments of the scan.
        """
        has_bounds = any(bound is not None for bound in bounds) or any(
            conditions.get(name) is not None for name in ("begin_offset", "end_offset")
        )
        if has_bounds or not self.reads_other_logs:
            return scan
        topics, queue_ids = text_list(conditions.get("topics"), "topics"), integer_list(conditions.get("queue_ids"))

        def others() -> Iterator[Scan]:
            return scan_other_logs(self.plan_other_logs(topics, queue_ids), conditions)

        return self.without_other_logs(scan).joined_with(others)

    def without_other_logs(self, scan: Scan) -> Scan:
        """Return a scan of the log without the messages of queues that are read from the compaction."""
        return scan.with_rows(outside_of(dict.fromkeys(self.queues_elsewhere, LONG_MAX)))

    @property
    def queues_elsewhere(self) -> frozenset[QueueId]:
        """The queues whose messages are read from the compaction in place of the log."""
        queues = self._queues.local if self.compacted else None
        return queues.compacted() if isinstance(queues, CompactedQueues) else frozenset()

    def plan_other_logs(
        self, topics: Iterable[str] | None = None, queue_ids: Iterable[int] | None = None
    ) -> list[OtherLog]:
        """Plan to read the logs that are not the commit log, if the store was opened with ``tiered`` or ``compacted``.

        Parameters: topics, queue_ids: only queues of these; None for all. Raises: OSError; StoreError.
        """
        if not self.reads_other_logs:
            return []
        self._require_open()
        source = self._queues.served
        return plan_other_logs(source, choose_queues(source.queues(), topics, queue_ids), self.queues_elsewhere)

    def dataset(
        self,
        *,
        columns: str | Iterable[str] | None = None,
        keys: str | Iterable[str] | None = None,
        on_corrupt: Literal["raise", "skip"] = "raise",
    ) -> StoreDataset:
        """Return the messages as a ``pyarrow.dataset.Dataset``, which DuckDB and other libraries query.

        A query reads only the columns that it needs. A filter on topic, tags, queueId, phyOffset, storeTimestamp or
        uniqKey reads fewer messages; Arrow computes any other filter. A filter on topic and uniqKey uses the index.

        Parameters: columns: as for ``scan``; the names in the dataset are those of tables, such as queueId. keys: only
        messages with one of these keys. A filter on topic then uses the index. on_corrupt: as for ``scan``.
        Raises: ModuleNotFoundError without pyarrow; ValueError, TypeError as ``scan``.

        Notes: A filter that uses the index finds the messages that the index holds. Items that are missing before,
        between or after the index files are noticed, and the log is scanned instead. A gap inside one index file cannot
        be noticed: messageIndexEnable=false for a while leaves one. Only a scan finds the messages of a gap, and rolled
        back messages.
        Source: none.

        Examples:
        >>> rocketstore.open("demo").dataset().count_rows()
        101
        """
        import_extra("pyarrow.dataset", "arrow")
        from rocketstore.dataset.store_dataset import StoreDataset

        given = text_list(keys, "keys")
        wanted = None if given is None else tuple(given)
        self.commit_log.scan(keys=wanted, on_corrupt=on_corrupt)  # raises errors of these
        return StoreDataset(DatasetReader(self, wanted, on_corrupt), columns)

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
    ) -> int: ...
    def get_offset_by_time(
        self,
        topic: str,
        timestamp: Time,
        queue_id: int | None = None,
        boundary: Boundary = "lower",
        *,
        exact_times: bool = False,
    ) -> int | dict[int, int]:
        """Find queue offsets by store time.

        The answers are those of a broker. Its search is binary and assumes that store times never go back.

        Parameters: timestamp: epoch ms, a datetime, a date or an ISO 8601 text. queue_id: None for all queues of the
        topic. boundary: "lower": the first message of that time or later; "upper": the last message of that time or
        earlier. exact_times: read the times of all messages, without that assumption.
        Returns: the queue offset, or a dict from queue id to queue offset. Raises: KeyError for a missing queue.
        Source: DefaultMessageStore.getOffsetInQueueByTime.
        """
        timestamp = epoch_ms(timestamp, "timestamp")
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

    def find_phy_offset_by_time(self, timestamp: Time, *, exact_times: bool = False) -> PhyOffsetByTime:
        """Find the physical offset of the first message that was stored at a time or later.

        The answer is the end of the log if there is no later message. Messages that cannot be read are ignored. Files
        whose first messages, and those of their neighbours, are more than a day older than the time are not read. Their
        messages are all older, unless the clock was ahead by more than a day within a file, and was corrected in it.
        Parameters: timestamp: epoch ms, a datetime, a date or an ISO 8601 text. exact_times: read every file.
        Returns: PhyOffsetByTime, which says whether files were not read. Raises: TypeError, ValueError for other times.
        Source: none.

        Examples:
        >>> rocketstore.open("demo").find_phy_offset_by_time(0).phy_offset
        0
        """
        first_time = epoch_ms(timestamp, "timestamp")
        return find_phy_offset_by_time(self.commit_log, first_time, exact_times=exact_times)

    def get_phy_offset_by_time(self, timestamp: Time, *, exact_times: bool = False) -> int:
        """Return the physical offset of the first message that was stored at a time or later.

        Parameters, raises: as ``find_phy_offset_by_time``, which also says whether the answer is certain.
        """
        return self.find_phy_offset_by_time(timestamp, exact_times=exact_times).phy_offset

    # ---- by queue, offset and id ---------------------------------------------------------------------------

    def get_message(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_msg_nums: int = 32,
        *,
        tags: str | Iterable[str] | None = None,
        limits: Literal["broker"] | None = None,
    ) -> GetMessageResult:
        """Read messages of a queue as a consumer does, starting at a queue offset.

        Parameters: max_msg_nums: the largest number of messages to return. tags: "a||b", or a list of tags; "*" or None
        for all. limits: "broker" also ends where a broker ends a read: at the end of the queue's file, after 800 units,
        and at the broker's limits of bytes.
        Returns: GetMessageResult: a status of RocketMQ and the queue offset of the next read. A unit that leads to no
        sound record of the queue gives no message. With limits="broker" a record of another queue is a message, as for
        a broker.
        Raises: ValueError, TypeError for invalid arguments; UnsupportedFormatError; CorruptFileError.
        Source: DefaultMessageStore.getMessage.

        Examples:
        >>> [message.body for message in rocketstore.open("demo").get_message("Orders", 0, 10, 2)]
        [b'order 10', b'order 11']
        """
        self._require_open()
        name = QueueId(topic, operator.index(queue_id))
        wanted = operator.index(queue_offset), operator.index(max_msg_nums)
        ext = None
        if tags is not None:
            with contextlib.suppress(KeyError):
                ext = self.consume_queue_ext(*name)
        view = None if self._stamped is None else self._stamped.find(name)
        if view is not None:
            return get_message(view, name, *wanted, tags, limits, ext)
        try:
            queue = self.consume_queue(*name)
        except KeyError:
            return GetMessageResult.without_queue()

        def read(part: StoredQueue, begin: int, count: int) -> GetMessageResult:
            found = get_message(self._view_queue(name, part), name, begin, count, tags, limits, ext)
            return found.without_phy_offsets() if isinstance(part, TierQueue) else found

        try:
            return get_message_of_parts(parts_of(queue), read, *wanted)
        except (CorruptFileError, FileNotFoundError):
            # The queue's first file may have expired since it was listed. Real damage raises the same error again.
            return get_message_of_parts(parts_of(queue), read, *wanted)

    def _view_queue(self, name: QueueId, queue: StoredQueue) -> QueueView:
        """Return a view of a queue. It is kept while the store does not change."""

        def make() -> QueueView:
            log = self.commit_log if queue.log is None else queue.log  # the first raises the reason why it is not read
            return QueueView.of_queue(log, queue)

        return make() if self._stamped is None else self._stamped.find_or_make(name, make, files_of_queue)

    def look_message_by_offset(self, phy_offset: int) -> Message | None:
        """Read the message at a physical offset, bytes; None if no message begins there.

        Source: DefaultMessageStore.lookMessageByOffset.
        """
        return self.commit_log.find_message(phy_offset)

    def query_message_by_id(self, msg_id: str) -> Message | None:
        """Read the message of an offset message id; None if it is missing. Raises: ValueError for an invalid id.

        Source: MQAdminImpl.viewMessage.
        """
        message = self.look_message_by_offset(phy_offset_of(msg_id))
        return message if message is not None and message.msg_id == msg_id.upper() else None

    # ---- by key --------------------------------------------------------------------------------------------

    @property
    def coverage(self) -> Coverage:
        """The index and the log that queries by key read, and which messages they may miss."""
        index, known = self.key_index, self._known_coverage
        if known is None or known.index is not index:
            self._known_coverage = known = Coverage(self.commit_log, index)
        return known

    def _look_at_index(self, index_type: IndexType | None) -> IndexView:
        """Return a view of the index, for keys or for tags. It is kept while the store does not change."""
        self._require_open()
        require_index_type(index_type)

        def make() -> IndexView:
            return self.coverage.look(index_type)

        return make() if self._stamped is None else self._stamped.find_or_make(index_type, make, files_of_index)

    def query_messages(
        self,
        topic: Any,
        keys: Any,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: Time = 0,
        end_timestamp: Time | None = None,
        *,
        index_type: IndexType | None = None,
        max_scan: int = MAX_SCAN,
        threads: int = 1,
    ) -> QueryMessagesResult:
        """Find the messages of many keys by the index, and verify each message on its record.

        The times in the index are whole seconds and sometimes wrong. The query does not use them: it walks chains to
        their end in every file that may have messages of the log. So it hides no message and returns each once.

        Parameters: topic: str, or a column of n str. keys: a str, or as for ``hash_keys``; a key is a word of KEYS, or
        UNIQ_KEY. max_num: the largest number of messages for a key; the newest are returned. begin_timestamp,
        end_timestamp: store time, from the first to before the second: epoch ms, a datetime, a date or an ISO 8601
        text. index_type: "U" searches only UNIQ_KEY, "T" searches tags. max_scan: when more index entries of a key than
        this number were read and the same file has more of them, the search for the key ends and its answer is
        incomplete; entries are read in steps, so the search may read somewhat more. threads: the number of threads; at
        most one for each key is used.
        Returns: QueryMessagesResult, which says whether and why it may be incomplete.
        Raises: ValueError, TypeError for keys that are no strings; UnsupportedFormatError; CorruptFileError for damage
        that the search meets. A damaged index file among others is skipped, and is a reason for an incomplete answer.
        Source: DefaultMessageStore.queryMessage, which returns collisions, and at most 64 messages.
        """
        times = epoch_ms(begin_timestamp, "begin_timestamp"), end_ms(end_timestamp, "end_timestamp")
        found = query_messages(
            self._look_at_index(index_type), topic, keys, max_num, *times, index_type, max_scan, threads
        )
        if self.reads_other_logs:
            found = self._with_other_logs(found, topic, keys, times, index_type, operator.index(max_num))
        if not found and isinstance(topic, str):
            warn_unknown_topics(self, [topic])
        return found

    def find_other_sources(self, topics: Collection[str] | None) -> OtherSources:
        """Find where queries by key read other logs, as the store was opened with ``tiered`` or ``compacted``.

        Parameters: topics: of the queries; None for all.
        """
        self._require_open()
        compacted, tier = self.queues_elsewhere, None
        if self.tiered:
            tier = StoredTier(self.tier, self.config, self.places.tiered_index, find_index_slots(self.config))
        if not compacted:
            return OtherSources(tier, compacted, frozenset(), [])
        queues = choose_queues(sorted(compacted), topics, None)
        names = {queue.topic for queue in queues}
        shared = {
            topic for topic in names if {QueueId(topic, queue_id) for queue_id in self.queue_ids(topic)} - compacted
        }
        logs = plan_other_logs(self._queues.local, queues, queues)
        return OtherSources(tier, compacted, frozenset(shared), logs)

    def _with_other_logs(
        self,
        found: QueryMessagesResult,
        topics: Any,
        keys: Any,
        times: tuple[int, int],
        index_type: IndexType | None,
        most: int,
    ) -> QueryMessagesResult:
        """Add the messages of other logs to the answer of a query, if the store was opened so."""
        words = [keys] if isinstance(keys, str) else texts_of(keys)
        of_keys = [topics] * len(words) if isinstance(topics, str) else texts_of(topics)
        sources = self.find_other_sources({*of_keys})
        return add_other_messages(found, sources, of_keys, words, times, index_type, most)

    def _query_message(
        self,
        topic: str,
        key: str,
        max_num: int,
        times: tuple[Time, Time | None],
        index_type: IndexType | None,
        max_scan: int,
    ) -> QueryMessageResult:
        """Find the messages of a key for a method that a user called: a warning names the line of that call."""
        limits = epoch_ms(times[0], "begin_timestamp"), end_ms(times[1], "end_timestamp")
        view = self._look_at_index(index_type)
        if self.reads_other_logs:
            found = query_messages(view, topic, [key], max_num, *limits, index_type, max_scan, 1)
            found = self._with_other_logs(found, topic, [key], limits, index_type, operator.index(max_num))
            result = QueryMessageResult(found.messages, bool(found.complete[0]), found.reasons)
        else:
            result = query_message(view, topic, key, operator.index(max_num), limits, index_type, max_scan)
        if not result:
            warn_unknown_topics(self, [topic], stacklevel=4)
        return result

    def query_message(
        self,
        topic: str,
        key: str,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: Time = 0,
        end_timestamp: Time | None = None,
        *,
        index_type: IndexType | None = None,
        max_scan: int = MAX_SCAN,
    ) -> QueryMessageResult:
        """Find the messages of a key, newest first.

        Parameters, raises: as ``query_messages``, for one key. Returns: QueryMessageResult.
        Source: DefaultMessageStore.queryMessage.

        Examples:
        >>> rocketstore.open("demo").query_message("Orders", "order-7")[0].body
        b'order 7'
        """
        times = begin_timestamp, end_timestamp
        return self._query_message(topic, key, max_num, times, index_type, max_scan)

    def query_message_by_unique_key(self, topic: str, uniq_key: str) -> QueryMessageResult:
        """Find the messages with a unique key, which a client gives as message id.

        Returns, raises: as ``query_message``. Source: MQAdminImpl.queryMessageByUniqKey.
        """
        return self._query_message(topic, uniq_key, MAX_MSGS_NUM_BATCH, (0, None), "U", MAX_SCAN)

    def query_message_by_tag(
        self,
        topic: str,
        tag: str,
        max_num: int = MAX_MSGS_NUM_BATCH,
        begin_timestamp: Time = 0,
        end_timestamp: Time | None = None,
        *,
        max_scan: int = MAX_SCAN,
    ) -> QueryMessageResult:
        """Find the messages with these tags. RocketMQ adds index entries of tags since 5.4.0.

        Parameters: tag: the full TAGS of a message. Other parameters, returns, raises: as ``query_message``.
        Source: IndexService.queryOffset with INDEX_TAG_TYPE.
        """
        return self._query_message(topic, tag, max_num, (begin_timestamp, end_timestamp), "T", max_scan)

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
        begin = log.min_phy_offset
        others = self.plan_other_logs()
        older: Iterator[MessageBatch] = chain.from_iterable(scan_other_logs(others, {"columns": columns}))
        if stop is not None:
            older = takewhile(lambda batch: not stop.is_set(), older)
        rows = outside_of({other.queue: other.end for other in others if not other.is_tier})
        return chain(older, follow_batches(log, begin, poll, stop, columns, rows))


def files_of_index(view: IndexView) -> list[StorePath] | None:
    """Return the files that show whether a view of an index is still right; None if they do not show it."""
    files = view.log.file_run.files
    if view.files is None or not files or not isinstance(view.key_index, IndexService):
        return None
    return [view.key_index.directory, files[-1].path, *(file.path for file in view.files)]


def files_of_queue(view: QueueView) -> list[StorePath] | None:
    """Return the files that show whether a view of a queue is still right; None if they do not show it."""
    queue, files = view.queue, view.log.file_run.files
    if type(queue) is not ConsumeQueue or not files or not queue.run.files:
        return None
    return [queue.directory, files[-1].path, queue.run.files[-1].path]


def texts_of(column: Any) -> list[str]:
    """Return the strings of a list, or of a column of NumPy, pandas, polars or Arrow."""
    found = (getattr(column, name, None) for name in ("to_pylist", "tolist", "to_list"))
    to_list = next(filter(None, found), None)
    return list(column if to_list is None else to_list())
