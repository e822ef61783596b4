"""read_error: why no message can be read at an offset of a log."""

from __future__ import annotations

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.commit_log import BAD_BATCH, BLANK, END, WRONG_CRC, bad_reason
from rocketstore.log.end_finder import EndFinder
from rocketstore.log.record_reader import RecordReader
from rocketstore.messages.message import Message


def read_error(log: RecordReader, end_finder: EndFinder, offset: int, status: int) -> Exception:
    """Return the error that says why no message can be read at a physical offset.

    Parameters: status: that a scanner or ``RecordReader.read_record`` returned.
    """
    file = log.file_run.find(offset)
    if file is None:
        return _no_file_error(log, end_finder, offset)
    if status == BAD_BATCH:
        try:
            field, reason = _why_not_opened(log, offset)
        except ImportError as error:  # no damage: a package is missing
            return error
    elif status in (END, BLANK):
        field, reason = "magic", "no message begins here: the end of the log, or of what its file holds"
    else:
        field, reason = bad_reason(status)
        if status in WRONG_CRC:
            reason += ": verify_crc=False reads the message without this check"
    return CorruptFileError(file.path, offset - file.file_from_offset, field, reason)


def _why_not_opened(log: RecordReader, offset: int) -> tuple[str, str]:
    """Return the field of an inner batch by which it cannot be opened, and the reason. Raises: ImportError."""
    field, reason = bad_reason(BAD_BATCH)
    _, fields = log.read_record(log.record_at(offset))
    try:
        if fields is not None:
            Message.of_fields(fields).decode_batch()
    except CorruptFileError as error:
        field, reason = error.field, error.reason
    return field, f"{reason}: containers=True, or --containers, reads the record of the inner batch"


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
