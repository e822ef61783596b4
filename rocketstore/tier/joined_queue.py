"""JoinedQueue: a queue of a store, and the older messages of it that are only in a tier."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import ClassVar, overload

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.closable import Closable
from rocketstore.kernels.layout import UNIT
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.queue.queue_source import Boundary, OffsetBounds, QueueSource, StoredQueue
from rocketstore.queue.units import ConsumeQueueUnits, CqUnit
from rocketstore.text_values import Time, epoch_ms
from rocketstore.tier.places import TierPlaces
from rocketstore.tier.segments import open_segments, open_tier_log
from rocketstore.tier.tier_queue import TierQueue, join_units

NO_OFFSET = -1  # in place of the physical offset of a message that is only in the tier


class JoinedQueue(Closable):
    """The units of a queue: those of the tier up to the first message of the store's own queue, then the store's.

    Units of the tier have -1 in place of a physical offset: ``parts`` has the queues with their logs.
    Source: TieredMessageStore.getMessageAsync.
    """

    has_batches: ClassVar[bool] = False
    is_compacted: ClassVar[bool] = False
    unit_size: ClassVar[int] = UNIT.itemsize

    def __init__(self, tier: TierQueue, local: StoredQueue | None) -> None:
        """Parameters: local: the queue of the store; None if it is missing."""
        self._tier = tier
        self.local = local
        self.directory = tier.directory if local is None else local.directory

    @property
    def older(self) -> TierQueue:
        """The messages before the first one of the store's own queue; all of the tier if the store has none."""
        if self.local is None:
            return self._tier
        begin = max(self.local.min_queue_offset, 0)
        return self._tier.until(begin) if begin < self.local.max_queue_offset else self._tier

    @property
    def has_gaps(self) -> bool:
        """Whether queue offsets may be missing between units."""
        return any(part.has_gaps for part in self.parts)

    @property
    def parts(self) -> list[StoredQueue]:
        """The queues that have units, in order: each message is in one of them."""
        older = self.older
        if self.local is None or older is self._tier:
            return [older]
        return [older, self.local] if len(older) else [self.local]

    @property
    def log(self) -> CommitLog | None:
        """The log of the store's own queue."""
        return None if self.local is None else self.local.log

    @property
    def min_queue_offset(self) -> int:
        return self.parts[0].min_queue_offset

    @property
    def max_queue_offset(self) -> int:
        return self.parts[-1].max_queue_offset

    @property
    def bounds(self) -> OffsetBounds:
        """Where the first part begins and the last part ends, and the number of messages of all parts."""
        bounds = [part.bounds for part in self.parts]
        return OffsetBounds(bounds[0].least, bounds[-1].end, sum(part.messages for part in bounds))

    @property
    def leftover_units(self) -> int:
        return 0 if self.local is None else self.local.leftover_units

    def __len__(self) -> int:
        return self.bounds.messages

    @overload
    def __getitem__(self, key: int) -> CqUnit: ...
    @overload
    def __getitem__(self, key: slice) -> ConsumeQueueUnits: ...
    def __getitem__(self, key: int | slice) -> CqUnit | ConsumeQueueUnits:
        """Return the unit of a queue offset, or the units of a range, as a queue does. Raises: as its parts."""
        parts = self.parts
        least, end = parts[0].min_queue_offset, parts[-1].max_queue_offset
        if not isinstance(key, slice):
            start = operator.index(key)
            start += end if start < 0 else 0
            part = next((part for part in parts if start < part.max_queue_offset), parts[-1])
            return part[start]._replace(phy_offset=NO_OFFSET) if isinstance(part, TierQueue) else part[start]
        start = least if key.start is None else operator.index(key.start)
        stop = end if key.stop is None else operator.index(key.stop)
        start, stop = (bound + end if bound < 0 else bound for bound in (start, stop))
        if not isinstance(parts[0], TierQueue) or start >= parts[0].max_queue_offset:
            return parts[-1][start : stop : key.step]
        units = _without_offsets(parts[0][start : stop : key.step])
        if len(parts) == 1 or stop <= parts[0].max_queue_offset:
            return units
        return join_units([units, parts[1][parts[1].min_queue_offset : stop]])

    def __iter__(self) -> Iterator[CqUnit]:
        for part in self.parts:
            for unit in part:
                yield unit._replace(phy_offset=NO_OFFSET) if isinstance(part, TierQueue) else unit

    def count_bytes(self, begin: int, end: int) -> int:
        """Return the bytes of the records of the units whose queue offsets are from ``begin`` to before ``end``."""
        bounds = ((part, max(begin, part.min_queue_offset), min(end, part.max_queue_offset)) for part in self.parts)
        return sum(part.count_bytes(first, last) for part, first, last in bounds if first < last)

    def get_offset_by_time(self, timestamp: Time, boundary: Boundary = "lower", *, exact_times: bool = False) -> int:
        """Find the queue offset of a store time, within min and max. Parameters, raises: as of ``ConsumeQueue``.

        Source: TieredMessageStore.getOffsetInQueueByTime.
        """
        time, parts = epoch_ms(timestamp, "timestamp"), self.parts
        if len(parts) == 1:
            return parts[0].get_offset_by_time(time, boundary, exact_times=exact_times)
        if boundary == "lower":
            found = parts[0].get_offset_by_time(time, boundary, exact_times=exact_times)
            is_later = found >= parts[0].max_queue_offset
            return parts[1].get_offset_by_time(time, boundary, exact_times=exact_times) if is_later else found
        first = parts[1].min_queue_offset
        log = parts[1].log
        is_older = log is not None and log.reader.read_store_timestamp(parts[1][first].phy_offset) > time
        return parts[not is_older].get_offset_by_time(time, boundary, exact_times=exact_times)

    def file_range(self, queue_offset: int) -> tuple[int, int] | None:
        """Return the bounds of the part that has a queue offset; None outside of all parts."""
        return next((span for part in self.parts if (span := part.file_range(queue_offset)) is not None), None)

    def offset_after_missing_file(self, queue_offset: int) -> int:
        return self.parts[-1].offset_after_missing_file(queue_offset)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.directory)!r}>"

    def close(self) -> None:
        self._tier.close()
        if self.local is not None:
            self.local.close()


def parts_of(queue: StoredQueue) -> list[StoredQueue]:
    """Return the queues, each with its own log, that make a queue: the queue itself if it is no JoinedQueue."""
    return queue.parts if isinstance(queue, JoinedQueue) else [queue]


def may_lack_messages(queue: StoredQueue) -> bool:
    """Return whether messages are missing that were before the first message of the queue in the commit log.

    A broker may have copied these messages to the tier since the queue was opened.
    """
    if not isinstance(queue, JoinedQueue):
        return queue.min_queue_offset > 0 and not queue.is_compacted
    older = queue.older
    return older.max_queue_offset < older.stop_offset < LONG_MAX  # LONG_MAX: the log has no message


def _without_offsets(units: ConsumeQueueUnits) -> ConsumeQueueUnits:
    offsets = np.full(len(units), NO_OFFSET, np.int64)
    return ConsumeQueueUnits(units.queue_offsets, offsets, units.sizes, units.tags_codes)


class JoinedQueues:
    """The queues of a store with their older messages of a tier."""

    def __init__(self, queues: QueueSource[StoredQueue], places: TierPlaces, config: StoreConfig) -> None:
        """Parameters: queues, config: of the store."""
        self._queues = queues
        self._places = places
        self._config = config

    def queues(self) -> Iterator[QueueId]:
        return iter(sorted({*self._queues.queues(), *self._places.queues()}))

    def queue_ids(self, topic: str) -> list[int]:
        return sorted({*self._queues.queue_ids(topic), *self._places.queue_ids(topic)})

    def open(self, topic: str, queue_id: int) -> StoredQueue | None:
        """Open a queue. Return None if it is missing. Raises: OSError; StoreError."""
        local = self._queues.open(topic, queue_id)
        if queue_id not in self._places.queue_ids(topic):
            return local
        queue = QueueId(topic, queue_id)
        log = open_tier_log(self._places.log(queue), self._config)
        tier = TierQueue(open_segments(self._places.units(queue)), log)
        has_messages = len(tier) > 0 or len(log.file_run.files) > 0
        return JoinedQueue(tier, local) if has_messages else local
