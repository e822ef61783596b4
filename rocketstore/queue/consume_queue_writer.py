"""ConsumeQueueWriter, BatchConsumeQueueWriter: append the units of one queue as a broker does."""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np

from rocketstore.compat import DEFAULT_COMPAT, Compat
from rocketstore.disk.file_run import FileRun
from rocketstore.disk.mapped_file_queue import RECOVERED_FILES
from rocketstore.disk.positioned_read import read_at
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.consume_queue import count_valid_units, pack_batch_units, pack_units
from rocketstore.kernels.layout import BATCH_UNIT, UNIT, read_field, struct_of
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.queue.consume_queue_ext_writer import MAX_ADDRESS, ConsumeQueueExtWriter

__all__ = ["BatchConsumeQueueWriter", "ConsumeQueueWriter", "UnitWriter"]

UNIT_FIELDS, BATCH_UNIT_FIELDS = struct_of(UNIT), struct_of(BATCH_UNIT)
FILLER = UNIT_FIELDS.pack(0, INT_MAX, 0)
READ_UNITS = 4096  # at a time: behind its units a file is one hole


class UnitWriter(FileRun):
    """What both kinds of queue do alike. Attribute: ``unit_size``, bytes."""

    unit_size: ClassVar[int]

    def __init__(
        self, directory: str | os.PathLike[str], mapped_file_size: int, *, keeps_files: bool = False
    ) -> None:
        """Parameters: keeps_files: where RocketMQ's recovery deletes files, ``recover`` raises CorruptFileError."""
        if mapped_file_size < self.unit_size:
            raise ValueError(f"mapped_file_size={mapped_file_size}: a unit has {self.unit_size} bytes")
        super().__init__(directory, mapped_file_size)
        self._keeps_files = keeps_files
        self._max_phy_offset = -1
        self._is_new = True  # has no unit, and no file that was there before

    def _recover(self, zero: bool) -> None:
        """The last three files decide: the end is before the first invalid unit."""
        self._max_phy_offset = -1
        recovered = []
        end = 0
        for start in self._starts[-RECOVERED_FILES:]:
            end = start + self._count_units(start, 0, LONG_MAX) * self.unit_size
            recovered.append((start, end))
            if end > start:
                self._note_last(self._read(end - self.unit_size, self.unit_size))
            if end < start + self.mapped_file_size:
                break
        if self._keeps_files and self._starts and self._starts[-1] > end:
            reason = "no unit, but a file of the queue follows: recover() builds the queue again from the commit log"
            raise CorruptFileError(self._path(start), end - start, "unit", reason)
        self._cut(end, zero=zero)
        self._revise(recovered)

    def truncate(self, phy_offset: int, *, zero: bool = False) -> None:
        """Take back the units of records from ``phy_offset`` on, bytes. The first of a file is taken for valid.

        So a file that begins with zeros keeps one unit (0, 0, 0). What stands behind the end is looked at too.
        Parameters: zero: as for ``recover``.
        Source: ConsumeQueue.truncateDirtyLogicFiles, BatchConsumeQueue.truncateDirtyLogicFiles.
        """
        self._require_recovered()
        while self._starts and self._phy_offset(self._starts[-1]) >= phy_offset:
            self._delete(self._starts[-1:])
        self._max_phy_offset = self._max_before(phy_offset)
        end = 0
        if self._starts:
            end = self._starts[-1] + self._count_units(self._starts[-1], 1, phy_offset - 1) * self.unit_size
            self._note_last(self._read(end - self.unit_size, self.unit_size))
        self._cut(end, zero=zero)
        self._revise()

    def delete_expired(self, min_phy_offset: int, dry_run: bool = False) -> list[Path]:
        """Delete the oldest files whose records are all gone, never the last one; then correct the first offset.

        Parameters: min_phy_offset: where the commit log begins now, bytes. dry_run: change nothing.
        Returns: the paths. Source: ConsumeQueue.deleteExpiredFile, MappedFileQueue.deleteExpiredFileByOffset.
        """
        self._require_recovered()
        expired = []
        for start in self._starts[:-1]:
            if self._phy_offset(start + self.mapped_file_size - self.unit_size) >= min_phy_offset:
                break
            expired.append(start)
        if not dry_run:
            self._delete(expired)
            self.correct_min_offset(min_phy_offset)
        return [self._path(start) for start in expired]

    def destroy(self) -> None:
        super().destroy()
        self._max_phy_offset = -1
        self._revise()

    @property
    def max_phy_offset(self) -> int:
        """What is not put again, bytes: up to where the last unit's record ends; of a batch queue, where it begins.

        Source: ConsumeQueue.getMaxPhysicOffset, BatchConsumeQueue.getMaxPhysicOffset.
        """
        self._require_recovered()
        return self._max_phy_offset

    @abstractmethod
    def correct_min_offset(self, min_phy_offset: int) -> None:
        """Find the first unit that leads to what the commit log still has from ``min_phy_offset`` on, bytes."""

    @abstractmethod
    def _max_before(self, phy_offset: int) -> int:
        """What ``max_phy_offset`` is if everything was taken back."""

    @abstractmethod
    def _note_last(self, unit: bytes) -> None:
        """Take what is known of the queue's last unit."""

    def _revise(self, recovered: list[tuple[int, int]] | None = None) -> None:
        """Follow what was cut. Parameters: recovered: where the units begin and end that recovery looked at."""
        self._is_new = not self._starts

    def _count_units(self, start: int, first: int, last_phy_offset: int) -> int:
        """Count a file's units up to an invalid one, or one of a record behind; ``first`` are not looked at."""
        fd, count, limit = self._open(start), first, self.mapped_file_size // self.unit_size
        while count < limit:
            n = min(READ_UNITS, limit - count)
            data = read_at(fd, n * self.unit_size, count * self.unit_size, self._path(start))
            valid = count_valid_units(Buffer(data, self._path(start)), 0, n, self.unit_size, last_phy_offset)
            count += valid
            if valid < n:
                break
        return count

    def _phy_offset(self, position: int) -> int:
        return read_field(self._read(position, 8), UNIT, "phy_offset")

    def _append(self, units: bytes) -> None:
        done = 0
        while done < len(units):
            start = self._last_file()
            room = (start + self.mapped_file_size - self._end) // self.unit_size * self.unit_size
            if room == 0:
                reason = f"mapped_file_size={self.mapped_file_size} is no multiple of {self.unit_size}"
                raise StoreError(f"{self.directory}: {reason}, so the last file is never full: a broker stops here too")
            piece = units[done : done + room]
            self._write(piece, self._end, start)
            self._end += len(piece)
            done += len(piece)
            self._is_new = False
            self._note_last(piece[-self.unit_size :])


class ConsumeQueueWriter(UnitWriter):
    """Writes the units of one queue, files of ``mapped_file_size`` bytes rounded up to whole units.

    Attribute: ``min_logic_offset``, bytes. Parameters: compat: the RocketMQ release whose rule for the minimum is
    used. Source: org.apache.rocketmq.store.ConsumeQueue.
    """

    unit_size = UNIT.itemsize

    def __init__(
        self, directory: str | os.PathLike[str], mapped_file_size: int, ext: ConsumeQueueExtWriter | None = None,
        *, keeps_files: bool = False, compat: str = DEFAULT_COMPAT,
    ) -> None:
        super().__init__(directory, -(-mapped_file_size // 20) * 20, keeps_files=keeps_files)
        self._ext = ext
        self._resets_empty = Compat.of(compat).resets_empty_queues
        self.min_logic_offset = 0

    @property
    def ext(self) -> ConsumeQueueExtWriter | None:
        """The writer of its ext units, which is recovered, cut, flushed and closed with the queue."""
        self._require_recovered()
        return self._ext

    @property
    def max_queue_offset(self) -> int:
        """The queue offset of the next message. Source: ConsumeQueue.getMaxOffsetInQueue."""
        self._require_recovered()
        return self._end // 20

    @property
    def min_queue_offset(self) -> int:
        """As far as it was corrected. Source: ConsumeQueue.getMinOffsetInQueue."""
        return self.min_logic_offset // 20

    def put_units(
        self, phy_offsets: np.ndarray, sizes: np.ndarray, tags_codes: np.ndarray, queue_offsets: np.ndarray
    ) -> int:
        """Append units in order, but none of a record up to ``max_phy_offset`` or of a queue offset that is taken.

        Fillers stand before the first unit of a queue in its first file; a later gap in queue offsets is closed.

        Parameters: int64[n], sizes int32[n], both of the records, bytes; tags_codes: or addresses of ext units.
        Returns: how many were appended. Raises: ValueError for a row that cannot be, and nothing is written; OSError.
        Source: ConsumeQueue.putMessagePositionInfo. There a unit that cannot be written is lost without a word.
        """
        self._require_recovered()
        next_queue_offset = -1 if self._is_new else self._end // 20
        units, first, needs_room = pack_units(
            phy_offsets, sizes, tags_codes, queue_offsets, self._max_phy_offset, next_queue_offset
        )
        if units:
            self._append(self._fillers(int(queue_offsets[first])) + units if self._is_new else units)
        if needs_room:
            self._last_file()
        return len(units) // 20

    def make_room(self) -> None:
        """Make the file that the next unit goes to: the first is that of queue offset 0."""
        self._require_recovered()
        self._last_file()

    def _fillers(self, queue_offset: int) -> bytes:
        """Begin the queue, in the middle of a file perhaps. Source: ConsumeQueue.fillPreBlank."""
        position = queue_offset * 20
        in_file = position % self.mapped_file_size
        self._last_file(position - in_file)
        self.min_logic_offset = position or self.min_logic_offset
        return FILLER * (in_file // 20)

    def correct_min_offset(self, min_phy_offset: int) -> None:
        """Move ``min_logic_offset`` to the first unit of a record from ``min_phy_offset`` on, bytes.

        Only the first file is looked into, by halves; a filler is a unit of offset 0. If the last unit's record is
        gone, the queue has none left. From 5.5.1 on, a queue without files begins again: its minimum is 0, and it takes
        units of any record. Source: ConsumeQueue.correctMinOffset.
        """
        self._require_recovered()
        if self._resets_empty and not self._starts:
            self.min_logic_offset, self._max_phy_offset = 0, -1
            return
        if self.min_logic_offset >= self._end:
            return
        first, last = self._starts[0], self._starts[-1]
        if self._end > last and self._phy_offset(self._end - 20) < min_phy_offset:
            self.min_logic_offset = self._end
            return
        begin, end = max(self.min_logic_offset, first), min(self._end, first + self.mapped_file_size)
        if begin >= end or (self.min_logic_offset >= first and self._phy_offset(begin) >= min_phy_offset):
            return
        low, high = 0, (end - begin) // 20 - 1
        while high - low > 1:
            middle = (low + high) // 2
            found = self._phy_offset(begin + middle * 20)
            low, high = middle if found <= min_phy_offset else low, middle if found >= min_phy_offset else high
        for position in range(begin + low * 20, begin + high * 20 + 1, 20):
            phy_offset, _, tags_code = UNIT_FIELDS.unpack(self._read(position, UNIT.itemsize))
            if phy_offset >= min_phy_offset:
                self.min_logic_offset = position
                if self._ext is not None:
                    self._ext.truncate_by_min_address(tags_code)
                break

    def _max_before(self, phy_offset: int) -> int:
        return phy_offset

    def _note_last(self, unit: bytes) -> None:
        phy_offset, size, _ = UNIT_FIELDS.unpack(unit)
        self._max_phy_offset = phy_offset + size

    def _revise(self, recovered: list[tuple[int, int]] | None = None) -> None:
        super()._revise()
        if self._ext is None or recovered is None:
            return
        if not recovered:  # where there are no units, those of ext are not looked at
            self._ext.load()
            return
        self._ext.recover()
        units = [np.frombuffer(self._read(begin, end - begin), ">i8,>i4,>i8") for begin, end in recovered]
        codes = np.concatenate(units)["f2"]
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


class BatchConsumeQueueWriter(UnitWriter):
    """Writes the batch units of one queue. Source: BatchConsumeQueue."""

    unit_size = BATCH_UNIT.itemsize

    def __init__(
        self, directory: str | os.PathLike[str], mapped_file_size: int, *, keeps_files: bool = False
    ) -> None:
        super().__init__(directory, mapped_file_size, keeps_files=keeps_files)
        self._min_queue_offset, self._max_queue_offset = -1, 0

    @property
    def max_queue_offset(self) -> int:
        """The queue offset of the next message. Source: BatchConsumeQueue.getMaxOffsetInQueue."""
        self._require_recovered()
        return self._max_queue_offset

    @property
    def min_queue_offset(self) -> int:
        """As far as it was corrected, -1 if there is no unit. Source: BatchConsumeQueue.getMinOffsetInQueue."""
        self._require_recovered()
        return self._min_queue_offset

    @property
    def min_logic_offset(self) -> int:
        """Where the first file begins, bytes, -1 if there is none. Source: BatchConsumeQueue.getMinLogicOffset."""
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
        """Append batch units in order, but none of a record up to ``max_phy_offset`` or of a negative base or size.

        Parameters: int64[n]; sizes, of the records in bytes, int32[n]; batch_sizes, messages, int16[n] or int32[n].
        Returns, raises: as ``ConsumeQueueWriter.put_units``; StoreError where files are not of whole units and the
        last has no room. Source: BatchConsumeQueue.putBatchMessagePositionInfo.
        """
        self._require_recovered()
        messages = batch_sizes.astype(np.int32, casting="safe", copy=False)
        units = pack_batch_units(
            phy_offsets, sizes, tags_codes, store_timestamps, msg_base_offsets, messages, self._max_phy_offset
        )
        was_new = self._is_new
        try:
            self._append(units)
        finally:  # some may be there, whatever ended it
            if was_new and units:
                self._revise_min()
        return len(units) // self.unit_size

    def correct_min_offset(self, min_phy_offset: int) -> None:
        """Begin with the first unit of the first file of a record from ``min_phy_offset`` on, or what follows them.

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

    def _note_last(self, unit: bytes) -> None:
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
        """The last unit may be in a file before those that recovery looked at. Source: reviseMaxOffsetInQueue."""
        super()._revise()
        self._revise_min()
        self._max_queue_offset = 0
        ends = [start + self.mapped_file_size for start in self._starts[:-1]] + [self._end]
        with_units = [end for start, end in zip(self._starts, ends, strict=False) if end > start]
        if with_units:
            unit = self._read(with_units[-1] - self.unit_size, self.unit_size)
            base = read_field(unit, BATCH_UNIT, "msg_base_offset")
            self._max_queue_offset = base + read_field(unit, BATCH_UNIT, "batch_size")
