"""The ``lock`` file of a store: RocketMQ holds a lock on its first byte while a broker runs."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path

__all__ = ["is_held"]

# struct flock, which the system's headers give in another order there.
FLOCK, TYPE = ("qqihh", 3) if sys.platform == "darwin" else ("hhqqi", 0)


def is_held(path: Path) -> bool:
    """Whether another process holds the lock. False if the file is missing. Raises: OSError if it cannot be asked.

    Not for a process that holds it itself: closing the file would give the lock up.
    Source: DefaultMessageStore.start.
    """
    asked = (0, 1, 0, fcntl.F_WRLCK, 0) if sys.platform == "darwin" else (fcntl.F_WRLCK, 0, 0, 1, 0)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(FLOCK, *asked))
    finally:
        os.close(fd)
    held: bool = struct.unpack(FLOCK, answer)[TYPE] != fcntl.F_UNLCK
    return held
