"""Where the log of a cleanly stopped store ends: a broker may have cut records off, or bytes may be damaged."""

from __future__ import annotations

from typing import NamedTuple

from rocketstore.limits import LONG_MAX
from rocketstore.log.end_rule import Evidence
from rocketstore.log.record_reader import RecordReader

__all__ = ["StoppedEnd", "ends_before_bad_body", "find_stopped_end", "is_cut_by_broker", "is_older_than_start"]


class StoppedEnd(NamedTuple):
    """Where the log of a cleanly stopped store ends, and where its last record begins, bytes; -1 without a record.

    Attributes: is_cut: old records stand behind the end, where a broker cut them off. is_damaged: records stand behind
    bytes that were damaged after the stop, so that the end is not known. verifies_crc: whether bodies were compared
    with their CRC.
    """

    end: int
    last_phy_offset: int
    is_cut: bool = False
    is_damaged: bool = False
    verifies_crc: bool = False


def find_stopped_end(log: RecordReader, begin: int, evidence: Evidence, *, verify_crc: bool) -> StoppedEnd:
    """Find where the log of a cleanly stopped store ends.

    If the checkpoint has the store time of the last record, no broker cut the log before that record. Then only one
    body is compared with its CRC: that of the record behind ``confirm_phy_offset`` (see ``ends_before_bad_body``).

    Parameters: begin: where a broker begins to read. verify_crc: whether a broker compares bodies with their CRC.
    Source: CommitLog.recoverNormally.
    """
    end, last = _walk(log, begin, verify_crc=False)
    flushed = evidence.physic_msg_timestamp
    is_known = flushed is None or (last >= 0 and log.read_store_timestamp(last) == flushed > 0)
    later = log.find_later(end, LONG_MAX)
    if is_known and later is None and not (verify_crc and ends_before_bad_body(log, evidence, begin)):
        return StoppedEnd(end, last)
    if verify_crc:
        end, last = _walk(log, begin, verify_crc=True)
        later = log.find_later(end, LONG_MAX)
    if later is None:
        return StoppedEnd(end, last, verifies_crc=verify_crc)
    is_cut = is_cut_by_broker(log, evidence, begin, end, last, later)
    return StoppedEnd(end, last, is_cut, not is_cut, verify_crc)


def _walk(log: RecordReader, begin: int, *, verify_crc: bool) -> tuple[int, int]:
    """Return where the sound records from ``begin`` on end, and where the last record begins, bytes; -1 without one."""
    scanner = log.scanner((), verify_crc=verify_crc)
    end = log.walk(scanner, begin)
    last = scanner.last_phy_offset
    before = log.queue.find(begin - 1)
    if last < 0 and before is not None:  # the last record is in an earlier file
        _, last = _walk(log, before.file_from_offset, verify_crc=False)
    return end, last


def ends_before_bad_body(log: RecordReader, evidence: Evidence, begin: int) -> bool:
    """Return whether the body of the record behind ``confirm_phy_offset`` does not match its CRC.

    A broker stores there, when it starts, where the last record that it keeps begins.
    Parameters: begin: where the broker began to read, bytes.
    """
    noted = log.walk(log.scanner(()), evidence.confirm_phy_offset, evidence.confirm_phy_offset + 1)
    place = max(noted, begin)  # behind the last record of a file follows the first one of the next file
    if noted == evidence.confirm_phy_offset or log.walk(log.scanner(()), place, place + 1) == place:
        return False  # there is no record at one of the two offsets
    return log.walk(log.scanner((), verify_crc=True), place, place + 1) == place


def is_cut_by_broker(
    log: RecordReader, evidence: Evidence, begin: int, end: int, last_phy_offset: int, later: int
) -> bool:
    """Return whether a broker ended the log at ``end`` when it started, before the store was stopped cleanly.

    When a broker starts, it ends the log in the last files, which it reads, and stores the offset of the last record
    before the end in the checkpoint. When it stops, it stores the time of the last record there. If that record is
    behind ``end``, the bytes at ``end`` were damaged after the stop. Without a checkpoint the answer is False.

    Parameters: begin: from where a broker searches for the end. end: where the log ends. last_phy_offset: where the
    last record before the end begins. later: where the first record behind the end begins. All in bytes.
    """
    flushed = evidence.physic_msg_timestamp
    if flushed is None or last_phy_offset < 0 or end < begin:
        return False
    was_at_start = is_older_than_start(log, evidence, later)
    if flushed <= log.read_store_timestamp(last_phy_offset):
        return flushed <= 0 or was_at_start or log.read_store_timestamp(later) < flushed
    # A broker may have stored this offset long before the damage. Releases before 5.1.1 always store 0.
    return last_phy_offset == evidence.confirm_phy_offset > 0 and was_at_start


def is_older_than_start(log: RecordReader, evidence: Evidence, later: int) -> bool:
    """Return whether the record at ``later`` was stored before the last start of a broker, by the lock file."""
    timestamp = log.read_store_timestamp(later)
    return evidence.lock_timestamp is not None and 0 <= timestamp < evidence.lock_timestamp
