"""Where a log may end and why, and what decides it: the log's bytes alone do not show it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from rocketstore.limits import LONG_MAX
from rocketstore.log.record_reader import RecordReader

__all__ = ["EndCandidate", "EndEvidence", "JudgedEnd", "StoreState", "UnfinishedRecords", "Why", "find_bad_bytes"]


class StoreState(StrEnum):
    """How the last writer left a store: it stopped cleanly, it still runs, or it crashed."""

    STOPPED = "stopped"
    RUNNING = "running"
    CRASHED = "crashed"


class Why(StrEnum):
    """Why the sound records of a log end at an offset.

    COMPLETE: the writer stopped there. GROWING: a running broker writes its next record there. TORN: a writer crashed
    there. CUT: it is proved that a broker ended the log there at its start, and old records stand behind. DAMAGED:
    sound records stand behind, and nothing proves that they are old.
    """

    COMPLETE = "complete"
    GROWING = "growing"
    TORN = "torn"
    CUT = "cut"
    DAMAGED = "damaged"


class EndCandidate(NamedTuple):
    """A place where the log may end. All offsets are physical offsets, in bytes.

    Attributes: end: where the first bytes begin that are no record. last_phy_offset: where the last record before
    ``end`` begins; -1 without a record. later: where the first record behind ``end`` begins; None without a record.
    """

    end: int
    last_phy_offset: int
    later: int | None


class JudgedEnd(NamedTuple):
    """A place where the sound records of a log end, the last record before it, and why they end there."""

    end: int
    last_phy_offset: int
    why: Why


class EndEvidence(Protocol):
    """The files beside a log that tell where it ends.

    A broker that starts after a clean stop reads the last files of the log, ends the log at the first bytes there that
    are no record, and writes on from there. It erases nothing. So old records may stand behind the end.

    Attributes: last_files: how many files, from the last one that begins with a record, a broker reads after a clean
    stop.
    Source: CommitLog.recoverNormally, MappedFileQueue.truncateDirtyFiles.
    """

    @property
    def last_files(self) -> int: ...

    def find_state(self) -> StoreState:
        """Find the state in which the last writer left the store, as it is now."""

    def judge(self, log: RecordReader, candidate: EndCandidate) -> JudgedEnd:
        """Decide whether the log ends at a candidate."""


class UnfinishedRecords(Protocol):
    """The records at the end of a log whose write was never committed."""

    def find_begin(self, log: RecordReader) -> int:
        """Return the physical offset, bytes, where they begin; LONG_MAX without any."""


def find_bad_bytes(log: RecordReader, begin: int) -> EndCandidate:
    """Find the first bytes from ``begin`` on that are no record.

    Parameters: begin: a physical offset at which a file or a record begins, bytes.
    """
    scanner = log.scanner(())
    end = log.walk(scanner, begin)
    last = int(scanner.last_phy_offset)
    before = log.queue.find(begin - 1)
    if last < 0 and before is not None:  # the last record is in an earlier file
        last = find_bad_bytes(log, before.file_from_offset).last_phy_offset
    return EndCandidate(end, last, log.find_later(end + 1, LONG_MAX))  # a half written record may begin at the end
