"""Read numbers in names and properties as Java does."""

from __future__ import annotations

from collections.abc import Iterable

from rocketstore.broker_file import parse_number
from rocketstore.limits import LONG_MAX, LONG_MIN

__all__ = ["find_unreadable_offset", "parse_long"]


def parse_long(text: str) -> int | None:
    """Return the number that Long.parseLong reads from a text; None if it refuses the text."""
    return parse_number(text, LONG_MIN, LONG_MAX)


def find_unreadable_offset(names: Iterable[str], offsets: Iterable[str]) -> str | None:
    """Return the first offset of a light queue that makes a broker's dispatch of a record throw; None without one.

    A broker skips names with a slash before it reads their offsets.
    Parameters: names: of INNER_MULTI_DISPATCH. offsets: of INNER_MULTI_QUEUE_OFFSET, as many.
    Source: ConsumeQueue.multiDispatchLmqQueue.
    """
    pairs = zip(names, offsets, strict=True)
    return next((offset for name, offset in pairs if "/" not in name and parse_long(offset) is None), None)
