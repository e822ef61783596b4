"""EndRule: where a broker ends the log of a store, which the bytes of the log alone do not show."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from rocketstore.limits import LONG_MAX
from rocketstore.storage import is_remote

if TYPE_CHECKING:
    from rocketstore.files.commit_log import CommitLog

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
    """What a store says of the end of its log, apart from the log.

    Attributes: physic_msg_timestamp, epoch ms, and confirm_phy_offset, bytes: of the checkpoint; None and 0 without it.
    lock_timestamp: when a broker wrote the lock file, which it does when it starts, epoch ms; None without that file.
    """

    physic_msg_timestamp: int | None = None
    confirm_phy_offset: int = 0
    lock_timestamp: int | None = None


class EndRule(NamedTuple):
    """How the end of a store's log is found.

    A broker that starts after a clean stop reads the last files of the log, ends the log at the first bytes there that
    are no record, and writes on from there. It erases nothing. So old records may stand behind the end.

    Attributes: find_state, find_evidence: give state and evidence of the store now. last_files: how many files, from
    the last one that begins with a record, a broker reads after a clean stop. verifies_crc: whether it compares bodies
    with their CRC then. Source: CommitLog.recoverNormally, MappedFileQueue.truncateDirtyFiles.
    """

    find_state: Callable[[], StoreState]
    find_evidence: Callable[[], Evidence]
    last_files: int
    verifies_crc: bool


class StoppedEnd(NamedTuple):
    """Where the log of a store ends that was stopped cleanly, and its last record, bytes; -1 without a record.

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
    """Find where the log of a store ends that was stopped cleanly.

    A checkpoint that knows the last record proves that no broker cut the log before it. Bodies need no look then, but
    for the one behind the record that a broker noted last when it started.

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
    """Return where the sound records from ``begin`` on end, and where the last of them begins; -1 without one."""
    scanner = log.scanner((), verify_crc=verify_crc)
    end = log.walk(scanner, begin)
    last = scanner.last_phy_offset
    before = log.queue.find(begin - 1)
    if last < 0 and before is not None:  # the last record is in an earlier file
        _, last = _walk(log, before.file_from_offset, verify_crc=False)
    return end, last


def ends_before_bad_body(log: CommitLog, evidence: Evidence, begin: int) -> bool:
    """Whether the record behind the one that a broker noted when it started has another body than its CRC says.

    Parameters: begin: where the broker began to read, bytes.
    """
    noted = log.walk(log.scanner(()), evidence.confirm_phy_offset, evidence.confirm_phy_offset + 1)
    place = max(noted, begin)  # behind a file's last record it is the next one's first
    if noted == evidence.confirm_phy_offset or log.walk(log.scanner(()), place, place + 1) == place:
        return False  # neither is a record
    return log.walk(log.scanner((), verify_crc=True), place, place + 1) == place


def is_cut_by_broker(log: CommitLog, evidence: Evidence, end: int, last_phy_offset: int, later: int) -> bool:
    """Whether a broker ended the log at ``end`` when it started, before the store was stopped cleanly.

    A broker ends the log in the last files that it reads, and notes the last record before the end. The checkpoint of a
    clean stop knows the store time of the last record. If that is a record behind the end, the bytes at the end were
    damaged after the stop. Without a checkpoint nothing says that the store was stopped.

    Parameters: end, last_phy_offset, later: where the log ends, and where the last record before and the first record
    behind that begin, bytes.
    """
    flushed = evidence.physic_msg_timestamp
    if flushed is None or last_phy_offset < 0 or end < log.ending.begin():
        return False
    was_at_start = is_older_than_start(log, evidence, later)
    if flushed <= log.read_store_timestamp(last_phy_offset):
        return flushed <= 0 or was_at_start or log.read_store_timestamp(later) < flushed
    # A broker may have noted the record long before the damage. Releases before 5.1.1 note 0 always.
    return last_phy_offset == evidence.confirm_phy_offset > 0 and was_at_start


def is_older_than_start(log: CommitLog, evidence: Evidence, later: int) -> bool:
    """Whether a record was stored before the broker started that wrote the lock file last."""
    timestamp = log.read_store_timestamp(later)
    return evidence.lock_timestamp is not None and 0 <= timestamp < evidence.lock_timestamp


class Ending:
    """Where a broker ends a log, as far as a rule says it; without a rule all that can be read is part of the log.

    Attributes: rule: None for a log alone, and where old records are to be read too.
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
        """Whether the end of the log is before a body that is not the one of its CRC."""
        is_stopped = self.state == StoreState.STOPPED
        return is_stopped and self._stopped_end is not None and self._stopped_end.verifies_crc

    @property
    def left_state(self) -> StoreState:
        """How the store that the log is part of was left; CRASHED for a log alone."""
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
        """Return where the files begin in which the end of the log is looked for."""
        last = self.log.last_begun_file()
        if self.rule is None or self.left_state != StoreState.STOPPED:
            return last
        starts = [file.file_from_offset for file in self.log.queue.files if file.file_from_offset <= last]
        return min(starts[-self.rule.last_files :], default=0)

    def is_at(self, offset: int) -> bool:
        """Whether the log ends at bytes that are no record although records stand behind them."""
        if self.left_state == StoreState.CRASHED or offset < self.begin():
            return False
        state = self.state
        if state == StoreState.CRASHED:
            return False
        if state == StoreState.STOPPED and self._stopped_end is not None:
            return self.is_known_cut(offset) or self._look_again(offset)
        later = self.log.find_later(offset + 1, LONG_MAX)
        return later is not None and self.is_cut(offset, later)

    def is_known_cut(self, offset: int) -> bool:
        """Whether it was found that a broker cut the log at an offset or before it."""
        found = self._stopped_end
        return found is not None and found.is_cut and offset >= found.end

    def _look_again(self, offset: int) -> bool:
        """Look again where the log of a stopped store ends if records came behind its end; whether it is a cut."""
        if self.log.find_later(offset + 1, LONG_MAX) is None:
            return False
        self._stopped_end = None
        return self.state == StoreState.STOPPED and self.is_known_cut(offset)

    def is_cut(self, end: int, later: int, last_phy_offset: int | None = None) -> bool:
        """Whether a record behind the end of the log, at ``later``, is one that a broker cut off at its last start.

        Parameters: last_phy_offset: of the last record before the end, if that is known.
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
        """Whether an offset is not before the end of a log that has a rule where it ends. False for a remote log."""
        if self.rule is None or offset < self.log.known_end or self.is_remote:
            return False
        if self.left_state == StoreState.CRASHED or offset < self.begin() or self.state == StoreState.CRASHED:
            return False
        end = self.log.max_phy_offset
        return offset >= end and self.is_at(end)

    def bound(self, begin: int, end: int) -> int:
        """Return where a scan of a range must end at the latest."""
        if self.rule is None or self.is_remote or end <= self.begin():
            return end
        if self.left_state == StoreState.STOPPED:
            is_found_by_scan = self._stopped_end is None and begin <= self.begin() and self._has_known_end()
            if is_found_by_scan or self.state != StoreState.STOPPED or not self.is_known_cut(LONG_MAX):
                return end
            return min(end, max(self.log.max_phy_offset, begin))
        return begin if begin > self.begin() and self.is_behind(begin) else end

    def _has_known_end(self) -> bool:
        """Whether the first bytes that are no record are the end of the log, whatever the CRCs of bodies are."""
        rule = self.rule
        if rule is None or not rule.verifies_crc:
            return True
        evidence = rule.find_evidence()
        flushed = evidence.physic_msg_timestamp
        return flushed is None or (flushed > 0 and not ends_before_bad_body(self.log, evidence, self.begin()))

    def bound_of_queues(self) -> int:
        """Return the physical offset before which units of queues must lead: where the log ends, if that is known."""
        end = self.log.max_phy_offset
        if self.state == StoreState.STOPPED:
            return end
        later = self.log.find_later(end, LONG_MAX)
        return end if later is None or self.is_cut(end, later) else LONG_MAX


class PlannedEnding(Ending):
    """The end of a log as the driver of a distributed job found it, for the queues that a task reads."""

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
