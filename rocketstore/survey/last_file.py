"""LastFile: the sound records of the last file of a log, and the bytes between them that are no record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rocketstore.disk.file_run_reader import RunFile, Window
from rocketstore.kernels.commit_log import BLANK, OK, RecordScanner, find_record, read_message
from rocketstore.log.record_reader import RecordReader

FIELDS = ("phy_offset", "size", "store_timestamp", "born_timestamp")


@dataclass(frozen=True)
class LastFile:
    """The records of one file whose bodies match their CRC, in order, and its bad bytes.

    Attributes: file; phy_offset, size, store_timestamp, born_timestamp: of each record, int64[n], bytes and epoch ms.
    bad: where bytes begin that are no record, int64[m], physical offsets. Sound records follow each of them.
    """

    file: RunFile
    phy_offset: np.ndarray
    size: np.ndarray
    store_timestamp: np.ndarray
    born_timestamp: np.ndarray
    bad: np.ndarray

    def first_behind(self, offset: int) -> int:
        """Return the index of the first record behind a physical offset; the number of records without one."""
        return int(np.searchsorted(self.phy_offset, offset, "right"))

    def has_record(self, offset: int) -> bool:
        """Return whether a sound record begins at a physical offset."""
        at = int(np.searchsorted(self.phy_offset, offset))
        return at < len(self.phy_offset) and int(self.phy_offset[at]) == offset

    def next_bad(self, offset: int) -> int:
        """Return where the next bad bytes behind a physical offset begin; the end of the file without any."""
        at = int(np.searchsorted(self.bad, offset, "right"))
        return int(self.bad[at]) if at < len(self.bad) else self.file.end_offset


def find_last_file(log: RecordReader) -> RunFile | None:
    """Find the last file of a log that has a record. Files created in advance may follow it. None without a record."""
    for file in reversed(log.file_run.files):
        if log.find_later(file.file_from_offset, file.end_offset) is not None:
            return file
    return None


def read_last_file(log: RecordReader, file: RunFile) -> LastFile | None:
    """Read all sound records of a file; None if the file has just expired."""
    window = log.file_run.read(file.file_from_offset, file.size, "sequential")
    if window is None:
        return None
    scanner = log.scanner(FIELDS, verify_crc=True)
    bad = []
    place: int | None = file.file_from_offset
    while place is not None:
        place = _scan(scanner, window, place, file.end_offset)
        if place is None:
            break
        record_size = _size_of_record(window, place)
        if record_size:  # its body does not match its CRC
            place += record_size
        else:
            bad.append(place)
            place = find_record(*window, place + 1, file.end_offset)
    columns = scanner.take()
    phy_offset, size, stored, born = (np.asarray(columns[name], np.int64) for name in FIELDS)
    last = phy_offset.max(initial=-1)
    return LastFile(file, phy_offset, size, stored, born, np.array([at for at in bad if at < last], np.int64))


def _scan(scanner: RecordScanner, window: Window, place: int, end: int) -> int | None:
    """Scan records up to the first bytes that are no record. Return their offset; None at the end of the file."""
    while place < end:
        following, status = scanner.scan(*window, place, end, at_rest=True)
        if status == BLANK:
            return None
        if status != OK:
            return following
        place = following
    return None


def _size_of_record(window: Window, place: int) -> int:
    """Return the size of the record at an offset, even if its body does not match its CRC; 0 without a record."""
    status, fields = read_message(*window, place, at_rest=True)
    return int(fields["size"]) if status == OK and fields is not None else 0
