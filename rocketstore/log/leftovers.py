"""Leftovers: records behind the end of the log, which a broker cut off and never erased, or DLedger did not commit."""

from __future__ import annotations

import time

from rocketstore.disk.storage import is_remote
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.dledger import UncommittedEntries
from rocketstore.log.log_end import StoreState, Why
from rocketstore.log.tail import find_tails
from rocketstore.text_values import format_count

ATTEMPTS, ATTEMPT_SECONDS = 3, 0.01  # to find the end again beside a running broker
NEAR = 1 << 20  # bytes behind the end of a remote log that are fetched


def count_leftover_bytes(log: CommitLog, end: int) -> int | None:
    """Return how many bytes of the log's files stand behind its end, from there to the last byte that is not zero.

    While a broker writes, bytes that it has just written may be found there. So the end is found again afterwards:
    bytes that are before it then were no leftovers.

    None if the number is not known: the store crashed, or the log is remote and has other bytes than zeros near its
    end. Parameters: end: a physical offset.
    """
    if not log.end_finder.is_end_known():
        return None
    if is_remote(log.directories[0]):
        return 0 if not log.file_run.pread(end, NEAR).strip(b"\0") else None
    tails = find_tails(log, end)
    is_running = log.reader.find_store_state() == StoreState.RUNNING
    for _ in range(ATTEMPTS if tails and is_running else 0):
        time.sleep(ATTEMPT_SECONDS)  # a record may be half written
        end = log.look(again=True).end
        tails = [tail._replace(begin=max(tail.begin, end)) for tail in tails if tail.end > end]
        if not tails:
            break
    return sum(tail.end - tail.begin for tail in tails)


def describe_leftovers(log: CommitLog) -> str | None:
    """Return a text about records behind the end of the log, which are not read; None without known ones.

    Beside a running broker nothing proves that they are old. Records of an unfinished Spark write are left out.
    """
    found = log.end_finder.find_leftovers()
    if found is None:
        return None
    if found.why == Why.UNCOMMITTED:
        is_dledger = isinstance(log.end_finder.unfinished, UncommittedEntries)
        return _describe_uncommitted(log, found.end) if is_dledger else None
    if found.why == Why.GROWING:
        where = f"a broker writes at {found.end}. Records behind it, the first at {found.first}, seem to be old"
        return f"{log.directories[0]}: {where} and are not read"
    where = f"a broker cut the log at {found.end}. Old records behind it, the first at {found.first}, are not read"
    return f"{log.directories[0]}: {where}"


def _describe_uncommitted(log: CommitLog, end: int) -> str:
    """Return a text about the entries of DLedger's log behind the last committed one, which ends at ``end``."""
    size = sum(tail.end - tail.begin for tail in find_tails(log, end))
    where = f"DLedger's checkpoint names no entry behind {end} as committed"
    return f"{log.directories[0]}: {where}. The {format_count(size, 'byte')} of entries behind it are not read"
