"""LogCopy: the files of the new log."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rocketstore.disk.create import create_file
from rocketstore.disk.durable import make_directory, sync_path
from rocketstore.disk.kernel_copy import copy_in_kernel
from rocketstore.disk.positioned_write import write_at
from rocketstore.errors import SettingError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.layout import (
    BLANK_HEAD,
    MAGIC_BLANK,
    MIN_RECORD,
    PROPERTIES_LENGTH,
    RECORD_HEAD,
    read_field,
    record_head,
    struct_of,
    topic_length_size,
)
from rocketstore.kernels.salvage import copy_records, find_unchanged

LOG_SIZE = "mapped_file_size_commit_log"
OUT_SIZE = 1 << 18  # bytes; they stay in the cache from one record to the write of all
LEAST_UNCHANGED = OUT_SIZE  # bytes; shorter runs of unchanged records are copied faster through the buffer
MAX_RECORDS = OUT_SIZE // MIN_RECORD + 1  # of one copy
MAX_BLANK_FILES = 16
MAX_PROPERTIES = 32767
PACK_BLANK = struct_of(BLANK_HEAD).pack
Changes = tuple[np.ndarray, np.ndarray, np.ndarray]  # of records: positions, new queue offsets, new prepared offsets


class CopiedRecords(NamedTuple):
    """The records that one step of a copy has copied. They follow each other.

    Attributes: records: their number. end: the position in the source behind them. size: their bytes; without records,
    the bytes that the next record needs. last: the bytes of all records but the last one. row: the first row of the
    changes that belongs to a later record.
    """

    records: int
    end: int
    size: int
    last: int
    row: int


class LogCopy:
    """Writes the files of the new log, in order.

    Attributes: size: of a file, bytes. phy_offset: of the next record. last_phy_offset: of the last record. moved: the
    number of records that have another physical offset than before.
    """

    def __init__(self, directory: Path, size: int, phy_offset: int, like: Path) -> None:
        """Make the directory. Parameters: like: a file of the old log. The new files get its mode."""
        make_directory(directory)
        self.like = like
        self.directory, self.size, self.phy_offset = directory, size, phy_offset
        self.last_phy_offset, self.moved = -1, 0
        self.moves: list[np.ndarray] = []  # int64[n, 2]: old physical offsets of records, and how far these moved
        self.buffer = bytearray(OUT_SIZE)
        self.fd = -1

    def copy(
        self,
        source: Buffer,
        begin: int,
        end: int,
        base: int,
        places: np.ndarray,
        queue_offsets: np.ndarray,
        prepared_offsets: np.ndarray | None = None,
        fd: int = -1,
    ) -> int:
        """Append the records between two physical offsets of the old log. Return how many.

        Parameters: base: physical offset of the first byte of ``source``. places: positions in ``source`` of records
        that change, in order, int64[n]. queue_offsets, prepared_offsets: their new queue offsets, and new prepared
        transaction offsets; -1 keeps an offset. None: all prepared transaction offsets are kept. fd: a descriptor of
        the file that ``source`` maps; -1 if it is no file.
        """
        if prepared_offsets is None:
            prepared_offsets = np.full(len(places), -1, np.int64)
        changes = places, queue_offsets, prepared_offsets
        pos, stop, row, records = begin - base, end - base, 0, 0
        while pos < stop:
            moves = np.empty((MAX_RECORDS, 2), np.int64)
            found = self._copy_unchanged(source, pos, stop, changes, row, moves, fd)
            if found.records == 0:
                found = self._copy_changed(source, pos, stop, changes, row, moves)
            if found.records:
                self._add(found, moves, base)
            pos, row, records = found.end, found.row, records + found.records
        return records

    def _copy_unchanged(
        self, source: Buffer, pos: int, stop: int, changes: Changes, row: int, moves: np.ndarray, fd: int
    ) -> CopiedRecords:
        """Let the kernel copy the next records, if they do not change.

        Returns: no records if fewer than LEAST_UNCHANGED bytes do not change, or if the kernel cannot copy them.
        """
        none, position = CopiedRecords(0, pos, 0, 0, row), self.phy_offset % self.size
        if fd < 0 or pos != position:  # the kernel can share blocks only between equal positions
            return none
        room = self.size - position
        found = CopiedRecords(*find_unchanged(source, pos, stop, self.phy_offset, room, *changes, row, moves))
        if found.size < LEAST_UNCHANGED:
            return none
        self.open()
        with contextlib.suppress(OSError):  # ``_copy_changed`` meets the same error, and reports it
            if copy_in_kernel(fd, self.fd, pos, found.end) == found.end:
                return found
        return none

    def _copy_changed(
        self, source: Buffer, pos: int, stop: int, changes: Changes, row: int, moves: np.ndarray
    ) -> CopiedRecords:
        """Copy the next records through the buffer. If the first one does not fit, make room, and return no records."""
        room = self.size - self.phy_offset % self.size
        found = CopiedRecords(
            *copy_records(source, pos, stop, self.phy_offset, self.buffer, room, *changes, row, moves)
        )
        if found.end == pos:
            self.make_room(found.size, room)
        elif found.records:
            self.write(found.size)
        return found

    def _add(self, found: CopiedRecords, moves: np.ndarray, base: int) -> None:
        """Add records that were copied. Parameters: moves: as ``copy_records`` fills them."""
        self.moves.append(np.add(moves[: found.records], (base, -base)))
        self.moved += int(np.count_nonzero(self.moves[-1][:, 1]))
        self.last_phy_offset = self.phy_offset + found.last
        self.phy_offset += found.size

    def take_moves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the old physical offsets of the records since the last call, and how far each record moved."""
        moves, self.moves = np.concatenate([np.empty((0, 2), np.int64), *self.moves]), []
        return moves[:, 0], moves[:, 1]

    def write(self, size: int) -> None:
        self.open()
        write_at(self.fd, memoryview(self.buffer)[:size], self.phy_offset % self.size)

    def make_room(self, size: int, room: int) -> None:
        """Make the buffer larger, or begin the next file, so that the next record fits."""
        if size + 8 > self.size:
            reason = f"a record has {size} bytes, and files of {self.size} bytes are too small"
            raise SettingError(reason, LOG_SIZE, advice=f"give {LOG_SIZE}")
        if size + 8 > room:
            self.roll()
        else:
            self.buffer = bytearray(size)

    def go_to(self, phy_offset: int) -> None:
        """Put the next record at a physical offset, if a file begins there, and not too many files are between."""
        files = (phy_offset - self.phy_offset) // self.size
        if phy_offset % self.size == 0 and 0 <= files <= MAX_BLANK_FILES:
            while self.phy_offset < phy_offset:
                self.roll()

    def open(self) -> None:
        if self.fd < 0:
            path = self.directory / f"{self.phy_offset // self.size * self.size:020d}"
            self.fd = create_file(path, like=self.like)
            os.ftruncate(self.fd, self.size)
            sync_path(self.directory)

    def sync(self, phy_offset: int) -> None:
        """Flush the file that has a physical offset, if it was made. Another thread may be writing it."""
        path = self.directory / f"{phy_offset // self.size * self.size:020d}"
        if path.exists():
            sync_path(path)

    def roll(self) -> None:
        """End the file with a blank."""
        self.open()
        position = self.phy_offset % self.size
        os.pwrite(self.fd, PACK_BLANK(self.size - position, MAGIC_BLANK), position)
        self.close()
        self.phy_offset += self.size - position

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def find_properties(record: bytes) -> int:
    """Return the position of the properties of a sound record, behind their length."""
    head = record_head(read_field(record, RECORD_HEAD, "sys_flag"))
    at = head.itemsize + read_field(record, head, "body_length")
    width = topic_length_size(read_field(record, head, "magic"))
    return at + width + int.from_bytes(record[at : at + width], "big") + PROPERTIES_LENGTH.itemsize


def with_property(record: bytes, name: str, value: str) -> bytes:
    """Return a record with another value of a property.

    The record is unchanged if it lacks the property, or if its properties would be too long.
    """
    at = find_properties(record)
    before, separator, tail = (b"\2" + record[at:]).rpartition(b"\2" + name.encode() + b"\1")
    end = tail.find(b"\2")
    properties = (before + separator + value.encode() + (tail[end:] if end >= 0 else b""))[1:]
    if not separator or len(properties) > MAX_PROPERTIES:
        return record
    new = record[: at - PROPERTIES_LENGTH.itemsize] + len(properties).to_bytes(2, "big") + properties
    nowhere = b"\xff" * 8  # with another physical offset `copy_records` makes the CRC property anew
    place = RECORD_HEAD.fields["phy_offset"][1]  # type: ignore[index]
    return len(new).to_bytes(4, "big") + new[4:place] + nowhere + new[place + len(nowhere) :]
