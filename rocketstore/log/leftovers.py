"""Leftovers: records behind the end of the log, which a broker cut off when it started and never erased."""

from __future__ import annotations

from rocketstore.disk.storage import is_remote
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import StoreState
from rocketstore.log.tail import find_tails

NEAR = 1 << 20  # bytes behind the end of a remote log that are fetched


def count_leftover_bytes(log: CommitLog, end: int) -> int | None:
    """Return how many bytes of the log's files stand behind its end, from there to the last byte that is not zero.

    None if that is not known: the store crashed, or the log is remote and has other bytes than zeros near its end.
    """
    if not log.end_finder.is_end_known():
        return None
    if is_remote(log.directories[0]):
        return 0 if not log.file_run.pread(end, NEAR).strip(b"\0") else None
    return sum(tail.end - tail.begin for tail in find_tails(log, end))


def describe_leftovers(log: CommitLog) -> str | None:
    """Return a text about records behind the end of the log, which are not read; None without known ones.

    Beside a running broker nothing proves that they are old.
    """
    if log.end_finder.evidence is None or is_remote(log.directories[0]):
        return None
    end = log.max_phy_offset
    later = log.reader.find_later(end, LONG_MAX)
    if later is None or not log.end_finder.is_end_before_leftovers(end):
        return None
    if log.reader.find_store_state() == StoreState.RUNNING:
        reason = f"a broker writes at {end}. Records behind it, the first at {later}, seem to be old and are not read"
    else:
        reason = f"a broker cut the log at {end}. Old records behind it, the first at {later}, are not read"
    return f"{log.directories[0]}: {reason}"
