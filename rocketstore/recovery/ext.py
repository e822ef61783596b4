"""The ext files of a queue after a crash: which units lead to what never came to the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.errors import CorruptFileError
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt

__all__ = ["QueueExt", "queue_files"]


def queue_files(directory: Path, mapped_file_size: int) -> list[tuple[int, str, int]]:
    """Beginning, path and length of each file, in order. Raises: CorruptFileError for another length."""
    with os.scandir(directory) as entries:
        files = sorted(
            (int(entry.name), entry.path, entry.stat().st_size)
            for entry in entries
            if is_offset_name(entry.name) and entry.is_file()
        )
    for _, path, size in files:
        if size not in (0, mapped_file_size):  # none: it was made, and then the power went
            reason = f"{size} bytes, but files of {mapped_file_size} are written: check the configuration"
            raise CorruptFileError(Path(path), size, "file size", reason)
    return files


@dataclass(frozen=True)
class QueueExt:
    """The ext files that a queue has or is to have."""

    directory: Path
    mapped_file_size: int

    def files(self) -> list[tuple[int, str, int]]:
        """As ``queue_files``; none where the directory is missing."""
        return queue_files(self.directory, self.mapped_file_size) if self.directory.is_dir() else []

    def are_of(self, addresses: np.ndarray, tags_codes: np.ndarray, store_timestamps: np.ndarray) -> np.ndarray:
        """Whether the ext units of addresses are those of records, bool[n]; what nothing is at the next one would get.

        Parameters: addresses, tags_codes, store_timestamps: int64[n]; the latter of the records, epoch ms.
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
