"""Blocks: the blocks of remote files that were read last, or are being read ahead."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from typing import Any, Protocol, cast

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
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], Future[bytes]] = OrderedDict()

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
        return self._read(path, size, number, origin, lambda read: read()).result()

    def read_ahead(self, path: BlockSource, size: int, number: int, origin: int = 0) -> None:
        """Start a thread that reads a block, if the system has threads."""
        with contextlib.suppress(RuntimeError):
            self._read(path, size, number, origin, self._start_thread)

    @staticmethod
    def _start_thread(read: Callable[[], None]) -> None:
        threading.Thread(target=read, daemon=True).start()

    def renew(self) -> None:
        """Forget all blocks in a forked process."""
        self._lock = threading.Lock()
        self._kept = OrderedDict()

    def clear(self) -> None:
        """Forget all blocks, because a writer may have changed the files."""
        with self._lock:
            self._kept.clear()

    def _read(self, path: BlockSource, size: int, number: int, origin: int, run: Any) -> Future[bytes]:
        begin = origin + number * BLOCK
        end = min(begin + BLOCK, size)
        key = *path.content_version(), begin, end
        new: Future[bytes] = Future()
        try:  # begins before the block is kept: Ctrl-C may come at once
            with self._lock:
                block = self._kept.pop(key, new)
                self._kept[key] = block
                while len(self._kept) > MAX_BLOCKS:
                    self._kept.popitem(last=False)
            if block is new:
                run(functools.partial(self._fill, new, key, path, begin, end))
        except BaseException as error:
            self._fail(new, key, error)
            raise
        return block

    def _fill(self, block: Future[bytes], key: object, path: BlockSource, begin: int, end: int) -> None:
        try:
            block.set_result(path.pread(begin, end))
        except BaseException as error:
            self._fail(block, key, error)

    def _fail(self, block: Future[bytes], key: object, error: BaseException) -> None:
        """Fail all waiting readers of a block, and drop it so that the next reader reads it again."""
        with self._lock:
            self._kept.pop(cast("tuple[object, ...]", key), None)
        with contextlib.suppress(InvalidStateError):
            block.set_exception(error)
