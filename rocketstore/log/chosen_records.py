"""ChosenRecords: records of the commit log that are read one by one, as the units of their queues describe them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rocketstore.kernels.record_filter import RecordFilter

MAX_PART_BYTES = 16 << 20  # of records that are read at once


@dataclass(frozen=True)
class ChosenRecords:
    """Records in the order of the log.

    Attributes: phy_offsets, queue_offsets, int64[n]; sizes, int32[n], bytes: as in the units of the records. expected:
    the topics and queue ids that all records have.
    """

    phy_offsets: np.ndarray
    sizes: np.ndarray
    queue_offsets: np.ndarray
    expected: RecordFilter

    def __len__(self) -> int:
        return len(self.phy_offsets)

    @property
    def end(self) -> int:
        """The physical offset behind the last record. There must be a record."""
        return int(self.phy_offsets[-1]) + int(self.sizes[-1])

    def count_bytes(self) -> int:
        return int(self.sizes.sum(dtype=np.int64))

    def between(self, begin: int, end: int) -> ChosenRecords:
        """Return the records that begin from ``begin`` to before ``end``, physical offsets."""
        return self._part(*self.phy_offsets.searchsorted((begin, end)).tolist())

    def split(self, most: int) -> Iterator[ChosenRecords]:
        """Yield parts of at most ``most`` records, and of some MiB unless one record is larger."""
        ends = np.cumsum(self.sizes, dtype=np.int64)
        first = 0
        while first < len(self):
            bytes_before = int(ends[first - 1]) if first else 0
            stop = int(ends.searchsorted(bytes_before + MAX_PART_BYTES, "right"))
            stop = max(min(stop, first + most), first + 1)
            yield self._part(first, stop)
            first = stop

    def _part(self, first: int, stop: int) -> ChosenRecords:
        part = slice(first, stop)
        return ChosenRecords(self.phy_offsets[part], self.sizes[part], self.queue_offsets[part], self.expected)
