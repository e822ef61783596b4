"""Find in which hour or day the messages of queues were stored, by reading few of their store times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

UNKNOWN = np.iinfo(np.int64).min  # the bin of a record that cannot be read


def find_bins(phy_offsets: np.ndarray, ends: np.ndarray, read_bins: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the bin of each message: the begin of its hour or day, int64[n].

    If two messages of a queue have the same bin, the messages between them are assumed to have it too.

    Parameters: phy_offsets: of the messages of the first queue, then of the second, and so on, int64[n], bytes. ends:
    the index in ``phy_offsets`` at which each queue ends, int64[m], increasing; no queue is empty. read_bins: returns
    the bins of the records at physical offsets, ``UNKNOWN`` for a record that cannot be read.
    """
    bins = np.empty(len(phy_offsets), np.int64)
    last = ends - 1
    first = np.concatenate([[0], ends[:-1]])
    bins[first] = read_bins(phy_offsets[first])
    bins[last] = read_bins(phy_offsets[last])
    while len(first):
        same = (bins[first] == bins[last]) & (bins[first] != UNKNOWN)
        for begin, end in zip(first[same].tolist(), last[same].tolist(), strict=True):
            bins[begin:end] = bins[begin]
        is_open = ~same & (last - first > 1)
        first, last = first[is_open], last[is_open]
        middle = (first + last) // 2
        bins[middle] = read_bins(phy_offsets[middle])
        first, last = np.concatenate([first, middle]), np.concatenate([middle, last])
    return bins
