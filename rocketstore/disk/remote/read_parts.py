"""Read parts of remote files, many at once, and copy whole files to be mapped."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from rocketstore.disk.descriptors import closing
from rocketstore.disk.remote.blocks import BLOCK
from rocketstore.disk.remote.remote_path import RemotePath
from rocketstore.disk.work_threads import work_threads
from rocketstore.extras import import_extra

THREADS = 16  # to read parts of files, if the file system itself reads one part after the other
COPIES = 16  # local copies of whole files that are kept for the next reader
COPYING = threading.Lock()


def renew_lock() -> None:
    """Replace the lock in a forked process, which lacks the thread that may hold it."""
    global COPYING
    COPYING = threading.Lock()


os.register_at_fork(after_in_child=renew_lock)


def open_copy(path: RemotePath) -> int:
    """Copy a file to local memory or a local disk, so that it can be mapped. Return a descriptor of the copy.

    The copy is in the directory for temporary files, without a name. It is deleted when its last user closes it.
    """
    size = path.stat().st_size
    with COPYING:
        return os.dup(copy_of(path, size, path.version()).fd)


class Copy:
    """A temporary file without a name. It is deleted with its last descriptor."""

    def __init__(self) -> None:
        import tempfile  # takes long to import, and few programs read remote files

        self.fd, name = tempfile.mkstemp(prefix="rocketstore-")
        closing(self, self.fd)
        Path(name).unlink()


@functools.lru_cache(COPIES)
def copy_of(path: RemotePath, size: int, version: tuple[object, ...]) -> Copy:
    copy, step = Copy(), 4 * BLOCK
    with open(copy.fd, "wb", closefd=False) as file:
        for begin in range(0, size, step):
            ends = [(at, min(at + BLOCK, size)) for at in range(begin, min(begin + step, size), BLOCK)]
            file.writelines(read_parts([(path, *part) for part in ends]))
    return copy


def read_parts(parts: Sequence[tuple[RemotePath, int, int]]) -> list[bytes]:
    """Read parts of files, each from begin to end, as many at once as the file system can.

    Raises: as ``RemotePath.pread``.
    """
    if not parts:
        return []
    paths, begins, ends = map(list, zip(*parts, strict=True))
    first = parts[0][0]
    if len(parts) > 1 and reads_one_by_one(first.fs):
        with work_threads(min(len(parts), THREADS), "rocketstore-read") as threads:
            tasks = [threads.submit(RemotePath.pread, *part) for part in parts]
            return [task.result() for task in tasks]
    with first.named():
        where = [path.path for path in paths]
        found = first.fs.cat_ranges(where, begins, ends, on_error="return", **first.reading)
    for (path, begin, end), data in zip(parts, found, strict=True):
        if isinstance(data, Exception):
            raise path.error(data) from data
        path.require_all(data, begin, end)
    return cast("list[bytes]", found)


def reads_one_by_one(fs: Any) -> bool:
    """Return whether ``cat_ranges`` of a file system reads parts one by one, so that threads may read them instead.

    False for a file system that keeps copies of files: threads would fetch one file several times.
    """
    spec = import_extra("fsspec.spec", "remote")
    is_cache = any(kind.__name__ == "CachingFileSystem" for kind in type(fs).__mro__)
    return not is_cache and type(fs).cat_ranges is spec.AbstractFileSystem.cat_ranges
