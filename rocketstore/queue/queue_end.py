"""Where a queue ends: before its first invalid unit, or earlier, before units that lead behind the end of the log."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.storage import is_remote
from rocketstore.kernels.consume_queue import read_unit
from rocketstore.kernels.layout import UNIT, read_field
from rocketstore.limits import LONG_MAX
from rocketstore.log.log_end import StoreState
from rocketstore.log.record_reader import LOOK_BACK
from rocketstore.queue.unit_run import RECOVERED_FILES, Span, UnitRun, find_invalid_unit

ATTEMPTS, ATTEMPT_SECONDS = 3, 0.01  # to find the end again beside a running broker


class QueueEnd(NamedTuple):
    """Where a queue ends: positions in its files, bytes.

    Attributes: end: behind the last unit of the queue. run_end: behind the last valid unit. Units between the two are
    leftovers, or their records are uncommitted.
    """

    end: int
    run_end: int


class QueueEndFinder:
    """Finds where a queue ends.

    Without a commit log, or if the end of the log is not known, a queue ends where its valid units end. Otherwise it
    ends before its first unit that leads behind the log, as for a broker, and before units of uncommitted records.

    Attributes: commit_log: as for ``ConsumeQueue.open``. known_end: the position that the last call of ``find_end``
    returned, -1 before the first call.
    """

    __slots__ = ("_by_log", "commit_log", "known_end", "run")

    def __init__(self, run: UnitRun, commit_log: Any) -> None:
        self.run = run
        self.commit_log = commit_log
        self.known_end = -1
        # The last end by the end of the log, also with uncommitted records, and the files for which it is right.
        self._by_log: tuple[Sequence[RunFile], QueueEnd] = [], QueueEnd(-1, -1)

    def find_end(self, *, is_listed: bool = False) -> int:
        """Return the position where the queue ends now, bytes. Parameters: is_listed: as for ``UnitRun.find_end``."""
        return self.find(is_listed=is_listed).end

    def find(self, *, is_listed: bool = False) -> QueueEnd:
        """Find where the queue and its valid units end now. Parameters: is_listed: as for ``UnitRun.find_end``."""
        run_end, log = self.run.find_end(is_listed=is_listed), self.commit_log
        finder = getattr(log, "end_finder", None)
        state = StoreState.CRASHED if finder is None else finder.find_log_state()
        is_bounded = state != StoreState.CRASHED and log.file_run.files
        end = self._find_end_by_log(run_end, state) if is_bounded else run_end
        limit = LONG_MAX if finder is None else finder.find_limit()
        self.known_end = end if limit == LONG_MAX else self._find_end_before(limit, end)
        return QueueEnd(self.known_end, run_end)

    def count_leftover_units(self) -> int:
        """Return the number of valid units behind the end of the queue.

        While a broker writes, they may be units whose records were not seen yet. So the end is found again afterwards.
        """
        end, run_end = self.find()
        for _ in range(ATTEMPTS if end < run_end and self._is_running() else 0):
            time.sleep(ATTEMPT_SECONDS)
            end = min(self.find().end, run_end)
            if end == run_end:
                break
        if end == run_end:
            return 0
        behind = [(max(begin, end), stop) for begin, stop in self.run.spans_until(run_end) if stop > end]
        return sum(stop - begin for begin, stop in behind) // self.run.unit_size

    def _is_running(self) -> bool:
        finder = getattr(self.commit_log, "end_finder", None)
        return finder is not None and finder.find_log_state() == StoreState.RUNNING

    def _find_end_before(self, limit: int, end: int) -> int:
        """Return the end of those units before ``end`` that lead to records before the physical offset ``limit``."""
        spans = self.run.spans_until(end)
        if not spans or self.run.skip_before(spans[-1][0], end, limit) == end:
            return end
        return max(find_truncated_end(spans, limit, self.run.read_phy_offset, self.run.skip_before), spans[0][0])

    def _find_end_by_log(self, run_end: int, state: StoreState) -> int:
        """Return the end of the queue, limited by the end of the log. The last result is used while it is valid."""
        files = self.run.files
        known_files, known = self._by_log
        is_right = known_files is files and known.end == known.run_end <= run_end
        if is_right and known.run_end == run_end:
            return run_end
        if is_remote(self.run.directory) and not self.commit_log.end_finder.is_planned:
            # A walk over the log would fetch all of it: check the record of the last unit.
            end = run_end if self._is_before_last_file(run_end) else self._find_own_end(run_end)
        else:
            end = self._find_bounded_end(run_end, known.end if is_right else 0, state)
            end = self._find_own_end(end) if state == StoreState.RUNNING else end
        self._by_log = files, QueueEnd(end, run_end)
        return end

    def _find_bounded_end(self, run_end: int, checked: int, state: StoreState) -> int:
        """Return the end of the queue. Only units from position ``checked`` on may lead behind the log."""
        run, log = self.run, self.commit_log
        spans = run.spans_until(run_end)
        if not spans:
            return run_end
        # Finding the end of the log is slow. It is not needed if all units lead before an end that was just found, or
        # to earlier files of the log.
        place, recent = max(spans[-1][0], checked), log.end_finder.recent_queue_end(state)
        if recent >= 0 and run.skip_before(place, run_end, recent) == run_end:
            return run_end
        place = run.skip_before(place, run_end, log.end_finder.find_begin())
        if place == run_end or run.skip_before(place, run_end, log.look().queue_end) == run_end:
            return run_end
        log_end = log.look(again=state == StoreState.RUNNING).queue_end
        return find_truncated_end(spans, log_end, run.read_phy_offset, run.skip_before)

    def _is_before_last_file(self, run_end: int) -> bool:
        """Return whether the last unit leads to a record before the last log file that begins with a record."""
        last = run_end - self.run.unit_size
        return (
            not self.run.spans_until(run_end)
            or self.run.read_phy_offset(last) < self.commit_log.end_finder.find_begin()
        )

    def _find_own_end(self, end: int) -> int:
        return find_own_end(self.run.spans_until(end), self.run.unit_size, self._is_own) if end > 0 else end

    def _is_own(self, position: int) -> bool:
        """Return whether the unit at a position is a filler, or leads to an expired record or one of this queue.

        A unit of a damaged record counts as own.
        """
        window, offset, _ = self.run.map_span((position, position + self.run.unit_size))
        phy_offset, *_, is_filler = read_unit(window, offset)
        if is_filler or phy_offset < self.commit_log.min_phy_offset:
            return True
        record = self.commit_log.find_message(phy_offset)
        if record is None:
            return self._leads_to_damage(phy_offset)
        topic, queue_id = self.run.directory.parent.name, int(self.run.directory.name)
        light_queues = record.properties.get("INNER_MULTI_DISPATCH", "").split(",")
        return (record.topic, record.queue_id) == (topic, queue_id) or topic in light_queues

    def _leads_to_damage(self, phy_offset: int) -> bool:
        """Return whether a physical offset without a record is before the end of the log, and not inside a record."""
        log = self.commit_log
        if any(log.reader.end_around(phy_offset, most) > phy_offset for most in LOOK_BACK):
            return False
        return bool(phy_offset < log.look().queue_end)


def find_truncated_end(
    spans: Sequence[Span], log_end: int, read_phy_offset: Callable[[int], int], skip: Callable[[int, int, int], int]
) -> int:
    """Return the end of the units that a broker keeps in a queue when its log ends at ``log_end``, bytes.

    From the last file back, a broker drops each file whose first unit leads to ``log_end`` or behind it. In the next
    file it ends the queue before the first unit that does. If no file is left, the queue is empty and begins at 0.
    RocketMQ also accepts a first unit of zeros in the last file. Here that unit does not count.

    Parameters: spans: files with valid units, in order. read_phy_offset: returns the physical offset in the unit at a
    position. skip: called with a begin, an end and a limit, returns the position of the first unit in that range whose
    physical offset is not before the limit, or the end of the range.
    Source: ConsumeQueue.truncateDirtyLogicFiles, BatchConsumeQueue.truncateDirtyLogicFiles.
    """
    for begin, end in reversed(spans):
        if read_phy_offset(begin) < log_end:
            return skip(begin, end, log_end)
    return 0


def find_own_end(spans: Sequence[Span], unit_size: int, is_own: Callable[[int], bool]) -> int:
    """Return the end of the units that lead to records of their own queue, bytes; 0 if no unit does.

    A broker that cut its queue leaves the old units in the file. When its log grows again, they lead to other records.

    Parameters: spans: files with valid units, in order. is_own: returns whether the unit at a position leads to a
    record of the queue.
    """
    for begin, end in reversed(spans):
        if is_own(end - unit_size):
            return end
        if is_own(begin):
            units = range(begin, end, unit_size)
            return units[bisect.bisect_left(units, True, key=lambda position: not is_own(position))]
    return 0


def find_written_spans(run: UnitRun, flushed: int) -> tuple[Span, ...]:
    """Return where units begin and end in each file, up to the first unit that was not written.

    Only two kinds of files are read: those that may not be on the disk, and the last files. A writer searches the last
    files for the end of the queue, and would end the queue at a bad unit there.

    Parameters: flushed: units that lead to records before this physical offset were on the disk.
    """
    written: list[Span] = []
    for number, file in enumerate(run.files):
        is_next = not written or file.file_from_offset == run.files[number - 1].file_from_offset + run.file_size
        if file.size == 0 or not is_next:
            break
        begin, end, limit = file.file_from_offset, run.limit(file), run.limit(file)
        last = run.file_run.pread(limit - run.unit_size, UNIT.itemsize)
        is_flushed = read_field(last, UNIT, "size") and 0 <= read_field(last, UNIT, "phy_offset") < flushed
        if number >= len(run.files) - RECOVERED_FILES or not is_flushed:
            end = find_invalid_unit(run.file_run.pread, begin, limit, run.unit_size)
        if end > begin:
            written.append((begin, end))
        if end < limit:
            break
    return tuple(written)


def find_end_of_records(run: UnitRun, spans: Sequence[Span], log_end: int) -> int | None:
    """Return the position behind the last unit whose record ends by ``log_end``, a physical offset; None without one.

    The unit must lead behind the unit before it. Parameters: spans: files with valid units, in order.
    """
    size = run.unit_size
    for number, (begin, stop) in reversed(list(enumerate(spans))):
        ahead = spans[number - 1][1] if number else 0
        before = _phy_offset_before(run, stop - size if stop - begin > size else ahead)
        last = run.unit_at(stop - size)
        if not last.is_filler and before < last.phy_offset <= log_end - last.size:
            return stop
        units = run.decode([(begin, stop)])
        order = np.where(units.is_filler, -1, units.phy_offsets)
        order = np.concatenate([[_phy_offset_before(run, ahead)], order])
        good = (order[1:] > order[:-1]) & (units.phy_offsets + units.sizes <= log_end)
        if good.any():
            return begin + (int(good.nonzero()[0][-1]) + 1) * size
    return None


def _phy_offset_before(run: UnitRun, position: int) -> int:
    """Return the physical offset in the unit that ends at a position, -1 without a unit or for a filler unit."""
    unit = run.unit_at(position - run.unit_size) if position else None
    return -1 if unit is None or unit.is_filler else unit.phy_offset
