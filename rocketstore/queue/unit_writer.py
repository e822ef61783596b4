"""UnitWriter: how the writers of plain and of batch queues find the end, cut, and append."""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from rocketstore.disk.file_run_writer import FileRunWriter
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.kernels.layout import UNIT, read_field
from rocketstore.limits import LONG_MAX
from rocketstore.queue.unit_run import RECOVERED_FILES, find_invalid_unit
from rocketstore.root_places import LOG_DIRECTORY


class UnitWriter(FileRunWriter):
    """The common part of the writers of plain and of batch queues. Attribute: ``unit_size``, bytes."""

    unit_size: ClassVar[int]
    model_directory = LOG_DIRECTORY

    def __init__(
        self,
        directory: str | os.PathLike[str],
        mapped_file_size: int,
        *,
        keeps_files: bool = False,
        held: HeldDirectory | None = None,
    ) -> None:
        """Parameters: keeps_files: ``recover`` raises CorruptFileError if RocketMQ's recovery would delete files.

        held: as for ``FileRunWriter``.
        """
        if mapped_file_size < self.unit_size:
            raise ValueError(f"mapped_file_size={mapped_file_size}: a unit has {self.unit_size} bytes")
        super().__init__(directory, mapped_file_size, held)
        self._keeps_files = keeps_files
        self._max_phy_offset = -1
        self._is_new = True  # the queue has no unit, and had no file when it was opened

    def _recover(self, zero: bool) -> None:
        """End the queue before the first invalid unit of the last three files."""
        self._max_phy_offset = -1
        recovered = []
        end = 0
        for start in self._starts[-RECOVERED_FILES:]:
            end = self._find_invalid_unit(start, start)
            recovered.append((start, end))
            if end > start:
                self._set_last(self._read(end - self.unit_size, self.unit_size))
            if end < start + self.mapped_file_size:
                break
        if self._keeps_files and self._starts and self._starts[-1] > end:
            reason = "no unit, but a file of the queue follows: recover() builds the queue again from the commit log"
            raise CorruptFileError(self._path(start), end - start, "unit", reason)
        self._cut(end, zero=zero)
        self._revise(recovered)

    def truncate(self, phy_offset: int, *, zero: bool = False) -> None:
        """Remove the units of records from ``phy_offset`` on, bytes.

        RocketMQ does not check the first unit of a file, so a file that begins with zeros keeps one unit (0, 0, 0).
        Units behind the end of the queue count too. Parameters: zero: as for ``recover``.
        Source: ConsumeQueue.truncateDirtyLogicFiles, BatchConsumeQueue.truncateDirtyLogicFiles.
        """
        self._require_recovered()
        while self._starts and self._read_phy_offset(self._starts[-1]) >= phy_offset:
            self._delete(self._starts[-1:])
        self._max_phy_offset = self._max_before(phy_offset)
        end = 0
        if self._starts:
            start = self._starts[-1]
            end = self._find_invalid_unit(start, start + self.unit_size, phy_offset - 1)
            self._set_last(self._read(end - self.unit_size, self.unit_size))
        self._cut(end, zero=zero)
        self._revise()

    def delete_expired(self, min_phy_offset: int, dry_run: bool = False) -> list[Path]:
        """Delete the oldest files whose records have all expired, but not the last file; then correct the first offset.

        Parameters: min_phy_offset: the physical offset where the commit log begins now. dry_run: change nothing.
        Returns: the paths of the deleted files.
        Source: ConsumeQueue.deleteExpiredFile, MappedFileQueue.deleteExpiredFileByOffset.
        """
        self._require_recovered()
        expired = []
        for start in self._starts[:-1]:
            if self._read_phy_offset(start + self.mapped_file_size - self.unit_size) >= min_phy_offset:
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
        """The physical offset up to which records are not put again.

        In a plain queue, the record of the last unit ends there; in a batch queue, it begins there.

        Source: ConsumeQueue.getMaxPhysicOffset, BatchConsumeQueue.getMaxPhysicOffset.
        """
        self._require_recovered()
        return self._max_phy_offset

    @abstractmethod
    def correct_min_offset(self, min_phy_offset: int) -> None:
        """Find the first unit whose record is at ``min_phy_offset`` or behind it: where the commit log begins now."""

    @abstractmethod
    def _max_before(self, phy_offset: int) -> int:
        """Return ``max_phy_offset`` for a queue whose records all end before ``phy_offset``."""

    @abstractmethod
    def _set_last(self, unit: bytes) -> None:
        """Set the fields that follow from the last unit of the queue."""

    def _revise(self, recovered: list[tuple[int, int]] | None = None) -> None:
        """Set the fields that follow from the files, after a cut.

        Parameters: recovered: the spans of units that recovery found in the last files; None after another cut.
        """
        self._is_new = not self._starts

    def _find_invalid_unit(self, start: int, position: int, last_phy_offset: int = LONG_MAX) -> int:
        """Return the position of the first unit of a file, from ``position`` on, that is invalid.

        A unit that leads behind ``last_phy_offset`` is invalid too.
        """
        end = start + self.mapped_file_size // self.unit_size * self.unit_size
        return find_invalid_unit(self._read, position, end, self.unit_size, last_phy_offset=last_phy_offset)

    def _read_phy_offset(self, position: int) -> int:
        return read_field(self._read(position, 8), UNIT, "phy_offset")

    def _append(self, units: bytes) -> None:
        done = 0
        while done < len(units):
            start = self._last_file()
            room = (start + self.mapped_file_size - self._end) // self.unit_size * self.unit_size
            if room == 0:
                reason = f"mapped_file_size={self.mapped_file_size} is no multiple of {self.unit_size}"
                raise StoreError(f"{self.directory}: {reason}, so the last file is never full: a broker stops here too")
            part = units[done : done + room]
            self._write(part, self._end, start)
            self._end += len(part)
            done += len(part)
            self._is_new = False
            self._set_last(part[-self.unit_size :])
