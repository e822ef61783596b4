"""QueryOffsetResult: the answer of a lookup of one key in all index files."""

from __future__ import annotations

from typing import NamedTuple

from rocketstore.preview import show_fields


class QueryOffsetResult(NamedTuple):
    """The answer of ``IndexService.query_offset``: physical offsets, and the end of the newest index file.

    Offsets are bytes, the time is epoch ms. Source: QueryOffsetResult.

    Examples:
    >>> rocketstore.open("demo").index.query_offset("Orders", "order-1").phy_offsets
    [127]
    """

    phy_offsets: list[int]
    index_last_update_timestamp: int
    index_last_update_phy_offset: int

    def __repr__(self) -> str:
        return show_fields(self)
