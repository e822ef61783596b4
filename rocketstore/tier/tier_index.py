"""TierIndex: the places of the messages of keys in a tier, from all segments of its index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rocketstore.disk.file_run_reader import FileRunReader, RunFile
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.keys import hash_keys
from rocketstore.tier.open_index import OpenTierIndex, TierPosition

HEADER = np.dtype([("magic", ">u4"), ("begin", ">i8"), ("end", ">i8"), ("slots", ">i4"), ("items", ">i4")])
SLOT = np.dtype([("position", ">i4"), ("length", ">i4")])
ITEM = np.dtype([
    ("hash", ">i4"), ("topic_id", ">i4"), ("queue_id", ">i4"), ("position", ">i8"), ("size", ">i4"), ("seconds", ">i4"),
])  # fmt: skip
MAGIC = 0xBCC50285
MOST_ITEMS = 1 << 20  # of one slot that are read


class TierHits(NamedTuple):
    """The distinct positions of the messages of a key in a tier.

    Attributes: problems: of the segments and files that cannot be read.
    """

    positions: list[TierPosition]
    problems: list[str]


class TierIndex:
    """The index of a tier: its segments, and the files in the store that were not copied to the tier yet.

    Source: IndexStoreService, IndexStoreFile, IndexItem.

    A segment has a header, slots, and items; a slot leads to its items, which are together, newest first. The number of
    slots follows from the length of the segment and the number of its items.
    """

    def __init__(self, files: FileRunReader, open_files: Sequence[StorePath] = (), slots: int | None = None) -> None:
        """Parameters: files: the segments. open_files: the files in the store. slots: of each of these files; None if
        the files must show it.
        """
        self._files = files
        self._open_files = open_files
        self._slots = slots

    def __len__(self) -> int:
        return len(self._files.files) + len(self._open_files)

    def find(self, topic: str, key: str) -> TierHits:
        """Find the positions of the messages whose index entries have the hash of a key. Raises: OSError."""
        [number] = hash_keys([key], topic=topic).tolist()
        found: dict[TierPosition, None] = {}
        problems: dict[str, None] = {}
        for file in self._files.files:
            try:
                found |= dict.fromkeys(self._find_in(file, number))
            except CorruptFileError as error:
                problems[str(error)] = None
        for path in self._open_files:
            try:
                with OpenTierIndex(path, self._slots) as index:
                    found |= dict.fromkeys(index.find(number))
            except FileNotFoundError:
                problems[f"{path}: was copied to the tier after its index was listed"] = None
            except CorruptFileError as error:
                problems[str(error)] = None
        return TierHits(list(found), list(problems))

    @property
    def segments(self) -> list[RunFile]:
        """The segments that were copied to the tier, in order."""
        return self._files.files

    def read_items(self, file: RunFile, most: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the place of some items in a segment, bytes, and the items, ``most`` at most at once.

        Raises: CorruptFileError for a damaged header.
        """
        slots, items = self._read_layout(file)
        first = HEADER.itemsize + slots * SLOT.itemsize
        for begin in range(0, items, most):
            place, count = first + begin * ITEM.itemsize, min(most, items - begin)
            yield place, self._read(file, place, count * ITEM.itemsize, ITEM)

    def _read_layout(self, file: RunFile) -> tuple[int, int]:
        """Return the number of slots and that of items of a segment. Raises: CorruptFileError."""
        head = self._read(file, 0, HEADER.itemsize, HEADER)[0]
        items, room = int(head["items"]), file.size - HEADER.itemsize
        slots, rest = divmod(room - items * ITEM.itemsize, SLOT.itemsize)
        if head["magic"] != MAGIC or items < 0 or rest or slots < 1:
            raise CorruptFileError(
                file.path, 0, "header", f"magic {head['magic']:#x}, {items} items, {file.size} bytes"
            )
        return slots, items

    def _find_in(self, file: RunFile, number: int) -> Iterator[TierPosition]:
        slots, _ = self._read_layout(file)
        place = HEADER.itemsize + number % slots * SLOT.itemsize
        slot = self._read(file, place, SLOT.itemsize, SLOT)[0]
        position, length = int(slot["position"]), int(slot["length"])
        if length == 0:
            return
        least = HEADER.itemsize + slots * SLOT.itemsize
        if length < 0 or length % ITEM.itemsize or not least <= position <= file.size - length:
            raise CorruptFileError(file.path, place, "slot", f"leads to {length} bytes at {position}")
        if length > MOST_ITEMS * ITEM.itemsize:
            raise CorruptFileError(file.path, place, "slot", f"{length} bytes of items: at most {MOST_ITEMS} are read")
        found = self._read(file, position, length, ITEM)
        for item in found[found["hash"] == number]:
            yield TierPosition(int(item["queue_id"]), int(item["position"]))

    def _read(self, file: RunFile, position: int, size: int, kind: np.dtype) -> np.ndarray:
        data = self._files.pread(file.file_from_offset + position, size)
        if len(data) < size:
            raise CorruptFileError(file.path, position, "length", f"{file.size} bytes: the file ends before this")
        return np.frombuffer(data, kind)

    def close(self) -> None:
        self._files.close()
