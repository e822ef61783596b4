"""SparseLogEnd: where the messages of a remote log end, found with a few small reads.

The last file of a log is 1 GiB, and its end may be anywhere in it. It is searched for as in a sorted list: a small
part of the file has records, or other bytes, or nothing but zeros.
"""

from __future__ import annotations

from rocketstore.files.commit_log import LARGE_RECORD, CommitLog
from rocketstore.files.scan import LOOK_BACK
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import find_record

__all__ = ["SparseLogEnd"]

PROBE = 16 << 10  # bytes to read of a place that may be behind the end
FAR_PROBE = 4 << 10  # bytes to read of a place that nearly always is
BEHIND = 64 << 10  # bytes behind the end that are searched whole for records behind damage


class SparseLogEnd:
    """Where a log ends: after its last record. Moves on with the log.

    Records behind damage count as for ``LogEnd``, where a look meets them: the 64 KiB behind the end are read whole,
    and behind these 4 KiB at each distance that is twice the one before.
    Attributes: last_phy_offset: of the last record that ``find`` saw, bytes; None if there is none.
    """

    def __init__(self, log: CommitLog) -> None:
        self.last_phy_offset: int | None = None
        self._log = log
        self._end: int | None = None

    def find(self) -> int:
        """Find where the log ends now, bytes. Some reads of 16 KiB, however long the log is. Raises: OSError."""
        log = self._log
        log.refresh()
        files = log.queue.files
        if not files:
            self.last_phy_offset, self._end = None, None
            return 0
        begin, stop = max(self._first_place(), log.last_begun_file()), files[-1].end_offset
        end = self._search(begin, stop)
        while (later := self._find_behind(end, stop)) is not None:
            if log.ending.is_cut(end, later, self.last_phy_offset):
                break
            end = self._search(later, stop)
        self._end = end
        return end

    def _first_place(self) -> int:
        """Where to begin: at the end that was found before, if the last record is still there."""
        last, end, log = self.last_phy_offset, self._end, self._log
        if last is None or end is None:
            return 0
        return end if log.walk(log.scanner(()), last, last + 1) == end else 0

    def _search(self, begin: int, stop: int) -> int:
        """Find where the records end that begin at an offset, where one begins or is to."""
        high = stop
        while True:
            record, high = self._narrow(begin, high)
            end = self._walk(record)
            if end < high and record > begin and end == record:  # a torn record is the last: look before it
                high = record
            elif end <= high or end >= stop:
                return end
            else:  # zeros within a body, or damage, were taken for the end
                begin, high = end, stop

    def _walk(self, record: int) -> int:
        scanner = self._log.scanner(())
        end = self._log.walk(scanner, record)
        if scanner.last_phy_offset >= 0:
            self.last_phy_offset = scanner.last_phy_offset
        return end

    def _narrow(self, low: int, high: int) -> tuple[int, int]:
        """Halve a range until what is left is short: (where a record begins, before where it all ends)."""
        record = occupied = low
        step = PROBE
        while occupied + step < high:  # from the front, since most often the log has grown a little
            found, is_used = self._look(occupied + step, high)
            if not is_used:
                high = occupied + step
                break
            record = record if found is None else found
            occupied, step = max(occupied + step, record), 2 * step
        while high - occupied > PROBE:
            middle = (occupied + high) // 2
            found, is_used = self._look(middle, high)
            if is_used:
                record = record if found is None else found
                occupied = max(middle, record)
            else:
                high = middle
        return self._last_record(record, occupied), high

    def _look(self, place: int, high: int, size: int = PROBE) -> tuple[int | None, bool]:
        """Read a small part: (the record that begins in it, whether there is anything but zeros)."""
        data = self._log.queue.pread(place, min(size, high - place))
        found = find_record(Buffer(data), place, place, place + len(data), or_cut=True) if data else None
        return found, found is not None or any(data)

    def _look_far(self, end: int, stop: int) -> int | None:
        """Find a record in small parts far behind an end, which are read at once."""
        places, distance = [], BEHIND
        while end + distance < stop:
            places.append(end + distance)
            distance *= 2
        parts = zip(places, self._log.queue.pread_many(places, FAR_PROBE), strict=True)
        found = (find_record(Buffer(data), at, at, at + len(data), or_cut=True) for at, data in parts if any(data))
        return next((record for record in found if record is not None), None)

    def _last_record(self, record: int, occupied: int) -> int:
        """Find a record that is near the last bytes in use, if the one that is known is far from them."""
        for most in LOOK_BACK:
            place = max(record, occupied - (most or LARGE_RECORD))
            if place == record:
                break
            if (found := self._log.find_later(place, occupied)) is not None:
                return found
        return record

    def _find_behind(self, end: int, stop: int) -> int | None:
        """Find a record behind an end, where only damage can be before it."""
        found = self._look(end, stop, BEHIND)[0] if end < stop else None
        if found is None:
            found = self._look_far(end, stop)
        return None if found is None or self._walk(found) == found else found
