"""Descriptors: how many the process may have open, which part of them a component may keep, and when one is closed."""

from __future__ import annotations

import errno
import os
import resource
import weakref
from collections.abc import Callable
from typing import Any

OPEN_DESCRIPTORS = ("/proc/self/fd", "/dev/fd")  # directories with an entry for each open descriptor
TO_READ = 8  # descriptors that a reader needs
TO_WRITE = 16  # descriptors that a writer needs besides those of the queues that it keeps open
KEPT_PART, LEAST_KEPT, MOST_KEPT = 8, 4, 256  # of the limit, at least and at most: descriptors of queues


def descriptor_share(divisor: int, *, least: int, most: int) -> int:
    """Return how many descriptors a component may keep open.

    Parameters
    ----------
    divisor : int
        The component may keep the process's limit (``ulimit -n``) divided by this number.
    least, most : int
        Bounds of the result, both inclusive. An unlimited process gives ``most``.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if limit == resource.RLIM_INFINITY else min(max(limit // divisor, least), most)


def require_descriptors_to_read(path: object) -> None:
    """Raise OSError if the process may not open as many files as reading a store needs, of any size.

    Parameters: path: of the store, for the error.
    """
    _require(_needed_to_read, "reading", path)


def require_descriptors_to_write(path: object) -> None:
    """Raise OSError if the process may not open as many files as writing a store needs. Call it before a change.

    Parameters: path: of the store, for the error.
    """
    _require(_needed_to_write, "writing", path)


def require_descriptors_to_expire(path: object) -> None:
    """Raise OSError if the process may not open the files that an open writer needs to delete files.

    Parameters: path: of the store, for the error.
    """
    _require(_needed_to_read, "deleting files of", path)


def closing(owner: Any, fd: int) -> weakref.finalize[..., Any]:
    """Return a finalizer that closes a descriptor once: when it is called, or when the owner is dropped.

    The end of the interpreter does not close the descriptor. Threads may still write then, and another file could get
    the number of a closed descriptor.
    """
    finalizer = weakref.finalize(owner, os.close, fd)
    finalizer.atexit = False
    return finalizer


def _needed_to_read(_limit: int) -> int:
    return TO_READ


def _needed_to_write(limit: int) -> int:
    return TO_WRITE + min(max(limit // KEPT_PART, LEAST_KEPT), MOST_KEPT)


def _require(needed_of: Callable[[int], int], purpose: str, path: object) -> None:
    """Raise OSError if too few descriptors are free. Parameters: needed_of: how many are needed under a given limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = None if limit == resource.RLIM_INFINITY else _count_open(limit)
    if used is None or used + needed_of(limit) <= limit:
        return
    enough = limit
    while enough < used + needed_of(enough):  # under a higher limit a writer keeps more queues open
        enough = used + needed_of(enough)
    raise OSError(
        errno.EMFILE,
        f"{purpose} a store needs {needed_of(limit)} more descriptors: this process has {used} open and may have "
        f"{limit}. Nothing was changed. Raise the limit to {enough} or more (ulimit -n {enough}), or close files",
        str(path),
    )


def _count_open(limit: int) -> int | None:
    """Return how many descriptors are open, None if the system does not tell."""
    for directory in OPEN_DESCRIPTORS:
        try:
            return len(os.listdir(directory)) - 1  # noqa: PTH208 - one of them is that of the listing
        except OSError as error:
            if error.errno == errno.EMFILE:
                return limit
    return None
