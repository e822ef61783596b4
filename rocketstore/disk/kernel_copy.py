"""Let the kernel copy bytes from one file to another: faster on some file systems, which share the blocks."""

from __future__ import annotations

import errno
import os

BLOCK = 4096  # bytes of a block in most file systems
# Errors after which the caller copies the bytes itself. EIO: its own read then names the place on the disk.
REFUSALS = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EIO)


def copy_in_kernel(source: int, target: int, begin: int, end: int) -> int:
    """Copy a range of a file to the same positions of another file.

    Parameters: source, target: descriptors. begin, end: positions in bytes.
    Returns: the position behind the bytes that were copied. It is before ``end`` if the kernel refuses the rest of the
    copy, or if the source ends before.
    Raises: OSError, for example if the disk is full.
    """
    copy_range = getattr(os, "copy_file_range", None)
    while begin < end and copy_range is not None:
        to_block = -begin % BLOCK  # only complete blocks can be shared
        size = min(to_block, end - begin) if to_block else end - begin
        try:
            copied = copy_range(source, target, size, begin, begin)
        except OSError as error:
            if error.errno not in REFUSALS:
                raise
            break
        if not copied:
            break
        begin += copied
    return begin
