"""Measure the files below a directory: their lengths, and the disk space that they occupy."""

from __future__ import annotations

import contextlib
import stat
from typing import Any, NamedTuple

from rocketstore.disk.storage import scandir
from rocketstore.disk.store_path import StorePath

BLOCK = 512  # bytes, the unit of st_blocks on each system


class FileTotals(NamedTuple):
    """The number of files, their lengths together, and the disk space that they occupy, bytes.

    ``disk_bytes`` is smaller than ``file_bytes`` if files have holes. Of a remote store it is None.
    """

    files: int = 0
    file_bytes: int = 0
    disk_bytes: int | None = 0

    def plus(self, other: FileTotals) -> FileTotals:
        disk = None if self.disk_bytes is None or other.disk_bytes is None else self.disk_bytes + other.disk_bytes
        return FileTotals(self.files + other.files, self.file_bytes + other.file_bytes, disk)


def measure_files(path: StorePath) -> FileTotals:
    """Measure a file, or all files below a directory. A link in the directory counts as a link.

    Files that a broker deletes meanwhile are left out. Raises: OSError if a directory cannot be listed.
    """
    with contextlib.suppress(FileNotFoundError):
        if not path.is_dir():
            return _totals_of(path.stat())
    found = FileTotals()
    directories = [path]
    while directories:
        directory = directories.pop()
        with contextlib.suppress(FileNotFoundError), scandir(directory) as entries:
            for entry in entries:
                status = _status_of(entry)
                if status is not None and stat.S_ISDIR(status.st_mode):
                    directories.append(directory / entry.name)
                elif status is not None:
                    found = found.plus(_totals_of(status))
    return found


def _status_of(entry: Any) -> Any:
    """Return the status of an entry of a directory; None if it is gone."""
    with contextlib.suppress(FileNotFoundError):
        return entry.stat(follow_symlinks=False) if hasattr(entry, "is_symlink") else entry.stat()
    return None


def _totals_of(status: Any) -> FileTotals:
    blocks = getattr(status, "st_blocks", None)
    return FileTotals(1, int(status.st_size), None if blocks is None else int(blocks) * BLOCK)
