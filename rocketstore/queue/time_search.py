"""Searching the units of a queue by the store time of their records: exactly as RocketMQ does, or all of them."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np

from rocketstore.queue.queue_source import ranges_to_read
from rocketstore.queue.unit_run import Span, UnitRun
from rocketstore.queue.units import ConsumeQueueUnits

SEARCHED_OFFSETS = 1 << 16  # queue offsets whose records are read at once


def search_units(run: UnitRun, spans: Sequence[Span], log: Any, first: int, timestamp: int, *, is_lower: bool) -> int:
    """Return the queue offset of a store time in a plain queue.

    Parameters: spans: the units of the queue. log: with ``min_phy_offset`` and ``pickup_store_timestamp``. first: the
    first queue offset whose record is in the log. timestamp: epoch ms. is_lower: find the first unit of that time, else
    the last. Source: ConsumeQueue.binarySearchInQueueByTime.
    """
    span = _find_span(run, spans, log, timestamp, is_lower=is_lower)
    if span is None:
        return 0
    start, units, least = span[0] // run.unit_size, run.decode([span]), log.min_phy_offset
    low = floor = max(first - start, 0)
    high = ceiling = len(units) - 1
    below = above = -1
    if _read_time(log, units, ceiling) < timestamp:
        return start + ceiling + is_lower
    if floor <= ceiling and _read_time(log, units, floor) > timestamp:
        return start if is_lower else 0
    while low <= high:
        middle = (low + high) // 2
        if units.phy_offsets[middle] < least:
            low, below = middle + 1, middle
            continue
        time = _read_time(log, units, middle)
        if time < 0:
            return 0
        if time == timestamp:
            step, last = (-1, floor) if is_lower else (1, ceiling)
            while middle != last and _read_time(log, units, middle + step) == timestamp:
                middle += step
            return start + middle
        if time > timestamp:
            high, above = middle - 1, middle
        else:
            low, below = middle + 1, middle
    return start + (above if is_lower else below)


def _find_span(run: UnitRun, spans: Sequence[Span], log: Any, timestamp: int, *, is_lower: bool) -> Span | None:
    """Return the units of the file that RocketMQ searches. Source: MappedFileQueue.getConsumeQueueMappedFileByTime."""

    def time_at(position: int) -> int:
        time = _read_time(log, run.decode([(position, position + run.unit_size)]), 0)
        return time if time > 0 else -1

    if not is_lower:
        return next((span for span in reversed(spans) if time_at(span[0]) <= timestamp), None)
    found = (span for span in spans[:-1] if time_at(span[1] - run.unit_size) >= timestamp)
    return next(found, spans[-1] if spans else None)


def _read_time(log: Any, units: ConsumeQueueUnits, i: int) -> int:
    time: int = log.pickup_store_timestamp(int(units.phy_offsets[i]), int(units.sizes[i]))
    return time


def search_batches(run: UnitRun, spans: Sequence[Span], first: int, timestamp: int, *, is_lower: bool) -> int:
    """Return the queue offset of a store time in a batch queue; ``first`` if the queue has no unit.

    Between the times of two batches, the upper boundary usually gives the smallest queue offset, as in RocketMQ.
    Source: BatchConsumeQueue.getOffsetInQueueByTime, binarySearchRight.
    """
    if not spans:
        return first
    at = bisect.bisect_right(spans, timestamp, key=lambda span: run.unit_at(span[0]).store_timestamp) - 1
    units = run.decode([spans[max(at, 0)]])
    times: Any = units.store_timestamps
    firsts = units.queue_offsets
    left, right = 0, len(times) - 1
    if timestamp >= times[right]:
        return int(firsts[right])
    while right - left > 1:
        middle = (left + right) // 2
        if times[middle] < timestamp or (times[middle] == timestamp and not is_lower):
            left = middle + is_lower
        else:
            right = middle - (not is_lower)
    found = left if times[left] >= timestamp else right
    return int(firsts[found]) if times[found] >= timestamp else -1


def search_all_units(queue: Any, log: Any, timestamp: int, *, is_lower: bool) -> int | None:
    """Return the queue offset of a store time, by the records of all units. No order of times is assumed.

    Units without a sound record of their size are ignored. Parameters: queue: a ConsumeQueue. log: its CommitLog.
    timestamp: epoch ms. is_lower: find the first message of that time or later, else the last one of that time or
    earlier. Returns: None without such a message. Source: none.
    """
    end = queue.max_queue_offset
    ranges = list(ranges_to_read(queue, max(queue.min_queue_offset, 0), end, SEARCHED_OFFSETS))
    for begin, stop in ranges if is_lower else reversed(ranges):
        found = find_time(queue[begin:stop], log, timestamp, is_lower=is_lower)
        if found is not None:
            return found
    return None


def find_time(units: ConsumeQueueUnits, log: Any, timestamp: int, *, is_lower: bool) -> int | None:
    """Return the queue offset of a store time among some units. Parameters, returns: as of ``search_all_units``."""
    messages, statuses = log.find_messages(units.phy_offsets, columns=["store_timestamp", "size"])
    rows = np.flatnonzero(statuses == 0)
    times = messages.store_timestamp
    matched = (times >= timestamp) if is_lower else (times <= timestamp)
    rows = rows[matched & (messages.size == units.sizes[rows])]
    return int(units.queue_offsets[rows[0 if is_lower else -1]]) if len(rows) else None
