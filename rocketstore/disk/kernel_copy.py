"""Let the kernel copy bytes from one file to another: faster on some file systems, which share the blocks."""

from __future__ import annotations

import errno
import os

BLOCK = 4096  # bytes of a block in most file systems
REFUSALS = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)  # nothing was copied


def copy_in_kernel(source: int, target: int, begin: int, end: int) -> int:
    """Copy a range of a file to the same positions of another one, as far as the kernel does that.

    Parameters: source, target: descriptors. begin, end: positions in bytes.
    Returns: the position where the copy stopped: ``begin`` if the kernel refuses, or where the source ends.
    Raises: OSError.
    """
    copy_range = getattr(os, "copy_file_range", None)
    while begin < end and copy_range is not None:
        until_block = -begin % BLOCK  # only whole blocks can be shared
        try:
            copied = copy_range(source, target, min(until_block or end, end - begin), begin, begin)
        except OSError as error:
            if error.errno not in REFUSALS:
                raise
            break
        if not copied:
            break
        begin += copied
    return begin
