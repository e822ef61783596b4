"""Find in which hour or day the messages of queues were stored, by reading few of their store times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

UNKNOWN = np.iinfo(np.int64).min  # the bin of a record that cannot be read


def find_bins(phy_offsets: np.ndarray, ends: np.ndarray, read_bins: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the bin of each message, int64[n]. Messages between two of one bin in a queue count for that bin.

    Parameters: phy_offsets: int64[n], bytes, queue by queue. ends: where each queue ends in them, int64[m], increasing
    and from 1 on. read_bins: returns the bins of records, ``UNKNOWN`` for one that cannot be read.
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
