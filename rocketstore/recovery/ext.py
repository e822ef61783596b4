"""The ext files of a queue after a crash: check whether units lead to ext units that never reached the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.errors import CorruptFileError
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt


def queue_files(directory: Path, mapped_file_size: int) -> list[tuple[int, str, int]]:
    """Return offset, path and length of each file, in order. Raises: CorruptFileError for another length."""
    with os.scandir(directory) as entries:
        files = sorted(
            (int(entry.name), entry.path, entry.stat().st_size)
            for entry in entries
            if is_offset_name(entry.name) and entry.is_file()
        )
    for _, path, size in files:
        if size not in (0, mapped_file_size):  # 0 after a power loss: the file was made, and its length was not written
            reason = f"{size} bytes, but files of {mapped_file_size} are written: check the configuration"
            raise CorruptFileError(Path(path), size, "file size", reason)
    return files


@dataclass(frozen=True)
class QueueExt:
    """The ext files of a queue. They may be missing."""

    directory: Path
    mapped_file_size: int

    def files(self) -> list[tuple[int, str, int]]:
        """Return as ``queue_files``; no files if the directory is missing."""
        return queue_files(self.directory, self.mapped_file_size) if self.directory.is_dir() else []

    def are_of(self, addresses: np.ndarray, tags_codes: np.ndarray, store_timestamps: np.ndarray) -> np.ndarray:
        """Return whether the ext units at addresses belong to records, bool[n].

        Without an ext unit at its address a unit is wrong: the next ext unit would be written there.

        Parameters: addresses, tags_codes: int64[n]; store_timestamps: of the records, int64[n], milliseconds since the
        epoch.
        """
        if not self.directory.is_dir():
            return np.zeros(len(addresses), bool)
        rows = zip(addresses.tolist(), zip(tags_codes.tolist(), store_timestamps.tolist(), strict=True), strict=True)
        with ConsumeQueueExt.open(self.directory, mapped_file_size=self.mapped_file_size) as ext:
            return np.fromiter(_are_equal(ext, rows), bool, len(addresses))


def _are_equal(ext: ConsumeQueueExt, rows: Iterable[tuple[int, tuple[int, int]]]) -> Iterable[bool]:
    for address, of_record in rows:
        try:
            unit = ext.read(address)
        except CorruptFileError:
            unit = None
        yield unit is not None and (unit.tags_code, unit.store_timestamp) == of_record
