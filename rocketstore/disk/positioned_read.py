"""Read bytes at a position of a file. If the disk cannot read them, the error names the file and the position."""

from __future__ import annotations

import mmap
import os

from rocketstore.disk.storage import is_remote, local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import DiskReadError


def read_at(fd: int, size: int, position: int, path: object) -> bytes:
    """Return ``size`` bytes at a position of an open file, or as many as the file has.

    Parameters: path: the file's path, for the error. Raises: DiskReadError.
    """
    parts = []
    while size > 0:
        try:
            data = os.pread(fd, size, position)
        except OSError as error:
            number = error.errno or 0
            raise DiskReadError(path, _find_unreadable_page(fd, size, position), number) from error
        if not data:
            break
        parts.append(data)
        size, position = size - len(data), position + len(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_path_at(path: StorePath, size: int, position: int) -> bytes:
    """Return ``size`` bytes at a position of a file, or as many as the file has. Raises: OSError."""
    if is_remote(path):
        return path.pread(position, min(position + size, path.stat().st_size))
    fd = os.open(local_path(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_at(fd, size, position, path)
    finally:
        os.close(fd)


def read_readable(path: StorePath, size: int, position: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Return bytes of a local file, with zeros in place of the pages that the disk cannot read.

    Returns: the bytes, as many as ``read_path_at`` returns; the (begin, end) of each range of zeros, positions in the
    file.
    """
    data, lost, end = bytearray(), [], position + size
    while position < end:
        try:
            data += read_path_at(path, end - position, position)
            break
        except DiskReadError as error:
            begin, following = max(error.offset, position), min(error.offset + mmap.PAGESIZE, end)
            data += read_path_at(path, begin - position, position) + bytes(following - begin)
            lost.append((begin, following))
            position = following
    return bytes(data), lost


def _find_unreadable_page(fd: int, size: int, position: int) -> int:
    """Return the position of the first page that the disk cannot read, after a read of several pages failed."""
    end = position + size
    while position < end:
        following = position - position % mmap.PAGESIZE + mmap.PAGESIZE
        try:
            os.pread(fd, min(following, end) - position, position)
        except OSError:
            break
        position = following
    return min(position, end - 1) // mmap.PAGESIZE * mmap.PAGESIZE
