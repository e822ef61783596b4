"""Blocks: the blocks of remote files that were read last, or are being read ahead."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from typing import Protocol

from rocketstore.disk.service_thread import ServiceThread
from rocketstore.disk.work_threads import Task

BLOCK = 8 << 20  # bytes to read at once of a file that is read in order
MAX_BLOCKS = 16  # kept, of all files of a store
ALL_BLOCKS: weakref.WeakSet[Blocks] = weakref.WeakSet()


def renew_all() -> None:
    """Forget all blocks in a forked process, which lacks the threads that may be reading them or hold a lock."""
    for blocks in list(ALL_BLOCKS):
        blocks.renew()


os.register_at_fork(after_in_child=renew_all)


class BlockSource(Protocol):
    """A file from which blocks are read: a RemotePath."""

    def content_version(self) -> tuple[object, ...]: ...

    def pread(self, begin: int, end: int) -> bytes: ...


class Blocks:
    """The blocks of one store's files that were read last, or are being read ahead."""

    def __init__(self) -> None:
        ALL_BLOCKS.add(self)
        self._sparing = 0  # the number of blocks of code that ask for sparing reads, in all threads
        # Reentrant: while a thread holds it, the garbage collector may close a generator that reads sparingly.
        self._lock = threading.RLock()
        self._kept: OrderedDict[tuple[object, ...], Task[bytes]] = OrderedDict()

    @contextlib.contextmanager
    def sparing(self) -> Iterator[None]:
        """Have the readers of this store fetch only the requested bytes until the end of a ``with`` block."""
        with self._lock:
            self._sparing += 1
        try:
            yield
        finally:
            with self._lock:
                self._sparing -= 1

    @property
    def is_sparing(self) -> bool:
        """Whether readers of this store fetch only the requested bytes."""
        return self._sparing > 0

    def get(self, path: BlockSource, size: int, number: int, origin: int = 0) -> bytes:
        """Return a block of the first ``size`` bytes of a file.

        Parameters: number: of the block. origin: the position of block 0 in the file. Raises: as ``RemotePath.pread``.
        """
        begin = origin + number * BLOCK
        end = min(begin + BLOCK, size)
        try:
            block = self._find_or_start(path, begin, end)
        except RuntimeError:  # no thread could be started
            return path.pread(begin, end)
        return block.result()

    def read_ahead(self, path: BlockSource, size: int, number: int, origin: int = 0) -> None:
        """Start a thread that reads a block, if a thread can be started. Parameters: as of ``get``."""
        begin = origin + number * BLOCK
        with contextlib.suppress(RuntimeError):
            self._find_or_start(path, begin, min(begin + BLOCK, size))

    def renew(self) -> None:
        """Forget all blocks in a forked process."""
        self._lock = threading.RLock()
        self._kept = OrderedDict()

    def clear(self) -> None:
        """Forget all blocks, because a writer may have changed the files."""
        with self._lock:
            self._kept.clear()

    def _find_or_start(self, path: BlockSource, begin: int, end: int) -> Task[bytes]:
        """Return the task of a block that is kept, or start a thread that reads the block.

        A block is kept only after its thread was started. So Ctrl-C leaves no block for which a reader waits forever.
        Raises: RuntimeError if the system has no more threads, or if Python is ending.
        """
        key = *path.content_version(), begin, end
        with self._lock:
            block = self._kept.get(key)
            if block is None:
                block = Task(partial(self._read, key, path, begin, end))
                ServiceThread("rocketstore-block", block.run).start()
            self._kept[key] = block
            self._kept.move_to_end(key)
            while len(self._kept) > MAX_BLOCKS:
                self._kept.popitem(last=False)
        return block

    def _read(self, key: tuple[object, ...], path: BlockSource, begin: int, end: int) -> bytes:
        """Read a block. After an error, forget its task, so that the next reader reads the block again."""
        try:
            return path.pread(begin, end)
        except BaseException:
            with self._lock:
                self._kept.pop(key, None)
            raise
