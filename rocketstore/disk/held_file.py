"""HeldFile: a file that stays readable after its name was removed, and that is copied with its holes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from rocketstore.disk.create import create_file
from rocketstore.disk.durable import ZEROS, sync
from rocketstore.disk.holes import data_ranges_of
from rocketstore.disk.kernel_copy import copy_in_kernel
from rocketstore.disk.positioned_read import read_at
from rocketstore.disk.positioned_write import write_at
from rocketstore.disk.ranges import Range
from rocketstore.disk.storage import is_remote, local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError

CHUNK = 1 << 20  # bytes that are read at once
KERNEL_CHUNK = 64 << 20  # bytes that the kernel copies at once
Count = Callable[[int], object]


class HeldFile:
    """A file of a store. A local one stays readable after its name was removed.

    Attributes: path. name: the path in the new store, relative to its root. size: in bytes, when it was opened.
    """

    def __init__(self, path: StorePath, name: str) -> None:
        """Open the file. Raises: OSError."""
        self.path, self.name = path, name
        self._fd = -1 if is_remote(path) else os.open(local_path(path), os.O_RDONLY | os.O_CLOEXEC)
        self.size = path.stat().st_size if self._fd < 0 else os.fstat(self._fd).st_size

    @property
    def local_path(self) -> Path | None:
        """The path of a local file whose name still exists; None otherwise."""
        return local_path(self.path) if self._fd >= 0 and self.path.exists() else None

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes of a range. Raises: StoreError if the file was cut; OSError."""
        if is_remote(self.path):
            return self.path.pread(begin, end)
        data = read_at(self._fd, end - begin, begin, local_path(self.path))
        if len(data) < end - begin:
            raise self._error_of_cut(begin + len(data))
        return data

    def ranges(self, end: int) -> list[Range]:
        """Return the ranges before ``end`` that are no holes. Raises: StoreError if the file was cut; OSError."""
        if self._fd < 0:
            return [(0, end)]
        size = os.fstat(self._fd).st_size  # the bytes behind the end of a file would count as a hole
        if size < end:
            raise self._error_of_cut(size)
        return data_ranges_of(self._fd, 0, end)

    def _error_of_cut(self, size: int) -> StoreError:
        return StoreError(f"{self.path}: was cut to {size} bytes while it was copied: repeat the call")

    def chunks(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes before ``end`` in chunks that begin at multiples of CHUNK, with their positions.

        Chunks of zeros and holes are left out. Raises: StoreError if the file was cut; OSError.
        """
        done = 0
        for begin, stop in self.ranges(end):
            for place in range(max(begin - begin % CHUNK, done), stop, CHUNK):
                data = self.read(place, min(place + CHUNK, end))
                done = place + CHUNK
                if data != ZEROS[: len(data)]:
                    yield place, data

    def copy_to(self, target: Path, end: int, count: Count) -> None:
        """Copy the bytes before ``end`` to a new file of the same size, with holes, and flush it.

        Parameters: count: called with the number of bytes after each step.
        Raises: FileExistsError; StoreError if the file was cut meanwhile; OSError.
        """
        fd = create_file(target)
        try:
            if self._fd >= 0:
                os.fchmod(fd, os.fstat(self._fd).st_mode & 0o666 | 0o600)
            os.ftruncate(fd, self.size)
            if self._fd < 0 or not self._copy_in_kernel(fd, end, count):
                for place, data in self.chunks(end):
                    write_at(fd, data, place)
                    count(len(data))
            sync(fd)
        finally:
            os.close(fd)

    def _copy_in_kernel(self, target: int, end: int, count: Count) -> bool:
        """Let the kernel copy the bytes. Return whether it copied all of them."""
        for begin, stop in self.ranges(end):
            for place in range(begin, stop, KERNEL_CHUNK):
                last = min(place + KERNEL_CHUNK, stop)
                if copy_in_kernel(self._fd, target, place, last) < last:
                    return False
                count(last - place)
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def copy_file(old: Path, new: Path) -> None:
    """Copy a local file with its holes, and flush the copy. Raises: FileExistsError, StoreError, OSError."""
    file = HeldFile(old, new.name)
    try:
        file.copy_to(new, file.size, lambda size: None)
    finally:
        file.close()
