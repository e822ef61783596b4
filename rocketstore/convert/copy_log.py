"""Copy the records of a log into new logs, and keep where each of them is now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rocketstore.convert.offset_map import OffsetMap
from rocketstore.convert.old_store import OldStore
from rocketstore.convert.stale_ids import FoundId, StaleIds, find_ids, find_store_hosts
from rocketstore.disk.closable import Closable
from rocketstore.errors import StoreError
from rocketstore.kernels.buffer import Buffer
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.system_flags import TRANSACTION_COMMIT, TRANSACTION_TYPE
from rocketstore.salvage.copy import LogCopy

PIECE = 16 << 20  # bytes of the old log that are copied at once
COLUMNS = ("topic", "phy_offset", "size", "sys_flag", "prepared_transaction_offset")


class Piece(NamedTuple):
    """Records of one file of the old log, in order, and the bytes in which they are.

    Attributes: data: from physical offset ``base`` on. phy_offsets, sizes, bytes; prepared_offsets: -1 for a record
    that names no prepared message: int64[n]. topics: object[n].
    """

    data: bytes
    base: int
    phy_offsets: np.ndarray
    sizes: np.ndarray
    prepared_offsets: np.ndarray
    topics: np.ndarray

    @property
    def end(self) -> int:
        """The physical offset behind the last record."""
        return int(self.phy_offsets[-1] + self.sizes[-1])


def read_pieces(log: CommitLog, begin: int, end: int) -> Iterator[Piece]:
    """Yield the records of a log from ``begin`` to before ``end``, physical offsets.

    Raises: CorruptFileError for bytes that are no record; StoreError if a file was changed meanwhile; OSError.
    """
    for batch in log.scan(begin, end, columns=COLUMNS):
        if len(batch):
            yield from _pieces_of(log, batch)


def _pieces_of(log: CommitLog, batch: MessageBatch) -> Iterator[Piece]:
    phy_offsets, sizes = batch.phy_offset.astype(np.int64), batch.size.astype(np.int64)
    has_prepared = batch.sys_flag & TRANSACTION_TYPE >= TRANSACTION_COMMIT  # or a rollback
    prepared = batch.prepared_transaction_offset.astype(np.int64)
    prepared = np.where(has_prepared | (prepared > 0), prepared, -1)
    topics = np.array(batch.topic.to_pylist(), dtype=object)
    numbers = log.file_run.starts().searchsorted(phy_offsets, "right")
    first = 0
    while first < len(phy_offsets):
        begin = int(phy_offsets[first])
        last = min(
            int(numbers.searchsorted(numbers[first], "right")), int(phy_offsets.searchsorted(begin + PIECE)), len(batch)
        )
        rows = slice(first, last)
        size = int(phy_offsets[last - 1] + sizes[last - 1]) - begin
        data = log.file_run.pread(begin, size)
        if len(data) < size:
            raise StoreError(f"{log.directories[0]}: was changed while it was read")
        yield Piece(data, begin, phy_offsets[rows], sizes[rows], prepared[rows], topics[rows])
        first = last


class NewLog(Closable):
    """One new log, which gets records of the old log in their order. Its last file is open until ``close``.

    Attributes: directory: of its files. writer: writes the files. begin: its first physical offset. offsets: the new
    physical offsets of the records that were copied. records, bytes: how many were copied. prepared: how many records
    name a prepared message that the new log has. unknown_prepared: how many records name a prepared message that the
    new log lacks, and keep its old physical offset. stale_ids: ids in properties that no longer lead to their message.
    """

    def __init__(self, directory: Path, size: int, begin: int, old: OldStore) -> None:
        """Make the directory. Parameters: size: of a file, bytes. begin: the first physical offset, bytes."""
        self.directory, self.begin = directory, begin
        self.writer = LogCopy(directory, size, begin, old.model_file)
        self.offsets = OffsetMap()
        self.stale_ids = StaleIds(old.begin)
        self.records = self.bytes = self.prepared = self.unknown_prepared = 0

    def close(self) -> None:
        self.writer.close()

    def copy(self, piece: Piece, rows: np.ndarray, found: list[FoundId]) -> None:
        """Append records. Parameters: rows: of the piece, ascending. found: all ids in properties of the piece."""
        if len(rows) == 0:
            return
        for first, last in _split_before_own_targets(piece, rows):
            self._copy_rows(piece, rows[first:last])
        own = {*rows.tolist()} if found else ()
        for each in found:
            if each.row in own:
                new = self.offsets.find(piece.phy_offsets[each.row : each.row + 1])
                self.stale_ids.add(each, int(new[0]), self.offsets)

    def _copy_rows(self, piece: Piece, rows: np.ndarray) -> None:
        """Append records whose prepared messages were all copied before."""
        old, sizes = piece.phy_offsets[rows], piece.sizes[rows]
        source = _gather(piece, old, sizes)
        named = np.flatnonzero(piece.prepared_offsets[rows] >= 0)
        prepared = self.offsets.find(piece.prepared_offsets[rows][named])
        keeps = np.full(len(named), -1, np.int64)
        buffer = Buffer(source.data, self.directory)
        self.writer.copy(buffer, source.begin, source.end, source.base, source.positions[named], keeps, prepared)
        places, moves = self.writer.take_moves()
        if len(places) != len(rows):
            raise StoreError(f"{self.directory}: the old log was changed while it was read")
        self.offsets.add(old, sizes, places + moves)
        self.records += len(rows)
        self.bytes += int(sizes.sum())
        self.prepared += int((prepared >= 0).sum())
        self.unknown_prepared += int((prepared < 0).sum())


def _split_before_own_targets(piece: Piece, rows: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows, so that each prepared message is in an earlier range than the row that names it."""
    first, prepared, old = 0, piece.prepared_offsets[rows], piece.phy_offsets[rows]
    for row in np.flatnonzero(prepared >= 0).tolist():
        if old[first] <= prepared[row] < old[row]:
            yield first, row
            first = row
    yield first, len(rows)


class RecordBytes(NamedTuple):
    """Bytes in which records follow each other from ``begin`` to ``end``.

    Attributes: base: the offset of the first byte. positions: of the records in the bytes, int64[n].
    """

    data: bytes
    base: int
    begin: int
    end: int
    positions: np.ndarray


def _gather(piece: Piece, old: np.ndarray, sizes: np.ndarray) -> RecordBytes:
    """Return records of a piece. If others are between them, their bytes are joined."""
    places = old - piece.base
    if (old[1:] == old[:-1] + sizes[:-1]).all():
        return RecordBytes(piece.data, piece.base, int(old[0]), int(old[-1] + sizes[-1]), places)
    view = memoryview(piece.data)
    parts = (view[place : place + size] for place, size in zip(places.tolist(), sizes.tolist(), strict=True))
    data = b"".join(parts)
    return RecordBytes(data, 0, 0, len(data), np.cumsum(sizes) - sizes)


class IdFinder:
    """Finds the ids in properties, with the addresses of this broker's records so far."""

    def __init__(self) -> None:
        self._hosts: set[bytes] = set()

    def find(self, piece: Piece) -> list[FoundId]:
        """Return the ids in the properties of the records of a piece. An id names an earlier record."""
        positions = piece.phy_offsets - piece.base
        self._hosts |= find_store_hosts(piece.data, positions)
        return list(find_ids(piece.data, positions, positions + piece.sizes, self._hosts))
