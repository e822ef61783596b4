"""Numbers in names and properties as Java reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rocketstore.limits import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

__all__ = ["find_unreadable_offset", "parse_int", "parse_long"]

MOST_DIGITS = 4000  # Python refuses longer ones


def parse_int(text: str) -> int | None:
    """Read a number as Integer.parseInt does, None for what it refuses: digits of any script, none beyond U+FFFF."""
    return _parse(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> int | None:
    """Read a number as Long.parseLong does, None for what it refuses."""
    return _parse(text, LONG_MIN, LONG_MAX)


def find_unreadable_offset(names: Iterable[str], offsets: Iterable[str]) -> str | None:
    """Find the offset of a light queue with which the dispatch of a record throws, None if there is none.

    Names with a slash are skipped before their offset is read. Source: ConsumeQueue.multiDispatchLmqQueue.
    """
    pairs = zip(names, offsets, strict=True)
    return next((offset for name, offset in pairs if "/" not in name and parse_long(offset) is None), None)


def _parse(text: str, least: int, most: int) -> int | None:
    if len(text) > MOST_DIGITS or re.fullmatch(r"[+-]?\d+", text) is None or max(text) > "\uffff":
        return None
    return int(text) if least <= int(text) <= most else None
