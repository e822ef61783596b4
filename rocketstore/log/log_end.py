"""LogEnd: where the last record of a commit log ends, also if bytes before that record are damaged."""

from __future__ import annotations

import math
import time

from rocketstore.disk.storage import is_remote
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_rule import StoreState
from rocketstore.log.ending import EndSearch

__all__ = ["LogEnd"]

LOOK_AHEAD_SECONDS = 10.0


class LogEnd:
    """Finds where the last record of a log ends, also while the log grows.

    ``CommitLog.max_phy_offset`` is before the first damage in the last files. This class also finds records behind the
    damage.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._search = EndSearch(log)
        self._searched = -math.inf  # seconds of the monotonic clock, when bytes behind the end were searched
        self._versions: list[tuple[object, ...]] = []  # of remote files, at that time

    @property
    def last_phy_offset(self) -> int | None:
        """Where the last record begins that ``find`` saw, bytes; None without a record."""
        return self._search.last_phy_offset

    def find(self) -> int:
        """Return where the last record ends now, bytes. The bytes behind the end are searched every 10 seconds."""
        log, search, before = self._log, self._search, self._search.end
        if log.ending.state == StoreState.STOPPED and not is_remote(log.directories[0]):
            stopped_end, search.last_phy_offset = log.max_phy_offset, log.last_phy_offset
            if not self._must_search(before, stopped_end) or not self._has_new_records(stopped_end):
                search.end = stopped_end
                return stopped_end
        scanner = log.scanner(())
        log.refresh()
        end = search.find(scanner, log.last_begun_file)
        if self._must_search(before, end):
            while (later := log.find_later(end, LONG_MAX)) not in (None, end) and not log.ending.is_cut(end, later):
                end = search.find_behind(scanner, later)
            self._searched, self._versions = time.monotonic(), self._remote_versions()
        return min(end, log.ending.find_limit())

    def _has_new_records(self, end: int) -> bool:
        """Return whether records that no broker cut off stand behind the end of a stopped store's log."""
        has_come = self._log.find_later(end, LONG_MAX) is not None and not self._log.ending.is_at(end)
        self._searched = -math.inf if has_come else time.monotonic()
        return has_come

    def _must_search(self, before: int | None, end: int) -> bool:
        """Return whether to search behind the end, which was at ``before`` at the last call.

        A search of remote files fetches all their bytes. So they are searched only if the end does not move.
        """
        if time.monotonic() < self._searched + LOOK_AHEAD_SECONDS:
            return False
        versions = self._remote_versions()
        return not versions or before is None or (end == before and versions != self._versions)

    def _remote_versions(self) -> list[tuple[object, ...]]:
        return [path.version() for path in (file.path for file in self._log.queue.files) if is_remote(path)]
