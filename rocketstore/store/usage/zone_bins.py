"""Find the minute, the hour or the day of times in a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from rocketstore.text_values import EPOCH, with_zone

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000  # ms
QUARTER = 900_000  # ms; clocks of a zone differ from UTC by quarters of an hour


def begins_of(times: np.ndarray, width: int, zone: tzinfo | None = UTC) -> np.ndarray:
    """Return the begin of the minute, hour or day of each time, int64[n], epoch ms.

    Parameters: times: int64[n], epoch ms. width: MINUTE, HOUR or DAY. zone: None for the zone of this machine.
    """
    if zone is UTC or width == MINUTE:
        begins: np.ndarray = times - times % width
        return begins
    quarters, places = np.unique(times // QUARTER, return_inverse=True)
    found = [begin_of_quarter(quarter * QUARTER, width, zone) for quarter in quarters.tolist()]
    return np.array(found, np.int64)[places]


def begin_of(timestamp: int, width: int, zone: tzinfo | None = UTC) -> int:
    """Return the begin of the minute, hour or day of a time, epoch ms. Parameters: as for ``begins_of``."""
    if zone is UTC or width == MINUTE:
        return timestamp - timestamp % width
    return begin_of_quarter(timestamp - timestamp % QUARTER, width, zone)


def begin_of_quarter(quarter: int, width: int, zone: tzinfo | None) -> int:
    """Return the begin of the hour or the day of a quarter of an hour. Beyond the years 1 to 9999 it is that of UTC.

    Parameters: quarter: its begin, epoch ms.
    """
    try:
        local = (EPOCH + timedelta(milliseconds=quarter)).astimezone(zone)
        if width == HOUR:
            return quarter - local.minute * MINUTE
        midnight = with_zone(datetime(local.year, local.month, local.day), zone)
        return (midnight - EPOCH) // timedelta(milliseconds=1)
    except (OverflowError, OSError, ValueError):
        return quarter - quarter % width
