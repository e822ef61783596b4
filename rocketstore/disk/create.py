"""Make files and directories that fit in with what stands around them.

RocketMQ runs under a user of its own. Files that root makes in a store must be usable by that user, and must not be
readable by more people than the files beside them. Symbolic links are never followed when a file is made: where others
may write to the directory, a link could lead to any file of the system.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from rocketstore.disk.small_file import open_regular

__all__ = ["create_directory", "create_file", "open_own_file"]

DEFAULT_FILE_MODE = 0o644
DEFAULT_DIRECTORY_MODE = 0o777  # less the umask
STORE_LEVELS = 5  # directories from a queue's file in a staging directory up to the store's root


def create_file(path: Path, *, like: Path | None = None) -> int:
    """Make a new file and return its descriptor, open for reading and writing.

    The file gets the mode of ``like`` or of a file that stands beside it. If root makes it in a directory of another
    user, it belongs to that user.

    Parameters
    ----------
    path : the file to make, in a directory that exists.
    like : a file that the new one is a copy of, or the model for its mode.

    Raises
    ------
    FileExistsError : something has this name, a symbolic link included. OSError : the system refuses.
    """
    parent = path.parent.stat()
    model = like or _find_neighbour(path)
    wanted = stat.S_IMODE(model.stat().st_mode) if model else DEFAULT_FILE_MODE & parent.st_mode
    mode = wanted & 0o666 | 0o600
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        if _is_of_another_user(parent):
            os.fchmod(fd, mode)  # the umask of root says nothing about this user's files
            os.fchown(fd, parent.st_uid, parent.st_gid)
    except BaseException:
        os.close(fd)
        path.unlink()
        raise
    return fd


def open_own_file(path: Path) -> int:
    """Open a file for reading and writing and return its descriptor. Make the file if it is missing.

    A symbolic link in its place is replaced by a new file. The target of the link does not change.
    Raises: OSError; CorruptFileError for a pipe or a device.
    """
    try:
        return open_regular(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return create_file(path)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        path.unlink()
        return create_file(path)


def create_directory(path: Path) -> None:
    """Make a directory inside a store, whose parent exists.

    No more people can enter it than can enter its parent. If root makes it in a directory of another user, it belongs
    to that user.
    Raises: FileExistsError; OSError.
    """
    parent = path.parent.stat()
    mode = DEFAULT_DIRECTORY_MODE & parent.st_mode | 0o700
    path.mkdir(mode)
    if _is_of_another_user(parent):
        path.chmod(mode & ~0o022)  # the umask of root says nothing about this user's directories
        os.chown(path, parent.st_uid, parent.st_gid, follow_symlinks=False)


def _is_of_another_user(parent: os.stat_result) -> bool:
    return os.geteuid() == 0 and (parent.st_uid, parent.st_gid) != (0, 0)


def _find_neighbour(path: Path) -> Path | None:
    """Return a numbered file beside a new numbered file, else a file of the store's log, else None."""
    if not path.name.isdecimal():
        return None
    directories = [path.parent, *(parent / "commitlog" for parent in path.parents[:STORE_LEVELS])]
    return next(filter(None, map(_find_numbered_file, directories)), None)


def _find_numbered_file(directory: Path) -> Path | None:
    try:
        with os.scandir(directory) as entries:
            found = (entry for entry in entries if entry.name.isdecimal() and entry.is_file(follow_symlinks=False))
            return next((Path(entry.path) for entry in found), None)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
