"""Find the minute, the hour or the day of times in a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from rocketstore.text_values import EPOCH, with_zone

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000  # ms
QUARTER = 900_000  # ms; clocks of most zones differ from UTC by quarters of an hour


def begins_of(times: np.ndarray, width: int, zone: tzinfo | None = UTC) -> np.ndarray:
    """Return the begin of the minute, hour or day of each time, int64[n], epoch ms.

    Parameters: times: int64[n], epoch ms. width: MINUTE, HOUR or DAY. zone: None for the zone of this machine.
    """
    if zone is UTC or width == MINUTE:
        begins: np.ndarray = times - times % width
        return begins
    quarters, places = np.unique(times // QUARTER, return_inverse=True)
    starts = (quarters * QUARTER).tolist()
    found = np.array([begin_in_zone(start, width, zone) for start in starts], np.int64)[places]
    uneven = np.array([has_uneven_offset(start, zone) for start in starts], np.bool_)[places]
    found[uneven] = [begin_in_zone(time, width, zone) for time in times[uneven].tolist()]
    return found


def begin_of(timestamp: int, width: int, zone: tzinfo | None = UTC) -> int:
    """Return the begin of the minute, hour or day of a time, epoch ms. Parameters: as for ``begins_of``."""
    if zone is UTC or width == MINUTE:
        return timestamp - timestamp % width
    return begin_in_zone(timestamp, width, zone)


def begin_in_zone(timestamp: int, width: int, zone: tzinfo | None) -> int:
    """Return the begin of the hour or the day of a time, epoch ms. Beyond the years 1 to 9999 it is that of UTC."""
    try:
        local = (EPOCH + timedelta(milliseconds=timestamp)).astimezone(zone)
        if width == HOUR:
            return timestamp - local.minute * MINUTE - local.second * 1000 - local.microsecond // 1000
        midnight = with_zone(datetime(local.year, local.month, local.day), zone)
        return (midnight - EPOCH) // timedelta(milliseconds=1)
    except (OverflowError, OSError, ValueError):
        return timestamp - timestamp % width


def has_uneven_offset(quarter: int, zone: tzinfo | None) -> bool:
    """Return whether hours or days of a zone may begin within a quarter of an hour of UTC.

    Many zones had such offsets before 1920. Parameters: quarter: its begin, epoch ms.
    """
    try:
        first, last = (
            (EPOCH + timedelta(milliseconds=time)).astimezone(zone).utcoffset()
            for time in (quarter, quarter + QUARTER - 1)
        )
    except (OverflowError, OSError, ValueError):
        return False
    return first != last or (first or timedelta()) % timedelta(milliseconds=QUARTER) != timedelta()
