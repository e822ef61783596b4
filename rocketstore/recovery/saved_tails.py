"""Saved tails: the bytes behind the end of a log are copied to ``rocketstore-cut`` before recovery cuts them off."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rocketstore.disk.create import create_file
from rocketstore.disk.durable import make_directory, sync, sync_path
from rocketstore.disk.positioned_read import read_at
from rocketstore.disk.storage import local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.log.tail import Tail

CHUNK = 1 << 20


class SavedTail(NamedTuple):
    """A tail of the log, and the file in ``rocketstore-cut`` that has its bytes."""

    tail: Tail
    path: Path


def save_tail(directory: Path, tail: Tail) -> SavedTail:
    """Copy a tail to a new file that is named by the time and the physical offset, and flush it.

    Parameters: directory: ``StorePlaces.saved_cuts``; it is made if it is missing.
    """
    path = directory / f"{time.time_ns() // 1_000_000:013}-{tail.begin:020}"
    if path.parent.is_symlink():
        raise StoreError(f"{path.parent}: is a link, and bytes cut off the log must stay in the store: remove the link")
    make_directory(path.parent)
    with os.fdopen(create_file(path, like=local_path(tail.file.path)), "wb") as file:
        try:
            for data in _chunks(tail.file.path, tail.begin - tail.file.file_from_offset, tail.end - tail.begin):
                file.write(data)
            file.flush()
            sync(file.fileno())
        except BaseException:
            path.unlink()
            raise
    sync_path(path.parent)
    return SavedTail(tail, path)


def is_saved(directory: StorePath, tail: Tail) -> bool:
    """Return whether an earlier recovery saved these bytes, and overwrote some of them with zeros."""
    saved = sorted(directory.glob("*")) if directory.is_dir() else []
    return any(_is_rest_of(path, tail) for path in reversed(saved))


def _is_rest_of(path: StorePath, tail: Tail) -> bool:
    name = re.fullmatch("[0-9]{13,}-([0-9]{20})", path.name)
    if name is None or not int(name[1]) <= tail.begin < tail.end <= int(name[1]) + path.stat().st_size:
        return False
    size = tail.end - tail.begin
    before = _chunks(path, tail.begin - int(name[1]), size)
    now = _chunks(tail.file.path, tail.begin - tail.file.file_from_offset, size)
    for old, new in zip(before, now, strict=True):
        columns = np.frombuffer(old, np.uint8), np.frombuffer(new, np.uint8)
        if not ((columns[0] == columns[1]) | (columns[1] == 0)).all():
            return False
    return True


def _chunks(path: StorePath, begin: int, size: int) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        for position in range(begin, begin + size, CHUNK):
            yield read_at(file.fileno(), min(CHUNK, begin + size - position), position, path)
