"""BatchConsumeQueue: which records of the commit log have the messages of one queue, many to a record."""

from __future__ import annotations

import bisect
from typing import Any

from rocketstore.kernels.columns import int32_column, int64_column
from rocketstore.limits import LONG_MAX
from rocketstore.queue.batch_consume_queue_writer import BatchConsumeQueueWriter
from rocketstore.queue.consume_queue import ConsumeQueue, beside_expiry
from rocketstore.queue.queue_source import OffsetBounds, count_bytes_between
from rocketstore.queue.time_search import search_batches
from rocketstore.queue.unit_run import BatchUnitRun, Span
from rocketstore.queue.units import queue_offsets_of
from rocketstore.text_values import Time, time_as_long

COUNTED_OFFSETS = 1 << 20  # queue offsets whose units are read at once to count bytes


class BatchConsumeQueue(ConsumeQueue):
    """The units of a queue of batches, by the queue offset of any of their messages.

    Source: org.apache.rocketmq.store.queue.BatchConsumeQueue.

    Examples:
    >>> with BatchConsumeQueue.open("Batches/0", "a", mapped_file_size=4600) as queue:
    ...     queue.put_unit(0, 300, 0, 0, batch_num=3, store_timestamp=1_700_000_000_000)
    ...     print(queue.max_queue_offset, queue[1].phy_offset)
    True
    3 0
    """

    __slots__ = ()
    size_name = "mapper_file_size_batch_consume_queue"
    run_type = BatchUnitRun
    writer_type = BatchConsumeQueueWriter
    unit_size = BatchUnitRun.unit_size
    has_batches = True
    has_gaps = True

    def put_unit(  # type: ignore[override]
        self, phy_offset: int, size: int, tags_code: int, queue_offset: int, *, batch_num: int, store_timestamp: Time
    ) -> bool:
        """Append the unit of one record; see ``put_units``. Return whether it was appended."""
        columns = [phy_offset], [size], [tags_code], queue_offset
        times = [time_as_long(store_timestamp, "store_timestamp")]
        return self.put_units(*columns, batch_nums=[batch_num], store_timestamps=times) == 1

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
        """Append batch units in order. Skip records that begin before the last unit's record, or with it.

        Parameters: as ``ConsumeQueue.put_units``, and queue_offset: of each record's first message. batch_nums: how
        many messages each record has, int16[n]. store_timestamps: epoch ms, int64[n].
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
        return self._end_of(self._spans())

    @property
    @beside_expiry
    def min_queue_offset(self) -> int:
        """The first queue offset whose record is still in the commit log, by the first file only; -1 without a unit.

        Source: BatchConsumeQueue.correctMinOffset.
        """
        return self.bounds.least

    @property
    @beside_expiry
    def bounds(self) -> OffsetBounds:
        """``min_queue_offset``, ``max_queue_offset`` and the number of messages, found by one search for the end."""
        self.run.list_files()
        spans = self._spans()
        if not spans:
            return OffsetBounds(-1, 0, 0)
        end, begin, live = self._end_of(spans), spans[0][0], self._find_live(spans[0])
        unit = self.run.unit_at(max(live - self.unit_size, begin))
        first = unit.queue_offset + (unit.batch_num if live > begin else 0)
        least = min(first, end)  # in a damaged file, the first offset may be larger than the last
        return OffsetBounds(least, end, max(end - max(least, 0), 0))

    def _end_of(self, spans: list[Span]) -> int:
        """Return the queue offset behind the last unit. Parameters: spans: of the units of the queue."""
        if not spans:
            return 0
        last = self.run.unit_at(spans[-1][1] - self.unit_size)
        return min(last.queue_offset + last.batch_num, LONG_MAX)

    def count_bytes(self, begin: int, end: int) -> int:
        """Return the bytes of the records of the units whose queue offsets are from ``begin`` to before ``end``.

        A batch unit belongs to its first queue offset. Parameters, raises: as of ``ConsumeQueue``.
        """
        return count_bytes_between(self, begin, end, COUNTED_OFFSETS)

    def offset_after_missing_file(self, queue_offset: int) -> int:
        """Return 0, as a broker does. Source: BatchConsumeQueue.rollNextFile."""
        return 0

    def _position(self, queue_offset: int) -> int:
        spans = self._spans()
        if not spans:
            return 0
        at = bisect.bisect_right(spans, queue_offset, key=lambda span: self.run.unit_at(span[0]).queue_offset) - 1
        return self.run.find(spans[max(at, 0)], "msg_base_offset", min(queue_offset + 1, LONG_MAX)) - self.unit_size

    def _end_after(self, first: int, stop: int) -> int:
        return self.max_queue_offset

    def _offset_at(self, position: int) -> int:
        at_end = position >= self._spans()[-1][1] or self.run.file_run.find(position) is None
        return self.max_queue_offset if at_end else self.run.unit_at(position).queue_offset

    def _search_time(self, timestamp: int, first: int, *, is_lower: bool) -> int:
        return search_batches(self.run, self._spans(), first, timestamp, is_lower=is_lower)


QUEUE_KINDS = ConsumeQueue, BatchConsumeQueue
