"""LogEnd: where the messages of a commit log end, whatever is damaged before that."""

from __future__ import annotations

import math
import time

from rocketstore.disk.storage import is_remote
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_rule import StoreState

__all__ = ["LogEnd"]

LOOK_AHEAD_SECONDS = 10.0


class LogEnd:
    """Where a log ends: after its last record, with damage before that one in between, or none. Moves on with it.

    Attributes: last_phy_offset: of the last record that ``find`` saw, bytes; None if there is none.
    """

    def __init__(self, log: CommitLog) -> None:
        self.last_phy_offset: int | None = None
        self._log = log
        self._end: int | None = None
        self._looked = -math.inf
        self._versions: list[tuple[object, ...]] = []  # of remote files, when it was looked behind the end

    def find(self) -> int:
        """Look where the log ends now, bytes. That nothing is behind bad bytes is looked for again every 10 seconds."""
        log = self._log
        if log.ending.state == StoreState.STOPPED and not is_remote(log.directories[0]):
            stopped_end, self.last_phy_offset = log.max_phy_offset, log.last_phy_offset
            if not self._is_to_look(stopped_end != self._end) or not self._has_new_records(stopped_end):
                self._end = stopped_end
                return stopped_end
        before, scanner = self._end, log.scanner(())
        log.refresh()
        end = None if before is None else log.walk_on(scanner, self.last_phy_offset, before)
        if end is None:
            self.last_phy_offset = None
            end = log.walk(scanner, log.last_begun_file())
        if self._is_to_look(end != before):
            while (later := log.find_later(end, LONG_MAX)) not in (None, end) and not log.ending.is_cut(end, later):
                end = log.walk(scanner, later)
            self._looked, self._versions = time.monotonic(), self._remote_versions()
        if scanner.last_phy_offset >= 0:
            self.last_phy_offset = scanner.last_phy_offset
        self._end = end
        return min(end, log.find_limit())

    def _has_new_records(self, end: int) -> bool:
        """Return whether there are records behind the end of a stopped store's log that no broker cut off."""
        has_come = self._log.find_later(end, LONG_MAX) is not None and not self._log.ending.is_at(end)
        self._looked = -math.inf if has_come else time.monotonic()
        return has_come

    def _is_to_look(self, moves_on: bool) -> bool:
        """Whether to look behind the end. Remotely all there is has to be fetched: only where it does not move on."""
        if time.monotonic() < self._looked + LOOK_AHEAD_SECONDS:
            return False
        versions = self._remote_versions()
        return not versions or self._end is None or (not moves_on and versions != self._versions)

    def _remote_versions(self) -> list[tuple[object, ...]]:
        return [path.version() for path in (file.path for file in self._log.queue.files) if is_remote(path)]
