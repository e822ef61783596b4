"""BatchConsumeQueueWriter: appends the units of one batch queue as a broker does."""

from __future__ import annotations

import os

import numpy as np

from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.kernels.consume_queue import pack_batch_units
from rocketstore.kernels.layout import BATCH_UNIT, read_field, struct_of
from rocketstore.queue.unit_writer import UnitWriter

BATCH_UNIT_FIELDS = struct_of(BATCH_UNIT)


class BatchConsumeQueueWriter(UnitWriter):
    """Writes the batch units of one queue. Source: BatchConsumeQueue."""

    unit_size = BATCH_UNIT.itemsize

    def __init__(
        self,
        directory: str | os.PathLike[str],
        mapped_file_size: int,
        *,
        keeps_files: bool = False,
        held: HeldDirectory | None = None,
    ) -> None:
        super().__init__(directory, mapped_file_size, keeps_files=keeps_files, held=held)
        self._min_queue_offset, self._max_queue_offset = -1, 0

    @property
    def max_queue_offset(self) -> int:
        """The queue offset of the next message. Source: BatchConsumeQueue.getMaxOffsetInQueue."""
        self._require_recovered()
        return self._max_queue_offset

    @property
    def min_queue_offset(self) -> int:
        """The first queue offset, as the last ``correct_min_offset`` found it; -1 without a unit.

        Source: BatchConsumeQueue.getMinOffsetInQueue.
        """
        self._require_recovered()
        return self._min_queue_offset

    @property
    def min_logic_offset(self) -> int:
        """The position where the first file begins, -1 without a file. Source: BatchConsumeQueue.getMinLogicOffset."""
        self._require_recovered()
        return self._starts[0] if self._starts else -1

    def put_units(
        self,
        phy_offsets: np.ndarray,
        sizes: np.ndarray,
        tags_codes: np.ndarray,
        store_timestamps: np.ndarray,
        msg_base_offsets: np.ndarray,
        batch_sizes: np.ndarray,
    ) -> int:
        """Append batch units in order. Skip records up to ``max_phy_offset``, and negative bases and batch sizes.

        Parameters: int64[n]; sizes, of the records in bytes, int32[n]; batch_sizes, messages, int16[n] or int32[n].
        Returns, raises: as ``ConsumeQueueWriter.put_units``; StoreError if the file length is no multiple of the unit
        size and the last file has no room. Source: BatchConsumeQueue.putBatchMessagePositionInfo.
        """
        self._require_recovered()
        messages = batch_sizes.astype(np.int32, casting="safe", copy=False)
        units = pack_batch_units(
            phy_offsets, sizes, tags_codes, store_timestamps, msg_base_offsets, messages, self._max_phy_offset
        )
        was_new = self._is_new
        try:
            self._append(units)
        finally:  # some units may have been written before an error
            if was_new and units:
                self._revise_min()
        return len(units) // self.unit_size

    def correct_min_offset(self, min_phy_offset: int) -> None:
        """Begin the queue with the first unit in the first file whose record is at ``min_phy_offset`` or behind it.

        If the first file has none, the queue begins after the last message of that file.

        Source: BatchConsumeQueue.correctMinOffset.
        """
        self._require_recovered()
        self._revise_min()
        if not self._starts:
            return
        first = self._starts[0]
        size = (min(self._end, first + self.mapped_file_size) - first) // self.unit_size * self.unit_size
        for phy_offset, _, _, _, base, messages, _, _ in BATCH_UNIT_FIELDS.iter_unpack(self._read(first, size)):
            if phy_offset >= min_phy_offset:
                break
            self._min_queue_offset = base + messages

    def _max_before(self, phy_offset: int) -> int:
        return phy_offset - 1

    def _set_last(self, unit: bytes) -> None:
        self._max_phy_offset, _, _, _, base, messages, _, _ = BATCH_UNIT_FIELDS.unpack(unit)
        self._max_queue_offset = base + messages

    def _revise_min(self) -> None:
        has_unit = bool(self._starts) and self._end > self._starts[0]
        if has_unit:
            unit = self._read(self._starts[0], self.unit_size)
            self._min_queue_offset = read_field(unit, BATCH_UNIT, "msg_base_offset")
        else:
            self._min_queue_offset = -1

    def _revise(self, recovered: list[tuple[int, int]] | None = None) -> None:
        """Set the first and the next queue offset, also if the last unit is in a file that recovery did not read.

        Source: BatchConsumeQueue.reviseMaxOffsetInQueue.
        """
        super()._revise()
        self._revise_min()
        self._max_queue_offset = 0
        ends = [start + self.mapped_file_size for start in self._starts[:-1]] + [self._end]
        with_units = [end for start, end in zip(self._starts, ends, strict=False) if end > start]
        if with_units:
            unit = self._read(with_units[-1] - self.unit_size, self.unit_size)
            base = read_field(unit, BATCH_UNIT, "msg_base_offset")
            self._max_queue_offset = base + read_field(unit, BATCH_UNIT, "batch_size")
