"""Leftovers: records behind the end of the log, which a broker cut off when it started and never erased."""

from __future__ import annotations

from rocketstore.files.commit_log import CommitLog
from rocketstore.files.end_rule import StoreState
from rocketstore.limits import LONG_MAX
from rocketstore.storage import is_remote
from rocketstore.store.recovery_tail import tails

__all__ = ["count_leftover_bytes", "describe_leftovers"]

NEAR = 1 << 20  # bytes behind the end of a remote log that are fetched


def count_leftover_bytes(log: CommitLog, end: int) -> int | None:
    """Return how many bytes of the log's files stand behind its end, from there to the last byte that is not zero.

    None if that is not known: the store crashed, or the log is remote and not all of what is near is zeros.
    """
    if log.ending.rule is None or log.ending.state == StoreState.CRASHED:
        return None
    if is_remote(log.directories[0]):
        return 0 if not log.queue.pread(end, NEAR).strip(b"\0") else None
    return sum(tail.end - tail.begin for tail in tails(log, end))


def describe_leftovers(log: CommitLog) -> str | None:
    """Describe the records behind the end of the log, for somebody who reads it; None if there are none."""
    if log.ending.rule is None or is_remote(log.directories[0]):
        return None
    end = log.max_phy_offset
    later = log.find_later(end, LONG_MAX)
    if later is None or not log.ending.is_at(end):
        return None
    return f"{log.directories[0]}: the log ends at {end}; a record at {later} and others behind the end are left out"
