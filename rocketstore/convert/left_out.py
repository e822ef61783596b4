"""Notes on parts of an old store that no new store gets."""

from __future__ import annotations

from rocketstore.convert.old_store import OldStore
from rocketstore.text_values import format_count


def describe_uncommitted(old: OldStore) -> list[str]:
    """Return a note on entries of DLedger that are not committed; none without such entries."""
    if not old.uncommitted:
        return []
    root, size = old.survey.root, old.uncommitted
    return [f"{root}: {size} bytes of entries that are not committed are left out, from {old.end} on"]


def describe_other_data(old: OldStore) -> list[str]:
    """Return a note on timers and transactions in a RocksDB; none without these."""
    if not old.survey.formats.has_other_data:
        return []
    path = old.survey.places.rocksdb
    return [f"{path}: timers or transactions in this RocksDB are left out: they name physical offsets"]


def describe_lost_timers(count: int) -> list[str]:
    """Return a note on timers whose message the new log does not have; none for 0."""
    if not count:
        return []
    return [f"{format_count(count, 'timer')} of messages that are not in the log cannot be delivered"]
