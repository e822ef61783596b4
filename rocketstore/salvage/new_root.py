"""The root of a new store: written in a directory inside it, which marks an unfinished root."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rocketstore.disk.durable import make_directory, make_root, sync_path
from rocketstore.root_places import LOG_DIRECTORY
from rocketstore.survey.places import LocalPlaces, StorePlaces

# Files and directories that a copy may have in its root, besides the parts of every store.
# Source: EpochFileCache, BrokerMetadata, IndexStoreService of tiered storage.
COPIED = frozenset({"epochFileCheckpoint", "brokerIdentity", "tiered_index_file", "transaction"})
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def require_outside(new: Path, directories: Iterable[Path]) -> None:
    """Raise ValueError if a new directory is, or is inside, a directory that must not change."""
    real = new.resolve()
    for directory in sorted({directory.resolve() for directory in directories}):
        if real == directory or directory in real.parents:
            raise ValueError(f"{new} is inside {directory}, which must not change: give a directory elsewhere")


def require_free_root(new: Path, work: str, is_ours: Callable[[Path], bool]) -> list[Path]:
    """Return the entries that a killed call left in a new directory, ``work`` last; none if the directory is missing.

    Parameters: work: the name of the directory that marks an unfinished root. is_ours: returns whether the killed call
    can have made another entry of the directory.
    Raises: FileExistsError if the directory has other entries; OSError.
    """
    entries = list(new.iterdir()) if new.is_dir() else []
    is_unfinished = (new / work).is_dir() and all(entry.name == work or is_ours(entry) for entry in entries)
    reason = "give a directory that is empty, or does not exist"
    if new.exists() and not new.is_dir():
        raise FileExistsError(errno.EEXIST, f"{os.strerror(errno.EEXIST)}, and is not a directory: {reason}", str(new))
    if entries and not is_unfinished:
        raise FileExistsError(errno.ENOTEMPTY, f"{os.strerror(errno.ENOTEMPTY)}: {reason}", str(new))
    return sorted(entries, key=lambda entry: entry.name == work)


def is_part_of_store(entry: Path) -> bool:
    """Return whether a new store may have an entry of its root. No writer has opened a new store: it has no lock."""
    places = StorePlaces.of(entry.parent)
    parts = {*places.queue_parts, places.default_log, places.index, places.config, places.checkpoint, places.abort}
    parts |= {places.timer_log, places.compaction, places.pop_database, *places.queue_databases, places.rocksdb}
    is_named = entry.name in COPIED or entry.name.startswith((places.timer_wheel.name, "dledger-"))
    return not places.lock.exists() and (entry in parts or is_named)


@contextlib.contextmanager
def new_directory(new: Path, work: str, is_ours: Callable[[Path], bool], mode: int = 0o777) -> Iterator[Path]:
    """Make a directory. Yield a directory inside it, in which a ``with`` block writes everything.

    At the end of the block, everything is moved to the new directory, a commit log last, and the directory inside it is
    removed. A killed process leaves it. The next call knows the unfinished directory by it, and begins anew. After an
    error the new directory is empty, or missing if it was missing.

    Parameters: work, is_ours: as for ``require_free_root``. mode: permissions, less the umask.
    Raises: FileExistsError if the new directory has other entries.
    """
    for entry in require_free_root(new, work, is_ours):
        remove(entry)
    existed, inside = new.is_dir(), new / work
    try:
        make_root(new, mode)
        make_directory(inside)
        yield inside
        for child in sorted(inside.iterdir(), key=lambda path: path.name == LOG_DIRECTORY):
            child.rename(new / child.name)
        sync_path(new)
        inside.rmdir()
        sync_path(new)
    except BaseException as error:
        for child in new.iterdir() if new.is_dir() else ():
            remove(child)
        if new.is_dir() and not existed:
            new.rmdir()
        if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
            raise OSError(error.errno, os.strerror(error.errno), str(new)) from error  # a write names no file
        raise


@contextlib.contextmanager
def new_root(new: Path, work: str, mode: int = 0o777) -> Iterator[LocalPlaces]:
    """Make the root of a store, as ``new_directory`` does. Yield the places in which a ``with`` block writes it.

    The new store has no file ``abort``, also if the block made one: it is a store after a clean stop.
    """
    with new_directory(new, work, is_part_of_store, mode) as inside:
        places = StorePlaces.of(inside)
        yield places
        places.abort.unlink(missing_ok=True)


def remove(entry: Path) -> None:
    """Remove a file, a link, or a directory with all that is in it."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
