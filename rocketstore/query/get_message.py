"""Reading a queue as a consumer does: by queue offset, with RocketMQ's statuses."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np

from rocketstore.disk.storage import is_remote
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.keys import java_hash_codes
from rocketstore.kernels.message_columns import message_fields
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.logger import logger
from rocketstore.made_by import made_by
from rocketstore.messages.arguments import split_tags
from rocketstore.messages.found_messages import FoundMessages
from rocketstore.messages.in_queue import is_in_queue, rows_in_queue
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch, empty_batch
from rocketstore.query.read_few import FEW, OnWrongCrc, read_batch, read_few
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.queue.units import CqUnit
from rocketstore.text_values import format_count
from rocketstore.tier.joined_queue import parts_of
from rocketstore.tier.tier_queue import TierQueue

# What a broker's configuration limits a read to.
MAX_FILTER_MESSAGE_SIZE = 16000
MAX_TRANSFER_IN_MEMORY = 262_144, 32  # bytes, messages
MAX_TRANSFER_ON_DISK = 65_536, 8
IN_MEMORY_PERCENT = 40
STEP = 1024  # units to read at once
INT_MASK = 0xFFFFFFFF  # of a tags code that is a hash


class GetMessageStatus(StrEnum):
    """Whether a read by queue offset found messages, and why not.

    Source: GetMessageStatus.

    Examples:
    >>> rocketstore.open("demo").get_message("Orders", 0, 100).status.name
    'OFFSET_OVERFLOW_ONE'
    """

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


@made_by("store.get_message(topic, queue_id, queue_offset)")
class GetMessageResult(FoundMessages):
    """The messages that a read of a queue found, in the order of the queue.

    An inner batch is one message here, as for a broker: ``Message.decode_batch`` returns the messages in it.
    ``MessageStore.scan`` returns the messages in inner batches.

    Attributes: status. next_begin_offset: the queue offset of the next read. min_offset, max_offset: the queue has the
    queue offsets from ``min_offset`` to before ``max_offset``. messages: a MessageBatch. why: why no message was found;
    None if there are messages.
    Source: GetMessageResult.

    Examples:
    >>> found = rocketstore.open("demo").get_message("Orders", 0, 98, 32)
    >>> found.status.name, len(found), found.next_begin_offset
    ('FOUND', 2, 100)
    """

    def __init__(
        self,
        status: GetMessageStatus,
        next_begin_offset: int,
        min_offset: int,
        max_offset: int,
        messages: MessageBatch | Callable[[], MessageBatch],
        rows: Sequence[Message] | None = None,
        *,
        explain: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(messages, rows, explain or self._describe)
        self.status = status
        self.next_begin_offset = next_begin_offset
        self.min_offset = min_offset
        self.max_offset = max_offset

    @classmethod
    def without_queue(cls, explain: Callable[[], str]) -> GetMessageResult:
        """Return the answer for a queue that does not exist. Parameters: explain: returns why."""
        status, nothing = GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, empty_batch(message_fields())
        return cls(status, 0, 0, 0, nothing, explain=explain)

    def _describe(self) -> str:
        """Return why no message of the queue was found."""
        least, most, status = self.min_offset, self.max_offset, self.status
        if least == most:
            return f"the queue is empty, and its next offset is {most}"
        bounds = f"the queue has offsets {least} to {most - 1}"
        if status == GetMessageStatus.NO_MATCHED_MESSAGE:
            return f"no message up to queue offset {self.next_begin_offset - 1} has one of the tags; {bounds}"
        if status == GetMessageStatus.MESSAGE_WAS_REMOVING:
            return (
                f"the log does not have the messages to which the queue leads: they have expired, or are lost; {bounds}"
            )
        return bounds

    def without_phy_offsets(self) -> GetMessageResult:
        """Return the same answer with null in place of each physical offset."""
        place = self.next_begin_offset, self.min_offset, self.max_offset
        return GetMessageResult(self.status, *place, self.messages.without_phy_offsets())

    def _title(self) -> str:
        places = f"next offset {self.next_begin_offset:,} of {self.min_offset:,} to {self.max_offset:,}"
        return f"GetMessageResult: {self.status}, {format_count(len(self), 'message')}, {places}"


class QueueView(NamedTuple):
    """A queue and the log into which it leads, with their bounds at one time.

    Attributes: least, most: the queue has the queue offsets from ``least`` to before ``most``. log_begin, log_end:
    physical offsets, bytes.
    """

    log: CommitLog
    queue: StoredQueue
    least: int
    most: int
    log_begin: int
    log_end: int

    @classmethod
    def of_queue(cls, log: CommitLog, queue: StoredQueue) -> QueueView:
        """Return a view of the queue as it is now. Raises: CorruptFileError; OSError."""
        least, most, _ = queue.bounds
        if queue.is_compacted and least < most:
            least = queue[least].queue_offset
        return cls(log, queue, least, most, log.min_phy_offset, log.max_phy_offset)


def get_message(
    view: QueueView,
    queue_id: QueueId,
    queue_offset: int,
    max_msg_nums: int,
    tags: str | Iterable[str] | None,
    limits: str | None,
    ext: ConsumeQueueExt | None,
    verify_crc: bool,
) -> GetMessageResult:
    """Read messages of a queue; the documentation is MessageStore.get_message's.

    A unit that leads to a record of another queue is damaged: its message is left out, as that of a damaged record. A
    broker returns it.
    """
    if limits not in (None, "broker"):
        raise ValueError(f"limits={limits!r}: must be None or 'broker'")
    if max_msg_nums < 0:
        raise ValueError(f"max_msg_nums={max_msg_nums} is negative")
    wanted = split_tags(tags)
    on_wrong_crc: OnWrongCrc = "raise" if verify_crc and limits is None else "ignore"
    log, queue, least, most = view.log, view.queue, view.least, view.most
    if outside := find_status_outside(view, queue_offset):
        return GetMessageResult(*outside, least, most, empty_batch(message_fields()))
    if wanted is None and limits is None and max_msg_nums <= FEW:
        few = read_few_units(view, queue_id, queue_offset, max_msg_nums, on_wrong_crc)
        if few:
            read = partial(read_batch, log, [message.phy_offset for message in few], on_wrong_crc)
            return GetMessageResult(GetMessageStatus.FOUND, queue_offset + len(few), least, most, read, few)
    reader = _Reader(view, ext, queue_offset, wanted, limits == "broker")
    status = reader.collect(max_msg_nums)
    if reader.found and (few := reader.read_few(queue_id, on_wrong_crc)) is not None:
        read = partial(read_batch, log, reader.found, on_wrong_crc)
        return GetMessageResult(status, reader.next, least, most, read, few)
    messages = read_batch(log, reader.found, on_wrong_crc)
    if reader.found and not len(messages) and max(reader.found) < log.min_phy_offset:  # they have expired meanwhile
        status = GetMessageStatus.MESSAGE_WAS_REMOVING
    rows = np.arange(len(messages)) if reader.as_broker else rows_in_queue(messages, *queue_id)
    if len(rows) < len(messages):
        left_out = format_count(len(messages) - len(rows), "unit leads", "units lead")
        logger.warning("%s: from offset %d, %s to records of other queues", queue.directory, queue_offset, left_out)
        messages = messages.take(rows)
    if wanted is not None and reader.as_broker:
        # A broker goes by the codes; a client then drops tags that are others.
        messages = messages.take([i for i, message in enumerate(messages) if message.tags in wanted])
    return GetMessageResult(status, reader.next, least, most, messages)


def read_few_units(
    view: QueueView, queue_id: QueueId, queue_offset: int, count: int, on_wrong_crc: OnWrongCrc
) -> list[Message] | None:
    """Read the messages of a few queue offsets, one by one, in half the time of a ``_Reader``.

    Return None if a queue offset may have no unit of its own, or if a unit leads to no message of this queue.
    """
    log, queue = view.log, view.queue
    if queue.has_batches or queue.is_compacted or is_remote(log.directories[0]):
        return None
    messages = []
    for place in range(queue_offset, min(queue_offset + count, view.most)):
        try:
            unit = queue[place]
        except (IndexError, CorruptFileError):  # the queue was cut meanwhile, or a file is missing
            return None
        message = log.find_sound_message(unit.phy_offset, verify_crc=on_wrong_crc == "raise")
        if message is None or not is_in_queue(message, *queue_id):
            return None
        messages.append(message)
    return messages


def find_status_outside(view: QueueView, queue_offset: int) -> tuple[GetMessageStatus, int] | None:
    """Return the status and the next queue offset of a read outside the bounds of a queue; None within them."""
    least, most, is_compacted = view.least, view.most, view.queue.is_compacted
    if (0 if is_compacted else least) <= queue_offset < most:
        return None
    if most == 0:
        return GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
    if queue_offset < most:
        return GetMessageStatus.OFFSET_TOO_SMALL, least
    if queue_offset == most:
        return GetMessageStatus.OFFSET_OVERFLOW_ONE, queue_offset
    return GetMessageStatus.OFFSET_OVERFLOW_BADLY, most


def get_message_of_queue(
    queue: StoredQueue,
    look: Callable[[StoredQueue], QueueView],
    queue_id: QueueId,
    queue_offset: int,
    max_msg_nums: int,
    tags: str | Iterable[str] | None,
    limits: str | None,
    ext: ConsumeQueueExt | None,
    verify_crc: bool,
) -> GetMessageResult:
    """Read messages of a queue, whose older messages may be in tiered storage. These have no physical offset.

    Parameters: look: returns a view of a part of the queue. Other parameters: as of ``get_message``.
    """

    def read(part: StoredQueue, begin: int, count: int) -> GetMessageResult:
        found = get_message(look(part), queue_id, begin, count, tags, limits, ext, verify_crc)
        return found.without_phy_offsets() if isinstance(part, TierQueue) else found

    try:
        return _get_message_of_parts(parts_of(queue), read, queue_offset, max_msg_nums)
    except (CorruptFileError, FileNotFoundError):
        # The queue's first file may have expired since it was listed. Real damage raises the same error again.
        return _get_message_of_parts(parts_of(queue), read, queue_offset, max_msg_nums)


def _get_message_of_parts(
    parts: Sequence[StoredQueue],
    read: Callable[[StoredQueue, int, int], GetMessageResult],
    queue_offset: int,
    max_msg_nums: int,
) -> GetMessageResult:
    """Read messages of a queue whose messages are in several queues, in order, with gaps between them at most.

    Parameters: read: reads from a queue, from an offset on, a number of messages at most.
    """
    if len(parts) == 1:
        return read(parts[0], queue_offset, max_msg_nums)
    least, most = parts[0].min_queue_offset, parts[-1].max_queue_offset
    found: list[GetMessageResult] = []
    place = queue_offset
    for part in parts:
        count = max_msg_nums - sum(map(len, found))
        is_last = part is parts[-1]
        if (place >= part.max_queue_offset and not is_last) or (found and count <= 0):
            continue
        begin = max(place, part.min_queue_offset) if found or part is not parts[0] else place
        found.append(read(part, begin, count))
        place = found[-1].next_begin_offset
        if place < part.max_queue_offset:
            break  # the next messages are in this part
    hits = [result for result in found if result] or found[-1:]
    messages = MessageBatch.join([result.messages for result in hits])
    return GetMessageResult(hits[-1].status, hits[-1].next_begin_offset, least, most, messages)


class _Reader:
    """Chooses units from one queue offset on. Source: DefaultMessageStore.getMessage."""

    def __init__(
        self,
        view: QueueView,
        ext: ConsumeQueueExt | None,
        queue_offset: int,
        tags: set[str] | None,
        as_broker: bool,
    ) -> None:
        self.log, self.queue, self.end = view.log, view.queue, view.most
        self.log_range = view.log_begin, view.log_end
        self.ext, self.begin, self.next = ext, queue_offset, queue_offset
        self.tags = tags
        self.codes = {code & INT_MASK for code in java_hash_codes(sorted(tags)).tolist()} if tags else set()
        self.as_broker = as_broker
        self.found: list[int] = []
        self.messages = self.bytes = 0

    def collect(self, max_msg_nums: int) -> GetMessageStatus:
        """Choose the units. Raises: FileNotFoundError if the file of the first queue offset expires meanwhile."""
        status = GetMessageStatus.NO_MATCHED_MESSAGE
        skip_until, place = -1, self.begin
        while place < self.end and (span := self.queue.file_range(place)) is not None:
            for unit in self._units(max(span[0], place), span[1]):
                if unit.queue_offset + unit.batch_num <= self.next:
                    continue  # of a batch queue, where offsets are missing
                if self._is_enough(unit, max_msg_nums):
                    return status
                self.next = unit.queue_offset + unit.batch_num
                if unit.phy_offset < skip_until or not self._is_wanted(unit):
                    continue
                if not self._is_in_log(unit):
                    if not self.found:
                        status = GetMessageStatus.MESSAGE_WAS_REMOVING
                    if self.as_broker:
                        skip_until = self._next_log_file(unit.phy_offset)
                    continue
                self.found.append(unit.phy_offset)
                self.messages += unit.batch_num
                self.bytes += unit.size
                status, skip_until = GetMessageStatus.FOUND, -1
                if not self.as_broker and self.messages >= max_msg_nums:
                    return status  # before more units are read
            if self.next == self.begin < self.queue.min_queue_offset:
                raise FileNotFoundError(errno.ENOENT, "expired while it was read", str(self.queue.directory))
            if self.as_broker or span[1] <= place:
                return status
            place = span[1]
        if place == self.begin < self.end:
            self.next = self.queue.offset_after_missing_file(self.begin)
            return GetMessageStatus.OFFSET_FOUND_NULL
        return status

    def read_few(self, queue_id: QueueId, on_wrong_crc: OnWrongCrc) -> list[Message] | None:
        """Read a few messages one by one. Return None if they are many, or if one is damaged or of another queue."""
        if len(self.found) > FEW or self.as_broker or is_remote(self.log.directories[0]):
            return None
        messages = read_few(self.log, self.found, on_wrong_crc)
        if messages is None or not all(is_in_queue(message, *queue_id) for message in messages):
            return None
        return messages

    def _units(self, begin: int, end: int) -> Iterator[CqUnit]:
        """The units of a part of one file. Of a batch queue they are few, and do not follow from the offsets."""
        step = end - begin if self.queue.has_batches else STEP
        for first in range(begin, end, max(step, 1)):
            yield from self.queue[first : min(first + step, end)]

    def _is_wanted(self, unit: CqUnit) -> bool:
        """Whether the tags are: by their code, and where no broker is followed by themselves."""
        if self.tags is None:
            return True
        code: int | None = unit.tags_code
        if ConsumeQueueExt.is_ext_address(unit.tags_code):
            found = None if self.ext is None else self.ext.read(unit.tags_code)
            code = None if found is None else found.tags_code
        if code is not None and code & INT_MASK not in self.codes:
            return False
        if self.as_broker:
            return True
        message = self.log.find_message(unit.phy_offset)
        return message is None or message.tags in self.tags

    def _is_enough(self, unit: CqUnit, max_msg_nums: int) -> bool:
        """Whether the read ends before this unit. A broker's always takes the first, whatever its size."""
        if not self.as_broker:
            return self.messages + (unit.batch_num if self.found else 1) > max_msg_nums  # a batch of more comes alone
        unit_size = self.queue.unit_size
        if (unit.queue_offset - self.begin) * unit_size >= max(MAX_FILTER_MESSAGE_SIZE, max_msg_nums * unit_size):
            return True
        if not self.found:
            return False
        most_bytes, most_messages = MAX_TRANSFER_IN_MEMORY if self._is_in_memory(unit) else MAX_TRANSFER_ON_DISK
        return (
            self.messages + unit.batch_num > max_msg_nums
            or self.bytes + unit.size > most_bytes
            or self.messages > most_messages - 1
        )

    def _is_in_memory(self, unit: CqUnit) -> bool:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return self.log_range[1] - unit.phy_offset <= memory * IN_MEMORY_PERCENT // 100

    def _is_in_log(self, unit: CqUnit) -> bool:
        begin, end = self.log_range
        if begin <= unit.phy_offset and unit.size <= end - unit.phy_offset:
            return self.log.file_run.find(unit.phy_offset) is not None  # a file between others may be missing
        # A broker's log ends at the first bytes that are no message.
        return not self.as_broker and self.log.find_message(unit.phy_offset) is not None

    def _next_log_file(self, phy_offset: int) -> int:
        size = self.log.mapped_file_size
        return phy_offset - phy_offset % size + size if size else phy_offset
