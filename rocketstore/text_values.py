"""Sizes, times and integers as users write them, for options of the command line and of Spark, and for columns.

Also names that are similar to a name that is unknown.
"""

from __future__ import annotations

import contextlib
import operator
import re
import time
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Literal

from rocketstore.limits import LONG_MAX, LONG_MIN

Time = int | str | date  # epoch milliseconds; ISO 8601; a datetime is a date
Zone = str | tzinfo | None  # a name such as Asia/Shanghai; None and "local" are the zone of this machine
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXPECTED_TIME = "give epoch milliseconds, a datetime or an ISO 8601 time"
MOST_NANOSECONDS = 4 * 10**18  # in the year 2096; larger numbers stand for "no end"
SIZE = re.compile("([0-9]{1,19}) *([kmgt]?)b?", re.IGNORECASE)
TIME_AGO = re.compile(
    "-?([0-9]{1,9}) *(s|m|h|d|w|seconds?|secs?|minutes?|mins?|hours?|days?|weeks?)(?: +ago)?", re.IGNORECASE
)
TIME_OF_DAY = re.compile(
    "(?=.)(today|yesterday)?(?:(?:^|(?<=y) +)([0-9]{1,2})(:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{1,6})?)?))?", re.IGNORECASE
)
DAYS_AGO = {"today": 0, "yesterday": 1}
UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}  # milliseconds
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


def parse_share(share: float | str) -> float:
    """Return a share of a whole: above 0, and at most 1.

    Parameters: share: a number such as 0.01, or a text such as 1%. Raises: ValueError.
    """
    text = str(share).strip()
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0
    if not 0 < value <= 1:
        raise ValueError(f"{text!r:.40} must be a part of all, such as 1% or 0.01, and no number of messages")
    return value


def parse_time(text: str, zone: tzinfo | None = UTC) -> int:
    """Return a time in milliseconds since the epoch. The text is an ISO 8601 time, or this number.

    It may also be now; a time before now (1h, -1h, 1 hour ago); a time of today (10:00); or today or yesterday, which
    begin at midnight, perhaps with a time of that day (yesterday 14:00).

    Parameters: zone: of times and days without a zone; None for the zone of this machine.
    Raises: ValueError, also for a number that is probably a year, or has another unit.
    """
    now = time.time_ns() // 1_000_000
    if text == "now":
        return now
    if (match := TIME_AGO.fullmatch(text)) is not None:
        return now - int(match[1]) * UNITS[match[2][0].lower()]
    is_number = re.fullmatch("-?[0-9]{1,19}", text) and abs(int(text)) <= LONG_MAX
    if is_number and len(text) != len("20261121"):
        unit = "a year" if re.fullmatch("[0-9]{4}", text) else wrong_unit(int(text))
        if unit is not None:
            raise ValueError(f"{text!r} looks like {unit}: {EXPECTED_TIME}")
        return int(text)
    try:
        day_and_time = TIME_OF_DAY.fullmatch(text)
        when = datetime.fromisoformat(text) if day_and_time is None else _time_of_day(day_and_time, now, zone)
        return epoch_ms(when if when.tzinfo else with_zone(when, zone), text)
    except (ValueError, OverflowError):
        if is_number:
            return int(text)
        forms = "an ISO 8601 time, epoch milliseconds, now, 1h, 1 hour ago, 10:00, today or yesterday 14:00"
        raise ValueError(f"{text!r} is no time: give {forms}") from None


def _time_of_day(match: re.Match[str], now: int, zone: tzinfo | None) -> datetime:
    """Return a time of today or yesterday without its zone. Raises: ValueError for a time such as 25:00."""
    day, hours, rest = match.groups()
    today = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone).date()
    date_of_day = today - timedelta(days=DAYS_AGO["today" if day is None else day.lower()])
    return datetime.fromisoformat(f"{date_of_day}T{hours or '0':0>2}{rest or ':00'}")


def with_zone(when: datetime, zone: tzinfo | None) -> datetime:
    """Return a time that has no zone as a time of a zone. Parameters: zone: None for the zone of this machine."""
    return when.astimezone() if zone is None else when.replace(tzinfo=zone)


def epoch_ms(when: Time, name: str, zone: tzinfo | None = UTC) -> int:
    """Return a time as milliseconds since the epoch.

    Parameters: when: epoch milliseconds, a datetime, a date (its begin), or a text for ``parse_time``. name: of the
    argument, for errors. zone: of times and dates without a zone; None for that of this machine. Raises: TypeError for
    any other type; ValueError for a number of another unit, or beyond int64.
    """
    if isinstance(when, str):
        try:
            return parse_time(when, zone)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if isinstance(when, date):
        if not isinstance(when, datetime):
            when = datetime(when.year, when.month, when.day)
        return ((when if when.tzinfo else with_zone(when, zone)) - EPOCH) // timedelta(milliseconds=1)
    if not hasattr(when, "__index__"):
        raise TypeError(
            f"{name}={when!r:.80}: an int (epoch milliseconds), a datetime, a date or an ISO 8601 text was expected"
        )
    number = operator.index(when)
    if not LONG_MIN <= number <= LONG_MAX:
        raise ValueError(f"{name}={number} is beyond int64")
    if (unit := wrong_unit(number)) is not None:
        raise ValueError(f"{name}={number} looks like {unit}: {EXPECTED_TIME}")
    return number


def time_as_long(when: Time, name: str) -> int:
    """Return a time as a field of a file: as ``epoch_ms``, but an integer may have any size, as in RocketMQ."""
    return when if isinstance(when, int) else epoch_ms(when, name)


SHORT_ZONE = 5  # letters; a shorter name abbreviates the name of a zone, and often of several


def find_time_zone(name: Zone) -> tzinfo | None:
    """Return a time zone by its name, such as Asia/Shanghai. None and "local" are the zone of this machine: None.

    Raises: ValueError for an unknown name.
    """
    if name is None or name == "local":
        return None
    if isinstance(name, tzinfo):
        return name
    if not isinstance(name, str):
        raise TypeError(f"tz={name!r:.80}: the name of a time zone or a tzinfo was expected")
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, available_timezones  # only users with a time zone need it

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        similar = find_similar(name, available_timezones())
        is_short = len(name) < SHORT_ZONE or name[-1:].isdigit()
        if similar is not None and is_short and similar.casefold() != name.casefold():
            similar = None  # CST is like UCT, but means the time of China or of Chicago; UTC+8 is not UTC
        hint = f"did you mean {similar!r}?" if similar else "give a time zone such as Asia/Shanghai, UTC or local"
        raise ValueError(f"tz={name!r:.80}: there is no such time zone: {hint}") from None


def ms_or_none(when: Time | None, name: str, zone: tzinfo | None = UTC) -> int | None:
    """Return a time in epoch milliseconds, as ``epoch_ms`` does; None for None."""
    return None if when is None else epoch_ms(when, name, zone)


def begin_ms(when: Time | None, name: str, zone: tzinfo | None = UTC) -> int:
    """Return an inclusive begin in epoch milliseconds. None is no begin: the smallest int64."""
    return LONG_MIN if when is None else epoch_ms(when, name, zone)


def end_ms(when: Time | None, name: str, zone: tzinfo | None = UTC) -> int:
    """Return the last millisecond before an exclusive end. None is no end: the largest int64."""
    return LONG_MAX if when is None else max(epoch_ms(when, name, zone) - 1, LONG_MIN)


def wrong_unit(number: int) -> str | None:
    """Return the unit that a time probably has: one in which it is a time of the years 2001 to 2286, but ms is not.

    None for other numbers. As milliseconds, these are times of the first four months of 1970, or after the year 33000.
    """
    for unit, per_second in (("seconds", 1), ("microseconds", 1_000_000), ("nanoseconds", 1_000_000_000)):
        if 10**9 * per_second <= number < min(10**10 * per_second, MOST_NANOSECONDS):
            return unit
    return None


def datetime_or_none(timestamp: int) -> datetime | None:
    """Return epoch milliseconds as an aware datetime in UTC; None beyond the years 1 to 9999."""
    try:
        return EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return None


def format_time(
    timestamp: int, zone: tzinfo | None = UTC, precision: Literal["seconds", "milliseconds"] = "milliseconds"
) -> str | None:
    """Return epoch milliseconds as ISO 8601. Return None for 0, which means that no time was set.

    Parameters: zone: None for the zone of this machine.
    """
    if timestamp == 0:
        return None
    instant = datetime_or_none(timestamp)
    if instant is None:
        return f"{timestamp} ms"
    if zone is not UTC:
        with contextlib.suppress(OverflowError, OSError):  # in the first or the last hours of the years 1 to 9999
            instant = instant.astimezone(zone)
    return instant.isoformat(timespec=precision).replace("+00:00", "Z")


def utc(timestamp: int) -> str:
    """Return the text of a time in epoch milliseconds. Beyond the years 1 to 9999 it is the number."""
    when = datetime_or_none(timestamp)
    return str(timestamp) if when is None else when.isoformat(" ", "milliseconds")


def format_duration(seconds: int) -> str:
    """Return a duration in its two largest units: 45s, 3m 5s, 2h 0m, 4d 7h."""
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2])


def format_count(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: 1 file, 2,000 files. Parameters: nouns: a plural that is not the noun and an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {nouns or noun + 's'}"


def shorten(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters. A longer text loses its end, and an ellipsis shows it."""
    return text if len(text) <= most else text[: most - 1] + "…"


def printable(text: str) -> str:
    r"""Return a text with control characters and invisible characters as escape sequences such as ``\x1b``."""
    return escaped(text, lambda char: char.encode("unicode_escape").decode())


def escaped(text: str, escape: Callable[[str], str]) -> str:
    """Return a text with each character that is not printable replaced. Parameters: escape: of one character."""
    return text if text.isprintable() else "".join(c if c.isprintable() else escape(c).strip('"') for c in text)


@lru_cache(1024)  # of the columns of each dict that is put
def snake_case(name: str) -> str:
    """Return a name in camelCase in snake_case: queue_id for queueId. Any other name is returned unchanged."""
    if not re.fullmatch("[a-z][A-Za-z0-9]*", name):
        return name
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def find_similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to an unknown one, in any case; None if no name is similar."""
    from difflib import get_close_matches  # only errors need it

    folded = {other.casefold(): other for other in known}
    matches = get_close_matches(name.casefold(), folded, 1)
    return folded[matches[0]] if matches else None
