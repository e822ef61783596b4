"""Copy files and directories of a store that do not depend on physical offsets."""

from __future__ import annotations

import os
from pathlib import Path

from rocketstore.disk.create import create_file
from rocketstore.disk.durable import make_directory, sync
from rocketstore.disk.holes import data_ranges
from rocketstore.disk.positioned_read import read_at
from rocketstore.disk.positioned_write import write_at

CHUNK = 1 << 20  # bytes


def copy_file(old: Path, new: Path) -> None:
    """Copy a file with its holes, and flush the copy. Raises: FileExistsError, OSError."""
    fd = create_file(new, like=old)
    try:
        with old.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            os.ftruncate(fd, size)
            for begin, end in data_ranges(old, 0, size):
                for position in range(begin, end, CHUNK):
                    data = read_at(file.fileno(), min(CHUNK, end - position), position, old)
                    write_at(fd, data, position)
        sync(fd)
    finally:
        os.close(fd)


def copy_tree(old: Path, new: Path) -> None:
    """Copy a directory with all files and directories in it; links are not followed. Nothing if it is missing."""
    if not old.is_dir() or old.is_symlink():
        return
    make_directory(new)
    for path in sorted(old.iterdir()):
        if path.is_dir():
            copy_tree(path, new / path.name)
        elif path.is_file() and not path.is_symlink():
            copy_file(path, new / path.name)
