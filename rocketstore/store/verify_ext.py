"""Verification of ext files: the tags codes and store times that units lead to."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rocketstore.files.consume_queue_ext import MAX_ADDRESS
from rocketstore.files.mapped_file import LogFile, MappedFileQueue
from rocketstore.limits import LONG_MIN
from rocketstore.store.verify_report import read_bytes

__all__ = ["ExtFiles"]

EXT = np.dtype([("size", ">i2"), ("tags_code", ">i8"), ("store_timestamp", ">i8"), ("bitmap_size", ">i2")])
MOST = 16 << 20  # bytes


class ExtFiles:
    """The ext files of one queue."""

    def __init__(self, directory: Path, size: int | None) -> None:
        run = MappedFileQueue([directory], mapped_file_size=size)
        self.files, self.size = run.files, run.mapped_file_size

    @staticmethod
    def resolve(ext: ExtFiles | None, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Give what units' tags codes, int64[n], stand for: (tags codes, which have no ext unit, their store times).

        Source: ConsumeQueueExt.get.
        """
        addresses = codes <= MAX_ADDRESS
        if not addresses.any():
            return codes, addresses, None
        positions = codes[addresses] - LONG_MIN
        units = np.zeros(len(positions), EXT)
        for file in ext.files if ext is not None else ():
            inside = (positions >= file.file_from_offset) & (positions <= file.end_offset - EXT.itemsize)
            if inside.any():
                units[inside] = ExtFiles._gather(file, positions[inside] - file.file_from_offset)
        has = units["size"] >= EXT.itemsize
        lost = addresses.copy()
        lost[addresses] = ~has
        resolved, times = codes.copy(), np.zeros(len(codes), np.int64)
        resolved[addresses] = np.where(has, units["tags_code"], codes[addresses])
        times[addresses] = units["store_timestamp"]
        return resolved, lost, times

    @staticmethod
    def _gather(file: LogFile, at: np.ndarray) -> np.ndarray:
        first, end = int(at.min()), int(at.max()) + EXT.itemsize
        if end - first > MOST:  # damaged: units that follow each other are near each other
            return np.frombuffer(b"".join(read_bytes(file.path, place, EXT.itemsize) for place in at.tolist()), EXT)
        data = np.frombuffer(read_bytes(file.path, first, end - first), np.uint8)
        units: np.ndarray = data[(at - first)[:, None] + np.arange(EXT.itemsize)].view(EXT)[:, 0]
        return units
