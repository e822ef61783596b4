"""IndexTail: the entries of messages behind the end of an index in RocksDB, which a broker has only in its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rocketstore.disk.store_path import StorePath
from rocketstore.index.key_lookup import KeySpan
from rocketstore.index.request_items import INDEXED_COLUMNS, find_items
from rocketstore.kernels.phy_offsets import PhyOffsets
from rocketstore.limits import LONG_MAX, LONG_MIN

MOST = 256 << 20  # bytes of the log that are read for their keys


@dataclass(frozen=True)
class IndexTail:
    """The entries of the last messages of a log.

    Attributes: begin, end: the part of the log that was read, bytes. key_hashes, phy_offsets, store_timestamps: of the
    entries, in the order of the log. by_hash: the rows of the entries, sorted by hash, int64[n].
    """

    path: StorePath
    begin: int
    end: int
    key_hashes: np.ndarray
    phy_offsets: np.ndarray
    store_timestamps: np.ndarray
    by_hash: np.ndarray
    identity: ClassVar[str] = "log"
    is_write_full: ClassVar[bool] = False

    @property
    def span(self) -> KeySpan | None:
        """The part of the log that has entries; None without an entry."""
        return KeySpan(int(self.phy_offsets[0]), int(self.phy_offsets[-1])) if len(self.phy_offsets) else None

    def select_phy_offsets_by_hash(
        self,
        key_hashes: np.ndarray,
        *,
        max_num: int = LONG_MAX,
        begin_timestamp: int = LONG_MIN,
        end_timestamp: int = LONG_MAX,
        threads: int = 1,
    ) -> PhyOffsets:
        """Find the offsets of hashes, int32[n], newest first. Parameters: as for KeyLookup."""
        wanted = key_hashes.astype(self.key_hashes.dtype)
        bounds = (np.searchsorted(self.key_hashes, wanted, side, sorter=self.by_hash) for side in ("left", "right"))
        is_inside = (self.store_timestamps >= begin_timestamp) & (self.store_timestamps <= end_timestamp)
        found = []
        for first, stop in zip(*(bound.tolist() for bound in bounds), strict=True):
            rows = self.by_hash[first:stop]
            found.append(np.unique(self.phy_offsets[rows[is_inside[rows]]])[::-1][:max_num])
        ends = np.cumsum([0, *map(len, found)], dtype=np.int64)
        return PhyOffsets(np.concatenate([np.empty(0, np.int64), *found]), ends)

    def find_lost(self, key_hashes: np.ndarray) -> tuple[np.ndarray, str]:
        """Return that no hash has entries that cannot be found."""
        return np.empty(0, np.int64), ""

    def entries_between(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return physical offsets and hashes, int64[k] each, of the entries of the messages from first to last."""
        rows = (self.phy_offsets >= first) & (self.phy_offsets <= last)
        return self.phy_offsets[rows], self.key_hashes[rows].astype(np.int64)


def read_index_tail(log: Any, last: int, known: IndexTail | None) -> IndexTail | None:
    """Return the entries of the messages behind a physical offset; None if they are too many bytes of the log.

    Parameters: log: the commit log. last: where the last message begins that is in the index. known: what was read
    earlier; only the rest is read then.
    """
    end = log.max_phy_offset
    if not log.min_phy_offset <= last < end or end - last > MOST:
        return None
    parts = [known] if known is not None and known.begin == last and known.end <= end else []
    begin = parts[0].end if parts else last
    if parts and begin == end:
        return parts[0]
    columns = [(part.key_hashes, part.phy_offsets, part.store_timestamps) for part in parts]
    for batch in log.scan(begin, end, columns=INDEXED_COLUMNS, on_corrupt="skip"):
        items = find_items(batch, 0, indexes_tags=True)
        is_behind = items.phy_offsets > last
        columns.append((items.key_hashes[is_behind], items.phy_offsets[is_behind], items.store_timestamps[is_behind]))
    nothing = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64)
    hashes, phy_offsets, times = (np.concatenate(values) for values in zip(nothing, *columns, strict=True))
    by_hash = np.argsort(hashes, kind="stable")
    return IndexTail(log.directories[0], last, end, hashes, phy_offsets, times, by_hash)
