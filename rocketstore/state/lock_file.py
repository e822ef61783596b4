"""The ``lock`` file of a store: RocketMQ holds a lock on its first byte while a broker runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import threading
from pathlib import Path

from rocketstore.disk.create import open_own_file
from rocketstore.disk.durable import sync
from rocketstore.disk.small_file import open_regular
from rocketstore.disk.storage import is_remote, local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError, StoreLockedError

# The layout of struct flock, which differs on macOS, and the places of the type and of the holder's process in it.
FLOCK, TYPE, PID = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi", 0, 4)

# A process owns these locks. They do not exclude the process itself, and closing any descriptor of the file frees them.
# Therefore locked files are recorded by (device, inode), and never opened again.
HELD: dict[tuple[int, int], StoreLock] = {}
MUTEX = threading.RLock()


class StoreLock:
    """The lock of the one writer that a store may have, a broker or rocketstore. Safe to use from several threads.

    Attributes: ``path`` of the file; ``owned``, whether this process holds the lock by this object: a process forked
    from the holder does not.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._fd = -1
        self._identity = self._directory = (-1, -1)
        self.owned = False

    def acquire(self) -> None:
        """Take the lock without waiting. Make the file if it is missing.

        Raises: StoreLockedError if another process, or another StoreLock of this process, has it; OSError.
        Source: DefaultMessageStore.start.
        """
        with MUTEX:
            if _is_held_here(self.path):
                raise StoreLockedError(
                    f"{self.path}: this process has the store open for writing already: use that one, or close it"
                )
            is_link = self.path.is_symlink()
            fd = self._open_link() if is_link else open_own_file(self.path)
            try:
                self._lock(fd)
                # The bytes are written only once, so that the file's time stays that of the last start of a broker.
                if not is_link and os.pread(fd, 4, 0) != b"lock":
                    os.pwrite(fd, b"lock", 0)
                    sync(fd)
                self._identity, self._directory = _identity(os.fstat(fd)), _identity(self.path.parent.stat())
                HELD[self._identity] = self
            except BaseException:
                os.close(fd)
                raise
            self._fd, self.owned = fd, True

    def _open_link(self) -> int:
        """Open the file that a link leads to: a broker locks that file too. Its bytes stay as they are."""
        try:
            return open_regular(self.path, os.O_RDWR)
        except FileNotFoundError:
            raise StoreError(f"{self.path}: is a link to a file that is missing: remove the link") from None

    def _lock(self, fd: int) -> None:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except (BlockingIOError, PermissionError):
            pid = _ask(fd)[PID]
            who = f"process {pid}" if pid > 0 else "another process"
            raise StoreLockedError(
                f"{self.path}: {who} has the store open for writing, a broker or another rocketstore writer: stop it "
                "first (a broker: sh bin/mqshutdown broker), or open the store for reading"
            ) from None

    def release(self) -> None:
        """Release the lock if this object owns it. The file stays. Source: DefaultMessageStore.shutdown."""
        with MUTEX:
            if self.owned:
                self.owned = False
                del HELD[self._identity]
                os.close(self._fd)


def is_held(path: StorePath) -> bool:
    """Return whether any process, this one included, holds the lock. False if the file is missing or remote.

    It takes no lock. Raises: OSError if the system does not tell. Source: DefaultMessageStore.start.
    """
    if is_remote(path):
        return False
    with MUTEX:
        if _is_held_here(path):
            return True
        try:
            fd = os.open(local_path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return _ask(fd)[TYPE] != fcntl.F_UNLCK
        finally:
            os.close(fd)


def _ask(fd: int) -> tuple[int, ...]:
    """Return the struct flock of the lock that stands in the way of ours."""
    wanted = [0] * 5
    wanted[TYPE] = fcntl.F_WRLCK
    wanted[FLOCK.index("q") + 1] = 1  # byte 0, length 1
    return struct.unpack(FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(FLOCK, *wanted)))


def _is_held_here(path: StorePath) -> bool:
    """Return whether this process holds the lock of a store, also if the file was deleted meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        if _identity(path.stat()) in HELD:
            return True
    with contextlib.suppress(FileNotFoundError):
        directory = _identity(path.parent.stat())
        return any((lock._directory, lock.path.name) == (directory, path.name) for lock in HELD.values())
    return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _disown() -> None:
    """Close the parent's locked files after a fork: closing them later would free a lock of this process."""
    for lock in HELD.values():
        os.close(lock._fd)
        lock.owned = False
    HELD.clear()
    MUTEX.release()


os.register_at_fork(before=MUTEX.acquire, after_in_parent=MUTEX.release, after_in_child=_disown)
