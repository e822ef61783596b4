"""One index file, read for verification without a mapping."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rocketstore.disk.holes import nonzero_end
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.disk.positioned_read import read_at, read_path_at
from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_header import read_header
from rocketstore.kernels.layout import INDEX_ITEM, read_field
from rocketstore.verify.findings import Place


class CheckedIndexFile:
    """One index file, read without a mapping. Ordinals of items begin with 1.

    Parameters: is_live: a broker may be appending items. was_killed: a broker was, and the header may be missing.

    Attributes: header_count: items that the header counts. count: items that the file has. uncounted: items of a file
    whose header counts none after a crash; ``count`` is 0 then. first, last: physical offsets of the first and the last
    item, -1 without items. end_before: the end time of the file before, epoch ms, None if unknown. order: the ordinals
    sorted by physical offset, None if the items are in that order. is_short: whether the file is shorter than its
    geometry.
    """

    def __init__(self, path: Path, geometry: IndexGeometry, is_live: bool, was_killed: bool) -> None:
        self.path, self.geometry, index_num = path, geometry, geometry.index_num
        self.header = read_header(path)
        self.is_short = path.stat().st_size < geometry.file_size
        items_at = geometry.item_offset(0)
        used = nonzero_end(path, items_at, geometry.file_size)
        self.header_count = max(self.header.index_count, 1) - 1
        self.count = min(max(used - items_at - 1, 0) // INDEX_ITEM.itemsize, index_num - 1)
        if is_live or (self.header_count == 1 and self.count == 0):  # all bytes of the only item may be zero
            self.count = min(self.header_count, index_num - 1)
        self.uncounted = self.count if was_killed and self.header_count == 0 else 0
        self.count -= self.uncounted
        self.is_live = is_live
        self.end_before: int | None = None
        self.order: np.ndarray | None = None
        self.first, self.last = (self.phy_offset(ordinal) if self.count else -1 for ordinal in (1, self.count))

    def map(self) -> MappedFile:
        """Map the file. Zeros follow a file that is shorter than its geometry, as for RocketMQ."""
        return MappedFile(self.path, least_size=self.geometry.file_size)

    def read(self, size: int, position: int) -> bytes:
        """Read bytes. Zeros follow a file that is shorter than its geometry."""
        data = read_path_at(self.path, size, position)
        return data.ljust(size, b"\0") if self.is_short else data

    def offset_of(self, ordinal: int) -> int:
        """Return the offset of an item in the file, bytes."""
        return self.geometry.item_offset(ordinal)

    def place(self, ordinal: int, detail: str) -> Place:
        """Return the place of a finding about an item."""
        return Place(self.path, self.offset_of(ordinal), detail)

    def items(self, first: int, last: int) -> np.ndarray:
        """Return the items from ordinal ``first`` to before ``last``; with ``order``, the items at these ranks."""
        if self.order is None or first >= last:
            data = self.read(INDEX_ITEM.itemsize * max(last - first, 0), self.offset_of(first))
            return np.frombuffer(data, INDEX_ITEM, len(data) // INDEX_ITEM.itemsize)
        return np.concatenate([self.item(ordinal) for ordinal in self.order[first - 1 : last - 1].tolist()])

    def item(self, ordinal: int) -> np.ndarray:
        """Return one item, INDEX_ITEM[1]; INDEX_ITEM[0] if the file was cut meanwhile."""
        return np.frombuffer(self.read(INDEX_ITEM.itemsize, self.offset_of(ordinal)), INDEX_ITEM)

    def phy_offset(self, ordinal: int) -> int:
        """Return the physical offset in an item."""
        return int(self.item(ordinal)["phy_offset"][0])

    def find(self, phy_offset: int) -> int:
        """Return the first item whose physical offset is not less than ``phy_offset``, else ``count + 1``."""
        if not self.count or phy_offset <= self.first:
            return 1
        low, high = (1, self.count + 1) if phy_offset <= self.last or self.order is not None else (self.count + 1,) * 2
        with self.path.open("rb", buffering=0) as file:
            while low < high:
                middle = (low + high) // 2
                ordinal = middle if self.order is None else int(self.order[middle - 1])
                item = read_at(file.fileno(), INDEX_ITEM.itemsize, self.offset_of(ordinal), self.path)
                is_before = len(item) == INDEX_ITEM.itemsize and read_field(item, INDEX_ITEM, "phy_offset") < phy_offset
                low, high = (middle + 1, high) if is_before else (low, middle)
        return low

    def last_before(self, end: int) -> int:
        """Return the greatest physical offset before ``end`` in the items, -1 without one."""
        if not self.count or (self.order is None and self.last < end):
            return self.last
        following = self.find(end)
        return int(self.items(following - 1, following)["phy_offset"][0]) if following > 1 else -1

    def sort(self) -> None:
        """Set ``order``, after items were found that are not in the order of their physical offsets."""
        phy_offsets = self.items(1, self.count + 1)["phy_offset"].astype(np.int64)
        self.order = (np.argsort(phy_offsets, kind="stable") + 1).astype(np.int32)
        self.first = int(phy_offsets.min())
