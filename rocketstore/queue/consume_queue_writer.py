"""ConsumeQueueWriter: appends the units of one queue as a broker does."""

from __future__ import annotations

import os

import numpy as np

from rocketstore.compat import DEFAULT_COMPAT, Compat
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.kernels.consume_queue import pack_units
from rocketstore.kernels.layout import UNIT, struct_of
from rocketstore.queue.consume_queue_ext_writer import MAX_ADDRESS, ConsumeQueueExtWriter
from rocketstore.queue.unit_writer import UnitWriter
from rocketstore.queue.units import FILLER

UNIT_FIELDS = struct_of(UNIT)


class ConsumeQueueWriter(UnitWriter):
    """Writes the units of one queue. The length of its files, ``mapped_file_size``, is rounded up to whole units.

    Attribute: min_logic_offset: the position of the first unit. Parameters: compat: the RocketMQ release whose rule for
    the first unit is used. Source: org.apache.rocketmq.store.ConsumeQueue.
    """

    unit_size = UNIT.itemsize

    def __init__(
        self,
        directory: str | os.PathLike[str],
        mapped_file_size: int,
        ext: ConsumeQueueExtWriter | None = None,
        *,
        keeps_files: bool = False,
        compat: str = DEFAULT_COMPAT,
        held: HeldDirectory | None = None,
    ) -> None:
        file_units = -(-mapped_file_size // self.unit_size)
        super().__init__(directory, file_units * self.unit_size, keeps_files=keeps_files, held=held)
        self._ext = ext
        self._resets_empty = Compat.of(compat).resets_empty_queues
        self.min_logic_offset = 0

    @property
    def ext(self) -> ConsumeQueueExtWriter | None:
        """The writer of the queue's ext units. It is recovered, cut, flushed and closed with the queue."""
        self._require_recovered()
        return self._ext

    @property
    def max_queue_offset(self) -> int:
        """The queue offset of the next message. Source: ConsumeQueue.getMaxOffsetInQueue."""
        self._require_recovered()
        return self._end // self.unit_size

    @property
    def min_queue_offset(self) -> int:
        """The first queue offset, as ``correct_min_offset`` found it. Source: ConsumeQueue.getMinOffsetInQueue."""
        return self.min_logic_offset // self.unit_size

    def put_units(
        self, phy_offsets: np.ndarray, sizes: np.ndarray, tags_codes: np.ndarray, queue_offsets: np.ndarray
    ) -> int:
        """Append units in order. Skip records up to ``max_phy_offset``, and occupied queue offsets.

        Filler units stand before the first unit of a queue in its first file; a later gap in queue offsets is closed.

        Parameters: int64[n], sizes int32[n], both of the records, bytes; tags_codes: or addresses of ext units.
        Returns: how many units were appended.
        Raises: ValueError for an impossible row, and nothing is written; OSError.
        Source: ConsumeQueue.putMessagePositionInfo. RocketMQ does not report a unit that cannot be written.
        """
        self._require_recovered()
        next_queue_offset = -1 if self._is_new else self._end // self.unit_size
        units, first, needs_room = pack_units(
            phy_offsets, sizes, tags_codes, queue_offsets, self._max_phy_offset, next_queue_offset
        )
        if units:
            self._append(self._begin_at(int(queue_offsets[first])) + units if self._is_new else units)
        if needs_room:
            self._last_file()
        return len(units) // self.unit_size

    def make_room(self) -> None:
        """Make the file for the next unit. The first file of a queue is that of queue offset 0."""
        self._require_recovered()
        self._last_file()

    def _begin_at(self, queue_offset: int) -> bytes:
        """Begin the queue at a queue offset, and return the fillers before it in its file.

        Source: ConsumeQueue.fillPreBlank.
        """
        position = queue_offset * self.unit_size
        in_file = position % self.mapped_file_size
        self._last_file(position - in_file)
        self.min_logic_offset = position or self.min_logic_offset
        return FILLER * (in_file // self.unit_size)

    def correct_min_offset(self, min_phy_offset: int) -> None:
        """Move ``min_logic_offset`` to the first unit whose record does not begin before ``min_phy_offset``.

        The first file alone is searched, by bisection; a filler counts as a unit of offset 0. If the record of the last
        unit has expired, the queue is empty. From 5.5.1 on, a queue without files begins again: its minimum is 0, and
        it accepts units of any record. Source: ConsumeQueue.correctMinOffset.
        """
        self._require_recovered()
        if self._resets_empty and not self._starts:
            self.min_logic_offset, self._max_phy_offset = 0, -1
            return
        if self.min_logic_offset >= self._end:
            return
        first, last = self._starts[0], self._starts[-1]
        if self._end > last and self._read_phy_offset(self._end - self.unit_size) < min_phy_offset:
            self.min_logic_offset = self._end
            return
        begin, end = max(self.min_logic_offset, first), min(self._end, first + self.mapped_file_size)
        if begin >= end or (self.min_logic_offset >= first and self._read_phy_offset(begin) >= min_phy_offset):
            return
        low, high = 0, (end - begin) // self.unit_size - 1
        while high - low > 1:
            middle = (low + high) // 2
            found = self._read_phy_offset(begin + middle * self.unit_size)
            low, high = middle if found <= min_phy_offset else low, middle if found >= min_phy_offset else high
        for number in range(low, high + 1):
            position = begin + number * self.unit_size
            phy_offset, _, tags_code = UNIT_FIELDS.unpack(self._read(position, self.unit_size))
            if phy_offset >= min_phy_offset:
                self.min_logic_offset = position
                if self._ext is not None:
                    self._ext.truncate_by_min_address(tags_code)
                break

    def _max_before(self, phy_offset: int) -> int:
        return phy_offset

    def _set_last(self, unit: bytes) -> None:
        phy_offset, size, _ = UNIT_FIELDS.unpack(unit)
        self._max_phy_offset = phy_offset + size

    def _revise(self, recovered: list[tuple[int, int]] | None = None) -> None:
        super()._revise()
        if self._ext is None or recovered is None:
            return
        if not recovered:  # RocketMQ does not read the ext files of a queue without units
            self._ext.load()
            return
        self._ext.recover()
        units = [np.frombuffer(self._read(begin, end - begin), UNIT) for begin, end in recovered]
        codes = np.concatenate(units)["tags_code"]
        addresses = codes[codes <= MAX_ADDRESS]
        if len(addresses):
            self._ext.truncate_by_max_address(int(addresses[-1]))

    def flush(self) -> None:
        super().flush()
        if self._ext is not None:
            self._ext.flush()

    def release(self) -> None:
        super().release()
        if self._ext is not None:
            self._ext.release()

    def close(self) -> None:
        super().close()
        if self._ext is not None:
            self._ext.close()

    def destroy(self) -> None:
        super().destroy()
        self.min_logic_offset = 0
        if self._ext is not None:
            self._ext.destroy()
