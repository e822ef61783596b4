"""From dispatch requests, as columns or a batch of messages, to the items that the index gets of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rocketstore.kernels.columns import checked_offsets, int32_column, int64_column
from rocketstore.kernels.index_requests import index_items
from rocketstore.kernels.value_columns import ListColumn
from rocketstore.messages.message_batch import MessageBatch

REQUIRED = ("topic", "phy_offset", "store_timestamp")
INDEXED_COLUMNS = (*REQUIRED, "uniq_key", "keys", "tags", "sys_flag")


class RequestItems(NamedTuple):
    """Items in the order of their requests: key_hashes, int32[n]; phy_offsets and store_timestamps, int64[n].

    count_requests: the number of requests. is_last_without_item: the last request has no item.
    """

    key_hashes: np.ndarray
    phy_offsets: np.ndarray
    store_timestamps: np.ndarray
    count_requests: int
    is_last_without_item: bool


def find_items(requests: Any, end_phy_offset: int, *, indexes_tags: bool) -> RequestItems:
    """Return the items of dispatch requests.

    Parameters
    ----------
    requests : a MessageBatch, or columns by name, as for ``IndexService.build_indexes``.
    end_phy_offset : the end of the newest index file, bytes. Requests before it have no items.
    indexes_tags : whether the tags of a message have an item of their own.

    Raises
    ------
    ValueError, TypeError : a column is missing, or has a bad row or length.

    Source: IndexService.buildIndex.
    """
    if isinstance(requests, MessageBatch):
        requests = {name: column for name in INDEXED_COLUMNS if (column := getattr(requests, name, None)) is not None}
    columns = {name: _column(requests, name) for name in INDEXED_COLUMNS}
    n = len(columns["phy_offset"])
    offsets = checked_offsets(columns["phy_offset"], n)
    times = int64_column(columns["store_timestamp"], "store_timestamp", n)
    flags = np.zeros(n, np.int64) if columns["sys_flag"] is None else columns["sys_flag"]
    topic = [columns["topic"]] * n if isinstance(columns["topic"], str) else columns["topic"]
    keys, key_bounds = columns["keys"], None
    if isinstance(keys, ListColumn):
        keys, key_bounds = keys.values, keys.offsets
    items = index_items(
        topic,
        columns["uniq_key"],
        keys,
        columns["tags"],
        offsets,
        int32_column(flags, "sys_flag", n),
        end_phy_offset,
        indexes_tags,
        key_bounds,
    )
    rows = items.rows
    is_last_without_item = len(rows) == 0 or int(rows[-1]) < n - 1
    return RequestItems(items.key_hashes, offsets[rows], times[rows], n, is_last_without_item)


def _column(requests: Any, name: str) -> Any:
    names = getattr(requests, "column_names", getattr(requests, "columns", requests))
    if name in names:
        return requests[name]
    if name in REQUIRED:
        raise ValueError(f"requests have no column {name!r}: {', '.join(REQUIRED)} are needed")
    return None
