"""A file as one mapping: what every kind of store file is made of."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import struct
import sys
import weakref
from pathlib import Path

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.buffer import Buffer

__all__ = ["MappedFile"]

MODES = ("r", "r+")
ZEROS = bytes(1 << 20)


class MappedFile:
    """A whole file in memory, shared with whoever else has it open.

    Attributes: ``path``; ``mode``, "r" or "r+"; ``buffer``, the mapping as kernels take it; ``fd``, the descriptor
    of a file open for writing, -1 of another.

    Source: DefaultMappedFile. There the file is sparse; here it is allocated before it is mapped, so that a full
    disk is an OSError and not a killed process.
    """

    def __init__(self, path: str | os.PathLike[str], mode: str = "r", *, create_size: int | None = None) -> None:
        """Map an existing file, or make one of ``create_size`` bytes of zeros (FileExistsError if it exists)."""
        if mode not in MODES:
            raise ValueError(f"mode={mode!r}: must be one of {', '.join(map(repr, MODES))}")
        self.path = Path(path)
        self.mode = mode
        descriptor = os.open(self.path, self._flags(create_size), 0o644)
        # Closes it also when the object is dropped without close(), and never twice.
        self._descriptor = weakref.finalize(self, os.close, descriptor)
        try:
            if create_size is not None:
                allocate(descriptor, create_size)
            if self.path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
            if os.fstat(descriptor).st_size == 0:
                raise CorruptFileError(self.path, 0, "file size", "the file is empty")
            self._map = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ if mode == "r" else mmap.ACCESS_WRITE)
        except BaseException:
            self._descriptor()
            if create_size is not None:
                self.path.unlink()
            raise
        self.buffer = Buffer(self._map, self.path, mode != "r")
        self.fd = descriptor if mode != "r" else -1
        if mode == "r":
            self._descriptor()  # the mapping has one of its own

    def _flags(self, create_size: int | None) -> int:
        if self.mode == "r":
            return os.O_RDONLY | os.O_CLOEXEC
        return os.O_RDWR | os.O_CLOEXEC | (0 if create_size is None else os.O_CREAT | os.O_EXCL)

    def view(self) -> memoryview:
        """Give the bytes. The mapping stays while the view does, also after ``close``."""
        return memoryview(self._map)

    def flush(self) -> None:
        """Write what changed to the disk, and return when it is there. Other threads run meanwhile."""
        with self.buffer:
            if sys.platform == "darwin":
                self._map.flush()  # there, fsync does not write what was changed through a mapping
            copy = os.dup(self.fd)
        # Nothing is in flight here: a signal handler that closes the file does not wait for its own thread.
        try:
            os.fsync(copy)
        finally:
            os.close(copy)

    def close(self) -> None:
        """Wait for the calls in flight and unmap; a mapping that views still use goes with the last of them."""
        first = True
        try:
            first = self.buffer.close()
        finally:
            if first:
                with contextlib.suppress(BufferError):
                    self._map.close()
                self._descriptor()


def allocate(fd: int, size: int) -> None:
    """Give a new file ``size`` bytes of zeros that the disk really has. Raises OSError if it has not."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
            return
        if sys.platform == "darwin":
            preallocate, all_at_once, from_end_of_file = 42, 4, 3  # F_PREALLOCATE and its fstore_t
            fcntl.fcntl(fd, preallocate, struct.pack("=Iiqqq", all_at_once, from_end_of_file, 0, size, 0))
            os.ftruncate(fd, size)
            return
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTSUP):
            raise
    position = 0
    while position < size:
        position += os.pwrite(fd, ZEROS[: size - position], position)
