"""CleanRules: when a broker deletes files, by its settings. Source: CleanCommitLogService."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Self

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.java_text import parse_boolean, parse_int, trim
from rocketstore.limits import LONG_MAX

HOUR = 3_600_000  # ms
DEFAULT_DELETE_WHEN = "04"


@dataclass(frozen=True)
class CleanRules:
    """The settings of a broker that decide which files it deletes, and when.

    Attributes: reserved_hours: since a file was changed (fileReservedTime). delete_hours: of the day, in the broker's
    time zone (deleteWhen). problem: why the broker deletes nothing at other hours, or None. max_share: above this used
    share of a disk files that are old enough are deleted at once (diskMaxUsedSpaceRatio). clean_share: above it files
    are deleted at once, whatever their age (diskSpaceCleanForciblyRatio). full_share: above it the broker also refuses
    messages (diskSpaceWarningLevelRatio). cleans_forcibly: cleanFileForciblyEnable. batch: files deleted in a round,
    after which the disk is looked at again (deleteFileBatchMax).
    """

    reserved_hours: float
    delete_hours: tuple[int, ...]
    problem: str | None
    max_share: float
    clean_share: float
    full_share: float
    cleans_forcibly: bool
    batch: int

    @classmethod
    def of_config(cls, config: StoreConfig, hours: float | None = None) -> Self:
        """Parameters: hours: in place of config.file_reserved_time. Raises: ValueError."""
        if hours is None:
            config.require_usable("file_reserved_time")
        given = config.file_reserved_time if hours is None else hours
        if not 0 <= given <= LONG_MAX / HOUR:
            raise ValueError(f"hours={given}: must be a number of hours, not negative")
        other = config.other
        later = other if Compat.of(config.compat).has_clean_ratios else {}
        delete_hours, problem = parse_hours(other.get("deleteWhen", DEFAULT_DELETE_WHEN))
        return cls(
            reserved_hours=given,
            delete_hours=delete_hours,
            problem=problem,
            max_share=clamp(number_in(other, "diskMaxUsedSpaceRatio", 75), 10, 95) / 100,
            clean_share=clamp(number_in(later, "diskSpaceCleanForciblyRatio", 85), 30, 85) / 100,
            full_share=clamp(number_in(later, "diskSpaceWarningLevelRatio", 90), 35, 90) / 100,
            cleans_forcibly=parse_boolean(trim(other.get("cleanFileForciblyEnable", "true"))),
            batch=max(number_in(later, "deleteFileBatchMax", 10), 1),
        )

    def next_deletion(self, timestamp: int, zone: tzinfo | None) -> int | None:
        """Return the first time from ``timestamp`` on at which the broker looks for old files, epoch ms.

        Parameters: zone: of the broker; None for the zone of this machine. Returns: None if it never does.
        """
        for _ in range(2 * 24 + 2):  # a day may lack an hour
            local = datetime.fromtimestamp(timestamp / 1000, UTC).astimezone(zone)
            if local.hour in self.delete_hours:
                return timestamp
            timestamp += HOUR - (local.minute * 60 + local.second) * 1000 - timestamp % 1000
        return None


def parse_hours(text: str) -> tuple[tuple[int, ...], str | None]:
    """Return the hours of deleteWhen, and what is wrong with it. Source: UtilAll.isItTimeToDo."""
    parts = text.split(";")
    while parts and not parts[-1]:  # as String.split
        parts.pop()
    hours: list[int] = []
    for part in parts:
        hour = parse_int(part)
        if hour is None:
            problem = (
                f"deleteWhen={text!r}: {part!r} is no hour: the broker deletes nothing at other hours than {hours}"
            )
            return tuple(hours), problem
        hours.append(hour)
    return tuple(hours), None


def number_in(other: Mapping[str, str], name: str, default: int) -> int:
    """Return a number of the broker's file; the default if it is missing, or no number."""
    number = parse_int(trim(other.get(name, "")))
    return default if number is None else number


def clamp(number: int, least: int, most: int) -> int:
    return min(max(number, least), most)
