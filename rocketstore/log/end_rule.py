"""EndRule: where a broker ends the log of a store, which the bytes of the log alone do not show."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from rocketstore.disk.storage import is_remote
from rocketstore.limits import LONG_MAX

if TYPE_CHECKING:
    from rocketstore.log.commit_log import CommitLog

__all__ = [
    "EndRule",
    "Ending",
    "Evidence",
    "PlannedEnding",
    "StoppedEnd",
    "StoreState",
    "ends_before_bad_body",
    "find_stopped_end",
    "is_cut_by_broker",
    "is_older_than_start",
]


class StoreState(StrEnum):
    """How the last writer left a store: it stopped cleanly, it still runs, or it crashed."""

    STOPPED = "stopped"
    RUNNING = "running"
    CRASHED = "crashed"


class Evidence(NamedTuple):
    """What the other files of a store tell about the end of its log.

    Attributes: physic_msg_timestamp, epoch ms, and confirm_phy_offset, bytes: from the checkpoint; None and 0 without
    it. lock_timestamp: when a broker wrote the lock file, epoch ms; None without that file. A broker writes it when it
    starts.
    """

    physic_msg_timestamp: int | None = None
    confirm_phy_offset: int = 0
    lock_timestamp: int | None = None


class EndRule(NamedTuple):
    """How the end of a store's log is found.

    A broker that starts after a clean stop reads the last files of the log, ends the log at the first bytes there that
    are no record, and writes on from there. It erases nothing. So old records may stand behind the end.

    Attributes: find_state, find_evidence: functions that return the present state and evidence of the store.
    last_files: how many files, from the last one that begins with a record, a broker reads after a clean stop.
    verifies_crc: whether it compares bodies with their CRC then.
    Source: CommitLog.recoverNormally, MappedFileQueue.truncateDirtyFiles.
    """

    find_state: Callable[[], StoreState]
    find_evidence: Callable[[], Evidence]
    last_files: int
    verifies_crc: bool


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


def find_stopped_end(log: CommitLog, begin: int, evidence: Evidence, *, verify_crc: bool) -> StoppedEnd:
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
    is_cut = is_cut_by_broker(log, evidence, end, last, later)
    return StoppedEnd(end, last, is_cut, not is_cut, verify_crc)


def _walk(log: CommitLog, begin: int, *, verify_crc: bool) -> tuple[int, int]:
    """Return where the sound records from ``begin`` on end, and where the last record begins, bytes; -1 without one."""
    scanner = log.scanner((), verify_crc=verify_crc)
    end = log.walk(scanner, begin)
    last = scanner.last_phy_offset
    before = log.queue.find(begin - 1)
    if last < 0 and before is not None:  # the last record is in an earlier file
        _, last = _walk(log, before.file_from_offset, verify_crc=False)
    return end, last


def ends_before_bad_body(log: CommitLog, evidence: Evidence, begin: int) -> bool:
    """Return whether the body of the record behind ``confirm_phy_offset`` does not match its CRC.

    A broker stores there, when it starts, where the last record that it keeps begins.
    Parameters: begin: where the broker began to read, bytes.
    """
    noted = log.walk(log.scanner(()), evidence.confirm_phy_offset, evidence.confirm_phy_offset + 1)
    place = max(noted, begin)  # behind the last record of a file follows the first one of the next file
    if noted == evidence.confirm_phy_offset or log.walk(log.scanner(()), place, place + 1) == place:
        return False  # there is no record at one of the two offsets
    return log.walk(log.scanner((), verify_crc=True), place, place + 1) == place


def is_cut_by_broker(log: CommitLog, evidence: Evidence, end: int, last_phy_offset: int, later: int) -> bool:
    """Return whether a broker ended the log at ``end`` when it started, before the store was stopped cleanly.

    When a broker starts, it ends the log in the last files, which it reads, and stores the offset of the last record
    before the end in the checkpoint. When it stops, it stores the time of the last record there. If that record is
    behind ``end``, the bytes at ``end`` were damaged after the stop. Without a checkpoint the answer is False.

    Parameters: end: where the log ends. last_phy_offset: where the last record before the end begins. later: where the
    first record behind the end begins. All in bytes.
    """
    flushed = evidence.physic_msg_timestamp
    if flushed is None or last_phy_offset < 0 or end < log.ending.begin():
        return False
    was_at_start = is_older_than_start(log, evidence, later)
    if flushed <= log.read_store_timestamp(last_phy_offset):
        return flushed <= 0 or was_at_start or log.read_store_timestamp(later) < flushed
    # A broker may have stored this offset long before the damage. Releases before 5.1.1 always store 0.
    return last_phy_offset == evidence.confirm_phy_offset > 0 and was_at_start


def is_older_than_start(log: CommitLog, evidence: Evidence, later: int) -> bool:
    """Return whether the record at ``later`` was stored before the last start of a broker, by the lock file."""
    timestamp = log.read_store_timestamp(later)
    return evidence.lock_timestamp is not None and 0 <= timestamp < evidence.lock_timestamp


class Ending:
    """Finds where a broker ends a log, by a rule. Without a rule the log has all records that can be read.

    Attributes: rule: None if the log was opened without its store, or if old records must be read too.
    """

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.rule: EndRule | None = None
        self._stopped_end: StoppedEnd | None = None

    @property
    def is_remote(self) -> bool:
        return is_remote(self.log.directories[0])

    @property
    def verifies_crc(self) -> bool:
        """Whether the log ends before the first body that does not match its CRC."""
        is_stopped = self.state == StoreState.STOPPED
        return is_stopped and self._stopped_end is not None and self._stopped_end.verifies_crc

    @property
    def left_state(self) -> StoreState:
        """The state in which the last writer left the store; CRASHED without a rule."""
        return StoreState.CRASHED if self.rule is None else self.rule.find_state()

    @property
    def state(self) -> StoreState:
        """As ``left_state``; CRASHED too if the log was damaged after a clean stop, so that its end is not known."""
        state = self.left_state
        if state != StoreState.STOPPED or self.rule is None or self.is_remote:
            self._stopped_end = None
            return state
        if self._stopped_end is None:
            evidence, verify_crc = self.rule.find_evidence(), self.rule.verifies_crc
            self._stopped_end = found = find_stopped_end(self.log, self.begin(), evidence, verify_crc=verify_crc)
            if not found.is_damaged:
                self.log.note_end(found.end, found.last_phy_offset)
        return StoreState.CRASHED if self._stopped_end.is_damaged else state

    def begin(self) -> int:
        """Return the physical offset from which the end of the log is searched for, where a file begins."""
        last = self.log.last_begun_file()
        if self.rule is None or self.left_state != StoreState.STOPPED:
            return last
        starts = [file.file_from_offset for file in self.log.queue.files if file.file_from_offset <= last]
        return min(starts[-self.rule.last_files :], default=0)

    def is_at(self, offset: int) -> bool:
        """Return whether the log ends at an offset that has no record, although records follow behind it."""
        if self.left_state == StoreState.CRASHED or offset < self.begin():
            return False
        state = self.state
        if state == StoreState.CRASHED:
            return False
        if state == StoreState.STOPPED and self._stopped_end is not None:
            return self.is_known_cut(offset) or self._search_again(offset)
        later = self.log.find_later(offset + 1, LONG_MAX)
        return later is not None and self.is_cut(offset, later)

    def is_known_cut(self, offset: int) -> bool:
        """Return whether a search has found that a broker cut the log at an offset or before it."""
        found = self._stopped_end
        return found is not None and found.is_cut and offset >= found.end

    def _search_again(self, offset: int) -> bool:
        """Search for the end of a stopped store again if records came behind it. Return whether it is a cut."""
        if self.log.find_later(offset + 1, LONG_MAX) is None:
            return False
        self._stopped_end = None
        return self.state == StoreState.STOPPED and self.is_known_cut(offset)

    def is_cut(self, end: int, later: int, last_phy_offset: int | None = None) -> bool:
        """Return whether a broker cut off the record at ``later``, behind the end of the log, at its last start.

        Parameters: last_phy_offset: where the last record before the end begins; None if that is not known.
        """
        if self.rule is None or self.state == StoreState.CRASHED:
            return False
        evidence = self.rule.find_evidence()
        if self.state == StoreState.RUNNING:
            return end >= self.log.last_begun_file() and is_older_than_start(self.log, evidence, later)
        if last_phy_offset is None and self.log.max_phy_offset == end:
            last_phy_offset = self.log.last_phy_offset
        return last_phy_offset is not None and is_cut_by_broker(self.log, evidence, end, last_phy_offset, later)

    def is_behind(self, offset: int) -> bool:
        """Return whether an offset is at or behind the end of the log. False without a rule, and for a remote log."""
        if self.rule is None or offset < self.log.known_end or self.is_remote:
            return False
        if self.left_state == StoreState.CRASHED or offset < self.begin() or self.state == StoreState.CRASHED:
            return False
        end = self.log.max_phy_offset
        return offset >= end and self.is_at(end)

    def bound(self, begin: int, end: int) -> int:
        """Return where a scan of a range must end: at ``end``, or at the end of the log if that is before ``end``."""
        if self.rule is None or self.is_remote or end <= self.begin():
            return end
        if self.left_state == StoreState.STOPPED:
            is_found_by_scan = self._stopped_end is None and begin <= self.begin() and self._has_known_end()
            if is_found_by_scan or self.state != StoreState.STOPPED or not self.is_known_cut(LONG_MAX):
                return end
            return min(end, max(self.log.max_phy_offset, begin))
        return begin if begin > self.begin() and self.is_behind(begin) else end

    def _has_known_end(self) -> bool:
        """Return whether the log ends at the first bytes that are no record, so that no CRC must be compared."""
        rule = self.rule
        if rule is None or not rule.verifies_crc:
            return True
        evidence = rule.find_evidence()
        flushed = evidence.physic_msg_timestamp
        return flushed is None or (flushed > 0 and not ends_before_bad_body(self.log, evidence, self.begin()))

    def bound_of_queues(self) -> int:
        """Return the physical offset that queues end before: the end of the log, or LONG_MAX if it is not known."""
        end = self.log.max_phy_offset
        if self.state == StoreState.STOPPED:
            return end
        later = self.log.find_later(end, LONG_MAX)
        return end if later is None or self.is_cut(end, later) else LONG_MAX


class PlannedEnding(Ending):
    """The end of a log that the driver of a distributed job found, for the queues that a task reads."""

    def __init__(self, log: CommitLog, end: int) -> None:
        super().__init__(log)
        self._end = end

    @property
    def left_state(self) -> StoreState:
        return StoreState.STOPPED

    def begin(self) -> int:
        return 0

    def bound_of_queues(self) -> int:
        return self._end
