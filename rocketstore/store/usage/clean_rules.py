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
from rocketstore.store.usage.zone_bins import HOUR

DEFAULT_DELETE_WHEN = "04"


@dataclass(frozen=True)
class CleanRules:
    """The settings of a broker that decide which files it deletes, and when.

    Attributes: file_reserved_hours: the least time since the last change of a file that is deleted (fileReservedTime).
    delete_when: the hours of the day, in the broker's time zone. problem: why the broker deletes files only at these
    hours, or None. disk_max_used_ratio: if more of a disk is used, old files are deleted at any hour
    (diskMaxUsedSpaceRatio). disk_clean_forcibly_ratio: if more is used, files are deleted whatever their age
    (diskSpaceCleanForciblyRatio), unless clean_file_forcibly_enable is False. disk_warning_level_ratio: if more is
    used, the broker also refuses messages (diskSpaceWarningLevelRatio). delete_file_batch_max: the number of files that
    are deleted before the broker measures the disk again.
    """

    file_reserved_hours: float
    delete_when: tuple[int, ...]
    problem: str | None
    disk_max_used_ratio: float
    disk_clean_forcibly_ratio: float
    disk_warning_level_ratio: float
    clean_file_forcibly_enable: bool
    delete_file_batch_max: int

    @classmethod
    def of_config(cls, config: StoreConfig, hours: float | None = None) -> Self:
        """Parameters: hours: in place of config.file_reserved_time. Raises: ValueError."""
        if hours is None:
            config.require_usable("file_reserved_time")
        given = config.file_reserved_time if hours is None else hours
        if not 0 <= given <= LONG_MAX / HOUR:
            raise ValueError(f"hours={given}: must be a number of hours, not negative")
        other = config.other
        newer = other if Compat.of(config.compat).has_clean_ratios else {}
        delete_when, problem = parse_hours(other.get("deleteWhen", DEFAULT_DELETE_WHEN))
        return cls(
            file_reserved_hours=given,
            delete_when=delete_when,
            problem=problem,
            disk_max_used_ratio=clamp(number_in(other, "diskMaxUsedSpaceRatio", 75), 10, 95) / 100,
            disk_clean_forcibly_ratio=clamp(number_in(newer, "diskSpaceCleanForciblyRatio", 85), 30, 85) / 100,
            disk_warning_level_ratio=clamp(number_in(newer, "diskSpaceWarningLevelRatio", 90), 35, 90) / 100,
            clean_file_forcibly_enable=parse_boolean(trim(other.get("cleanFileForciblyEnable", "true"))),
            delete_file_batch_max=max(number_in(newer, "deleteFileBatchMax", 10), 1),
        )

    def next_deletion(self, timestamp: int, zone: tzinfo | None) -> int | None:
        """Return the first time from ``timestamp`` on at which the broker looks for old files, epoch ms.

        Parameters: zone: of the broker; None for the zone of this machine. Returns: None if it never does.
        """
        for _ in range(2 * 24 + 2):  # a day may lack an hour
            local = datetime.fromtimestamp(timestamp / 1000, UTC).astimezone(zone)
            if local.hour in self.delete_when:
                return timestamp
            timestamp += HOUR - (local.minute * 60 + local.second) * 1000 - timestamp % 1000
        return None


def parse_hours(text: str) -> tuple[tuple[int, ...], str | None]:
    """Return the hours of deleteWhen, and a sentence that says what is wrong with the setting, or None.

    Source: UtilAll.isItTimeToDo.
    """
    parts = text.split(";")
    while parts and not parts[-1]:  # as String.split
        parts.pop()
    hours: list[int] = []
    for part in parts:
        hour = parse_int(part)
        if hour is None:
            problem = (
                f"deleteWhen={text!r}: {part!r} is not an hour: the broker deletes files only at these hours: {hours}"
            )
            return tuple(hours), problem
        hours.append(hour)
    return tuple(hours), None


def number_in(other: Mapping[str, str], name: str, default: int) -> int:
    """Return a number of the broker's file; the default if the setting is missing or is not a number."""
    number = parse_int(trim(other.get(name, "")))
    return default if number is None else number


def clamp(number: int, least: int, most: int) -> int:
    return min(max(number, least), most)
