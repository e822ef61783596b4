"""EndEvidence: what other files than those of a log tell about its end; the log's bytes alone do not show it."""

from __future__ import annotations

from typing import Protocol

from rocketstore.log.log_end import EndCandidate, LogEnd, StateFinder
from rocketstore.log.record_reader import RecordReader


class EndEvidence(StateFinder, Protocol):
    """The files beside a log that tell where it ends.

    A broker that starts after a clean stop reads the last files of the log, ends the log at the first bytes there that
    are no record, and writes on from there. It erases nothing. So old records may stand behind the end.

    Attributes: last_files: how many files, from the last one that begins with a record, a broker reads after a clean
    stop.
    Source: CommitLog.recoverNormally, MappedFileQueue.truncateDirtyFiles.
    """

    @property
    def last_files(self) -> int: ...

    def judge(self, log: RecordReader, candidate: EndCandidate) -> LogEnd:
        """Decide whether the log ends at a candidate."""


class UnfinishedRecords(Protocol):
    """The records at the end of a log whose write was never committed."""

    def find_begin(self, log: RecordReader) -> int:
        """Return the physical offset, bytes, where they begin; LONG_MAX without any."""
