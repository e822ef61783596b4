"""Numbers in names and properties as Java reads them."""

from __future__ import annotations

from collections.abc import Iterable

from rocketstore.broker_file import parse_number
from rocketstore.limits import LONG_MAX, LONG_MIN

__all__ = ["find_unreadable_offset", "parse_long"]


def parse_long(text: str) -> int | None:
    """Read a number as Long.parseLong does, None for what it refuses."""
    return parse_number(text, LONG_MIN, LONG_MAX)


def find_unreadable_offset(names: Iterable[str], offsets: Iterable[str]) -> str | None:
    """Find the offset of a light queue with which the dispatch of a record throws, None if there is none.

    Names with a slash are skipped before their offset is read. Source: ConsumeQueue.multiDispatchLmqQueue.
    """
    pairs = zip(names, offsets, strict=True)
    return next((offset for name, offset in pairs if "/" not in name and parse_long(offset) is None), None)
