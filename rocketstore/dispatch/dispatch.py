"""Dispatch: from the records of the commit log to the consume queues, the index and whoever else wants them."""

from __future__ import annotations

import logging
import operator
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rocketstore.config import Compat, StoreConfig
from rocketstore.disk.descriptors import descriptor_share
from rocketstore.errors import StoreError
from rocketstore.index.index_service import IndexService
from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.dispatch import MORE_DISPATCH, MULTI_DISPATCH, REQUEST, RequestScanner, by_queue
from rocketstore.kernels.message_columns import message_fields
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import LogEnd
from rocketstore.log.log_writer import MAX_DIGITS, illegal, is_file_name
from rocketstore.messages.message import MAX_BATCH, Message, number_property
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.queue.consume_queue_ext_writer import ConsumeQueueExtWriter
from rocketstore.queue.consume_queue_writer import BatchConsumeQueueWriter, ConsumeQueueWriter
from rocketstore.state.broker_config import TopicConfig

__all__ = ["DispatchRequest", "Dispatcher", "are_delivery_times", "batch_topics", "check_more_queues", "follow",
           "follow_batches", "is_file_name", "is_multi_dispatched", "java_split", "more_queues", "with_light_queues",
           "with_more"]

logger = logging.getLogger("rocketstore")

MAX_PIECE = 32 << 20  # bytes of the log whose requests are held in memory
BEYOND_BODY = 65536  # what a record may have besides the largest body
LEAST_DESCRIPTORS, MOST_DESCRIPTORS = 2, 128  # of queues, kept open
LMQ_PREFIX = "%LMQ%"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
OF_BROKERS = (LMQ_PREFIX, "RMQ_SYS_", "rmq_sys_", SCHEDULE_TOPIC)  # topics that no user makes
MAX_QUEUE_OFFSET = LONG_MAX // 20 - INT_MAX  # the next ones of the queue must be some, too
QUEUE_OFFSET_ADVICE = "salvage gives it another; recover(policy='broker') leaves a negative one out, as a broker does"
COLUMNS = ["topic", "queue_id", "queue_offset", "phy_offset", "size", "sys_flag", "store_timestamp", "tags_code",
           "prepared_transaction_offset", "properties"]
UNIT_COLUMNS = ("phy_offset", "size", "tags_code", "msg_base_offset")
BATCH_COLUMNS = ("phy_offset", "size", "tags_code", "store_timestamp", "msg_base_offset", "batch_size")
Queue = tuple[str, int]
Writer = ConsumeQueueWriter | BatchConsumeQueueWriter


class Dispatcher:
    """Builds queues and index from the commit log. One thread at a time.

    Attributes: last_phy_offset, last_store_timestamp: of the last record dispatched, -1 before.
    Source: DefaultMessageStore.doDispatch, CommitLogDispatcherBuildConsumeQueue, CommitLogDispatcherBuildIndex.
    """

    def __init__(
        self,
        root: Path,
        config: StoreConfig,
        log: CommitLog,
        index: IndexService | None,
        batch_topics: Collection[str],
        *,
        as_broker: bool = False,
    ) -> None:
        """Parameters: config: has every size. index: None for none. batch_topics: those whose queue.type is BatchCQ.

        as_broker: a queue ends at its first bad unit, whatever follows, and has no message of a negative queue offset;
        else these are errors. And what is dispatched again has another ext unit.
        """
        self.root = root
        self.config = config
        self.index = index if config.message_index_enable else None
        self.last_phy_offset = self.last_store_timestamp = -1
        self._log = log
        self._batch_topics = batch_topics
        self._as_broker = as_broker
        self._scanner = RequestScanner(
            message_delay_level=config.message_delay_level, indexes_tags=Compat.of(config.compat).indexes_tags,
            anywhere=as_broker,
        )
        self._writers: dict[Queue, Writer] = {}
        self._used: OrderedDict[Queue, None] = OrderedDict()  # those that may have a descriptor open
        divisor = 16 if config.enable_consume_queue_ext else 8  # a queue with an ext file has two descriptors
        self._max_open = descriptor_share(divisor, least=LEAST_DESCRIPTORS, most=MOST_DESCRIPTORS)

    # ---- queues --------------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> Writer:
        """Give the writer of a queue; nothing is made on the disk before its first unit."""
        key = topic, queue_id
        writer = self._writers.get(key)
        if writer is None:
            writer = self._writers[key] = self._open(topic, queue_id)
        self._used[key] = None
        self._used.move_to_end(key)
        if len(self._used) > self._max_open:
            self._writers[self._used.popitem(last=False)[0]].release()
        return writer

    def _open(self, topic: str, queue_id: int) -> Writer:
        config: Any = self.config
        if topic in self._batch_topics:
            directory = self.root / "batchconsumequeue" / topic / str(queue_id)
            size = config.mapper_file_size_batch_consume_queue
            return BatchConsumeQueueWriter(directory, size, keeps_files=not self._as_broker)
        ext = None
        if config.enable_consume_queue_ext:
            directory = self.root / "consumequeue_ext" / topic / str(queue_id)
            ext = ConsumeQueueExtWriter(directory, config.mapped_file_size_consume_queue_ext)
        directory = self.root / "consumequeue" / topic / str(queue_id)
        size = config.mapped_file_size_consume_queue
        return ConsumeQueueWriter(directory, size, ext, keeps_files=not self._as_broker, compat=config.compat)

    def queues(self) -> dict[Queue, Writer]:
        """The writers there are, by topic and queue id."""
        return dict(self._writers)

    # ---- dispatch ------------------------------------------------------------------------------------------

    def dispatch(self, begin: int, end: int) -> None:
        """Dispatch the records from a physical offset to another, between which the log is sound, in order.

        Raises: CorruptFileError, OSError: it is to be called again from ``last_phy_offset`` on; what was put is
        known and not put again.
        """
        self._log.whole_to = max(self._log.whole_to, end)
        while begin < end:
            self._scanner.take()  # nothing, unless the last call ended early
            stop = self._collect(begin, end)
            has_records = self._scanner.n_records > 0
            requests, items = self._scanner.take()
            self.build_consume_queues(requests, self._scanner.queues)
            if has_records:
                self.build_index(items, self._scanner.last_phy_offset)
            self.last_phy_offset = self._scanner.last_phy_offset
            self.last_store_timestamp = self._scanner.last_store_timestamp
            begin = stop

    def _collect(self, begin: int, end: int) -> int:
        """Scan one piece of one file. Returns where the next begins."""
        size, queue = MAX_PIECE + self.config.max_message_size + BEYOND_BODY, self._log.queue  # if it cannot be mapped
        window = queue.read(begin, size, "sequential")
        for renew in (queue.extend, self._log.refresh):
            if window is None:
                renew()
                window = queue.read(begin, size, "sequential")
        file = queue.find(begin)
        if window is None or file is None:
            raise StoreError(f"{self.root}: the commit log has no file for {begin}")
        stop = self._scanner.scan(*window, begin, end, MAX_PIECE)
        file_end = self._log.end_of(file)
        # Where it stopped before the end, the rest of the file is blank, unless it was enough for now.
        return min(file_end, end) if stop < end and stop - begin < MAX_PIECE else stop

    def build_index(self, items: np.ndarray, last_phy_offset: int) -> None:
        """Put items, ITEM[n]. Parameters: last_phy_offset: of the last record they are of, or of one without items."""
        if self.index is not None:
            columns = items["key_hash"], items["phy_offset"], items["store_timestamp"]
            self.index.build_items(*columns, last_phy_offset)

    def build_consume_queues(self, requests: np.ndarray, queues: Sequence[Queue]) -> None:
        """Put units for requests, REQUEST[n]. Parameters: queues: by the numbers in the requests."""
        self.put_requests(*with_more(self._log, self.config, requests, queues, self._batch_topics))

    def put_requests(self, requests: np.ndarray, queues: Sequence[Queue]) -> int:
        """Put units for requests, of which none is for more queues than its own. Returns: how many."""
        if len(requests) == 0:
            return 0
        columns, ends = by_queue(requests, len(queues))
        count = 0
        for number in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
            queue, first, last = queues[number], int(ends[number - 1]) if number else 0, int(ends[number])
            if is_file_name(queue[0]):
                count += self._put_units(queue, {name: column[first:last] for name, column in columns.items()})
            else:
                logger.warning("topic %.80r cannot be the name of a directory: its messages have no units", queue[0])
        return count

    def _put_units(self, queue: Queue, columns: dict[str, np.ndarray]) -> int:
        try:
            return self._put_into(self.queue(*queue), columns)
        except ValueError as error:
            what = str(error).partition(": ")[2]  # behind the number of a row here
            reason = f"queue {queue[1]} of {queue[0]!r} cannot have a unit: {what}"
            raise StoreError(f"{self.root}: {reason}: {QUEUE_OFFSET_ADVICE}") from None

    def _put_into(self, writer: Writer, columns: dict[str, np.ndarray]) -> int:
        """Put units. What comes from another queue is in no batch unit, and has no ext unit."""
        if isinstance(writer, BatchConsumeQueueWriter):
            own = columns["flags"] & MORE_DISPATCH == 0
            return writer.put_units(*(columns[name][own] for name in BATCH_COLUMNS))
        if writer.ext is not None:
            own = columns["flags"] & MORE_DISPATCH == 0
            if not self._as_broker:  # which puts an ext unit again where the unit is there
                own &= columns["phy_offset"] + columns["size"] > writer.max_phy_offset
            pairs = zip(columns["tags_code"][own].tolist(), columns["store_timestamp"][own].tolist(), strict=True)
            columns["tags_code"][own] = [writer.ext.put(code, timestamp) for code, timestamp in pairs]
        if self._as_broker:
            return put_as_broker(writer, columns)
        return writer.put_units(*(columns[name] for name in UNIT_COLUMNS))

    def flush(self) -> None:
        """Bring all queues to the disk, and the index. Raises: OSError."""
        for writer in self._writers.values():
            writer.flush()
        if self.index is not None:
            self.index.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        if self.index is not None:
            self.index.close()


def put_as_broker(writer: ConsumeQueueWriter, columns: dict[str, np.ndarray]) -> int:
    """Put units. One of a negative queue offset is before the queue's end: no more than a file is made for it.

    Source: ConsumeQueue.putMessagePositionInfo.
    """
    is_new = columns["phy_offset"] + columns["size"] > writer.max_phy_offset
    columns["msg_base_offset"] = columns["msg_base_offset"] * 20 // 20  # a long that overflows, as there
    is_unit = columns["msg_base_offset"] >= 0
    if is_new[0] and not is_unit[0]:
        writer.make_room()
    count = writer.put_units(*(columns[name][is_unit] for name in UNIT_COLUMNS))
    if is_new[-1] and not is_unit[-1]:
        writer.make_room()
    return count


def batch_topics(topics: Mapping[str, TopicConfig]) -> set[str]:
    """Give the topics whose queues are of batches. Source: QueueTypeUtils.getCQType."""
    return {name for name, topic in topics.items() if topic.attributes.get("queue.type") == "BatchCQ"}


def with_more(
    log: CommitLog, config: StoreConfig, requests: np.ndarray, queues: Sequence[Queue], batch_topics: Collection[str]
) -> tuple[np.ndarray, Sequence[Queue]]:
    """Insert, behind each request whose properties name more queues, one for each. Returns: all, and their queues.

    Nothing is inserted where ``enable_multi_dispatch`` is not set.

    Source: ConsumeQueue.multiDispatchLmqQueue.
    """
    rows = np.flatnonzero(requests["flags"] & MULTI_DISPATCH).tolist() if config.enable_multi_dispatch else []
    if not rows:
        return requests, queues
    numbers = {queue: number for number, queue in enumerate(queues)}
    at, made = [], []
    for row in rows:
        request = requests[row]
        properties = log.get_message(int(request["phy_offset"])).properties
        for queue, queue_offset in more_queues(queues[request["queue"]], properties, config, batch_topics):
            more = request.copy()
            more["queue"], more["msg_base_offset"] = numbers.setdefault(queue, len(numbers)), queue_offset
            more["flags"] = MORE_DISPATCH
            at.append(row + 1)
            made.append(more)
    return (np.insert(requests, at, np.array(made, REQUEST)) if made else requests), list(numbers)


def are_delivery_times(topic: str, tags_codes: np.ndarray, store_timestamps: np.ndarray | int) -> np.ndarray:
    """Whether tags codes of a topic's units may be when delayed messages are to be delivered, bool[n].

    They are by the levels of the one that dispatched them, which no file shows. Parameters: tags_codes: int64[n].
    store_timestamps: of the records, int64[n] or one for all, epoch ms.
    """
    may_be: np.ndarray = (topic == SCHEDULE_TOPIC) & (tags_codes >= store_timestamps)
    return may_be


def check_more_queues(
    topic: str, properties: Mapping[str, str], config: StoreConfig, batch_topics: Collection[str]
) -> None:
    """Raise PutMessageError if a message's offset in a queue besides its own is no number.

    RocketMQ stores it, dispatches nothing more after it, and does not start after a crash.
    """
    names, offsets = names_and_offsets(topic, properties, config, batch_topics)
    if not are_queue_offsets(offsets):
        what = f"INNER_MULTI_DISPATCH={','.join(names)!r:.80}, INNER_MULTI_QUEUE_OFFSET={','.join(offsets)!r:.80}"
        raise illegal(f"{what}: an offset is no number, and a broker's dispatch stops there")


def more_queues(
    queue: Queue, properties: Mapping[str, str], config: StoreConfig, batch_topics: Collection[str]
) -> Iterator[tuple[Queue, int]]:
    """Give the queues besides its own that a message is for, by its properties, with its offset in each.

    None if an offset is no number: a broker does not get over that. Source: ConsumeQueue.multiDispatchLmqQueue.
    """
    names, offsets = names_and_offsets(queue[0], properties, config, batch_topics)
    if not are_queue_offsets(offsets):
        logger.warning("INNER_MULTI_QUEUE_OFFSET %.80s has no queue offsets: its queues get no unit", offsets)
        return
    for name, offset in zip(names, offsets, strict=True):
        if is_file_name(name):
            yield (name, 0 if config.enable_lmq and name.startswith(LMQ_PREFIX) else queue[1]), int(offset)


def names_and_offsets(
    topic: str, properties: Mapping[str, str], config: StoreConfig, batch_topics: Collection[str]
) -> tuple[list[str], list[str]]:
    """Give the queues that a message's properties name, and as many offsets; none where RocketMQ takes none."""
    names = java_split(properties.get("INNER_MULTI_DISPATCH") or "")
    offsets = java_split(properties.get("INNER_MULTI_QUEUE_OFFSET") or "")
    if not is_multi_dispatched(topic, config, batch_topics) or len(names) != len(offsets):
        return [], []
    return names, offsets


def are_queue_offsets(texts: Iterable[str]) -> bool:
    return all(text.isdecimal() and len(text) <= MAX_DIGITS and int(text) <= MAX_QUEUE_OFFSET for text in texts)


def with_light_queues(config: StoreConfig, topics: Iterable[str]) -> StoreConfig:
    """Give a configuration that builds light queues if some are there: no file of a broker says that it does.

    Parameters: topics: the names of directories of queues.
    """
    if config.enable_multi_dispatch or not any(topic.startswith(LMQ_PREFIX) for topic in topics):
        return config
    return replace(config, enable_multi_dispatch=True, enable_lmq=True)


def is_multi_dispatched(topic: str, config: StoreConfig, batch_topics: Collection[str]) -> bool:
    """Whether messages of a topic are also for the queues that their properties name; those of batch queues are not.

    Source: MultiDispatchUtils.isNeedHandleMultiDispatch, which ConsumeQueue asks and BatchConsumeQueue does not.
    """
    if not config.enable_multi_dispatch or topic in batch_topics:
        return False
    return re.match(Compat.of(config.compat).no_multi_dispatch, topic) is None


def java_split(text: str) -> list[str]:
    """Split at commas; empty parts at the end are dropped, as String.split does."""
    return text.rstrip(",").split(",") if text.strip(",") else []


# ---- for readers -------------------------------------------------------------------------------------------


class DispatchRequest(NamedTuple):
    """A message as it is dispatched: offsets and size in bytes, times in epoch ms. Source: DispatchRequest."""

    topic: str
    queue_id: int
    phy_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    queue_offset: int
    keys: str | None
    uniq_key: str | None
    sys_flag: int
    prepared_transaction_offset: int
    properties: dict[str, str]
    msg_base_offset: int
    batch_size: int

    @property
    def tags(self) -> str | None:
        """The TAGS property."""
        return self.properties.get("TAGS")

    @classmethod
    def of(cls, message: Message) -> DispatchRequest:
        """Take what is dispatched of a message that was read with COLUMNS. Raises: CorruptFileError."""
        fields = {name: getattr(message, name) for name in COLUMNS}
        properties = fields["properties"]
        base, count = fields["queue_offset"], 1
        if "INNER_BASE" in properties and "INNER_NUM" in properties:
            base = number_property(message, "INNER_BASE", LONG_MAX)
            count = number_property(message, "INNER_NUM", MAX_BATCH)
        return cls(
            **fields, keys=properties.get("KEYS"), uniq_key=message.uniq_key, msg_base_offset=base, batch_size=count
        )


def follow_batches(
    log: CommitLog,
    from_phy_offset: int | None,
    poll: float | None,
    stop: threading.Event | None,
    columns: Iterable[str] | None,
) -> Iterator[MessageBatch]:
    """Give the messages of a log that something else may be writing; the documentation is MessageStore's."""
    at = log.min_phy_offset if from_phy_offset is None else operator.index(from_phy_offset)
    log_end = LogEnd(log)
    while stop is None or not stop.is_set():
        end = log_end.find()
        at = max(at, log.min_phy_offset)
        if at < end:
            for batch in log.scan(at, end, columns=columns):
                if len(batch):
                    yield batch
            _require_last(log, log_end.last_phy_offset, at, columns)
            at = end
        elif poll is None:
            return
        elif stop is None:
            time.sleep(poll)
        else:
            stop.wait(poll)


def _require_last(log: CommitLog, last: int | None, begin: int, columns: Iterable[str] | None) -> None:
    """Raise CorruptFileError if these columns of the last record cannot be read: a scan takes it for the log's end."""
    if last is not None and last >= begin:
        step = log.step(log.scanner(message_fields(columns)), last, last + 1)
        if step is not None and step[1] != OK:
            raise log.error(last, step[1])


def follow(
    log: CommitLog, from_phy_offset: int | None, poll: float | None, stop: threading.Event | None
) -> Iterator[DispatchRequest]:
    """Give the DispatchRequests of a log; the documentation is MessageStore's."""
    for batch in follow_batches(log, from_phy_offset, poll, stop, COLUMNS):
        yield from map(DispatchRequest.of, batch)
