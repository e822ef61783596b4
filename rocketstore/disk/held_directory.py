"""HeldDirectory: a directory that a writer has open, and functions that name files below its descriptor.

If the directory is moved, its path leads nowhere, or to another directory. A file that is created by its path would not
be with the other files of the store. Below the descriptor, it is created beside them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rocketstore.disk.descriptors import closing
from rocketstore.errors import StoreClosedError, StoreError

CHECK_SECONDS = 1.0  # between two checks of the paths


class HeldDirectory:
    """An open directory: its descriptor leads to it even after it was moved. Attributes: path: when it was opened."""

    def __init__(self, path: Path, files: Iterable[Path] = ()) -> None:
        """Open a directory.

        Parameters: files: other paths that must lead to the same files while the directory is held. Raises: OSError.
        """
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._close = closing(self, self._fd)
        self._statuses = {path: os.fstat(self._fd), **{file: file.stat() for file in files}}
        self._checked = time.monotonic()

    @property
    def fd(self) -> int:
        """The descriptor. Raises: StoreClosedError."""
        if self._fd < 0:
            raise StoreClosedError(f"{self.path} is closed")
        return self._fd

    def has(self, path: Path) -> bool:
        """Return whether a path is that of the directory, or below it."""
        return path.is_relative_to(self.path)

    def check(self) -> None:
        """Call ``require_in_place``, at most once a second.

        Writers call this before they create a file, and at each flush.
        """
        if time.monotonic() - self._checked >= CHECK_SECONDS:
            self.require_in_place()

    def require_in_place(self) -> None:
        """Raise StoreError if a path leads elsewhere: the directory, or a file, was moved, removed or replaced."""
        self._checked = time.monotonic()
        for path, status in self._statuses.items():
            try:
                is_same = os.path.samestat(path.stat(), status)
            except (FileNotFoundError, NotADirectoryError):
                is_same = False
            if not is_same:
                raise StoreError(
                    f"{path}: was moved, removed or replaced while a writer had it open. If it was moved, the messages "
                    "that were put moved with it. Close the writer, and open the store at its new path"
                )

    def close(self) -> None:
        """Close the descriptor."""
        self._fd = -1
        self._close()


@contextlib.contextmanager
def _place(path: Path, held: HeldDirectory | None) -> Iterator[tuple[str, int | None]]:
    """Yield a name and the descriptor below which it is found. Errors of the block name the complete path."""
    try:
        yield (str(path), None) if held is None else (str(path.relative_to(held.path)), held.fd)
    except OSError as error:
        error.filename = str(path)
        raise


def open_path(path: Path, flags: int, mode: int = 0o777, *, held: HeldDirectory | None = None) -> int:
    """Open a file below a held directory, or by its path. Return its descriptor. Raises: OSError."""
    with _place(path, held) as (name, dir_fd):
        return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=dir_fd)


def stat_path(path: Path, held: HeldDirectory | None = None) -> os.stat_result:
    """Return the status of a file below a held directory, or by its path. Raises: OSError."""
    with _place(path, held) as (name, dir_fd):
        return os.stat(name, dir_fd=dir_fd)


def exists(path: Path, held: HeldDirectory | None = None) -> bool:
    """Return whether a file exists below a held directory, or by its path. Raises: OSError."""
    try:
        stat_path(path, held)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def unlink_path(path: Path, held: HeldDirectory | None = None, *, missing_ok: bool = False) -> None:
    """Delete a file below a held directory, or by its path. Raises: OSError."""
    missing = contextlib.suppress(*([FileNotFoundError] if missing_ok else []))
    with missing, _place(path, held) as (name, dir_fd):
        os.unlink(name, dir_fd=dir_fd)


def make_path(path: Path, mode: int, held: HeldDirectory | None = None) -> None:
    """Create a directory below a held directory, or by its path. Raises: OSError."""
    with _place(path, held) as (name, dir_fd):
        os.mkdir(name, mode, dir_fd=dir_fd)


def rename_path(path: Path, target: Path, held: HeldDirectory | None = None) -> None:
    """Rename a file below a held directory, or by its path, and replace the target. Raises: OSError."""
    with _place(path, held) as (name, dir_fd), _place(target, held) as (new_name, _):
        os.replace(name, new_name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


def link_path(path: Path, target: Path, held: HeldDirectory | None = None) -> None:
    """Give a file a second name below a held directory, or by its path. Raises: OSError."""
    with _place(path, held) as (name, dir_fd), _place(target, held) as (new_name, _):
        os.link(name, new_name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
