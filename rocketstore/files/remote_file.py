"""A run of files that is not local: read in ranges, into buffers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np

from rocketstore.errors import StoreClosedError
from rocketstore.files.mapped_file import LogFile, MappedFileQueue, Mappings, Window
from rocketstore.kernels.buffer import Buffer
from rocketstore.limits import LONG_MAX
from rocketstore.storage import BLOCK, RemotePath, is_remote, read_parts, to_path

__all__ = ["RemoteFileQueue", "open_queue"]

AHEAD = 3  # blocks that are read before they are asked for
HEAD = 16 << 10  # bytes of a record to read before its size is known
MOST = 1 << 20  # bytes of records near to each other that are read in one
AT_ONCE = 64  # reads
MAGICS = (bytes.fromhex("DAA320A7"), bytes.fromhex("DAA320AB"))


def open_queue(
    directories: Sequence[Path], *, mapped_file_size: int | None = None, mappings: Mappings | None = None
) -> MappedFileQueue:
    """List the files of a run; the documentation is MappedFileQueue's."""
    kind = RemoteFileQueue if any(is_remote(to_path(directory)) for directory in directories) else MappedFileQueue
    return kind(directories, mapped_file_size=mapped_file_size, mappings=mappings)


class RemoteFileQueue(MappedFileQueue):
    """A run of files that are read block by block, some blocks ahead where they are read in order."""

    def refresh(self) -> None:
        """List the directories again, if the last list is older than a second."""
        self._list()

    def forget(self) -> None:
        for directory in map(remote, self.directories):
            directory.forget()
            directory.blocks.clear()

    def read(self, offset: int, size: int, use: str = "", until: int = LONG_MAX) -> Window | None:
        """Give at least ``size`` bytes at ``offset``, or as many as their file has; None where no file is.

        Parameters: use: "sequential": what follows, up to ``until``, is read ahead; "random": a record begins there,
        and it is read, whatever the size.
        """
        self._require_open()
        file = self.find(offset)
        if file is None:
            return None
        try:
            if use == "random":
                return next(iter(self.records(np.array([offset]))[0]), None)
            return self._window(file, offset, size, until if use else 0)
        except FileNotFoundError:  # it expired since it was listed
            self.forget()
            self.refresh()
            return None

    def pread(self, offset: int, size: int) -> bytes:
        """Read ``size`` bytes at ``offset``, or as many as their file has."""
        self._require_open()
        file = self.find(offset)
        return b"" if file is None else self._bytes(file, offset, min(offset + size, file.end_offset))

    def _window(self, file: LogFile, offset: int, size: int, until: int) -> Window:
        number = (offset - file.file_from_offset) // BLOCK
        path = remote(file.path)
        for following in range(number + 1, number + 1 + AHEAD):
            if following * BLOCK < min(file.size, until - file.file_from_offset):
                path.blocks.read_ahead(path, file.size, following)
        first = file.file_from_offset + number * BLOCK
        if min(offset + size, file.end_offset) <= first + BLOCK:
            return Window(Buffer(path.blocks.get(path, file.size, number), path), first)
        return Window(Buffer(self._bytes(file, offset, min(offset + size, file.end_offset)), path), offset)

    def _bytes(self, file: LogFile, begin: int, end: int) -> bytes:
        path, first, last = remote(file.path), begin - file.file_from_offset, end - file.file_from_offset
        parts = []
        for number in range(first // BLOCK, -(-last // BLOCK)):
            block = memoryview(path.blocks.get(path, file.size, number))
            parts.append(block[max(first - number * BLOCK, 0) : last - number * BLOCK])
        return b"".join(parts)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.directories[0]} is closed")

    # ---- records -------------------------------------------------------------------------------------------

    def records(self, offsets: np.ndarray) -> tuple[list[Window], np.ndarray]:
        """Give memory that has the records at offsets int64[n], and for each which has it, int32, or -1.

        Records near to each other are read in one; one that is longer than most costs a second read.
        """
        self._require_open()
        groups: list[tuple[LogFile, list[int]]] = []  # and its rows
        begin = last = 0
        for row in np.argsort(offsets, kind="stable").tolist():
            offset = int(offsets[row])
            file = self.find(offset)
            if file is None:
                continue
            if not groups or groups[-1][0] is not file or offset > last + HEAD or offset > begin + MOST:
                groups.append((file, []))
                begin = offset
            groups[-1][1].append(row)
            last = offset
        windows: list[Window] = []
        window_of = np.full(len(offsets), -1, np.int32)
        for at in range(0, len(groups), AT_ONCE):
            part = groups[at : at + AT_ONCE]
            for (file, rows), data in zip(part, self._read_groups(part, offsets), strict=True):
                window_of[rows] = len(windows)
                windows.append(Window(Buffer(data, file.path), int(offsets[rows[0]])))
        return windows, window_of

    def _read_groups(self, groups: list[tuple[LogFile, list[int]]], offsets: np.ndarray) -> list[bytes]:
        spans = []
        for file, rows in groups:
            first, last = (int(offsets[row]) - file.file_from_offset for row in (rows[0], rows[-1]))
            spans.append((remote(file.path), first, min(last + HEAD, file.size)))
        found = read_parts(spans)
        more = {}
        for i, ((file, rows), (path, begin, end)) in enumerate(zip(groups, spans, strict=True)):
            places = [int(offsets[row]) - file.file_from_offset - begin for row in rows]
            needed = min(max(record_end(found[i], place) for place in places), file.size - begin)
            if needed > end - begin:
                more[i] = path, end, begin + needed
            else:
                found[i] = found[i][: needed if len(rows) == 1 and needed else None]
        for i, data in zip(more, read_parts(list(more.values())), strict=True):
            found[i] += data
        return found


def record_end(data: bytes, place: int) -> int:
    """Where a record ends by its own size, and the next one's size: zeros there say that it may be half written.

    0 where none begins.
    """
    is_record = data[place + 4 : place + 8] in MAGICS
    return place + max(int.from_bytes(data[place : place + 4], "big", signed=True), 0) + 4 if is_record else 0


def remote(path: Path) -> RemotePath:
    return cast("RemotePath", path)
