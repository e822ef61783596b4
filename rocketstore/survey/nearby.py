"""Stores around a path that is not the root of a store, for the errors that name them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from itertools import islice

from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.disk.storage import names_in, scandir
from rocketstore.disk.store_path import StorePath
from rocketstore.index.index_directory import index_paths
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.unfinished import describe_unfinished

PARTS_BELOW = 4  # names between the root of a store and a file of the store: consumequeue/TOPIC/0/00000000000000000000
MAX_HINTS, MAX_SEARCHED = 3, 1000  # stores that a hint names; directories among which it looks for stores


def require_directory(root: StorePath) -> None:
    """Raise OSError if a path is no directory. The error names the store in which a file is."""
    try:
        with scandir(root):
            pass
    except NotADirectoryError as error:
        reason = f"{os.strerror(errno.ENOTDIR)}{hint_at_store(root)}"
        raise NotADirectoryError(errno.ENOTDIR, reason, str(root)) from error


def find_index_files(path: StorePath) -> list[StorePath]:
    """Return the index files of a path, oldest first: the file itself, or the files of the directory."""
    paths = index_paths(path) if path.is_dir() else [path]
    return [path for path in paths if not is_offset_name(path.name)]  # these are files of a log or queue


def hint_at_store(path: StorePath) -> str:
    """Return a question about the stores directly below a path, or the store around it; else an empty text.

    If the path is a root that a killed call left, the text says so.
    """
    if (unfinished := describe_unfinished(path, names_in(path))) is not None:
        return f": it {unfinished}"
    if stores := stores_in(path):
        return did_you_mean(stores)
    root = path.absolute()
    for _ in range(PARTS_BELOW):
        root = root.parent
        if StorePlaces.of(root).default_log.is_dir():
            return did_you_mean([root])
    return ""


def stores_in(path: StorePath) -> list[StorePath]:
    """Return the stores directly below a directory, sorted; none if it cannot be listed."""
    with contextlib.suppress(OSError), scandir(path) as entries:
        names = sorted(entry.name for entry in islice(entries, MAX_SEARCHED) if entry.is_dir())
        return [path / name for name in names if StorePlaces.of(path / name).default_log.is_dir()]
    return []


def did_you_mean(stores: Sequence[StorePath]) -> str:
    """Return a question that names stores; an empty text without a store."""
    if len(stores) < 2:
        return "".join(f": did you mean {store}?" for store in stores)
    more = f" and {len(stores) - MAX_HINTS} more" if len(stores) > MAX_HINTS else ""
    return f": did you mean one of {', '.join(map(str, stores[:MAX_HINTS]))}{more}?"
