"""BatchConsumeQueue: which records of the commit log have the messages of one queue, many to a record."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np

from rocketstore.kernels.columns import int32_column, int64_column
from rocketstore.kernels.consume_queue import decode_batch_units
from rocketstore.limits import LONG_MAX
from rocketstore.queue.consume_queue import (
    ConsumeQueue,
    ConsumeQueueUnits,
    CqUnit,
    Span,
    beside_expiry,
    queue_offsets_of,
)
from rocketstore.queue.consume_queue_writer import BatchConsumeQueueWriter

__all__ = ["QUEUE_KINDS", "BatchConsumeQueue"]

MSG_BASE_OFFSET = 28  # where it is in a unit


class BatchConsumeQueue(ConsumeQueue):
    """The units of a queue of batches, by the queue offset of any of their messages.

    Source: org.apache.rocketmq.store.queue.BatchConsumeQueue.
    """

    __slots__ = ()
    directory_name = "batchconsumequeue"
    size_name = "mapper_file_size_batch_consume_queue"
    unit_size = 46
    rounded_to = 1
    writer_type = BatchConsumeQueueWriter

    def put_unit(  # type: ignore[override]
        self, phy_offset: int, size: int, tags_code: int, queue_offset: int, *, batch_num: int, store_timestamp: int
    ) -> bool:
        """Append the unit of one record. Whether it was: as ``put_units``, and see there."""
        columns = [phy_offset], [size], [tags_code], queue_offset
        return self.put_units(*columns, batch_nums=[batch_num], store_timestamps=[store_timestamp]) == 1

    def put_units(  # type: ignore[override]
        self,
        phy_offsets: Any,
        sizes: Any,
        tags_codes: Any,
        queue_offset: Any,
        *,
        batch_nums: Any,
        store_timestamps: Any,
    ) -> int:
        """Append batch units in order, but none of a record up to the last unit's.

        Parameters: as ``ConsumeQueue.put_units``, and queue_offset: of each record's first message. batch_nums: the
        records' messages, int16[n]. store_timestamps: epoch ms, int64[n].
        Returns, raises: as ``ConsumeQueue.put_units``. Source: BatchConsumeQueue.putBatchMessagePositionInfo.
        """
        n = len(phy_offsets)
        nums = int32_column(batch_nums, "batch_nums", n)
        times = int64_column(store_timestamps, "store_timestamps", n)
        return self._put(phy_offsets, sizes, tags_codes, times, queue_offsets_of(queue_offset, nums), nums)

    @property
    @beside_expiry
    def max_queue_offset(self) -> int:
        """The queue offset of the next message. Source: BatchConsumeQueue.reviseMaxOffsetInQueue."""
        held = self._held()
        if not held:
            return 0
        last = self._unit_at(held[-1][1] - 46)
        return min(last.queue_offset + last.batch_num, LONG_MAX)

    @property
    @beside_expiry
    def min_queue_offset(self) -> int:
        """The first queue offset whose record the commit log still has, as the first file shows; -1: no unit.

        Source: BatchConsumeQueue.correctMinOffset.
        """
        self._run(again=True)
        held = self._held()
        if not held:
            return -1
        live = self._find_live(held[0])
        unit = self._unit_at(max(live - 46, held[0][0]))
        # Damaged bases may be larger than the last.
        return min(unit.queue_offset + (unit.batch_num if live > held[0][0] else 0), self.max_queue_offset)

    def _position(self, queue_offset: int) -> int:
        held = self._held()
        if not held:
            return 0
        at = bisect.bisect_right(held, queue_offset, key=lambda span: self._unit_at(span[0]).queue_offset) - 1
        return self._find(held[max(at, 0)], MSG_BASE_OFFSET, min(queue_offset + 1, LONG_MAX)) - 46

    def _end_after(self, first: int, stop: int) -> int:
        return self.max_queue_offset

    def _offset_at(self, position: int) -> int:
        at_end = position >= self._held()[-1][1] or self._run().find(position) is None
        return self.max_queue_offset if at_end else self._unit_at(position).queue_offset

    def _unit_at(self, position: int) -> CqUnit:
        return next(iter(self._decode([(position, position + 46)])))

    def _decode(self, spans: Sequence[Span]) -> ConsumeQueueUnits:
        n = sum(end - start for start, end in spans) // 46
        longs, ints = np.empty((4, n), np.int64), np.empty((3, n), np.int32)
        first = 0
        for span in spans:
            buffer, pos, count = self._units_of(span)
            decode_batch_units(buffer, pos, longs, ints, first, first + count)
            first += count
        return ConsumeQueueUnits(longs[0], longs[1], ints[0], longs[2], ints[1], longs[3], ints[2])

    def _search_time(self, timestamp: int, lower: bool, first: int) -> int:
        """As RocketMQ, whose upper boundary gives the smallest offset for most times between two batches.

        Source: BatchConsumeQueue.getOffsetInQueueByTime, binarySearchRight.
        """
        held = self._held()
        if not held:
            return first
        at = bisect.bisect_right(held, timestamp, key=lambda span: self._unit_at(span[0]).store_timestamp) - 1
        units = self._decode([held[max(at, 0)]])
        times: Any = units.store_timestamps
        firsts = units.queue_offsets
        left, right = 0, len(times) - 1
        if timestamp >= times[right]:
            return int(firsts[right])
        while right - left > 1:
            middle = (left + right) // 2
            if times[middle] < timestamp or (times[middle] == timestamp and not lower):
                left = middle + lower
            else:
                right = middle - (not lower)
        found = left if times[left] >= timestamp else right
        return int(firsts[found]) if times[found] >= timestamp else -1


QUEUE_KINDS = ConsumeQueue, BatchConsumeQueue
