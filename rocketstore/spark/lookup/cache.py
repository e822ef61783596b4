"""The indexes and stores that a Python worker keeps open between batches, tasks and queries."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from rocketstore.disk.storage import identity, is_remote
from rocketstore.disk.store_path import StorePath
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_service import IndexService
from rocketstore.query.coverage import Coverage
from rocketstore.spark.lookup.plans import KeyIndexPlan, StorePlan

# Address space, not memory: the pages are the system's page cache, which all workers of a machine share.
MAX_BYTES = 16 << 30
MAX_STORES = 8
CACHES: weakref.WeakSet[WorkerCache[Any]] = weakref.WeakSet()
Opened = TypeVar("Opened", bound=IndexFile | IndexService | Coverage)
Planned = TypeVar("Planned", bound=IndexFile | IndexService | Coverage, covariant=True)


def renew_caches() -> None:
    """Empty the caches in a forked process, which lacks the threads that may hold their locks.

    A buffer of a cached index or store may also still count a kernel call of a missing thread.
    """
    for cache in list(CACHES):
        cache.renew()


os.register_at_fork(after_in_child=renew_caches)


class Plan(Protocol[Planned]):
    """A value that a driver made; ``open`` opens its files in a task. Equal plans have equal names."""

    @property
    def name(self) -> str: ...

    def open(self) -> Planned: ...


class Cached(NamedTuple, Generic[Opened]):
    """An open object. Attributes: version: what ``identify`` returned for its plan. size: see ``WorkerCache``."""

    opened: Opened
    version: object
    size: int


class WorkerCache(Generic[Opened]):
    """Keeps objects open. If their sizes exceed ``max_size`` together, the least recently used objects are dropped.

    A dropped object is not closed, because a lookup in another thread may use it. It is freed with its last user.
    """

    def __init__(self, identify: Callable[[Any], object], size_of: Callable[[Any], int], max_size: int) -> None:
        """Make an empty cache.

        Parameters: identify: returns the version of the files of a plan; an object of another version is opened again.
        size_of: returns the size of an object of a version.
        """
        self._identify = identify
        self._size_of = size_of
        self.max_size = max_size
        self.renew()
        CACHES.add(self)

    def renew(self) -> None:
        """Drop all objects, and make a new lock."""
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, Cached[Opened]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._cached)

    def open(self, plan: Plan[Opened]) -> Opened:
        """Return the open object of a plan. Open it if the cache does not have it, or has an older version.

        The caller must not close the object. Raises: OSError, also if there is no address space for the mapping; as
        the plan.
        """
        with self._lock:
            version = self._identify(plan)
            cached = self._cached.pop(plan.name, None)
            if cached is None or cached.version != version:
                cached = Cached(self._open(plan), version, self._size_of(version))
            self._cached[plan.name] = cached
            self._drop_old()
            return cached.opened

    def _open(self, plan: Plan[Opened]) -> Opened:
        try:
            return plan.open()
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
        self._cached.clear()  # unmaps objects without another user
        return plan.open()

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
    return WorkerCache(identify_files, lambda files: sum(file.size for file in files), max_bytes)


def identify_files(plan: KeyIndexPlan) -> tuple[FileIdentity, ...]:
    """Return the identity of each planned index file that exists."""
    files = []
    for path in plan.files.paths:
        with contextlib.suppress(FileNotFoundError):  # the file expired after it was listed
            files.append(identify_file(path))
    return tuple(files)


def identify_file(path: StorePath) -> FileIdentity:
    stat = path.stat()
    return FileIdentity(str(path), identity(path), stat.st_mtime_ns, stat.st_size)


# ---- stores ----------------------------------------------------------------------------------------------


def store_cache(max_stores: int = MAX_STORES) -> WorkerCache[Coverage]:
    """Return a cache of stores. A store is opened again if one of its directories was replaced."""
    return WorkerCache(identify_directories, lambda directories: 1, max_stores)


def identify_directories(plan: StorePlan) -> list[object]:
    """Return the identities of the directories that are replaced as a whole when a store is copied or rebuilt."""
    index = [] if plan.key_index is None else [plan.key_index.path]
    return [identify_directory(part) for part in (*plan.log.directories, *index)]


def identify_directory(directory: StorePath) -> object:
    """Return a value that differs if another directory took the place of this one; None if it is missing.

    A new local directory may have the inode of a deleted one, so its time counts too. A remote directory has neither.
    Its files are identified by their versions, and listing its parent may be forbidden.
    """
    if is_remote(directory):
        return str(directory)
    with contextlib.suppress(FileNotFoundError):
        status = directory.stat()
        return status.st_ino, status.st_mtime_ns
    return None


open_index = index_cache().open
open_store = store_cache().open
