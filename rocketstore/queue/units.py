"""Units of consume queues, one by one and as columns; fillers; valid units. ``kernels/layout`` has their bytes."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, overload

import numpy as np

from rocketstore.kernels.columns import int64_column, require_int64
from rocketstore.kernels.layout import BATCH_UNIT, UNIT, struct_of
from rocketstore.limits import INT_MAX
from rocketstore.preview import Preview, Previewed, ends_of
from rocketstore.text_values import datetime_or_none, format_count

FILLER = struct_of(UNIT).pack(0, INT_MAX, 0)


class CqUnit(NamedTuple):
    """One unit: the queue offset; physical offset and size of the record, bytes.

    A filler unit stands for queue offsets before the first message of the queue. A unit of a batch queue stands for
    ``batch_num`` messages, from its queue offset on. Source: CqUnit.
    """

    queue_offset: int
    phy_offset: int
    size: int
    tags_code: int
    is_filler: bool
    batch_num: int = 1
    store_timestamp: int = -1  # epoch milliseconds, of batch units
    compacted_offset: int = -1

    @property
    def store_time(self) -> datetime | None:
        """``store_timestamp`` as a datetime in UTC; None for a unit that is not of a batch queue."""
        return None if self.store_timestamp == -1 else datetime_or_none(self.store_timestamp)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConsumeQueueUnits(Previewed):
    """Units as columns: int64; sizes, batch_nums and compacted_offsets int32. The last three: batch units only.

    ``units[i]`` is a CqUnit, ``units[i:j]`` are units as columns.
    """

    _queue_offsets: int | np.ndarray  # of the first unit, if the others follow it without a gap; or of each unit
    phy_offsets: np.ndarray
    sizes: np.ndarray
    tags_codes: np.ndarray
    batch_nums: np.ndarray | None = None
    store_timestamps: np.ndarray | None = None
    compacted_offsets: np.ndarray | None = None

    @property
    def queue_offsets(self) -> np.ndarray:
        if isinstance(self._queue_offsets, int):
            return np.arange(self._queue_offsets, self._queue_offsets + len(self), dtype=np.int64)
        return self._queue_offsets

    @property
    def is_filler(self) -> np.ndarray:
        return _are_fillers(self.phy_offsets, self.sizes, self.tags_codes)

    def __len__(self) -> int:
        return len(self.phy_offsets)

    @overload
    def __getitem__(self, i: int) -> CqUnit: ...
    @overload
    def __getitem__(self, i: slice) -> ConsumeQueueUnits: ...
    def __getitem__(self, i: int | slice) -> CqUnit | ConsumeQueueUnits:
        n = len(self)
        if not isinstance(i, slice):
            if not -n <= i < n:
                raise IndexError(f"unit {i} of {n}")
            return next(iter(self[i % n : i % n + 1]))
        start, _, step = i.indices(n)
        first = self._queue_offsets
        offsets = first + start if isinstance(first, int) and step == 1 else self.queue_offsets[i]
        columns = (column[i] for column in (self.phy_offsets, self.sizes, self.tags_codes))
        batches = (None if column is None else column[i] for column in self._batch_columns)
        return ConsumeQueueUnits(offsets, *columns, *batches)

    def where(self, wanted: np.ndarray) -> ConsumeQueueUnits:
        """Return some of the units. Parameters: wanted: bool[n], or the numbers of units, int[k]."""
        columns = (column[wanted] for column in (self.phy_offsets, self.sizes, self.tags_codes))
        batches = (None if column is None else column[wanted] for column in self._batch_columns)
        return ConsumeQueueUnits(self.queue_offsets[wanted], *columns, *batches)

    def __iter__(self) -> Iterator[CqUnit]:
        columns = (self.queue_offsets, self.phy_offsets, self.sizes, self.tags_codes, self.is_filler)
        return map(CqUnit, *(column.tolist() for column in columns + self._batch_columns if column is not None))

    @property
    def _batch_columns(self) -> tuple[np.ndarray | None, ...]:
        return self.batch_nums, self.store_timestamps, self.compacted_offsets

    def _preview(self) -> Preview:
        count = 5 if self.batch_nums is None else len(CqUnit._fields)  # only batch units have the last fields
        rows = [None if unit is None else unit[:count] for unit in ends_of(self)]
        return Preview(f"ConsumeQueueUnits: {format_count(len(self), 'unit')}", CqUnit._fields[:count], rows)


def are_fillers(units: np.ndarray) -> np.ndarray:
    """Return which units are fillers, bool[n]. Parameters: units: of dtype UNIT or BATCH_UNIT."""
    return _are_fillers(units["phy_offset"], units["size"], units["tags_code"])


def _are_fillers(phy_offsets: np.ndarray, sizes: np.ndarray, tags_codes: np.ndarray) -> np.ndarray:
    fillers: np.ndarray = (phy_offsets == 0) & (sizes == INT_MAX) & (tags_codes == 0)
    return fillers


def are_valid(units: np.ndarray) -> np.ndarray:
    """Return which units are valid, bool[n]; ``count_valid_units`` has the same rule. Fillers are valid.

    Parameters: units: of dtype UNIT or BATCH_UNIT.
    """
    valid: np.ndarray = (units["phy_offset"] >= 0) & (units["size"] > 0)
    if units.dtype == BATCH_UNIT:
        valid = valid & (units["msg_base_offset"] >= 0) & (units["batch_size"] > 0)
    return valid


def queue_offsets_of(queue_offset: Any, counts: np.ndarray) -> np.ndarray:
    """Return the queue offset of each of n units, int64[n].

    Parameters: queue_offset: of each unit, int64[n]; or of the first unit. counts: how many messages each unit has.
    """
    if np.ndim(queue_offset):
        return int64_column(queue_offset, "queue_offset", len(counts))
    require_int64(queue_offset=operator.index(queue_offset))
    offsets: np.ndarray = queue_offset + np.cumsum(counts, dtype=np.int64) - counts
    return offsets
