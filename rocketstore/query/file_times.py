"""FileTimes: the store times of the messages to which the items of an index file lead."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from rocketstore.index.index_file import IndexFile
from rocketstore.kernels.commit_log import OK
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog

# Keys that are searched for in a file, for each item of it, before its times are read. Reading them takes six times as
# long for an item as the search takes for a key, so no series of queries takes more than twice as long.
KEYS_FOR_ITEM = 6
MAX_KEPT = 10_000  # files
ITEMS_AT_ONCE = 1 << 18
Times = tuple[int, int]  # first and last store time, epoch ms, both inclusive


class _FileState(NamedTuple):
    """What identifies a file, and its items."""

    name: str
    identity: object
    header: tuple[int, ...]


class FileTimes:
    """Says which index files a query of a range of times need not search.

    The times in the header of an index file prove nothing: they are those of its first and last message, and a clock
    may have been wrong between them. So the times of all messages to which its items lead are read once. This is done
    for a full file that is not the newest, since its items do not change. If the file has sound chains, and all its
    items lead to sound records of other times, a search in it would find nothing, not even damage.
    """

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self._asked = Counter[_FileState]()
        self._known: dict[_FileState, Times | None] = {}  # None: the file must be searched

    def choose(self, files: list[IndexFile], times: Times, n_keys: int) -> list[IndexFile]:
        """Return the files that a query must search. Parameters: files: newest first. n_keys: of the query."""
        return files[:1] + [file for file in files[1:] if self._may_match(file, times, n_keys)]

    def _may_match(self, file: IndexFile, times: Times, n_keys: int) -> bool:
        header = file.header
        if not file.is_write_full or (times[0] <= header.begin_timestamp and header.end_timestamp <= times[1]):
            return True
        state = _FileState(file.path.name, file.identity, tuple(header))
        if state not in self._known:
            if len(self._asked) >= MAX_KEPT or len(self._known) >= MAX_KEPT:
                self._asked.clear()
                self._known.clear()
            self._asked[state] += n_keys
            if self._asked[state] < KEYS_FOR_ITEM * len(file):
                return True
            del self._asked[state]
            self._known[state] = self._read_times(file)
        known = self._known[state]
        return known is None or (times[0] <= known[1] and known[0] <= times[1])

    def _read_times(self, file: IndexFile) -> Times | None:
        """Read the store times of all messages to which a file's items lead. Return None if some cannot be read."""
        if not file.has_sound_chains():
            return None
        begin, end, count = LONG_MAX, LONG_MIN, len(file)
        for first in range(1, count + 1, ITEMS_AT_ONCE):
            items = file.items(first, min(first + ITEMS_AT_ONCE, count + 1))
            offsets = np.unique(items["phy_offset"].astype(np.int64))
            batch, statuses = self.log.find_messages(offsets, columns=["store_timestamp"])
            if (statuses != OK).any():
                return None
            found = np.ma.getdata(batch.store_timestamp)
            begin, end = min(begin, int(found.min())), max(end, int(found.max()))
        return begin, end
