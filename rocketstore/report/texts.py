"""Numbers and times of a report page as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from rocketstore.store.usage.zone_bins import DAY, HOUR, MINUTE, SECOND
from rocketstore.text_values import datetime_or_none, find_time_zone, format_time

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def size_text(size: float) -> str:
    """Return a number of bytes with a unit: 1.5 MB are 1,500,000 bytes."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:,.0f} {unit}" if unit == "bytes" or size >= 99.95 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def share_text(part: float, whole: float) -> str:
    """Return a part of a whole in percent."""
    share = part / whole if whole else 0.0
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{share:.1%}" if share >= 0.001 else "< 0.1%"


def count_text(value: int | str | None) -> str:
    """Return a number with commas, a text as it is, and "unknown" for None."""
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else value


def duration_text(duration: int) -> str:
    """Return a duration in its largest unit. Parameters: duration: ms."""
    for unit, size in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND)):
        if duration >= size:
            return f"{round(duration / size, 1):g} {unit}"
    return f"{duration} ms"


@dataclass(frozen=True)
class Clock:
    """The time zone of the times of a page, and the time at which the page was made.

    Attributes: zone: None for the zone of this machine. now: epoch ms.
    """

    zone: tzinfo | None
    now: int

    @classmethod
    def of(cls, tz: str | tzinfo | None, now: int) -> Clock:
        """Parameters: tz: a name, "local", or a tzinfo; None for UTC. Raises: ValueError for an unknown name."""
        return cls(UTC if tz is None else find_time_zone(tz), now)

    @property
    def name(self) -> str:
        """The name of the time zone."""
        local = self.local(self.now)
        if self.zone is not None:
            return str(self.zone)
        return "this machine's time zone" if local is None else f"this machine's time zone, {local.tzname()}"

    def local(self, timestamp: int) -> datetime | None:
        """Return a time in the zone; None if it is beyond the years of a datetime. Parameters: timestamp: epoch ms."""
        try:
            found = datetime_or_none(timestamp)
            return None if found is None else found.astimezone(self.zone)
        except (OverflowError, OSError):
            return None

    def offset(self, timestamp: int) -> int:
        """Return the difference of the zone to UTC at a time, ms."""
        local = self.local(timestamp)
        difference = None if local is None else local.utcoffset()
        return 0 if difference is None else round(difference.total_seconds() * 1000)

    def text(self, timestamp: int | None, *, has_ms: bool = False) -> str:
        """Return a time to the second, or to the millisecond. Parameters: timestamp: epoch ms; 0, None: unknown."""
        text = None if timestamp is None else format_time(timestamp, self.zone)
        if text is None or "T" not in text:
            return "unknown" if text is None else text
        return text[: len("2026-11-27T12:00:00.000") if has_ms else len("2026-11-27T12:00:00")].replace("T", " ")

    def day_text(self, timestamp: int) -> str:
        """Return a time to the minute, with the day of the week if it is near. Parameters: timestamp: epoch ms."""
        local, now = self.local(timestamp), self.local(self.now)
        if local is None or now is None:
            return self.text(timestamp)
        days = (local.date() - now.date()).days
        day = "today" if days == 0 else WEEKDAYS[local.weekday()] if 0 < days < 7 else local.date().isoformat()
        return f"{day} {local:%H:%M}"
