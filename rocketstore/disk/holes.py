"""Find the bytes of a sparse file that are not zero, without reading its holes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from rocketstore.disk.durable import UNSUPPORTED, ZEROS
from rocketstore.disk.positioned_read import read_at
from rocketstore.disk.remote.blocks import BLOCK
from rocketstore.disk.storage import is_remote

__all__ = ["data_ranges", "nonzero_end"]


def data_ranges(path: Path, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of each range of a file that is not a hole. A remote file counts as one range."""
    if is_remote(path):
        yield begin, end
        return
    with path.open("rb", buffering=0) as file:
        while begin < end:
            try:
                first = os.lseek(file.fileno(), begin, os.SEEK_DATA)
                last = os.lseek(file.fileno(), first, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:  # only a hole follows
                    return
                if error.errno not in UNSUPPORTED:
                    raise
                first, last = begin, end
            if first >= end:
                return
            yield first, min(last, end)
            begin = last


def nonzero_end(path: Path, begin: int, end: int) -> int:
    """Return the position after the last byte in a range of a file that is not zero, or ``begin`` if all are zero."""
    zeros = bytes(BLOCK) if is_remote(path) else ZEROS
    for first, last in reversed(list(data_ranges(path, begin, end))):
        with path.open("rb", buffering=0) as file:
            for position in reversed(range(first, last, len(zeros))):
                size = min(len(zeros), last - position)
                if is_remote(path):
                    file.seek(position)
                    data = file.read(size)
                else:
                    data = read_at(file.fileno(), size, position, path)
                if data != zeros[: len(data)]:  # four times as fast as rstrip on every chunk
                    return position + len(data.rstrip(b"\0"))
    return begin
