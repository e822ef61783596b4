"""Where a log ends: after its last sound record, or before it where a broker ends the log."""

from __future__ import annotations

from collections.abc import Callable

from rocketstore.disk.storage import is_remote
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.commit_log import BLANK, END, HALF, RecordScanner, bad_reason
from rocketstore.limits import LONG_MAX
from rocketstore.log.end_rule import (
    EndCandidate,
    EndEvidence,
    JudgedEnd,
    StoreState,
    UnfinishedRecords,
    Why,
    find_bad_bytes,
)
from rocketstore.log.record_reader import RecordReader

__all__ = ["EndSearch", "Ending", "PlannedEnding", "find_stopped_end", "read_error"]


class EndSearch:
    """Finds where the sound records of a log end. It resumes at the last record that it found before.

    Attributes: end: the end that was found last, bytes, or None. last_phy_offset: where the last record before that
    end begins, bytes; None without a record.
    """

    def __init__(self, log: RecordReader) -> None:
        self.end: int | None = None
        self.last_phy_offset: int | None = None
        self._log = log

    def find(self, scanner: RecordScanner, find_begin: Callable[[], int]) -> int:
        """Return where the sound records end now, bytes.

        Parameters: find_begin: a function that returns where the search begins if it cannot be resumed.
        """
        end = None if self.end is None else self._resume(scanner, self.end)
        if end is None or not self._is_in_files(end):
            self.last_phy_offset = None
            end = self._log.walk(scanner, find_begin())
        self._keep(end, scanner)
        return end

    def find_behind(self, scanner: RecordScanner, offset: int) -> int:
        """Return where the sound records end that begin at ``offset``, behind damage."""
        end = self._log.walk(scanner, offset)
        self._keep(end, scanner)
        return end

    def _resume(self, scanner: RecordScanner, end: int) -> int | None:
        """Walk from the last known record, if the log ended at ``end``. Return None if that record was cut off.

        If a write was rolled back, another record may stand in its place.
        """
        log, last = self._log, self.last_phy_offset
        files = log.queue.files
        if last is None or not files or last < files[0].file_from_offset:
            return log.walk(scanner, end)
        found = log.walk(scanner, last)
        if found > last:
            return found
        step = log.step(scanner, last, last + 1)
        return log.walk(scanner, end) if step is not None and step[1] == HALF else None

    def _is_in_files(self, end: int) -> bool:
        """Return whether a file still reaches ``end``; True if there are no files, whose records all expired."""
        last = self._log.queue.last_before(end)
        return not self._log.queue.files or (last is not None and end <= self._log.end_of(last))

    def _keep(self, end: int, scanner: RecordScanner) -> None:
        self.end = end
        if scanner.last_phy_offset >= 0:
            self.last_phy_offset = scanner.last_phy_offset


class Ending:
    """Finds where a broker ends a log, from evidence. Without evidence the log has all records that can be read.

    Attributes: evidence: None if the log was opened without its store, or if old records must be read too.
    """

    def __init__(
        self, log: RecordReader, evidence: EndEvidence | None = None, unfinished: UnfinishedRecords | None = None
    ) -> None:
        self.log = log
        self.evidence = evidence
        self.unfinished = unfinished
        self._search = EndSearch(log)
        self._committed_end = 0
        self._stopped_end: JudgedEnd | None = None
        self._judged: dict[EndCandidate, Why] = {}  # of a remote log, which is not read again and again

    def find(self) -> int:
        """Return where the log ends now, bytes: behind its last sound record. Source: CommitLog.getMaxOffset."""
        self.log.refresh()
        end = self._search.find(self.log.scanner(()), self.begin)
        self._committed_end = min(end, self.find_limit())
        return self._committed_end

    @property
    def last_phy_offset(self) -> int | None:
        """Where the last record begins that ``find`` saw, bytes; None without a record."""
        return self._search.last_phy_offset

    @property
    def known_end(self) -> int:
        """The end of the log, bytes, that the last call of ``find`` returned; 0 before the first call."""
        return self._search.end or 0

    def find_limit(self) -> int:
        """Return an upper bound of the log's end, a physical offset; LONG_MAX without unfinished records."""
        return LONG_MAX if self.unfinished is None else self.unfinished.find_begin(self.log)

    def find_readable_end(self, phy_offset: int) -> int:
        """Return an offset, bytes, that tells whether ``phy_offset`` is before the end of the log.

        If ``phy_offset`` is at or behind the end of the log, the result is that end. Otherwise the result is any offset
        behind ``phy_offset``, which is faster to find. Records behind the end were cut off by a broker, or their write
        was never committed.
        """
        end = LONG_MAX if phy_offset < self._committed_end else self.find_limit()
        return min(end, self.find()) if self.is_behind(phy_offset) else end

    @property
    def is_remote(self) -> bool:
        return is_remote(self.log.directories[0])

    @property
    def left_state(self) -> StoreState:
        """The state in which the last writer left the store; CRASHED without evidence."""
        return StoreState.CRASHED if self.evidence is None else self.evidence.find_state()

    @property
    def state(self) -> StoreState:
        """As ``left_state``; CRASHED too if the log was damaged after a clean stop, so that its end is not known."""
        state = self.left_state
        if state != StoreState.STOPPED or self.evidence is None or self.is_remote:
            self._stopped_end = None
            return state
        if self._stopped_end is None:
            self._stopped_end = found = find_stopped_end(self.log, self.begin(), self.evidence)
            if found.why != Why.DAMAGED:
                last = found.last_phy_offset
                self._search.end, self._search.last_phy_offset = found.end, last if last >= 0 else None
        return StoreState.CRASHED if self._stopped_end.why == Why.DAMAGED else state

    def begin(self) -> int:
        """Return the physical offset from which the end of the log is searched for, where a file begins."""
        if self.evidence is None or self.left_state != StoreState.STOPPED:
            return self.log.last_begun_file()
        return self.log.begin_of_last_files(self.evidence.last_files)

    def is_at(self, offset: int) -> bool:
        """Return whether the log ends at an offset that has no record, although records follow behind it."""
        if self.left_state == StoreState.CRASHED or offset < self.begin():
            return False
        state = self.state
        if state == StoreState.CRASHED:
            return False
        if state == StoreState.STOPPED and self._stopped_end is not None:
            if self._stopped_end.why == Why.CUT:
                return self.is_known_cut(offset)
            return self._search_again(offset)
        later = self.log.find_later(offset + 1, LONG_MAX)
        return later is not None and self.is_cut(offset, later)

    def is_known_cut(self, offset: int) -> bool:
        """Return whether a search has found that a broker cut the log at an offset or before it."""
        found = self._stopped_end
        return found is not None and found.why == Why.CUT and offset >= found.end

    def find_cut(self) -> int | None:
        """Return where a broker is proved to have cut the log of a stopped store; None if no cut is proved."""
        found = self._stopped_end if self.state == StoreState.STOPPED else None
        return found.end if found is not None and found.why == Why.CUT else None

    def _search_again(self, offset: int) -> bool:
        """Search for the end of a stopped store again if records came behind it. Return whether it is a cut."""
        if self.log.find_later(offset + 1, LONG_MAX) is None:
            return False
        self._stopped_end = None
        return self.state == StoreState.STOPPED and self.is_known_cut(offset)

    def is_cut(self, end: int, later: int, last_phy_offset: int | None = None) -> bool:
        """Return whether the record at ``later`` is an old one, behind the end of the log.

        A broker cut it off at its last start: after a clean stop this is proved, beside a running broker supposed.

        Parameters: last_phy_offset: where the last record before the end begins; None if that is not known.
        """
        if self.evidence is None or self.state == StoreState.CRASHED:
            return False
        if last_phy_offset is None and self.find() == end:
            last_phy_offset = self.last_phy_offset
        candidate = EndCandidate(end, -1 if last_phy_offset is None else last_phy_offset, later)
        why = self._judged.get(candidate)
        if why is None:
            why = self.evidence.judge(self.log, candidate).why
            if self.is_remote:
                self._judged[candidate] = why
        return why in (Why.CUT, Why.GROWING)

    def is_behind(self, offset: int) -> bool:
        """Return whether an offset is at or behind the end of the log. False without evidence, and for a remote log."""
        if self.evidence is None or offset < self.known_end or self.is_remote:
            return False
        if self.left_state == StoreState.CRASHED or offset < self.begin() or self.state == StoreState.CRASHED:
            return False
        end = self.find()
        return offset >= end and self.is_at(end)

    def bound(self, begin: int, end: int) -> int:
        """Return where a scan of a range must end: at ``end``, or at the end of the log if that is before ``end``."""
        if self.evidence is None or self.is_remote or end <= self.begin():
            return end
        if self.left_state == StoreState.STOPPED:
            is_found_by_scan = self._stopped_end is None and begin <= self.begin()
            if is_found_by_scan or self.state != StoreState.STOPPED or not self.is_known_cut(LONG_MAX):
                return end
            return min(end, max(self.find(), begin))
        return begin if begin > self.begin() and self.is_behind(begin) else end

    def bound_of_queues(self) -> int:
        """Return the physical offset that queues end before: the end of the log, or LONG_MAX if it is not known."""
        end = self.find()
        if self.state == StoreState.STOPPED:
            return end
        later = self.log.find_later(end, LONG_MAX)
        return end if later is None or self.is_cut(end, later) else LONG_MAX


def find_stopped_end(log: RecordReader, begin: int, evidence: EndEvidence) -> JudgedEnd:
    """Find where the log of a cleanly stopped store ends: at the first place that a broker is proved to have cut.

    Without a cut the log ends behind its last sound record. If sound records stand behind bad bytes then, the result
    has the first bad bytes and DAMAGED.

    Parameters: begin: where a broker begins to read. Source: CommitLog.recoverNormally.
    """
    candidate = find_bad_bytes(log, begin)
    first = judged = evidence.judge(log, candidate)
    while candidate.later is not None and judged.why != Why.CUT:
        candidate = find_bad_bytes(log, candidate.later)
        judged = evidence.judge(log, candidate)
    return first if judged.why == Why.COMPLETE else judged


class PlannedEnding(Ending):
    """The end of a log that the driver of a distributed job found, for the queues that a task reads."""

    def __init__(self, log: RecordReader, end: int) -> None:
        super().__init__(log)
        self._end = end

    @property
    def left_state(self) -> StoreState:
        return StoreState.STOPPED

    def begin(self) -> int:
        return 0

    def bound_of_queues(self) -> int:
        return self._end


def read_error(ending: Ending, offset: int, status: int) -> Exception:
    """Return the error that says why no message can be read at a physical offset.

    Parameters: status: that a scanner or ``RecordReader.read_record`` returned.
    """
    file = ending.log.queue.find(offset)
    if file is None:
        return _no_file_error(ending, offset)
    if status in (END, BLANK, HALF):
        field, reason = "magic", "no message begins here: the end of the log, or of what its file holds"
    else:
        field, reason = bad_reason(status)
    return CorruptFileError(file.path, offset - file.file_from_offset, field, reason)


def _no_file_error(ending: Ending, offset: int) -> Exception:
    """Return the error for an offset that no file has: it is in a gap, or outside the log."""
    queue = ending.log.queue
    before = queue.last_before(offset)
    if before is not None and before is not queue.files[-1]:
        later = queue.start_behind(before)
        reason = f"there is nothing from {offset} to {later}: a file is missing or was cut"
        return CorruptFileError(before.path, before.size, "file size", reason)
    begin, end = ending.log.min_phy_offset, ending.find()
    held = f"has {begin} to {end}" if begin < end else "has no message"
    return IndexError(f"{ending.log.directories[0]}: phy_offset {offset} is outside the commit log, which {held}")
