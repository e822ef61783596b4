"""Which store owns each directory that a writer changes, and the locks that the writer takes.

The rule, for every writer:

1. A directory belongs to the nearest directory above it, links resolved, that is the root of a store.
2. Without one, a directory that the broker's properties file names belongs to the root that the file names. Any
   other directory belongs to STORE.
3. A writer of STORE changes only what belongs to STORE. With ``write_elsewhere`` it also changes what belongs to
   another store, and takes the lock of that store, too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketstore.broker_file import BrokerFile
from rocketstore.config import StoreConfig, is_same_directory
from rocketstore.disk.storage import is_remote, local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.java_text import parse_long
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.state.abort import require_no_writer
from rocketstore.state.lock_file import StoreLock
from rocketstore.survey.places import AnyPlaces, LocalPlaces, StorePlaces

LAST_FILES = 3  # files of a log or a queue that a recovery may write to


@dataclass(frozen=True)
class ForeignPart:
    """A directory of a store that belongs to another store. Attributes: owner: the root of the other store."""

    path: Path
    owner: Path


@dataclass(frozen=True)
class Owners:
    """The parts of a store that belong to another store, or may do so.

    Attributes: shared: the first file found that a writer may change and that is a hard link; None without one.
    """

    root: StorePath
    foreign: tuple[ForeignPart, ...] = ()
    shared: Path | None = None

    @property
    def other_roots(self) -> tuple[Path, ...]:
        """The roots of the other stores, each once."""
        return tuple(dict.fromkeys(part.owner for part in self.foreign if part.owner.is_dir()))

    def require_own_places(self) -> None:
        """Raise StoreError that names both paths if a writer would change a part of another store."""
        for part in self.foreign:
            target = os.path.realpath(part.path)
            leads = f"leads to {target}, which belongs" if target != str(part.path) else "belongs"
            raise StoreError(
                f"{part.path}: {leads} to the store at {part.owner}, not to {self.root}, and would be changed: give "
                f"{part.owner} as the store, or a configuration that names directories of this one; to change the "
                "other store as well, and take its lock, pass write_elsewhere=True (on the command line "
                "--write-elsewhere)"
            )
        if self.shared is not None:
            raise StoreError(
                f"{self.shared}: is a hard link, so that a store that shares the file would be changed with "
                f"{self.root}: replace it by a copy; to change both, pass write_elsewhere=True (on the command line "
                "--write-elsewhere)"
            )


def acquire_locks(all_places: Iterable[LocalPlaces]) -> list[StoreLock]:
    """Take the locks of stores, in order.

    Raises: StoreLockedError if one is held, or was deleted beside a writer; OSError. No lock is taken then.
    """
    with contextlib.ExitStack() as stack:
        locks = []
        for places in all_places:
            require_no_writer(places.abort, places.lock)
            lock = StoreLock(places.lock)
            lock.acquire()
            locks.append(lock)
            stack.callback(lock.release)
        stack.pop_all()
    return locks


@contextlib.contextmanager
def hold_locks(locks: Sequence[StoreLock]) -> Iterator[None]:
    """Release locks at the end of a ``with`` block, the last one first."""
    try:
        yield
    finally:
        for lock in reversed(locks):
            lock.release()


@contextlib.contextmanager
def lock_owner_of(out: Path) -> Iterator[None]:
    """Hold the lock of the store that a new directory is made in, if it is in a store.

    Raises: StoreLockedError, OSError.
    """
    owner = find_owner(Path(os.path.realpath(out)).parent)
    places = None if owner is None else StorePlaces.of(owner)
    if places is None or not places.lock.is_file():
        yield
        return
    lock = StoreLock(places.lock)
    require_no_writer(places.abort, places.lock)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def find_owners(places: AnyPlaces, config: StoreConfig) -> Owners:
    """Find the parts of a store that belong to another store. A remote store is not written, and owns its parts.

    All directories of queues are listed, for links. Raises: OSError.
    """
    if is_remote(places.root):
        return Owners(places.root)
    root = local_path(places.root)
    own = StorePlaces(root, places.log_directories)
    named = [local_path(path) for path in places.log_directories if path != places.default_log]
    lists = list(_list_directories(own, [own.default_log, *named]))
    links = [Path(entry.path) for entries in lists for entry in entries if entry.is_symlink()]
    foreign = []
    for place in [*named, *links]:
        owner = _owner_of(place, root, config if place in named else StoreConfig())
        if owner is not None:
            foreign.append(ForeignPart(place, owner))
    return Owners(root, tuple(foreign), _find_shared_file(own, lists))


def _owner_of(place: Path, root: Path, config: StoreConfig) -> Path | None:
    """Return the root of the other store that a directory belongs to, None if it belongs to this store."""
    real_root = Path(os.path.realpath(root))
    owner = find_owner(Path(os.path.realpath(place)), real_root)
    if owner is None and isinstance(config.other, BrokerFile):
        owner = Path(os.path.realpath(config.other.store_path_root_dir))
    return None if owner is None or is_same_directory(owner, root) else owner


def find_owner(place: Path, root: Path | None = None) -> Path | None:
    """Return the nearest directory that is ``root`` or looks like the root of a store, from a directory upwards.

    Parameters: place, root: absolute paths without links. Returns: None if no directory fits.
    """
    for directory in (place, *place.parents):
        places = StorePlaces.of(directory)
        has_root_file = any(path.is_file() for path in (places.lock, places.checkpoint, places.abort))
        if directory == root or has_root_file or places.queues(ConsumeQueue).is_dir():
            return directory
    return None


def _list_directories(places: LocalPlaces, logs: list[Path]) -> Iterator[list[os.DirEntry[str]]]:
    """Yield the entries of each directory that a writer changes files in: root, log, index, topics and queues."""
    yield _entries(places.root)
    for directory in (*logs, places.index):
        yield _entries(directory)
    for part in places.queue_parts:
        topics = _entries(part)
        yield topics
        for topic in filter(os.DirEntry.is_dir, topics):
            queues = _entries(topic)
            yield queues
            yield from map(_entries, filter(os.DirEntry.is_dir, queues))


def _entries(directory: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        return list(entries)
    return []


def _find_shared_file(places: LocalPlaces, lists: list[list[os.DirEntry[str]]]) -> Path | None:
    """Return the first file that a writer may change and that is a hard link: another store may have it, too."""
    for entries in lists:
        numbered = sorted(
            (entry for entry in entries if parse_long(entry.name) is not None), key=lambda entry: entry.name
        )
        changed = [*numbered[-LAST_FILES:], *(entry for entry in entries if entry.name == places.checkpoint.name)]
        for entry in changed:
            if entry.is_file() and entry.stat().st_nlink > 1:
                return Path(entry.path)
    return None


# ---- a commit log that is not where it should be -----------------------------------------------------------


def require_log_directory(places: AnyPlaces, config: StoreConfig) -> None:
    """Raise StoreError if the configuration names directories of the commit log, and all of them are missing.

    The commit log is then elsewhere. The caller must not treat it as empty.
    """
    paths, own = places.log_directories, places.default_log
    if not config.store_path_commit_log or own in paths or any(path.is_dir() for path in paths):
        return
    file = config.other
    where = f"{file.path} says" if isinstance(file, BrokerFile) else "store_path_commit_log says"
    hint = f"; {own} is there: leave the configuration out, or name this directory, to use it" * own.is_dir()
    raise StoreError(f"{places.root}: the commit log is not at {', '.join(map(str, paths))}, where {where}{hint}")
