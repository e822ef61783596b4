"""ExtFiles: the ext files of one queue, their units and the faults in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rocketstore.disk.file_run_reader import FileRunReader, RunFile
from rocketstore.disk.positioned_read import read_path_at
from rocketstore.kernels.layout import EXT_UNIT, read_field
from rocketstore.limits import LONG_MIN
from rocketstore.queue.consume_queue_ext_writer import MAX_ADDRESS
from rocketstore.verify.findings import Place

MOST = 16 << 20  # bytes to read at once
MAX_PLACES = 16  # findings of one kind that get a place
END = -1  # stands in place of a size: the next unit is in the next file
Fault = tuple[str, list[Place], int]  # kind, the first places, number of all


class ExtFiles:
    """The ext files of one queue."""

    def __init__(self, directory: Path, size: int | None) -> None:
        run = FileRunReader([directory], mapped_file_size=size)
        self.files, self.size = run.files, run.mapped_file_size

    @staticmethod
    def resolve(ext: ExtFiles | None, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Replace the addresses of ext units by the tags codes in them.

        Parameters: codes: the tags codes of units, int64[n]. Returns: tags codes, int64[n]; which addresses lead to no
        ext unit, bool[n]; the store times in the ext units, or None without an address.
        Source: ConsumeQueueExt.get.
        """
        addresses = codes <= MAX_ADDRESS
        if not addresses.any():
            return codes, addresses, None
        positions = codes[addresses] - LONG_MIN
        units = np.zeros(len(positions), EXT_UNIT)
        for file in ext.files if ext is not None else ():
            inside = (positions >= file.file_from_offset) & (positions <= file.end_offset - EXT_UNIT.itemsize)
            if inside.any():
                units[inside] = ExtFiles._gather(file, positions[inside] - file.file_from_offset)
        has = units["size"] >= EXT_UNIT.itemsize
        lost = addresses.copy()
        lost[addresses] = ~has
        resolved, times = codes.copy(), np.zeros(len(codes), np.int64)
        resolved[addresses] = np.where(has, units["tags_code"], codes[addresses])
        times[addresses] = units["store_timestamp"]
        return resolved, lost, times

    def faults(self, is_live: bool) -> Iterator[Fault]:
        """Walk the units by their sizes, as a broker does when it loads them.

        Parameters: is_live: a broker may be writing the last file.

        Source: ConsumeQueueExt.recover.
        """
        for file in self.files[: -1 if is_live else None]:
            if file.size == self.size:
                yield from faults_in(file, is_last=file is self.files[-1])

    @staticmethod
    def _gather(file: RunFile, at: np.ndarray) -> np.ndarray:
        first, end = int(at.min()), int(at.max()) + EXT_UNIT.itemsize
        if end - first > MOST:  # the units are damaged: ext units of neighbours are near each other
            found = [read_path_at(file.path, EXT_UNIT.itemsize, place) for place in at.tolist()]
            return np.frombuffer(b"".join(found), EXT_UNIT)
        data = np.frombuffer(read_path_at(file.path, end - first, first), np.uint8)
        units: np.ndarray = data[(at - first)[:, None] + np.arange(EXT_UNIT.itemsize)].view(EXT_UNIT)[:, 0]
        return units


def faults_in(file: RunFile, is_last: bool) -> Iterator[Fault]:
    """Yield the faults of one ext file."""
    data, begin, at = b"", 0, 0
    while True:
        if at + EXT_UNIT.itemsize > begin + len(data):
            data, begin = read_path_at(file.path, MOST, at), at
        size = read_field(data, EXT_UNIT, "size", at - begin)
        if size <= 0:
            break
        units = run_of(data, at - begin, size) if at + size <= file.size else np.empty(0, EXT_UNIT)
        if size < EXT_UNIT.itemsize or len(units) == 0:
            kind = "ext-beyond-file" if at + size > file.size else "ext-size"
            yield kind, [Place(file.path, at, f"{size} bytes cannot be, {file.size - at} are left")], 1
            return
        wrong = np.flatnonzero(units["bitmap_size"] != size - EXT_UNIT.itemsize)
        yield (
            "ext-size",
            [
                Place(file.path, at + size * i, f"{size} bytes, and {units['bitmap_size'][i]} of them of a bitmap")
                for i in wrong[:MAX_PLACES].tolist()
            ],
            len(wrong),
        )
        at += size * len(units)
    if size != END and (size < 0 or not is_last):
        yield "ext-end", [Place(file.path, at, f"{size} behind the last unit, not {END}")], 1


def run_of(data: bytes, at: int, size: int) -> np.ndarray:
    """Return the units from a position on, up to the first unit of another size."""
    count = max((len(data) - at - EXT_UNIT.itemsize) // max(size, EXT_UNIT.itemsize) + 1, 0)
    units: np.ndarray = np.ndarray(count, EXT_UNIT, data, at, (size,))
    others = np.flatnonzero(units["size"] != size)
    return units[: others[0]] if len(others) else units
