"""IndexSpace: the disk space of an index file, reserved before items are put."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from rocketstore.disk.reservation import Reservation
from rocketstore.index.geometry import HEADER_SIZE, SLOT_SIZE, slot_offset
from rocketstore.index.index_file import IndexFile

CHUNK = 64 << 10  # bytes of the slots that are reserved together


class IndexSpace:
    """Reserves disk space for items that are put into an index file, in steps, and for their slots.

    Attributes: file.
    """

    def __init__(self, file: IndexFile) -> None:
        """Reserve nothing yet. The header has its space."""
        geometry = file.geometry
        self.file = file
        self._geometry = geometry
        self._slots_end = slot_offset(geometry.hash_slot_num)
        self._has_space = np.zeros(-(-self._slots_end // CHUNK), np.bool_)
        begin = geometry.item_offset(file.header.index_count)
        self._items = Reservation(file.allocate, geometry.file_size, begin, is_whole=False)

    def reserve(self, hashes: np.ndarray) -> None:
        """Reserve space for the items of keys, as far as the file has room for them. Raises: OSError.

        Parameters: hashes: int32[n] of the keys.
        """
        count = self.file.header.index_count
        put = hashes[: max(self._geometry.index_num - count, 0)]
        if not len(put):
            return
        slots = put.astype(np.int64) % self._geometry.hash_slot_num
        wanted = np.zeros_like(self._has_space)
        wanted[(HEADER_SIZE + SLOT_SIZE * slots) // CHUNK] = True
        wanted &= ~self._has_space
        edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]])))
        for first, stop in list(pairwise(edges.tolist()))[::2]:
            self.file.allocate(first * CHUNK, min(stop * CHUNK, self._slots_end))
            self._has_space[first:stop] = True
        self._items.extend(self._geometry.item_offset(count + len(put)))
