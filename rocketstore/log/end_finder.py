"""EndFinder: finds where a log ends, for readers, scans, queues, recovery, verify and Spark."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from rocketstore.disk.storage import is_remote
from rocketstore.kernels.commit_log import HALF
from rocketstore.limits import LONG_MAX
from rocketstore.log.end_evidence import EndEvidence, UnfinishedRecords
from rocketstore.log.log_end import EndCandidate, Leftovers, LogEnd, LogView, SoundEnd, StoreState, Why
from rocketstore.log.record_reader import RecordReader
from rocketstore.log.sparse_search import SparseSearch

LOOK_AHEAD_SECONDS = 10.0
RECENT_SECONDS = 1.0  # for which many queues use the end of one view: a broker does not start twice in this time
# Why the log ends where no record stands behind its end.
WITHOUT_LATER = {StoreState.STOPPED: Why.COMPLETE, StoreState.RUNNING: Why.GROWING, StoreState.CRASHED: Why.TORN}


class RecentView(NamedTuple):
    """The last view of a log.

    Attributes: view. state: of the store when the view was made. time: of the view, seconds of the monotonic clock.
    """

    view: LogView
    state: StoreState
    time: float


class EndFinder:
    """Finds where a log ends now. It resumes at the last record that it knows.

    Without evidence the log has all records that can be read. With evidence it ends where a broker ends it: at a proved
    cut. While a broker runs, it ends before the first record that is older than the broker's start.

    Attributes: evidence: None if the log was opened without its store, or if old records must be read too. unfinished:
    records that are left out; None without any.
    """

    def __init__(
        self,
        log: RecordReader,
        evidence: EndEvidence | None = None,
        unfinished: UnfinishedRecords | None = None,
        planned: LogView | None = None,
    ) -> None:
        """Parameters: planned: the view of the driver of a distributed job; a task finds no other end."""
        self.evidence = evidence
        self.unfinished = unfinished
        self._log = log
        self._planned = planned
        self._is_remote = is_remote(log.directories[0])
        self._sound: SoundEnd | None = None  # to the first bad bytes
        self._records: SoundEnd | None = None  # to the last record, over damage
        self._committed_end = 0
        self._stopped_end: LogEnd | None = None
        self._searched = -math.inf  # seconds of the monotonic clock, when bytes behind the end were searched
        self._recent: RecentView | None = None
        self._judged: dict[EndCandidate, Why] = {}  # of a remote log, which is not read again and again

    # ---- the state of the store ----------------------------------------------------------------------------

    def find_log_state(self) -> StoreState:
        """As of ``RecordReader``; CRASHED too if the log was damaged after a clean stop: its end is not known then."""
        state = self._log.find_store_state()
        if state != StoreState.STOPPED or self.evidence is None or self._is_remote:
            self._stopped_end = None
            return state
        found = self._stopped_end  # another thread may replace it
        if found is None:
            self._stopped_end = found = find_stopped_end(self._log, self.find_begin(), self.evidence)
            if found.why != Why.DAMAGED:
                self._sound = SoundEnd(found.end, found.last_phy_offset)
                self._searched = time.monotonic()
        return StoreState.CRASHED if found.why == Why.DAMAGED else state

    def is_end_known(self) -> bool:
        """Return whether the end of the log is known, so that bytes behind it are no part of the log."""
        return self.find_log_state() != StoreState.CRASHED

    @property
    def is_planned(self) -> bool:
        """Whether the driver of a distributed job found the end, so that it is not searched for here."""
        return self._planned is not None

    def find_begin(self) -> int:
        """Return the physical offset from which the end is searched for, where a file begins; 0 of a planned log."""
        if self._planned is not None:
            return 0
        if self.evidence is None or self._log.find_store_state() != StoreState.STOPPED:
            return self._log.last_begun_file()
        return self._log.begin_of_last_files(self.evidence.last_files)

    # ---- the end -------------------------------------------------------------------------------------------

    def find_end(self) -> int:
        """Return where the log ends now, bytes: behind its last sound record. Source: CommitLog.getMaxOffset."""
        if self._planned is not None:
            return self._planned.end
        self._log.refresh()
        self.find_log_state()  # of a stopped store it finds a cut behind damage, where the walk resumes
        self._sound = sound = self._resume(self._sound) or self._walk(self.find_begin())
        self._committed_end = end = min(sound.end, self.find_limit())
        return end

    @property
    def last_phy_offset(self) -> int | None:
        """Where the last record begins that ``find_end`` saw, bytes; None without a record."""
        sound = self._sound
        return None if sound is None else none_if_negative(sound.last_phy_offset)

    def find_limit(self) -> int:
        """Return an upper bound of the log's end, a physical offset; LONG_MAX without unfinished records."""
        return LONG_MAX if self.unfinished is None else self.unfinished.find_begin(self._log)

    def look(self, *, again: bool = False) -> LogView:
        """Return a new view of the log.

        Bytes behind the end are searched for records behind damage every 10 seconds. Of a remote log they are probed:
        64 KiB behind the end, and then 4 KiB at each distance that is twice the one before.

        Parameters: again: search behind the end now, at any time.
        """
        if self._planned is not None:
            return self._planned
        if self._is_remote:
            return self._look_at_remote()
        state, end = self.find_log_state(), self.find_end()
        must_search = again or time.monotonic() >= self._searched + LOOK_AHEAD_SECONDS
        if must_search and (state != StoreState.STOPPED or self._has_new_records(end)):
            state = self.find_log_state()
            self._records = self._search_behind(self._find_records())
        elif state == StoreState.STOPPED:
            self._records = None  # the log has no records behind its end
        if must_search:
            self._searched = time.monotonic()
        view = self._view(state, end, self._find_records())
        self._recent = RecentView(view, state, time.monotonic())
        return view

    def recent_queue_end(self, state: StoreState) -> int:
        """Return ``queue_end`` of a view that is at most a second old, a physical offset; -1 without such a view.

        Parameters: state: of the store now. A view of another state is not used.
        """
        recent = self._recent  # another thread may replace it
        if recent is None or recent.state != state or time.monotonic() >= recent.time + RECENT_SECONDS:
            return -1
        return recent.view.queue_end

    def _view(self, state: StoreState, end: int, records: SoundEnd) -> LogView:
        sound, limit, stopped_end = self._sound or records, self.find_limit(), self._stopped_end
        is_damaged = records.end > sound.end
        why = Why.DAMAGED if is_damaged else WITHOUT_LATER[state]
        if state == StoreState.STOPPED and stopped_end is not None and not is_damaged:
            why = stopped_end.why
        if limit < sound.end and why != Why.DAMAGED:
            why = Why.UNCOMMITTED
        is_known = state == StoreState.STOPPED or (state == StoreState.RUNNING and not is_damaged)
        queue_end = end if is_known else limit
        return LogView(end, why, min(records.end, limit), none_if_negative(records.last_phy_offset), queue_end)

    def _look_at_remote(self) -> LogView:
        state, search = self._log.find_store_state(), SparseSearch(self._log, self._records)
        search.begin()
        while (later := search.find_later()) is not None:
            if self.is_hidden(search.end, later, search.last_phy_offset):
                break
            search.pass_to(later)
        self._records = SoundEnd(search.end, search.last_phy_offset)
        why, limit = WITHOUT_LATER[state] if later is None else Why.CUT, self.find_limit()
        if limit < search.end:
            why = Why.UNCOMMITTED
        end = min(search.end, limit)
        return LogView(end, why, end, none_if_negative(search.last_phy_offset), end)

    def _find_records(self) -> SoundEnd:
        """Return where the last known record ends now."""
        sound, known = self._sound or SoundEnd(0, -1), self._records
        if known is None or known.end <= sound.end:
            return sound
        return self._resume(known) or sound

    def _search_behind(self, records: SoundEnd) -> SoundEnd:
        """Search for records behind bad bytes, up to the last one that is no old record."""
        while (later := self._find_later(records.end)) is not None:
            if self.is_hidden(records.end, later, records.last_phy_offset):
                break
            records = self._walk(later, records.last_phy_offset)
        return records

    def _find_later(self, end: int) -> int | None:
        """Find the first record behind an end, at which a half written record may begin.

        None if a record has just been written at the end.
        """
        later = self._log.find_later(end + 1, LONG_MAX)
        return None if later is None or self._log.begins_record(end) else later

    def _has_new_records(self, end: int) -> bool:
        """Return whether records that no broker cut off stand behind the end of a stopped store's log."""
        return self._log.find_later(end, LONG_MAX) is not None and not self.is_end_before_leftovers(end)

    # ---- readers and scans ---------------------------------------------------------------------------------

    def find_readable_end(self, phy_offset: int) -> int:
        """Return an offset, bytes, that tells whether ``phy_offset`` is before the end of the log.

        If ``phy_offset`` is at or behind the end of the log, the result is that end. Otherwise the result is any offset
        behind ``phy_offset``, which is faster to find. Records behind the end were cut off by a broker, or their write
        was never committed. A planned log ends behind its last record.
        """
        if self._planned is not None:
            return self._planned.records_end
        if phy_offset < self._committed_end:
            return LONG_MAX
        return self.find_end() if self._is_behind(phy_offset) else self.find_limit()

    def _is_behind(self, offset: int) -> bool:
        """Return whether an offset is at or behind the end. False without evidence, and for a remote log."""
        sound = self._sound
        if self.evidence is None or self._is_remote or (sound is not None and offset < sound.end):
            return False
        if self._log.find_store_state() == StoreState.CRASHED or offset < self.find_begin() or not self.is_end_known():
            return False
        end = self.find_end()
        return offset >= end and self.is_end_before_leftovers(end)

    def find_leftovers(self) -> Leftovers | None:
        """Find the records behind the end of the log that are not read; None if none are known.

        None too without evidence, and for a remote log, which would be read to its end.
        """
        if self.evidence is None or self._is_remote:
            return None
        view = self.look()
        are_old = view.why == Why.GROWING and self.is_end_before_leftovers(view.end)
        if not are_old and view.why not in (Why.CUT, Why.UNCOMMITTED):
            return None
        first = self._log.find_later(view.end, LONG_MAX)
        return None if first is None else Leftovers(view.end, first, view.why)

    def is_end_before_leftovers(self, offset: int) -> bool:
        """Return whether the log ends at an offset that has no record, although records follow behind it."""
        if self._log.find_store_state() == StoreState.CRASHED or offset < self.find_begin():
            return False
        state = self.find_log_state()
        if state == StoreState.CRASHED:
            return False
        stopped_end = self._stopped_end
        if state == StoreState.STOPPED and stopped_end is not None:
            return offset >= stopped_end.end if stopped_end.why == Why.CUT else self._search_again(offset)
        later = self._log.find_later(offset + 1, LONG_MAX)
        return later is not None and self.is_hidden(offset, later)

    def _search_again(self, offset: int) -> bool:
        """Search for the end of a stopped store again if records came behind it. Return whether it is a cut."""
        if self._log.find_later(offset + 1, LONG_MAX) is None:
            return False
        self._stopped_end = None
        return self.find_log_state() == StoreState.STOPPED and self._is_known_cut(offset)

    def _is_known_cut(self, offset: int) -> bool:
        """Return whether a search has found that a broker cut the log at an offset or before it."""
        found = self._stopped_end
        return found is not None and found.why == Why.CUT and offset >= found.end

    def is_hidden(self, end: int, later: int, last_phy_offset: int = -1) -> bool:
        """Return whether the record at ``later`` is an old one, behind the end of the log.

        A broker cut it off at its last start. After a clean stop this is proved. While a broker runs it is assumed.

        Parameters: last_phy_offset: where the last record before the end begins; -1 if that is not known.
        """
        if self.evidence is None or self.find_log_state() == StoreState.CRASHED:
            return False
        if last_phy_offset < 0 and self.find_end() == end and (sound := self._sound) is not None:
            last_phy_offset = sound.last_phy_offset
        candidate = EndCandidate(end, last_phy_offset, later)
        why = self._judged.get(candidate)
        if why is None:
            why = self.evidence.judge(self._log, candidate).why
            if self._is_remote:
                self._judged[candidate] = why
        return why in (Why.CUT, Why.GROWING)

    def find_scan_end(self, begin: int, end: int) -> int:
        """Return where a scan of a range must end: at ``end``, or at the end of the log if that is before ``end``."""
        if self.evidence is None or self._is_remote or end <= self.find_begin():
            return end
        if self._log.find_store_state() == StoreState.STOPPED:
            is_found_by_scan = self._stopped_end is None and begin <= self.find_begin()
            if is_found_by_scan or not self.is_end_known() or not self._is_known_cut(LONG_MAX):
                return end
            return min(end, max(self.find_end(), begin))
        return begin if begin > self.find_begin() and self._is_behind(begin) else end

    # ---- walks ---------------------------------------------------------------------------------------------

    def _walk(self, begin: int, last_phy_offset: int = -1) -> SoundEnd:
        """Walk over sound records. Parameters: last_phy_offset: of the last record before them."""
        found = self._log.find_sound_end(begin)
        return found if found.last_phy_offset >= 0 else SoundEnd(found.end, last_phy_offset)

    def _resume(self, known: SoundEnd | None) -> SoundEnd | None:
        """Walk on from the last known record. Return None without one, or if that record was cut off.

        If a write was rolled back, another record may stand in its place.
        """
        if known is None:
            return None
        log, last, files = self._log, known.last_phy_offset, self._log.file_run.files
        if last < 0 or not files or last < files[0].file_from_offset:
            found = self._walk(known.end, last)
        else:
            found = self._walk(last)
            if found.end <= last:
                step = log.step(log.scanner(()), last, last + 1)
                if step is None or step[1] != HALF:
                    return None
                found = self._walk(known.end, last)
        return found if self._is_in_files(found.end) else None

    def _is_in_files(self, end: int) -> bool:
        """Return whether a file still reaches ``end``; True if there are no files, whose records all expired."""
        file_run = self._log.file_run
        last = file_run.last_before(end)
        return not file_run.files or (last is not None and end <= self._log.end_of(last))


def find_stopped_end(log: RecordReader, begin: int, evidence: EndEvidence) -> LogEnd:
    """Find where the log of a cleanly stopped store ends: at the first place that a broker is proved to have cut.

    Without a cut the log ends behind its last sound record. If sound records stand behind bad bytes then, the result
    has the first bad bytes and DAMAGED.

    Parameters: begin: where a broker begins to read. Source: CommitLog.recoverNormally.
    """
    candidate = log.find_bad_bytes(begin)
    first = judged = evidence.judge(log, candidate)
    while candidate.later is not None and judged.why != Why.CUT:
        candidate = log.find_bad_bytes(candidate.later)
        judged = evidence.judge(log, candidate)
    return first if judged.why == Why.COMPLETE else judged


def none_if_negative(phy_offset: int) -> int | None:
    return phy_offset if phy_offset >= 0 else None
