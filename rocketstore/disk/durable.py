"""Write so that a loss of power leaves either the old bytes or the new bytes: fsync, zeroing, atomic replacement.

A new name is on the disk only after its directory was synced, too. Every function here that makes or renames a file
does both.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
from pathlib import Path

from rocketstore.disk.create import create_directory, create_file
from rocketstore.disk.held_directory import HeldDirectory, link_path, open_path, rename_path, stat_path, unlink_path

CHUNK = 1 << 20  # bytes of zeros to write at once
ZEROS = bytes(CHUNK)
UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)  # a file system lacks the operation


def sync(fd: int) -> None:
    """Return when a file or directory is on the disk, and not only in the memory of the disk."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
    os.fsync(fd)


def sync_bytes(fd: int) -> None:
    """Return when the bytes and the length of a file are on the disk. Its time of the last change may be lost.

    ``fsync`` also writes that time to the journal of the file system, and waits for the disk once more. The name
    of a new file is on the disk only after ``sync_path`` of its directory.
    Source: MappedByteBuffer.force, which Linux carries out as ``fdatasync``.
    """
    if sys.platform == "linux":
        os.fdatasync(fd)
    else:
        sync(fd)


def sync_path(path: Path, held: HeldDirectory | None = None) -> None:
    """Bring the bytes of a file to the disk, or the names in a directory.

    Parameters: held: the directory below which the file is found; None to find it by its path.
    """
    fd = open_path(path, os.O_RDONLY, held=held)
    try:
        sync(fd)
    finally:
        os.close(fd)


def replace_file(
    path: Path, data: bytes, *, like: Path | None = None, kept: Path | None = None, held: HeldDirectory | None = None
) -> None:
    """Replace the bytes of a file atomically. After a crash the file has either the old bytes or the new bytes.

    Parameters
    ----------
    path : the file; it is made if it is missing.
    data : its new bytes.
    like : the file whose mode and owner the new file gets.
    kept : another name under which the old file stays.
    held : as for ``sync_path``.
    """
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    unlink_path(temporary, held, missing_ok=True)  # a killed process with the same number may have left it
    with os.fdopen(create_file(temporary, held=held), "wb") as file:
        try:
            if like:
                status = stat_path(like, held)
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
            file.write(data)
            file.flush()
            sync(file.fileno())
            if kept:
                link_path(path, kept, held)
            rename_path(temporary, path, held)
        except BaseException:
            unlink_path(temporary, held, missing_ok=True)  # it is missing if Ctrl-C comes after the replacement
            raise
    sync_path(path.parent, held)


def zero_range(path: Path, position: int, size: int) -> None:
    """Overwrite a range of a file with zeros, from its end to its begin, and bring the file to the disk."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        for first in reversed(range(position, position + size, CHUNK)):
            os.pwrite(fd, bytes(min(CHUNK, position + size - first)), first)
        sync(fd)
    finally:
        os.close(fd)


def allocate(fd: int, size: int, begin: int = 0) -> None:
    """Extend a file to ``size`` bytes for which the disk has room, with zeros from ``begin`` on. Raises: OSError."""
    if begin >= size:
        return
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, begin, size - begin)
            return
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    while begin < size:
        begin += os.pwrite(fd, ZEROS[: size - begin], begin)


def make_directory(directory: Path, held: HeldDirectory | None = None) -> None:
    """Make a directory inside a store, and missing directories above it, and bring their names to the disk.

    Parameters: held: as for ``sync_path``; it is not made. Raises: OSError.
    """
    if not _is_directory(directory, held):
        make_directory(directory.parent, held)
        with contextlib.suppress(FileExistsError):  # another process has made it just now
            create_directory(directory, held)
        if not _is_directory(directory, held):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
        sync_path(directory.parent, held)


def _is_directory(path: Path, held: HeldDirectory | None) -> bool:
    try:
        return stat.S_ISDIR(stat_path(path, held).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def make_root(directory: Path, mode: int = 0o777) -> None:
    """Make the root of a new store, and missing directories above it, and bring their names to the disk.

    They belong to the user of this process.

    Parameters
    ----------
    directory : the root.
    mode : permissions of the root, less the umask.

    Raises
    ------
    OSError : the system refuses.
    """
    if not directory.is_dir():
        make_root(directory.parent)
        directory.mkdir(mode, exist_ok=True)
        sync_path(directory.parent)
