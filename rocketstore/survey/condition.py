"""The condition of a store: how its last writer left it, and the evidence for that. It changes beside a broker."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Any

from rocketstore.disk.small_file import read_file_start
from rocketstore.disk.storage import is_remote, names_in, scandir
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.layout import CHECKPOINT
from rocketstore.log.log_end import StoreState
from rocketstore.state.lock_file import is_held
from rocketstore.survey.places import AnyPlaces

FileSizes = frozenset[tuple[str, int]]  # names and lengths in bytes of the files in a directory


@dataclass(frozen=True)
class StateEvidence:
    """What the small files in a store's root say about its last writer.

    Attributes: has_abort: whether ``abort`` exists, which a running broker has and a crashed one leaves. is_locked:
    whether a process holds ``lock``; False for a remote store. checkpoint: its bytes; None if they cannot be read.
    unfinished_writes: the names of the intents of Spark's writes that were not committed.
    """

    has_abort: bool
    is_locked: bool
    checkpoint: bytes | None
    unfinished_writes: tuple[str, ...]


@dataclass(frozen=True)
class StoreCondition:
    """How a store is now: it changes while a broker writes the store. Attributes: timestamp: epoch milliseconds."""

    timestamp: int
    state: StoreState
    evidence: StateEvidence


def find_store_state(abort: StorePath, lock: StorePath) -> StoreState:
    """Find whether a store was stopped, is being written, or crashed. Parameters: abort, lock: their paths."""
    has_abort = abort.exists() if is_remote(abort) else os.path.lexists(str(abort))
    if not has_abort:
        return StoreState.STOPPED
    with contextlib.suppress(OSError):
        return StoreState.RUNNING if is_held(lock) else StoreState.CRASHED
    return StoreState.CRASHED


def find_condition(places: AnyPlaces) -> StoreCondition:
    """Find the present state of a store, and the evidence for it."""
    names = names_in(places.root)
    state = find_store_state(places.abort, places.lock)
    is_locked = False
    with contextlib.suppress(OSError):
        is_locked = is_held(places.lock)
    unfinished = (places.write_intent.name,) if places.write_intent.name in names else ()
    evidence = StateEvidence(places.abort.name in names, is_locked, read_checkpoint(places), unfinished)
    if not any(has_files(directory) for directory in places.log_directories):
        state = StoreState.NEW
    return StoreCondition(time.time_ns() // 1_000_000, state, evidence)


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


def has_files(directory: StorePath) -> bool:
    """Return whether a directory has a file; False if it cannot be listed."""
    with contextlib.suppress(OSError), scandir(directory) as entries:
        return any(entry.is_file() for entry in entries)
    return False


def size_of(entry: Any) -> int:
    with contextlib.suppress(FileNotFoundError):  # it was just deleted
        return int(entry.stat().st_size)
    return -1
