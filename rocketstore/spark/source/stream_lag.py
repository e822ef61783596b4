"""How far a streaming query is behind the newest message of its store."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from rocketstore.text_values import datetime_or_none

PLACE, LAG, NEWEST = "phyOffset", "lagBytes", "newestStoreTimestamp"


class StreamLag(NamedTuple):
    """How far a stream is behind its store.

    Attributes: lag_bytes: the bytes of the log that no batch has read yet. newest_store_timestamp: the store time of
    the newest message, epoch ms; None for an empty log, or if it is damaged.
    """

    lag_bytes: int
    newest_store_timestamp: int | None

    @property
    def newest_store_time(self) -> datetime | None:
        """``newest_store_timestamp`` as a datetime in UTC."""
        at = self.newest_store_timestamp
        return None if at is None else datetime_or_none(at)


def stream_lag(progress: Any) -> list[StreamLag]:
    """Return how far a streaming query is behind its stores: one value for each store that it reads, in their order.

    Parameters: progress: ``query.lastProgress``, one of ``query.recentProgress``, or ``event.progress`` of a
    StreamingQueryListener. None, before the first progress, gives no value.
    Returns: nothing with PySpark 4.1, whose progress lacks the newest offset of a source.

    Examples:
    >>> stream_lag(None)
    []
    """
    sources: Iterable[Any] = () if progress is None else field_of(progress, "sources")
    pairs = ((offset_of(source, "endOffset"), offset_of(source, "latestOffset")) for source in sources)
    return [
        StreamLag(max(latest[PLACE] - end.get(PLACE, latest[PLACE] - latest[LAG]), 0), latest.get(NEWEST))
        for end, latest in pairs
        if {PLACE, LAG} <= latest.keys()
    ]


def offset_of(source: Any, name: str) -> dict[str, Any]:
    """Return an offset of a source; an empty dict if the source has none, or is of another format."""
    try:
        value = field_of(source, name)
        found = json.loads(value) if isinstance(value, str) else value
    except (AttributeError, KeyError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def field_of(value: Any, name: str) -> Any:
    """Return a field of an object, or of a dict, which a progress is if it was read from JSON."""
    return value[name] if isinstance(value, dict) else getattr(value, name)
