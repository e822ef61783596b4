"""Reservation: disk space of a file, reserved in steps ahead of the place that is written."""

from __future__ import annotations

import errno
from collections.abc import Callable

FIRST_STEP = 256 << 10  # bytes, so that a store of a few messages is small
STEP, LARGEST_STEP = 1 << 20, 64 << 20  # bytes of the second step, which doubles, and of the largest one


class Reservation:
    """Reserves disk space for a file that is written from one position to its end.

    So a full disk raises OSError before bytes are written, and a new file does not take all its disk space at once.

    Attributes: end: the disk has room for the bytes before this position.
    """

    def __init__(self, allocate: Callable[[int, int], None], size: int, position: int, *, is_whole: bool) -> None:
        """Reserve nothing yet.

        Parameters: allocate: reserves the bytes from a position to before another. size: of the file, bytes. position:
        where the first bytes are written. is_whole: the first step reserves the whole file.
        """
        self.end = position
        self._allocate = allocate
        self._size = size
        self._step = size if is_whole else FIRST_STEP

    def extend(self, needed: int) -> int:
        """Reserve the bytes before ``needed`` at least, and return ``end``. Raises: OSError: as before then."""
        if needed > self.end:
            end = min(max(needed, self.end + self._step), self._size)
            try:
                self._allocate(self.end, end)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or end == needed:
                    raise
                end = needed  # the disk has no room for a whole step
                self._allocate(self.end, end)
            self.end = end
            self._step = min(max(2 * self._step, STEP), LARGEST_STEP)
        return self.end
