"""Dispatcher: builds consume queues and the index from the records of the commit log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import SizedConfig
from rocketstore.disk.descriptors import descriptor_share
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.dispatch.light_queues import with_more
from rocketstore.dispatch.topic_lives import UnitFilter
from rocketstore.errors import StoreError
from rocketstore.index.index_service import IndexService
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.dispatch import MORE_DISPATCH, RequestScanner, by_queue
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.logger import logger
from rocketstore.messages.topics import is_file_name
from rocketstore.progress import OffsetReport, ignore_offset
from rocketstore.queue.batch_consume_queue import BatchConsumeQueue
from rocketstore.queue.batch_consume_queue_writer import BatchConsumeQueueWriter
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.consume_queue_ext_writer import ConsumeQueueExtWriter
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter
from rocketstore.survey.places import LocalPlaces

MAX_CHUNK = 32 << 20  # bytes of the log whose requests are in memory at the same time
BEYOND_BODY = 65536  # bytes of a record besides its body, at most
LEAST_DESCRIPTORS, MOST_DESCRIPTORS = 2, 128  # descriptors of queues that stay open
QUEUE_OFFSET_ADVICE = (
    "rocketstore salvage STORE --out NEW gives it another; rocketstore recover STORE --policy broker leaves a negative "
    "one out, as a broker does"
)
UNIT_COLUMNS = ("phy_offset", "size", "tags_code", "msg_base_offset")
BATCH_COLUMNS = ("phy_offset", "size", "tags_code", "store_timestamp", "msg_base_offset", "batch_size")
Writer = ConsumeQueueWriter | BatchConsumeQueueWriter


class Dispatcher:
    """Builds queues and index from the commit log. Only one thread at a time may use it.

    Attributes: last_phy_offset, last_store_timestamp: of the last dispatched record; -1 before the first. left_out:
    records of deleted topics that got no unit, by queue.
    Source: DefaultMessageStore.doDispatch, CommitLogDispatcherBuildConsumeQueue, CommitLogDispatcherBuildIndex.
    """

    def __init__(
        self,
        places: LocalPlaces,
        config: SizedConfig,
        log: CommitLog,
        index: IndexService | None,
        batch_topics: Collection[str],
        *,
        as_broker: bool = False,
        held: HeldDirectory | None = None,
        lives: UnitFilter | None = None,
        has_queues: bool = True,
    ) -> None:
        """Prepare to build.

        Parameters: index: None to build no index. batch_topics: topics whose queue.type is
        BatchCQ. as_broker: end a queue at its first bad unit, leave out messages with a negative queue offset, and
        write another ext unit for a record that is dispatched again. Otherwise bad units and negative queue offsets
        raise errors. held: the root of the store, below which files are found and made; None to use their paths.
        lives: leaves out records of deleted topics; None: all records get units. Once the log must be read again, no
        more units are put. has_queues: False to build the index only.
        """
        self._places = places
        self.config = config
        self.index = index if config.message_index_enable else None
        self.last_phy_offset = self.last_store_timestamp = -1
        self.left_out: dict[QueueId, int] = {}
        self._lives = lives
        self._has_queues = has_queues
        self._log = log.as_whole_to(
            LONG_MAX
        )  # records that are dispatched are complete, also if their last bytes are zeros
        self._batch_topics = batch_topics
        self._as_broker = as_broker
        self._held = held
        self._buffer: Buffer | None = None  # of the file of the log that was read last
        self._scanner = RequestScanner(
            message_delay_level=config.message_delay_level,
            indexes_tags=Compat.of(config.compat).indexes_tags,
            anywhere=as_broker,
            framing=log.reader.framing,
        )
        self._writers: dict[QueueId, Writer] = {}
        self._used: OrderedDict[QueueId, None] = OrderedDict()  # queues with an open descriptor, in order of use
        divisor = 16 if config.enable_consume_queue_ext else 8  # a queue with an ext file has two descriptors
        self._max_open = descriptor_share(divisor, least=LEAST_DESCRIPTORS, most=MOST_DESCRIPTORS)

    # ---- queues --------------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> Writer:
        """Return the writer of a queue. It creates no file before its first unit."""
        key = QueueId(topic, queue_id)
        writer = self._writers.get(key)
        if writer is None:
            writer = self._writers[key] = self._open(topic, queue_id)
        self._used[key] = None
        self._used.move_to_end(key)
        if len(self._used) > self._max_open:
            self._writers[self._used.popitem(last=False)[0]].release()
        return writer

    def _open(self, topic: str, queue_id: int) -> Writer:
        config = self.config
        if topic in self._batch_topics:
            directory = self._places.queue(BatchConsumeQueue, topic, queue_id)
            size = config.mapper_file_size_batch_consume_queue
            return BatchConsumeQueueWriter(directory, size, keeps_files=not self._as_broker, held=self._held)
        ext = None
        if config.enable_consume_queue_ext:
            directory = self._places.queue(ConsumeQueueExt, topic, queue_id)
            ext = ConsumeQueueExtWriter(directory, config.mapped_file_size_consume_queue_ext, self._held)
        directory = self._places.queue(ConsumeQueue, topic, queue_id)
        size = config.mapped_file_size_consume_queue
        keeps_files = not self._as_broker
        return ConsumeQueueWriter(directory, size, ext, keeps_files=keeps_files, compat=config.compat, held=self._held)

    def queues(self) -> dict[QueueId, Writer]:
        """Return the writers that were used, by topic and queue id."""
        return dict(self._writers)

    # ---- dispatch ------------------------------------------------------------------------------------------

    def dispatch(self, begin: int, end: int, *, report: OffsetReport = ignore_offset) -> None:
        """Dispatch the records between two physical offsets in order. The log must be sound there.

        Parameters: report: is called after each dispatched chunk, with the physical offset at which the chunk ends.
        Raises: CorruptFileError, OSError: the caller may call again from ``last_phy_offset`` on. Units and items that
        were put before are not repeated.
        """
        while begin < end:
            self._scanner.take()  # drop requests of a call that failed
            stop = self._collect(begin, end)
            has_records = self._scanner.n_records > 0
            requests, items = self._scanner.take()
            if self._has_queues:
                self.build_consume_queues(requests, self._scanner.queues)
            if has_records:
                self.build_index(items, self._scanner.last_phy_offset)
            self.last_phy_offset = self._scanner.last_phy_offset
            self.last_store_timestamp = self._scanner.last_store_timestamp
            begin = stop
            report(begin)

    def _collect(self, begin: int, end: int) -> int:
        """Scan one chunk of one file. Return where the next chunk begins."""
        file_run = self._log.file_run
        size = MAX_CHUNK + self.config.max_message_size + BEYOND_BODY  # bytes to read if the file cannot be mapped
        window = file_run.read(begin, size, "sequential")
        for renew in (file_run.extend, self._log.refresh):
            if window is None:
                renew()
                window = file_run.read(begin, size, "sequential")
        file = file_run.find(begin)
        if window is None or file is None:
            raise StoreError(f"{self._places.root}: the commit log has no file for {begin}")
        if self._held is not None and window.buffer is not self._buffer:
            self._held.require_in_place()  # the file was found by its path
            self._buffer = window.buffer
        stop = self._scanner.scan(*window, begin, end, MAX_CHUNK)
        file_end = self._log.reader.end_of(file)
        # A scan that stops before the end of its chunk has reached the blank at the end of the file.
        return min(file_end, end) if stop < end and stop - begin < MAX_CHUNK else stop

    def leave_out(self, lives: UnitFilter) -> None:
        """Leave out other records from now on. Parameters: lives: as for a new Dispatcher."""
        self._lives = lives

    def build_index(self, items: np.ndarray, last_phy_offset: int) -> None:
        """Put items, ITEM[n]. Parameters: last_phy_offset: of the last dispatched record, with or without items."""
        if self.index is not None:
            self.index.build_items(items, last_phy_offset)

    def build_consume_queues(self, requests: np.ndarray, queues: Sequence[QueueId]) -> None:
        """Put units for requests, REQUEST[n]. Parameters: queues: in the order of their numbers in the requests."""
        self.put_requests(*with_more(self._log, self.config, requests, queues, self._batch_topics))

    def put_requests(self, requests: np.ndarray, queues: Sequence[QueueId]) -> int:
        """Put one unit for each request, into its own queue. Return the number of units."""
        if len(requests) == 0:
            return 0
        columns, ends = by_queue(requests, len(queues))
        count = 0
        numbers = np.flatnonzero(np.diff(ends, prepend=0)).tolist()
        # Queues with open files come first. If others were opened before them, these files would be closed, and opened
        # again.
        for number in sorted(numbers, key=lambda number: queues[number] not in self._used):
            queue, first, last = queues[number], int(ends[number - 1]) if number else 0, int(ends[number])
            if is_file_name(queue[0]):
                of_queue = {name: column[first:last] for name, column in columns.items()}
                count += self._put_units(queue, self._without_left_out(queue, of_queue))
            else:
                logger.warning("topic %.80r cannot be the name of a directory: its messages have no units", queue[0])
        return count

    def _without_left_out(self, queue: QueueId, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the rows that get units, and count the others."""
        if self._lives is None:
            return columns
        records = columns["phy_offset"], columns["msg_base_offset"]
        self._lives.add(queue, *records, columns["batch_size"])
        if self._lives.must_read_again:
            return {name: column[:0] for name, column in columns.items()}
        are_left_out = self._lives.are_left_out(queue, *records)
        if not are_left_out.any():
            return columns
        self.left_out[queue] = self.left_out.get(queue, 0) + int(are_left_out.sum())
        return {name: column[~are_left_out] for name, column in columns.items()}

    def _put_units(self, queue: QueueId, columns: dict[str, np.ndarray]) -> int:
        if len(columns["phy_offset"]) == 0:
            return 0
        try:
            return self._put_into(self.queue(*queue), columns)
        except ValueError as error:
            cause = str(error).partition(": ")[2]  # without the row number, which a user does not know
            reason = f"queue {queue[1]} of {queue[0]!r} cannot have a unit: {cause}"
            raise StoreError(f"{self._places.root}: {reason}: {QUEUE_OFFSET_ADVICE}") from error

    def _put_into(self, writer: Writer, columns: dict[str, np.ndarray]) -> int:
        """Put units. A request from another queue gets no batch unit and no ext unit."""
        if isinstance(writer, BatchConsumeQueueWriter):
            own = columns["flags"] & MORE_DISPATCH == 0
            return writer.put_units(*(columns[name][own] for name in BATCH_COLUMNS))
        if writer.ext is not None:
            own = columns["flags"] & MORE_DISPATCH == 0
            if not self._as_broker:  # a broker writes an ext unit again, even if the unit is there
                own &= columns["phy_offset"] + columns["size"] > writer.max_phy_offset
            pairs = zip(columns["tags_code"][own].tolist(), columns["store_timestamp"][own].tolist(), strict=True)
            columns["tags_code"][own] = [writer.ext.put(code, timestamp) for code, timestamp in pairs]
        if self._as_broker:
            return put_as_broker(writer, columns)
        return writer.put_units(*(columns[name] for name in UNIT_COLUMNS))

    def flush(self) -> None:
        """Write all queues and the index to the disk. Raises: OSError."""
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
    """Put units as a broker does: for a negative queue offset it creates a file, but writes no unit.

    Source: ConsumeQueue.putMessagePositionInfo.
    """
    is_new = columns["phy_offset"] + columns["size"] > writer.max_phy_offset
    columns["msg_base_offset"] = columns["msg_base_offset"] * 20 // 20  # overflows as Java's long does
    is_unit = columns["msg_base_offset"] >= 0
    if is_new[0] and not is_unit[0]:
        writer.make_room()
    count = writer.put_units(*(columns[name][is_unit] for name in UNIT_COLUMNS))
    if is_new[-1] and not is_unit[-1]:
        writer.make_room()
    return count
