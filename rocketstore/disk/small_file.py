"""Read small files with a bound: a pipe or a huge file in their place neither hangs a process nor fills its memory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rocketstore.disk.held_directory import HeldDirectory, open_path
from rocketstore.disk.positioned_read import read_at
from rocketstore.disk.storage import is_remote, local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError

MAX_SMALL_FILE = 64 << 20  # bytes
SIZE_OF_PROC_FILE = 1 << 16  # bytes to read of a file whose size is reported as 0


def read_small_file(path: StorePath, max_size: int = MAX_SMALL_FILE) -> bytes:
    """Return all bytes of a regular file.

    Parameters
    ----------
    path : a local path, or a RemotePath.
    max_size : the maximum size of the file, bytes.

    Raises
    ------
    CorruptFileError : the file is larger, or it is no regular file but a pipe or a device. Its bytes are not read.
    OSError : the system refuses; FileNotFoundError if the file is missing.
    """
    if is_remote(path):
        _require_small(path, path.stat().st_size, max_size)
        return path.read_bytes()
    with open(local_path(path), "rb", buffering=0, opener=open_at_once) as file:
        status = os.fstat(file.fileno())
        require_regular(path, status)
        _require_small(path, status.st_size, max_size)
        data = read_at(file.fileno(), min(max_size, max(status.st_size, SIZE_OF_PROC_FILE)) + 1, 0, path)
    _require_small(path, len(data), max_size)  # the file may have grown, and files of /proc have no size
    return data


def read_file_start(path: StorePath, size: int) -> bytes:
    """Return the first ``size`` bytes of a regular file, or all bytes of a shorter one.

    Raises: OSError; CorruptFileError if the path is no regular file.
    """
    if is_remote(path):
        return path.pread(0, min(size, path.stat().st_size))
    with open(local_path(path), "rb", buffering=0, opener=open_at_once) as file:
        require_regular(path, os.fstat(file.fileno()))
        return read_at(file.fileno(), size, 0, path)


def require_regular(path: StorePath, status: os.stat_result) -> None:
    """Raise CorruptFileError for a pipe, a device, a socket or a directory."""
    if not stat.S_ISREG(status.st_mode):
        raise CorruptFileError(path, 0, "file type", "a regular file was expected")


def open_at_once(path: str | Path, flags: int, mode: int = 0o666) -> int:
    """Open as ``os.open`` does, but do not wait for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK, mode)


def open_regular(path: Path, flags: int, held: HeldDirectory | None = None) -> int:
    """Open a regular file and return its descriptor. Raises: OSError; CorruptFileError for a pipe or a device.

    Parameters: held: the directory below which the file is found; None to find it by its path.
    """
    fd = open_path(path, flags | os.O_NONBLOCK, held=held)
    try:
        require_regular(path, os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require_small(path: object, size: int, max_size: int) -> None:
    if size > max_size:
        reason = f"{size} bytes, where at most {max_size} are expected: move the file away, or put the right one there"
        raise CorruptFileError(path, 0, "file size", reason)
