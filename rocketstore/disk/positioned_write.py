"""Write bytes at a position of a file, all of them."""

from __future__ import annotations

import os


def write_at(fd: int, data: bytes | memoryview, position: int) -> None:
    """Write all bytes at a position of an open file; one call of the system may take only some. Raises: OSError."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, position)
        view, position = view[written:], position + written
