"""The indexes and stores that a Python worker keeps open between batches, tasks and queries."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from rocketstore.config import StoreConfig
from rocketstore.disk.storage import held_lists, identity, is_remote, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_directory import index_paths, is_index_name
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_service import IndexService
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.places import StorePlaces

# Address space, not memory: the pages are the system's page cache, which all workers of a machine share.
MAX_BYTES = 16 << 30
MAX_STORES = 8
CACHES: weakref.WeakSet[WorkerCache[Any]] = weakref.WeakSet()
Opened = TypeVar("Opened", bound=IndexFile | IndexService | MessageStore)


def renew_caches() -> None:
    """Empty the caches in a forked process, which lacks the threads that may hold their locks.

    A buffer of a cached index or store may also still count a kernel call of a missing thread.
    """
    for cache in list(CACHES):
        cache.renew()


os.register_at_fork(after_in_child=renew_caches)


class CacheKey(NamedTuple):
    """A path, and the geometry of its index, None if the files show the geometry."""

    path: str | StorePath
    geometry: IndexGeometry | None


class Cached(NamedTuple, Generic[Opened]):
    """An open object. Attributes: version: what ``identify`` returned for its path. size: see ``WorkerCache``."""

    opened: Opened
    version: object
    size: int


class WorkerCache(Generic[Opened]):
    """Keeps objects open. If their sizes exceed ``max_size`` together, the least recently used objects are dropped.

    A dropped object is not closed, because a lookup in another thread may use it. It is freed with its last user.
    """

    def __init__(
        self,
        opener: Callable[[CacheKey], Opened],
        identify: Callable[[str | StorePath], object],
        size_of: Callable[[Any], int],
        max_size: int,
    ) -> None:
        """Make an empty cache.

        Parameters: identify: returns the version of the files at a path; an object of another version is opened again.
        size_of: returns the size of an object of a version.
        """
        self._opener = opener
        self._identify = identify
        self._size_of = size_of
        self.max_size = max_size
        self.renew()
        CACHES.add(self)

    def renew(self) -> None:
        """Drop all objects, and make a new lock."""
        self._lock = threading.Lock()
        self._cached: OrderedDict[CacheKey, Cached[Opened]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._cached)

    def open(self, path: str | StorePath, geometry: IndexGeometry | None = None) -> Opened:
        """Return the open object of a path. Open it if the cache does not have it, or has an older version.

        The caller must not close the object. Raises: OSError, also if there is no address space for the mapping; as
        the opener.
        """
        key = CacheKey(path, geometry)
        with self._lock:
            version = self._identify(path)
            cached = self._cached.pop(key, None)
            if cached is None or cached.version != version:
                cached = Cached(self._open(key), version, self._size_of(version))
            self._cached[key] = cached
            self._drop_old()
            return cached.opened

    def _open(self, key: CacheKey) -> Opened:
        try:
            return self._opener(key)
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
        self._cached.clear()  # unmaps objects without another user
        return self._opener(key)

    def _drop_old(self) -> None:
        total = sum(cached.size for cached in self._cached.values())
        while total > self.max_size and len(self._cached) > 1:
            _, dropped = self._cached.popitem(last=False)
            total -= dropped.size


# ---- indexes ---------------------------------------------------------------------------------------------


class FileIdentity(NamedTuple):
    """Values that change when a file is replaced, grows or is written to."""

    path: str
    identity: object
    mtime_ns: int
    size: int


def index_cache(max_bytes: int = MAX_BYTES) -> WorkerCache[IndexFile | IndexService]:
    """Return a cache of index files and index directories. Parameters: max_bytes: of all mapped files together."""
    return WorkerCache(open_uncached, identify_files, lambda files: sum(file.size for file in files), max_bytes)


def identify_files(path: str | StorePath) -> tuple[FileIdentity, ...]:
    """Return the identity of an index file, or of each index file in a directory."""
    place = to_path(path)
    if not place.is_dir():
        return (identify_file(place),)
    files = []
    with held_lists(place):
        for file in sorted(file for file in place.iterdir() if is_index_name(file.name)):
            with contextlib.suppress(FileNotFoundError):  # the file expired after it was listed
                files.append(identify_file(file))
    return tuple(files)


def identify_file(path: StorePath) -> FileIdentity:
    stat = path.stat()
    return FileIdentity(str(path), identity(path), stat.st_mtime_ns, stat.st_size)


def open_uncached(key: CacheKey) -> IndexFile | IndexService:
    """Open an index file, or the index files of a directory.

    Raises: FileNotFoundError; OSError; as ``IndexFile.open`` and ``IndexService.open``.
    """
    path = to_path(key.path)
    slots, items = key.geometry or (None, None)
    opener = IndexService if path.is_dir() else IndexFile
    if opener is IndexService and not index_paths(path) and any(path.iterdir()):
        reason = "no index files here: give a store's root, an index file, or the directory of a store's index"
        raise FileNotFoundError(errno.ENOENT, reason, str(path))
    try:
        return opener.open(path, hash_slot_num=slots, index_num=items)
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        reason = (
            "no address space to map the index: raise spark.executor.pyspark.memory, which limits the address space of "
            "Python workers, by the size of the index, or leave it unset"
        )
        raise OSError(errno.ENOMEM, reason, str(path)) from error


# ---- stores ----------------------------------------------------------------------------------------------


def store_cache(max_stores: int = MAX_STORES) -> WorkerCache[MessageStore]:
    """Return a cache of stores. An open store shows what a broker appends, so that only new directories replace it."""
    return WorkerCache(open_store_uncached, identify_directories, lambda directories: 1, max_stores)


def open_store_uncached(key: CacheKey) -> MessageStore:
    slots, items = key.geometry or (None, None)
    return MessageStore.of_entry(
        "spark query_messages", key.path, StoreConfig(max_hash_slot_num=slots, max_index_num=items)
    )


def identify_directories(path: str | StorePath) -> list[object]:
    """Return the identities of the directories that are replaced as a whole when a store is copied or rebuilt."""
    places = StorePlaces.of(to_path(path))
    parts = (places.root, places.default_log, places.index)
    return [identify_directory(part) for part in parts if part.is_dir()]


def identify_directory(directory: StorePath) -> object:
    """Return a value that differs if another directory took the place of this one.

    A new local directory may have the inode of a deleted one, so its time counts too. A remote directory has neither.
    Its files are identified by their versions, and listing its parent may be forbidden.
    """
    if is_remote(directory):
        return str(directory)
    status = directory.stat()
    return status.st_ino, status.st_mtime_ns


open_index = index_cache().open
open_store = store_cache().open
