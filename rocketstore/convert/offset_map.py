"""OffsetMap: where the records of an old log are in a new log."""

from __future__ import annotations

import numpy as np

LEAST_ROOM = 1024  # rows


class OffsetMap:
    """The new physical offsets of records, by their old ones.

    Records that follow each other in both logs share a row of 24 bytes.
    """

    def __init__(self) -> None:
        self._rows = np.empty((LEAST_ROOM, 3), np.int64)  # old begin, old end, and how far the records moved
        self._count = 0

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._count

    def add(self, old: np.ndarray, sizes: np.ndarray, new: np.ndarray) -> None:
        """Add records in the order of both logs. Parameters: old, new: offsets, and sizes, bytes: int64[n]."""
        if len(old) == 0:
            return
        ends, moves = old + sizes, new - old
        begins_row = np.ones(len(old), bool)
        begins_row[1:] = (old[1:] != ends[:-1]) | (moves[1:] != moves[:-1])
        firsts = np.flatnonzero(begins_row)
        lasts = np.append(firsts[1:], len(old)) - 1
        self._append(np.column_stack([old[firsts], ends[lasts], moves[firsts]]))

    def _append(self, rows: np.ndarray) -> None:
        count = self._count
        if count and self._rows[count - 1, 1] == rows[0, 0] and self._rows[count - 1, 2] == rows[0, 2]:
            self._rows[count - 1, 1] = rows[0, 1]
            rows = rows[1:]
        if count + len(rows) > len(self._rows):
            more = np.empty((max(len(rows), len(self._rows)), 3), np.int64)
            self._rows = np.concatenate([self._rows, more])
        self._rows[count : count + len(rows)] = rows
        self._count = count + len(rows)

    def find(self, old: np.ndarray) -> np.ndarray:
        """Return the new physical offsets of records, -1 for an offset that is in no record, int64[n]."""
        rows = self._rows[: self._count]
        if not len(rows):
            return np.full(len(old), -1, np.int64)
        at = np.maximum(rows[:, 0].searchsorted(old, "right") - 1, 0)
        is_known = (rows[at, 0] <= old) & (old < rows[at, 1])
        return np.where(is_known, old + rows[at, 2], -1)

    @property
    def moves_records(self) -> bool:
        """Whether a record has another physical offset than before."""
        return bool(self._rows[: self._count, 2].any())
