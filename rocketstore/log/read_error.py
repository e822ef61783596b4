"""read_error: why no message can be read at an offset of a log."""

from __future__ import annotations

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.commit_log import BLANK, END, WRONG_CRC, bad_reason
from rocketstore.log.end_finder import EndFinder
from rocketstore.log.record_reader import RecordReader


def read_error(log: RecordReader, end_finder: EndFinder, offset: int, status: int) -> Exception:
    """Return the error that says why no message can be read at a physical offset.

    Parameters: status: that a scanner or ``RecordReader.read_record`` returned.
    """
    file = log.file_run.find(offset)
    if file is None:
        return _no_file_error(log, end_finder, offset)
    if status in (END, BLANK):
        field, reason = "magic", "no message begins here: the end of the log, or of what its file holds"
    else:
        field, reason = bad_reason(status)
        if status in WRONG_CRC:
            reason += ": verify_crc=False reads the message without this check"
    return CorruptFileError(file.path, offset - file.file_from_offset, field, reason)


def _no_file_error(log: RecordReader, end_finder: EndFinder, offset: int) -> Exception:
    """Return the error for an offset that no file has: it is in a gap, or outside the log."""
    file_run = log.file_run
    before = file_run.last_before(offset)
    if before is not None and before is not file_run.files[-1]:
        later = file_run.start_behind(before)
        reason = f"there is nothing from {offset} to {later}: a file is missing or was cut"
        return CorruptFileError(before.path, before.size, "file size", reason)
    begin, end = log.min_phy_offset, end_finder.find_end()
    held = f"has {begin} to {end}" if begin < end else "has no message"
    return IndexError(f"{log.directories[0]}: phy_offset {offset} is outside the commit log, which {held}")
