"""OpenTierIndex: an index file of tiered storage that a broker has not copied to the tier yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from rocketstore.disk.closable import Closable
from rocketstore.disk.storage import scandir
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError

HEADER = np.dtype([("magic", ">u4"), ("begin", ">i8"), ("end", ">i8"), ("slots", ">i4"), ("items", ">i4")])
SLOT = np.dtype([("ordinal", ">i4"), ("unused", ">i4")])
ITEM = np.dtype([
    ("hash", ">i4"), ("topic_id", ">i4"), ("queue_id", ">i4"), ("position", ">i8"), ("size", ">i4"), ("seconds", ">i4"),
    ("older", ">i4"),
])  # fmt: skip
MAGICS = (0xBCC50289, 0xBCC50285)  # open, and closed but not copied
MOST_STEPS = 1 << 20  # items of one chain that are read
MOST_BYTES = 64 << 20  # of a file that is read completely to find its number of slots
DEFAULT_SLOTS, DEFAULT_ITEMS = 5_000_000, 20_000_000  # Source: MessageStoreConfig of the tiered store
SLOTS_NAME = "tieredStoreIndexFileMaxHashSlotNum"
NO_SLOTS = f"the number of slots is unknown: give the broker's properties file with {SLOTS_NAME}"


class TierPosition(NamedTuple):
    """Where a message is in a tier: its queue id, and the position in the log of the queue, bytes."""

    queue_id: int
    position: int


def list_open_files(directory: StorePath) -> list[StorePath]:
    """Return the index files in a store that were not copied to the tier yet. Each is named after its begin, epoch ms.

    Source: IndexStoreService.recover.
    """
    try:
        with scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if entry.name.isdecimal() and entry.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [directory / name for name in names]


class OpenTierIndex(Closable):
    """An index file that a broker is filling, or has filled and not copied. It may be growing.

    It has a header, slots, and room for items. A slot holds the number of its newest item: numbers begin at 1, and 0
    means none. Each item holds the number of the next older item of its slot. The number of slots is not in the file.
    Source: IndexStoreFile, IndexItem.
    """

    def __init__(self, path: StorePath, slots: int | None = None) -> None:
        """Open a file. Parameters: slots: their number; None if the file must show it.

        Raises: OSError; CorruptFileError.
        """
        self.path = path
        self._file: IO[bytes] = path.open("rb")
        try:
            self._size = self._file.seek(0, 2)
            head = self._read(0, HEADER)
            if head["magic"] not in MAGICS or head["items"] < 0:
                raise CorruptFileError(path, 0, "header", f"magic {head['magic']:#x}, {head['items']} items")
            self._slots = self._find_slots(int(head["items"])) if slots is None else slots
            if not 1 <= self._slots <= (self._size - HEADER.itemsize) // SLOT.itemsize:
                raise CorruptFileError(path, 0, "length", f"{self._size} bytes, too few for {self._slots} slots")
        except BaseException:
            self._file.close()
            raise

    def find(self, number: int) -> Iterator[TierPosition]:
        """Yield the positions of the items with a hash, newest first. Raises: OSError; CorruptFileError."""
        place = HEADER.itemsize + number % self._slots * SLOT.itemsize
        ordinal = int(self._read(place, SLOT)["ordinal"])
        for _ in range(MOST_STEPS):
            if ordinal == 0:
                return
            item = self._read(self._place_of(self._slots, ordinal), ITEM)
            if item["hash"] == number:
                yield TierPosition(int(item["queue_id"]), int(item["position"]))
            if not 0 <= item["older"] < ordinal:
                raise CorruptFileError(self.path, place, "chain", f"item {ordinal} leads to item {item['older']}")
            ordinal = int(item["older"])
        raise CorruptFileError(self.path, place, "chain", f"the chain has more than {MOST_STEPS} items")

    def close(self) -> None:
        self._file.close()

    def _find_slots(self, items: int) -> int:
        """Find the number of slots from the length of the file, or from the end of the newest item."""
        if self._size == HEADER.itemsize + DEFAULT_SLOTS * SLOT.itemsize + DEFAULT_ITEMS * ITEM.itemsize:
            return DEFAULT_SLOTS
        if items == 0:
            return 1  # without items every slot is empty, so that any number will do
        if self._size > MOST_BYTES:
            raise CorruptFileError(self.path, 0, "slots", NO_SLOTS)
        self._file.seek(0)
        written = np.flatnonzero(np.frombuffer(self._file.read(self._size), np.uint8))
        size_end = ITEM.fields["size"][1] + 4  # type: ignore[index]  # a size is not 0, but later fields may be
        for end in range(int(written[-1]) + 1, int(written[-1]) + 2 + ITEM.itemsize - size_end + 3):
            slots, rest = divmod(end - HEADER.itemsize - (items + 1) * ITEM.itemsize, SLOT.itemsize)
            if rest == 0 and slots >= 1 and self._leads_to(slots, items):
                return slots
        raise CorruptFileError(self.path, 0, "slots", NO_SLOTS)

    def _leads_to(self, slots: int, ordinal: int) -> bool:
        """Return whether an item is the newest one of its slot, if a file has this number of slots."""
        item = self._read(self._place_of(slots, ordinal), ITEM)
        place = HEADER.itemsize + int(item["hash"]) % slots * SLOT.itemsize
        return bool(item["hash"] >= 0 and self._read(place, SLOT)["ordinal"] == ordinal)

    def _place_of(self, slots: int, ordinal: int) -> int:
        return HEADER.itemsize + slots * SLOT.itemsize + ordinal * ITEM.itemsize

    def _read(self, position: int, kind: np.dtype) -> np.void:
        if not 0 <= position <= self._size - kind.itemsize:
            raise CorruptFileError(self.path, position, "length", f"the file has only {self._size} bytes")
        self._file.seek(position)
        data = self._file.read(kind.itemsize)
        if len(data) < kind.itemsize:
            raise CorruptFileError(self.path, position, "length", "the file was cut")
        found: np.void = np.frombuffer(data, kind)[0]
        return found
