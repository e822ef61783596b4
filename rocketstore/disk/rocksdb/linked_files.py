"""A directory of links to the files of a RocksDB, or of copies of remote files.

The library that reads a RocksDB writes files beside it, so it is given this directory and never the RocksDB's own.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from rocketstore.disk.remote.remote_path import RemotePath
from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.storage import is_remote, local_path, scandir
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import UnsupportedFormatError

NAMES = re.compile(r"CURRENT|IDENTITY|MANIFEST-[0-9]+|OPTIONS-[0-9]+|[0-9]+\.(sst|ldb|log|blob)")
CURRENT = "CURRENT"
MAX_CURRENT = 4096  # bytes
REMOTE_COPY_LIMIT = 1 << 30  # bytes
COPIED_AT_ONCE = 8 << 20  # bytes
Stamp = dict[str, int]  # sizes of the files by name


def read_stamp(directory: StorePath) -> Stamp:
    """Return the sizes of the files of a RocksDB by name; another stamp shows that a process writes into it.

    Raises: OSError if the directory cannot be listed.
    """
    stamp = {}
    with scandir(directory) as entries:
        for entry in entries:
            if NAMES.fullmatch(entry.name):
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file():
                        stamp[entry.name] = entry.stat().st_size
    return stamp


def link_files(directory: StorePath, target: Path, copy_limit: int) -> None:
    """Fill an empty directory with links to the files of a RocksDB, or with copies if it is remote.

    CURRENT, which names the manifest, is copied always: a process that writes replaces it.

    Parameters: copy_limit: bytes of remote files, all together. Raises: OSError, FileNotFoundError if a file went away;
    CorruptFileError if CURRENT is no regular file; UnsupportedFormatError for too large remote files.
    """
    current = read_small_file(directory / CURRENT, MAX_CURRENT)
    (target / CURRENT).write_bytes(current)
    files = read_stamp(directory)
    files.pop(CURRENT, None)
    if is_remote(directory):
        _require_copy(directory, sum(files.values()), copy_limit)
        for name, size in files.items():
            _copy(directory / name, size, target / name)
    else:
        for name in files:
            (target / name).symlink_to(local_path(directory) / name)


def _require_copy(directory: StorePath, size: int, copy_limit: int) -> None:
    if size > copy_limit:
        raise UnsupportedFormatError(
            f"{directory}: this remote RocksDB has {size} bytes, more than the {copy_limit} that are copied to a "
            "temporary directory: give a larger remote_copy_limit, or copy the store to a local path"
        )


def _copy(source: RemotePath, size: int, target: Path) -> None:
    with target.open("wb") as file:
        for begin in range(0, size, COPIED_AT_ONCE):
            file.write(source.pread(begin, min(begin + COPIED_AT_ONCE, size)))
