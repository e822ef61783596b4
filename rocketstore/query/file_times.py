"""FileTimes: the store times of the messages to which the items of an index file lead."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from rocketstore.errors import StoreError
from rocketstore.index.index_file import IndexFile
from rocketstore.kernels.columns import unmasked_values
from rocketstore.kernels.commit_log import OK
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog

# The times of a file with n items are read after KEYS_FOR_ITEM * n keys were searched for in it. To read the time of
# one item takes as long as to search for six keys. So the searches and the reading take at most twice as long as the
# searches alone.
KEYS_FOR_ITEM = 6
MAX_KEPT = 10_000  # files
ITEMS_AT_ONCE = 1 << 18
Times = tuple[int, int]  # first and last store time, epoch ms, both inclusive
NOT_READ: Final = (LONG_MAX, LONG_MIN)  # stands for the times of a file that were not read yet


class _FileState(NamedTuple):
    """What identifies a file, and its items."""

    name: str
    identity: object
    header: tuple[int, ...]


class FileTimes:
    """Chooses the index files that a query of a range of times must search.

    The header of an index file has the times of its first and its last message. They prove nothing about the messages
    between these two, since a clock may have been wrong. So the times of all messages to which its items lead are read
    once. The newest file, and a file that is not full, are always searched, since their items change. A search in
    another file would find neither a message nor damage, if the file has sound chains and all its items lead to sound
    records of other times.
    """

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self._searched = Counter[_FileState]()  # keys that were searched for in each file
        self._known: dict[_FileState, Times | None] = {}  # None: the file must be searched

    def choose(self, files: list[IndexFile], times: Times, n_keys: int) -> list[IndexFile]:
        """Return the files that a query must search. Parameters: files: newest first. n_keys: of the query."""
        return files[:1] + [file for file in files[1:] if self._may_match(file, times, n_keys)]

    def _may_match(self, file: IndexFile, times: Times, n_keys: int) -> bool:
        header = file.header
        if not file.is_write_full or (times[0] <= header.begin_timestamp and header.end_timestamp <= times[1]):
            return True
        known = self._find_times(file, n_keys)
        return known is None or (times[0] <= known[1] and known[0] <= times[1])

    def _find_times(self, file: IndexFile, n_keys: int) -> Times | None:
        """Return the times of a full file; None if they are not known, or not to be used.

        Other threads may ask for the same file at the same time: at worst, each of them reads its times.
        """
        state = _FileState(file.path.name, file.identity, tuple(file.header))
        known = self._known.get(state, NOT_READ)
        if known is not NOT_READ:
            return known
        if len(self._searched) >= MAX_KEPT or len(self._known) >= MAX_KEPT:
            self._searched.clear()
            self._known.clear()
        self._searched[state] += n_keys
        if self._searched[state] < KEYS_FOR_ITEM * len(file):
            return None
        self._known[state] = found = self._read_times(file)
        del self._searched[state]  # of a Counter: no error if another thread has done it
        return found

    def _read_times(self, file: IndexFile) -> Times | None:
        """Read the store times of all messages to which a file's items lead. Return None if some cannot be read."""
        try:
            return self._read_sound_times(file)
        except (StoreError, OSError):  # a search meets the error only if a key leads to that place
            return None

    def _read_sound_times(self, file: IndexFile) -> Times | None:
        """As ``_read_times``. Raises: StoreError, OSError if the disk cannot read a part of the file or of the log."""
        if not file.has_sound_chains():
            return None
        begin, end, count = LONG_MAX, LONG_MIN, len(file)
        for first in range(1, count + 1, ITEMS_AT_ONCE):
            items = file.items(first, min(first + ITEMS_AT_ONCE, count + 1))
            offsets = np.unique(items["phy_offset"].astype(np.int64))
            batch, statuses = self.log.find_messages(offsets, columns=["store_timestamp"])
            if (statuses != OK).any():
                return None
            found = unmasked_values(batch.store_timestamp)
            begin, end = min(begin, int(found.min())), max(end, int(found.max()))
        return begin, end
