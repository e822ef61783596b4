"""RemoteFileRunReader: reads a run of files on a remote file system, in ranges, into buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rocketstore.disk.file_run_reader import FileRunReader, FindEnd, Mappings, RunFile, Window
from rocketstore.disk.remote.blocks import BLOCK
from rocketstore.disk.remote.read_parts import read_parts
from rocketstore.disk.remote.remote_path import RemotePath
from rocketstore.disk.storage import is_remote, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreClosedError
from rocketstore.kernels.buffer import Buffer
from rocketstore.limits import LONG_MAX

AHEAD = 3  # blocks to read ahead of a sequential reader
HEAD = 16 << 10  # bytes of an entry to read before its size is known
LEAST_HEAD = 96  # bytes by which an entry and its size are recognised
MOST = 1 << 20  # bytes of neighbouring entries to read at once
AT_ONCE = 64  # ranges in one request to the file system
LEAST_SPAN = 16 << 10  # bytes of the first of several sparing reads
MAX_SPAN = 8 << 20  # bytes of a sparing read at most; a read that continues the last one is twice as long
LEAST_LEFT = 4 << 10  # bytes that a kept window must have behind an offset, so that these are read there
KEPT_WINDOWS = 64  # windows of sparing reads
KEPT_BYTES = 32 << 20  # of these windows together, and of the kept entries together


def open_file_run(
    directories: Sequence[StorePath],
    *,
    mapped_file_size: int | None = None,
    mappings: Mappings | None = None,
    files: list[RunFile] | None = None,
) -> FileRunReader:
    """Return a FileRunReader, or a RemoteFileRunReader if a directory is remote. Parameters: as for FileRunReader."""
    kind = RemoteFileRunReader if any(is_remote(to_path(directory)) for directory in directories) else FileRunReader
    return kind(directories, mapped_file_size=mapped_file_size, mappings=mappings, files=files)


class ReadWindow(NamedTuple):
    """Bytes of a run that were read.

    Attributes: begin: the offset of the first byte. window: the same bytes for kernels. version: of the file, when the
    bytes were read.
    """

    begin: int
    data: bytes
    window: Window
    version: tuple[object, ...]

    @property
    def end(self) -> int:
        return self.begin + len(self.data)


class RemoteFileRunReader(FileRunReader):
    """Reads a run of files block by block, some blocks ahead where they are read in order.

    Within ``sparing_reads`` no block is read: a read fetches only the requested bytes, and nothing ahead.
    """

    part: tuple[int, int] | None = None  # (begin, end) of the offsets that blocks cover; None: whole files
    _windows: Sequence[ReadWindow] = ()  # of sparing reads, the last used one first

    def __init__(self, *args: Any, **options: Any) -> None:
        self._entries: dict[int, ReadWindow] = {}  # that were read last, by offset
        self._entry_bytes = 0
        super().__init__(*args, **options)

    def refresh(self) -> None:
        """List the directories again, if the last list is not recent. Raises: ValueError for a local directory."""
        if self.is_planned:
            return
        for directory in self.directories:
            remote(directory)
        self._list()

    @property
    def _is_sparing(self) -> bool:
        return remote(self.directories[0]).blocks.is_sparing

    def span(self, offset: int) -> int:
        if not self._is_sparing:
            return LONG_MAX
        for window in self._windows:
            if window.begin <= offset <= window.end - LEAST_LEFT:
                return window.end - offset
        last = self._windows[0] if self._windows else None
        if last is not None and last.begin <= offset <= last.end:
            return max(min(2 * len(last.data), MAX_SPAN), LEAST_SPAN)
        return LEAST_SPAN

    def forget(self) -> None:
        self._windows, self._entries, self._entry_bytes, self.part = [], {}, 0, None
        for directory in map(remote, self.directories):
            directory.forget()
            directory.blocks.clear()

    def read(self, offset: int, size: int, use: str = "", until: int = LONG_MAX) -> Window | None:
        """Return at least ``size`` bytes at ``offset``, or as many as their file has; None if no file has the offset.

        Parameters: use: "sequential" or "exact": blocks up to ``until`` are read ahead.
        """
        self._require_open()
        file = self.find(offset)
        if file is None:
            return None
        try:
            if self._is_sparing:
                kept = self._find_kept(file, offset)
                if kept is not None and (kept.end == file.end_offset or any(kept.data[-4:])):
                    return kept.window  # else zeros behind the entry may be those of a half written one
                return self._read_window(file, offset, min(offset + size, file.end_offset)).window
            return self._window(file, offset, size, until if use in ("sequential", "exact") else 0)
        except FileNotFoundError:  # the file expired since it was listed
            self.forget()
            self.list_again()
            return None

    def peek(self, offset: int, size: int) -> Window | None:
        return self.read(offset, size)

    def read_entry(self, offset: int, size: int, find_end: FindEnd) -> Window | None:
        """Return a complete entry, whatever ``size`` is. Parameters: find_end: as for ``read_entries``."""
        try:
            return next(iter(self.read_entries(np.array([offset]), find_end)[0]), None)
        except FileNotFoundError:  # the file expired since it was listed
            self.forget()
            self.list_again()
            return None

    def read_ahead(self, offsets: np.ndarray, sizes: np.ndarray) -> None:
        """Do nothing: ``read_entries`` reads the blocks of many entries at once."""

    def limit_to(self, begin: int, end: int) -> None:
        self.part = begin, end

    def pread(self, offset: int, size: int) -> bytes:
        """Read ``size`` bytes at ``offset``, or as many as their file has."""
        self._require_open()
        file = self.find(offset)
        return b"" if file is None else self._bytes(file, offset, min(offset + size, file.end_offset))

    def read_parts_ahead(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Read ranges of offsets in bytes, many at once. Sparing reads find their bytes then.

        The end of a file is the end of a range. Parameters: ranges: at most half of ``KEPT_WINDOWS``.
        """
        wanted = []
        for begin, end in ranges:
            file = self.find(begin)
            if self._is_sparing and file is not None:
                end = min(end, file.end_offset)
                if self._find_window(file, begin, end) is None:
                    wanted.append((file, begin, end))
        parts = [(remote(file.path), begin - file.file_from_offset, end - file.file_from_offset)
                 for file, begin, end in wanted]  # fmt: skip
        for (file, begin, _), data in zip(wanted, read_parts(parts), strict=True):
            self._keep_window(file, begin, data)

    def _read_window(self, file: RunFile, begin: int, end: int) -> ReadWindow:
        """Return a kept window that has the bytes from ``begin`` to before ``end``, or read them."""
        window = self._find_window(file, begin, end)
        if window is not None:
            self._windows = [window, *(other for other in self._windows if other is not window)]
            return window
        first = begin - file.file_from_offset
        return self._keep_window(file, begin, remote(file.path).pread(first, first + end - begin))

    def _find_window(self, file: RunFile, begin: int, end: int) -> ReadWindow | None:
        """Return a kept window that has the bytes from ``begin`` to before ``end``; None without one."""
        found = (window for window in self._windows if window.begin <= begin and end <= window.end)
        window = next(found, None)
        return window if window is not None and window.version == remote(file.path).content_version() else None

    def _keep_window(self, file: RunFile, begin: int, data: bytes) -> ReadWindow:
        """Keep bytes of a file, in place of the window that was used least recently."""
        version = remote(file.path).content_version()
        new = ReadWindow(begin, data, Window(Buffer(data, file.path), begin), version)
        kept, room = [new], KEPT_BYTES - len(data)
        for window in self._windows[: KEPT_WINDOWS - 1]:
            room -= len(window.data)
            if room < 0:
                break
            kept.append(window)
        self._windows = kept
        return new

    def _window(self, file: RunFile, offset: int, size: int, until: int) -> Window:
        path, start = remote(file.path), file.file_from_offset
        origin, stop = self._bounds(file)
        end = min(offset + size, start + stop if offset < start + stop else file.end_offset)
        number = (offset - start - origin) // BLOCK
        ahead = range(number + 1, number + 1 + AHEAD) if number >= 0 else ()
        for following in ahead:
            if origin + following * BLOCK < min(stop, until - start):
                path.blocks.read_ahead(path, stop, following, origin)
        first = origin + number * BLOCK
        if number >= 0 and end <= start + min(first + BLOCK, stop):
            return Window(Buffer(path.blocks.get(path, stop, number, origin), path), start + first)
        return Window(Buffer(self._bytes(file, offset, end), path), offset)

    def _bytes(self, file: RunFile, begin: int, end: int) -> bytes:
        path, first, last = remote(file.path), begin - file.file_from_offset, end - file.file_from_offset
        if self._is_sparing:
            window = self._read_window(file, begin, end)
            return window.data[begin - window.begin : end - window.begin]
        origin, stop = self._bounds(file)
        if not origin <= first <= last <= stop:
            return path.pread(first, last)
        parts = []
        for number in range((first - origin) // BLOCK, -(-(last - origin) // BLOCK)):
            at = origin + number * BLOCK
            block = memoryview(path.blocks.get(path, stop, number, origin))
            parts.append(block[max(first - at, 0) : last - at])
        return b"".join(parts)

    def _bounds(self, file: RunFile) -> tuple[int, int]:
        """Return where the first block of a file begins, and where the last one ends, positions in the file."""
        if self.part is None:
            return 0, file.size
        begin, end = (place - file.file_from_offset for place in self.part)
        origin = min(max(begin, 0), file.size)
        return origin, min(max(end, origin), file.size)

    def read_beyond(self, window: Window) -> bool:
        file, end = self.find(window.from_offset), window.from_offset + window.buffer.size
        is_end = self.part is not None and file is not None and end == file.file_from_offset + self._bounds(file)[1]
        if is_end:
            self.part = None
        return is_end

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.directories[0]} is closed")

    # ---- entries -------------------------------------------------------------------------------------------

    def read_entries(self, offsets: np.ndarray, find_end: FindEnd) -> tuple[list[Window], np.ndarray]:
        """Read the entries at offsets, int64[n]. Return windows, and the window of each entry, int32[n], or -1.

        Neighbouring entries are read at once. An entry that is longer than ``HEAD`` costs a second read.
        Parameters: find_end: returns where an entry ends, given bytes and its position in them, which may be its first
        ``HEAD`` bytes only; 0 if no entry begins there.
        """
        self._require_open()
        groups: list[tuple[RunFile, list[int]]] = []  # file and rows
        windows: dict[Window, int] = {}  # with their numbers
        window_of = np.full(len(offsets), -1, np.int32)
        begin = last = 0
        for row in np.argsort(offsets, kind="stable").tolist():
            offset = int(offsets[row])
            file = self.find(offset)
            if file is None:
                continue
            kept = self._find_entry(file, offset, find_end)
            if kept is not None:
                window_of[row] = windows.setdefault(kept, len(windows))
                continue
            if not groups or groups[-1][0] is not file or offset > last + HEAD or offset > begin + MOST:
                groups.append((file, []))
                begin = offset
            groups[-1][1].append(row)
            last = offset
        for at in range(0, len(groups), AT_ONCE):
            part = groups[at : at + AT_ONCE]
            for (file, rows), data in zip(part, self._read_groups(part, offsets, find_end), strict=True):
                places = offsets[rows].tolist()
                window = self._keep_entries(file, places, data)
                window_of[rows] = windows.setdefault(window, len(windows))
        return list(windows), window_of

    def _find_entry(self, file: RunFile, offset: int, find_end: FindEnd) -> Window | None:
        """Return kept bytes that have a complete entry; None without them."""
        kept = self._find_kept(file, offset)
        if kept is not None:
            return kept.window
        head_end = min(offset + LEAST_HEAD, file.end_offset)
        if not self._is_sparing or (found := self._find_window(file, offset, head_end)) is None:
            return None
        end = find_end(found.data, offset - found.begin)
        return found.window if end == 0 or found.begin + end <= found.end or found.end == file.end_offset else None

    def _find_kept(self, file: RunFile, offset: int) -> ReadWindow | None:
        """Return the bytes of an entry that was read before; None without them."""
        kept = self._entries.get(offset)
        return kept if kept is not None and kept.version == remote(file.path).content_version() else None

    def _keep_entries(self, file: RunFile, offsets: Sequence[int], data: bytes) -> Window:
        """Keep entries for the next call, since a query verifies a message before it is read as a row.

        Parameters: data: bytes with the entries, from the first offset on.
        """
        version = remote(file.path).content_version()
        kept = ReadWindow(offsets[0], data, Window(Buffer(data, file.path), offsets[0]), version)
        if self._entry_bytes + len(data) > KEPT_BYTES:
            self._entries, self._entry_bytes = {}, 0
        self._entries |= dict.fromkeys(offsets, kept)
        self._entry_bytes += len(data)
        return kept.window

    def pread_many(self, offsets: Sequence[int], size: int) -> list[bytes]:
        self._require_open()
        found = [b""] * len(offsets)
        spans = []
        for row, offset in enumerate(offsets):
            file = self.find(offset)
            if file is not None:
                first = offset - file.file_from_offset
                spans.append((row, (remote(file.path), first, min(first + size, file.size))))
        for at in range(0, len(spans), AT_ONCE):
            part = spans[at : at + AT_ONCE]
            for (row, _), data in zip(part, read_parts([span for _, span in part]), strict=True):
                found[row] = data
        return found

    def _read_groups(
        self, groups: list[tuple[RunFile, list[int]]], offsets: np.ndarray, find_end: FindEnd
    ) -> list[bytes]:
        spans = []
        for file, rows in groups:
            first, last = (int(offsets[row]) - file.file_from_offset for row in (rows[0], rows[-1]))
            spans.append((remote(file.path), first, min(last + HEAD, file.size)))
        found = read_parts(spans)
        more = {}
        for i, ((file, rows), (path, begin, end)) in enumerate(zip(groups, spans, strict=True)):
            places = [int(offsets[row]) - file.file_from_offset - begin for row in rows]
            needed = min(max(find_end(found[i], place) for place in places), file.size - begin)
            if needed > end - begin:
                more[i] = path, end, begin + needed
            else:
                found[i] = found[i][: needed if len(rows) == 1 and needed else None]
        for i, data in zip(more, read_parts(list(more.values())), strict=True):
            found[i] += data
        return found


def remote(path: StorePath) -> RemotePath:
    """Return a path that must be remote. Raises: ValueError for a local one."""
    if not isinstance(path, RemotePath):
        raise ValueError(f"{path}: is local, and other directories of the log are remote: copy them to a local path")
    return path
