"""Find the bytes of a sparse file that are not zero, without reading its holes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator

from rocketstore.disk.durable import UNSUPPORTED, ZEROS
from rocketstore.disk.positioned_read import read_at
from rocketstore.disk.remote.blocks import BLOCK
from rocketstore.disk.storage import is_remote
from rocketstore.disk.store_path import StorePath

NEAR = 1 << 16  # bytes in which most searches find a record
SEARCHED = 8 << 20  # bytes of a local file that are searched at once


def ranges_to_search(path: StorePath, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of ``data_ranges``, and before them a short one, in which most searches end.

    Of a local file, a longer range is divided.
    """
    if is_remote(path):
        yield begin, end
        return
    near = _data_near(path, begin, end)
    yield near
    begin, most = near[1], 2  # most searches end in the first ranges; a file may have thousands of holes
    while begin < end:
        found = data_ranges(path, begin, end, most)
        for first, last in found:
            yield from ((place, min(place + SEARCHED, last)) for place in range(first, last, SEARCHED))
        if len(found) < most:
            return
        begin, most = found[-1][1], 2 * most


def _data_near(path: StorePath, begin: int, end: int) -> tuple[int, int]:
    """Return the first ``NEAR`` bytes of data from ``begin`` on as (begin, end). The file is local.

    The range is empty if byte ``NEAR`` after the first data byte is in a hole or behind ``end``. SEEK_DATA is fast.
    SEEK_HOLE, which ``data_ranges`` uses, may walk the page cache of a recently written file.
    """
    with path.open("rb", buffering=0) as file:
        try:
            first = os.lseek(file.fileno(), begin, os.SEEK_DATA)
            if first + NEAR <= end and os.lseek(file.fileno(), first + NEAR, os.SEEK_DATA) == first + NEAR:
                return first, first + NEAR
        except OSError as error:
            if error.errno != errno.ENXIO and error.errno not in UNSUPPORTED:  # ENXIO: only a hole follows
                raise
    return begin, begin


def data_ranges(path: StorePath, begin: int, end: int, most: int = sys.maxsize) -> list[tuple[int, int]]:
    """Return (begin, end) of each range of a file that is not a hole, or of the first ``most``.

    A remote file counts as one range.

    The list is complete before the caller reads the file. Read-ahead turns the bytes of a hole into data. If reads
    alternated with SEEK_DATA calls, the caller would read all of the hole.
    """
    if is_remote(path):
        return [(begin, end)]
    with path.open("rb", buffering=0) as file:
        return data_ranges_of(file.fileno(), begin, end, most)


def data_ranges_of(fd: int, begin: int, end: int, most: int = sys.maxsize) -> list[tuple[int, int]]:
    """Return the ranges of an open local file, as ``data_ranges`` does."""
    found: list[tuple[int, int]] = []
    while begin < end and len(found) < most:
        try:
            first = os.lseek(fd, begin, os.SEEK_DATA)
            last = os.lseek(fd, first, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole follows
                break
            if error.errno not in UNSUPPORTED:
                raise
            first, last = begin, end
        if first >= end:
            break
        found.append((first, min(last, end)))
        begin = last
    return found


def nonzero_end(path: StorePath, begin: int, end: int) -> int:
    """Return the position after the last byte in a range of a file that is not zero, or ``begin`` if all are zero."""
    zeros = bytes(BLOCK) if is_remote(path) else ZEROS
    with path.open("rb", buffering=0) as file:
        ranges = [(begin, end)] if is_remote(path) else data_ranges_of(file.fileno(), begin, end)
        for first, last in reversed(ranges):
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
