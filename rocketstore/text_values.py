"""Sizes, times and integers as users write them, for options of the command line and of Spark, and for columns.

Also names that are similar to a name that is unknown.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from rocketstore.limits import LONG_MAX

__all__ = ["find_similar", "format_duration", "format_time", "parse_integer", "parse_size", "parse_time"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIZE = re.compile("([0-9]{1,19}) *([kmgt]?)b?", re.IGNORECASE)
DAYS_AGO = {"today": 0, "yesterday": 1}
UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}  # milliseconds
SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def parse_integer(text: str) -> int:
    """Return the integer that a text stands for. Raises: ValueError."""
    if not re.fullmatch("[+-]?[0-9]{1,20}", text):
        raise ValueError("must be an integer")
    return int(text)


def parse_size(text: str) -> int:
    """Return a number of bytes. The text is a number and perhaps a unit in any case: k, m, g, t, kb, mb, gb or tb.

    Raises: ValueError.
    """
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("must be a number of bytes, such as 1048576, 512k, 16m or 1g")
    return int(match[1]) << SHIFTS[match[2].lower()]


def parse_time(text: str) -> int:
    """Return a time in milliseconds since the epoch. The text is an ISO 8601 time, UTC without a zone, or this number.

    It may also be now, a time before now (-90s, -5m, -1h, -2d), or the beginning of today or yesterday in UTC.
    Raises: ValueError, also for a number that is probably a year or a number of seconds.
    """
    now = time.time_ns() // 1_000_000
    if text in DAYS_AGO:
        return now // UNITS["d"] * UNITS["d"] - DAYS_AGO[text] * UNITS["d"]
    if match := re.fullmatch("-([0-9]{1,9})([smhd])", text):
        return now - int(match[1]) * UNITS[match[2]]
    if text == "now":
        return now
    if re.fullmatch("[0-9]{4}|[0-9]{10}", text):
        meaning = "seconds" if len(text) == 10 else "a year"
        raise ValueError(f"{text!r} looks like {meaning}: give an ISO 8601 time or epoch milliseconds")
    is_number = re.fullmatch("-?[0-9]{1,19}", text) and abs(int(text)) <= LONG_MAX
    if is_number and len(text) != len("20261121"):
        return int(text)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        if is_number:
            return int(text)
        forms = "an ISO 8601 time, epoch milliseconds, now, -5m, -1h, -2d, today or yesterday"
        raise ValueError(f"{text!r} is no time: give {forms}") from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - EPOCH) // timedelta(milliseconds=1)


def format_time(timestamp: int) -> str | None:
    """Return epoch milliseconds as ISO 8601 in UTC. Return None for 0, which means that no time was set."""
    if timestamp == 0:
        return None
    try:
        instant = EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return f"{timestamp} ms"
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_duration(seconds: int) -> str:
    """Return a duration in its two largest units: 45s, 3m 5s, 2h 0m, 4d 7h."""
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2])


def find_similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to an unknown one, in any case; None if no name is similar."""
    from difflib import get_close_matches  # only errors need it

    folded = {other.casefold(): other for other in known}
    matches = get_close_matches(name.casefold(), folded, 1)
    return folded[matches[0]] if matches else None
