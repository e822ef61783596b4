"""SparseSearch: finds where the messages of a remote log end, with a few small reads.

The last file of a log has 1 GiB, and the end may be anywhere in it. It is found as in a sorted list: small reads at
some places find records, or other bytes, or only zeros, which are behind the end. The reads of a step run at the same
time.
"""

from __future__ import annotations

from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import find_record
from rocketstore.log.log_end import SoundEnd
from rocketstore.log.record_reader import LARGE_RECORD, LOOK_BACK, RecordReader

PROBE = 16 << 10  # bytes to read at a place that may be behind the end
WAYS = 4  # parts into which a range is split: it is probed at all places between them at the same time
FAR_PROBE = 4 << 10  # bytes to read at a place far behind the end
BEHIND = 64 << 10  # bytes from the end on that are all searched for records behind damage


class SparseSearch:
    """Searches for the last record of a log, also while the log grows, with reads of some KiB, however long it is.

    Records behind damage are found only if a read meets them: of the 64 KiB behind the end, and then of 4 KiB at each
    distance that is twice the one before.

    Attributes: end: where the records end that were found so far, bytes. last_phy_offset: where the last of them
    begins, bytes; -1 without a record.
    """

    def __init__(self, log: RecordReader, known: SoundEnd | None) -> None:
        """Parameters: known: what an earlier search found; None without one."""
        self.end, self.last_phy_offset = known or SoundEnd(0, -1)
        self._log = log
        self._stop = 0  # where the last file ends

    def begin(self) -> None:
        """Find where the records end now, up to the first bad bytes that a read meets. Raises: OSError."""
        log = self._log
        log.refresh()
        files = log.file_run.files
        if not files:
            self.last_phy_offset, self.end, self._stop = -1, 0, 0
            return
        begin, self._stop = max(self._first_place(), log.last_begun_file()), files[-1].end_offset
        self.end = self._search(begin, self._stop)

    def find_later(self) -> int | None:
        """Find a record behind the end. The bytes between the end and this record are no records."""
        found = self._find_near()
        return self._probe_far(self.end, self._stop) if found is None else found

    def _find_near(self) -> int | None:
        """Find a record in the 64 KiB behind the end. A half written one is passed over."""
        place = self.end
        data = self._log.file_run.pread(place, min(BEHIND, self._stop - place)) if place < self._stop else b""
        while (found := self._find_in(data[place - self.end :], place)) is not None and self._is_half_written(found):
            place = found + 1
        return found

    def _is_half_written(self, record: int) -> bool:
        return self._log.find_sound_end(record).end == record

    def pass_to(self, later: int) -> None:
        """Search on from a record that ``find_later`` found."""
        self.end = self._search(later, self._stop)

    def _first_place(self) -> int:
        """Return where to begin: at the end that was found before, or at 0 if the last record is not there any more."""
        last, end, log = self.last_phy_offset, self.end, self._log
        if last < 0:
            return 0
        return end if log.walk(log.scanner(()), last, last + 1) == end else 0

    def _search(self, begin: int, stop: int) -> int:
        """Find where the records from ``begin`` on end. A record begins there, or will begin there."""
        high = stop
        while True:
            record, high = self._narrow(begin, high)
            end = self._walk(record)
            if end < high and record > begin and end == record:  # the last record is torn: search before it
                high = record
            elif end <= high or end >= stop:
                return end
            else:  # zeros within a body, or damage, looked like the end
                begin, high = end, stop

    def _walk(self, record: int) -> int:
        found = self._log.find_sound_end(record)
        if found.last_phy_offset >= 0:
            self.last_phy_offset = found.last_phy_offset
        return found.end

    def _narrow(self, low: int, high: int) -> tuple[int, int]:
        """Narrow a range until it is short. Return where one of its records begins, and a bound of the log's end."""
        record = occupied = low
        step, count, is_front = PROBE, 1, True
        while is_front and occupied + step < high:  # from the front, since most often the log has grown a little
            places = [at for i in range(count) if (at := occupied + (step << i)) < high]
            record, occupied, bound = self._probe_in_order(places, record, occupied, high)
            is_front, high = bound == high, bound
            step, count = step << count, 2 * count
        while high - occupied > PROBE:
            places = [occupied + (high - occupied) * i // WAYS for i in range(1, WAYS)]
            record, occupied, high = self._probe_in_order(places, record, occupied, high)
        return self._last_record(record, occupied), high

    def _probe_in_order(self, places: list[int], record: int, occupied: int, high: int) -> tuple[int, int, int]:
        """Probe places at the same time. Return the last record, where bytes are in use, and a bound of the log's end.

        Parameters: places: ascending. record, occupied, high: as they were known before.
        """
        found = self._log.file_run.pread_many(places, PROBE)
        for place, data in zip(places, found, strict=True):
            data = data[: high - place]
            at = self._find_in(data, place) if data else None
            if at is None and not any(data):
                return record, occupied, place
            record = record if at is None else max(at, record)
            occupied = max(occupied, place, record)
        return record, occupied, high

    def _find_in(self, data: bytes, place: int) -> int | None:
        """Find where a record begins in bytes of the log that begin at ``place``; it may continue behind them."""
        return find_record(Buffer(data), place, place, place + len(data), or_cut=True, framing=self._log.framing)

    def _probe_far(self, end: int, stop: int) -> int | None:
        """Find a record far behind the end with small reads, which run at the same time."""
        places, distance = [], BEHIND
        while end + distance < stop:
            places.append(end + distance)
            distance *= 2
        parts = zip(places, self._log.file_run.pread_many(places, FAR_PROBE), strict=True)
        found = (self._find_in(data, at) for at, data in parts if any(data))
        return next((record for record in found if record is not None and not self._is_half_written(record)), None)

    def _last_record(self, record: int, occupied: int) -> int:
        """Find a record near the last bytes in use, if the known record is far from them."""
        for most in LOOK_BACK:
            place = max(record, occupied - (most or LARGE_RECORD))
            if place == record:
                break
            if (found := self._log.find_later(place, occupied)) is not None:
                return found
        return record
