"""Find the directories of a commit log that no configuration names, by the files in the root of the store."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path
from typing import NamedTuple

from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.disk.small_file import read_file_start
from rocketstore.kernels.layout import RECORD_HEAD, RECORD_MAGICS, read_field
from rocketstore.root_places import SAVED_CUTS

LEAST_HEAD = 36  # bytes up to the end of the physical offset


class FileOfLog(NamedTuple):
    """A file with the name of a log's file. Attributes: offset: its name, bytes. size: bytes."""

    offset: int
    size: int
    path: Path


def find_log_in_root(root: Path) -> tuple[Path, ...]:
    """Return the directories in a root whose files form one commit log, sorted; none if they do not or may not.

    Each directory has files whose names are offsets, and nothing else. The files of all directories together follow
    each other and have one length, and each that begins with a record begins with that of its offset. A directory
    without such a file is one of the log if its files extend it.
    """
    sure: dict[Path, list[FileOfLog]] = {}
    others: dict[Path, list[FileOfLog]] = {}
    with contextlib.suppress(OSError):
        for directory in root.iterdir():
            if directory.name != SAVED_CUTS and directory.is_dir() and (files := list_numbered_files(directory)):
                offsets = [(file.offset, offset) for file in files if (offset := read_offset(file.path)) is not None]
                (sure if offsets else others)[directory] = files
                if any(name != offset for name, offset in offsets):
                    return ()
    if not is_one_run(sure):
        return ()
    for directory, files in sorted(others.items(), key=lambda item: item[1]):
        longer = {**sure, directory: files}
        sure = longer if is_one_run(longer) else sure
    return tuple(sorted(sure))


def list_numbered_files(directory: Path) -> list[FileOfLog]:
    """Return the files of a directory that has only files whose names are offsets, sorted; else none. Raises: OSError.

    An empty directory has none.
    """
    files = []
    for path in directory.iterdir():
        status = path.stat()
        if not is_offset_name(path.name) or not stat.S_ISREG(status.st_mode):
            return []
        files.append(FileOfLog(int(path.name), status.st_size, path))
    return sorted(files)


def read_offset(path: Path) -> int | None:
    """Return the physical offset in the record with which a file begins; None without a record. Raises: OSError."""
    head = read_file_start(path, LEAST_HEAD)
    if len(head) < LEAST_HEAD or read_field(head, RECORD_HEAD, "magic") not in RECORD_MAGICS:
        return None
    return read_field(head, RECORD_HEAD, "phy_offset")


def is_one_run(directories: dict[Path, list[FileOfLog]]) -> bool:
    """Return whether the files of directories follow each other and have one length. The last one may have been cut."""
    files = sorted(file for each in directories.values() for file in each)
    if not files or files[0].size == 0:
        return False
    first, size = files[0].offset, files[0].size
    follow = [file.offset for file in files] == [first + size * number for number in range(len(files))]
    return follow and all(file.size == size for file in files[:-1]) and files[-1].size <= size
