"""Make files and directories that fit in with what stands around them.

A store belongs to the user of its server. Files that root makes in it must be usable by that user, and must not be
readable by more people than the files beside them. Symbolic links are never followed when a file is made: where others
may write to the directory, a link could lead to any file of the system.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from rocketstore.disk.held_directory import HeldDirectory, make_path, open_path, stat_path, unlink_path
from rocketstore.disk.small_file import open_regular

DEFAULT_FILE_MODE = 0o644
DEFAULT_DIRECTORY_MODE = 0o777  # less the umask
MODEL_LEVELS = 5  # directories above a new file that are searched for the model of its mode


def create_file(
    path: Path, *, like: Path | None = None, model_directory: str | None = None, held: HeldDirectory | None = None
) -> int:
    """Make a new file and return its descriptor, open for reading and writing.

    The file gets the mode of ``like``. Without it, a numbered file gets the mode of a numbered file that stands beside
    it, or in ``model_directory``. If root makes it in a directory of another user, it belongs to that user.

    Parameters
    ----------
    path : the file to make, in a directory that exists.
    like : a file that the new one is a copy of, or the model for its mode.
    model_directory : the name of a directory beside one of the directories above the file; None if there is none.
    held : the directory below which the file is made; None to make it by its path.

    Raises
    ------
    FileExistsError : something has this name, a symbolic link included. OSError : the system refuses.
    """
    parent = stat_path(path.parent, held)
    model = stat_path(like, held).st_mode if like else _find_mode_of_neighbour(path, model_directory, held)
    wanted = DEFAULT_FILE_MODE & parent.st_mode if model is None else stat.S_IMODE(model)
    mode = wanted & 0o666 | 0o600
    fd = open_path(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, held=held)
    try:
        if _is_of_another_user(parent):
            os.fchmod(fd, mode)  # the umask of root says nothing about this user's files
            os.fchown(fd, parent.st_uid, parent.st_gid)
    except BaseException:
        os.close(fd)
        unlink_path(path, held)
        raise
    return fd


def open_own_file(path: Path, held: HeldDirectory | None = None) -> int:
    """Open a file for reading and writing and return its descriptor. Make the file if it is missing.

    A symbolic link in its place is replaced by a new file. The target of the link does not change.
    Parameters: held: as for ``create_file``. Raises: OSError; CorruptFileError for a pipe or a device.
    """
    try:
        return open_regular(path, os.O_RDWR | os.O_NOFOLLOW, held)
    except FileNotFoundError:
        return create_file(path, held=held)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        unlink_path(path, held)
        return create_file(path, held=held)


def create_directory(path: Path, held: HeldDirectory | None = None) -> None:
    """Make a directory inside a store, whose parent exists.

    No more people can enter it than can enter its parent. If root makes it in a directory of another user, it belongs
    to that user.
    Parameters: held: as for ``create_file``. Raises: FileExistsError; OSError.
    """
    parent = stat_path(path.parent, held)
    mode = DEFAULT_DIRECTORY_MODE & parent.st_mode | 0o700
    make_path(path, mode, held)
    if _is_of_another_user(parent):
        fd = open_path(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, held=held)
        try:
            os.fchmod(fd, mode & ~0o022)  # the umask of root says nothing about this user's directories
            os.fchown(fd, parent.st_uid, parent.st_gid)
        finally:
            os.close(fd)


def _is_of_another_user(parent: os.stat_result) -> bool:
    return os.geteuid() == 0 and (parent.st_uid, parent.st_gid) != (0, 0)


def _find_mode_of_neighbour(path: Path, model_directory: str | None, held: HeldDirectory | None) -> int | None:
    """Return the mode of a numbered file beside a new numbered file, else in a model directory, else None."""
    if not path.name.isdecimal():
        return None
    models = [] if model_directory is None else [parent / model_directory for parent in path.parents[:MODEL_LEVELS]]
    for directory in [path.parent, *models]:
        mode = _find_mode_in(directory, held if held is not None and held.has(directory) else None)
        if mode is not None:
            return mode
    return None


def _find_mode_in(directory: Path, held: HeldDirectory | None) -> int | None:
    """Return the mode of a numbered file in a directory, None without one."""
    try:
        fd = open_path(directory, os.O_RDONLY | os.O_DIRECTORY, held=held)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    try:
        with os.scandir(fd) as entries:
            found = (entry for entry in entries if entry.name.isdecimal() and entry.is_file(follow_symlinks=False))
            return next((entry.stat().st_mode for entry in found), None)
    finally:
        os.close(fd)
