"""The indexes and stores that a Python worker keeps open between batches, tasks and queries."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rocketstore.config import StoreConfig
from rocketstore.disk.storage import held_lists, identity, is_remote, to_path
from rocketstore.index.index_directory import index_paths
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_service import IndexService
from rocketstore.store.message_store import MessageStore

__all__ = ["IndexCache", "StoreCache", "open_index", "open_store"]

# Address space, not memory: the pages are the system's page cache, shared by all workers of a machine.
MAX_BYTES = 16 << 30
MAX_STORES = 8
CACHES: weakref.WeakSet[IndexCache | StoreCache] = weakref.WeakSet()


def renew_caches() -> None:
    """Empty the caches in a forked process, which lacks the threads that may hold their locks.

    A buffer of a cached index or store may also still count a kernel call of a missing thread.
    """
    for cache in list(CACHES):
        cache.renew()


os.register_at_fork(after_in_child=renew_caches)


class FileIdentity(NamedTuple):
    """What changes when a file is replaced, grows or is written to."""

    path: str
    identity: object
    mtime_ns: int
    size: int


class IndexKey(NamedTuple):
    """What is asked for: a path and a geometry, (None, None) where the files show it."""

    path: str | Path
    hash_slot_num: int | None
    index_num: int | None


@dataclass
class CachedIndex:
    index: IndexFile | IndexService
    files: tuple[FileIdentity, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


class IndexCache:
    """Open indexes, the least recently used dropped first when they map more than ``max_bytes``.

    What is dropped is not closed: a running lookup keeps its index, and the mapping goes with the last user.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.renew()
        CACHES.add(self)

    def renew(self) -> None:
        """Begin anew in a forked process."""
        self._lock = threading.Lock()
        self._indexes: OrderedDict[IndexKey, CachedIndex] = OrderedDict()

    def __len__(self) -> int:
        return len(self._indexes)

    def open(
        self, path: str | Path, hash_slot_num: int | None = None, index_num: int | None = None
    ) -> IndexFile | IndexService:
        """Open an index file, or a directory of index files, or give the one that is open and still the same.

        Parameters: hash_slot_num, index_num: as for ``IndexFile.open``. The index given must not be closed.
        Raises: FileNotFoundError; OSError if there is no address space for the mapping; as ``IndexFile.open``
        and ``IndexService.open``.
        """
        key = IndexKey(path, hash_slot_num, index_num)
        with self._lock:
            files = identify(path)
            if key in self._indexes and self._indexes[key].files != files:
                del self._indexes[key]
            if key not in self._indexes:
                self._indexes[key] = CachedIndex(self._open(key), files)
                self._drop_beyond(self.max_bytes)
            self._indexes.move_to_end(key)
            return self._indexes[key].index

    def _open(self, key: IndexKey) -> IndexFile | IndexService:
        for is_alone in (False, True):
            try:
                return open_uncached(key)
            except OSError as error:
                if error.errno != errno.ENOMEM:
                    raise
                if is_alone:
                    reason = (
                        "no address space to map the index in: raise spark.executor.pyspark.memory, which limits it "
                        "in Python workers, by the size of the index, or leave it unset"
                    )
                    raise OSError(errno.ENOMEM, reason, str(key.path)) from error
            self._indexes.clear()
        raise AssertionError("unreachable")

    def _drop_beyond(self, max_bytes: int) -> None:
        total = sum(cached.size for cached in self._indexes.values())
        while total > max_bytes and len(self._indexes) > 1:
            _, dropped = self._indexes.popitem(last=False)
            total -= dropped.size


def identify(path: str | Path) -> tuple[FileIdentity, ...]:
    """Tell which file, or which index files of a directory, are at a path now."""
    place = to_path(path)
    if not place.is_dir():
        return (identify_file(place),)
    files = []
    with held_lists(place):
        for file in sorted(file for file in place.iterdir() if file.name.isdecimal()):
            with contextlib.suppress(FileNotFoundError):  # it has expired just now
                files.append(identify_file(file))
    return tuple(files)


def identify_file(path: Path) -> FileIdentity:
    stat = path.stat()
    return FileIdentity(str(path), identity(path), stat.st_mtime_ns, stat.st_size)


def open_uncached(key: IndexKey) -> IndexFile | IndexService:
    path = to_path(key.path)
    opener = IndexService if path.is_dir() else IndexFile
    if opener is IndexService and not index_paths(path) and any(path.iterdir()):
        reason = "no index files here: give a store's root, an index file, or the directory of a store's index"
        raise FileNotFoundError(errno.ENOENT, reason, str(path))
    return opener.open(path, hash_slot_num=key.hash_slot_num, index_num=key.index_num)


class StoreCache:
    """Open stores, the least recently used dropped first. A store itself sees what a broker adds to it."""

    def __init__(self) -> None:
        self.renew()
        CACHES.add(self)

    def renew(self) -> None:
        """Begin anew in a forked process."""
        self._lock = threading.Lock()
        self._stores: OrderedDict[IndexKey, tuple[list[object], MessageStore]] = OrderedDict()

    def open(self, path: str | Path, hash_slot_num: int | None = None, index_num: int | None = None) -> MessageStore:
        """Open a store for reading, or give the one that is open, if its directories are still the same.

        Parameters, raises: as ``rocketstore.open``; the geometry as for ``IndexFile.open``. It must not be closed.
        """
        key = IndexKey(path, hash_slot_num, index_num)
        with self._lock:
            directories = [directory_identity(directory) for directory in directories_of(path)]
            kept = self._stores.pop(key, None)
            if kept is None or kept[0] != directories:
                config = StoreConfig(max_hash_slot_num=hash_slot_num, max_index_num=index_num)
                kept = directories, MessageStore.open(path, config=config)
            self._stores[key] = kept
            if len(self._stores) > MAX_STORES:
                self._stores.popitem(last=False)
            return kept[1]


def directories_of(path: str | Path) -> list[Path]:
    """The directories that are replaced as a whole, when a store is copied or rebuilt."""
    root = to_path(path)
    return [part for part in (root, root / "commitlog", root / "index") if part.is_dir()]


def directory_identity(directory: Path) -> object:
    """What differs when another directory takes the place of one.

    A new local one may have the inode of one that was deleted. A remote one has neither inode nor time, and to ask for
    them is to list its parent, which may be forbidden; its files are known by their versions.
    """
    if is_remote(directory):
        return str(directory)
    status = directory.stat()
    return status.st_ino, status.st_mtime_ns


open_index = IndexCache().open
open_store = StoreCache().open
