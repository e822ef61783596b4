"""Find whether parts of a local file are in the system's memory, and let the system read more or less into it.

Read-ahead does not stop where data ends: it fills memory with the zeros of holes, which later count as data.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from rocketstore.disk.holes import data_ranges
from rocketstore.disk.storage import is_remote
from rocketstore.disk.store_path import StorePath


def stop_read_ahead(fd: int) -> None:
    """Let the system read only requested bytes from a descriptor."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)


def begin_write_back(fd: int, begin: int, end: int) -> None:
    """Let the system begin to bring a range of an open file to the disk. It has no effect on results.

    Linux begins to write changed pages when a process declares that it does not need them any more.
    """
    if sys.platform == "linux":
        os.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_DONTNEED)


def are_cached(path: StorePath, positions: Iterable[int]) -> bool:
    """Return whether bytes of a local file can be read without the disk. False if the system does not tell."""
    flag = getattr(os, "RWF_NOWAIT", None)
    if flag is None:
        return False
    with path.open("rb", buffering=0) as file:
        stop_read_ahead(file.fileno())
        try:
            for position in positions:
                os.preadv(file.fileno(), [bytearray(1)], position, flag)
        except OSError:
            return False
    return True


def read_file_ahead(path: StorePath, size: int) -> None:
    """Let the system begin to read a local file without its holes, unless the first bytes are in its memory.

    Parameters: size: of the file, bytes.
    """
    if size and hasattr(os, "posix_fadvise") and not is_remote(path) and not are_cached(path, [0]):
        with path.open("rb", buffering=0) as file:
            for begin, end in data_ranges(path, 0, size):
                os.posix_fadvise(file.fileno(), begin, end - begin, os.POSIX_FADV_WILLNEED)
