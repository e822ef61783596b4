"""How the last writer left a store, and what its checkpoint and directories have. A broker changes all of these."""

from __future__ import annotations

import contextlib
import os
from typing import Any, NamedTuple

from rocketstore.disk.small_file import read_file_start
from rocketstore.disk.storage import is_remote, scandir
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.layout import CHECKPOINT
from rocketstore.log.log_end import StoreState
from rocketstore.state.lock_file import is_held
from rocketstore.survey.places import AnyPlaces

FileSizes = frozenset[tuple[str, int]]  # names and lengths in bytes of the files in a directory


class FileLists(NamedTuple):
    """The files of a store that a repair changes.

    Attributes: log_files: of each directory of the log; None for a directory that does not exist. index_files: None if
    the directory is missing, and for a remote store, which is never changed.
    """

    log_files: tuple[FileSizes | None, ...]
    index_files: FileSizes | None


def find_store_state(abort: StorePath, lock: StorePath) -> StoreState:
    """Find whether a store was stopped, is being written, or crashed. Parameters: abort, lock: their paths."""
    has_abort = abort.exists() if is_remote(abort) else os.path.lexists(str(abort))
    if not has_abort:
        return StoreState.STOPPED
    with contextlib.suppress(OSError):
        return StoreState.RUNNING if is_held(lock) else StoreState.CRASHED
    return StoreState.CRASHED


def read_checkpoint(places: AnyPlaces) -> bytes | None:
    """Return the numbers of the checkpoint as bytes; None if it is missing or cannot be read."""
    with contextlib.suppress(OSError, CorruptFileError):
        return read_file_start(places.checkpoint, CHECKPOINT.itemsize)
    return None


def list_files(directory: StorePath) -> FileSizes | None:
    """Return the names and lengths of the files in a directory; None if it cannot be listed."""
    with contextlib.suppress(OSError), scandir(directory) as entries:
        return frozenset((entry.name, size_of(entry)) for entry in entries if entry.is_file())
    return None


def size_of(entry: Any) -> int:
    with contextlib.suppress(FileNotFoundError):  # it was just deleted
        return int(entry.stat().st_size)
    return -1
