"""EndRule: what is known of a store that tells where a broker ends its log; the log's bytes alone do not show it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from rocketstore.state.checkpoint import StoreCheckpoint

__all__ = ["EndRule", "Evidence", "StoreState", "read_evidence"]


class StoreState(StrEnum):
    """How the last writer left a store: it stopped cleanly, it still runs, or it crashed."""

    STOPPED = "stopped"
    RUNNING = "running"
    CRASHED = "crashed"


class Evidence(NamedTuple):
    """What the other files of a store tell about the end of its log.

    Attributes: physic_msg_timestamp, epoch ms, and confirm_phy_offset, bytes: from the checkpoint; None and 0 without
    it. lock_timestamp: when a broker wrote the lock file, epoch ms; None without that file. A broker writes it when it
    starts.
    """

    physic_msg_timestamp: int | None = None
    confirm_phy_offset: int = 0
    lock_timestamp: int | None = None


def read_evidence(root: Path, checkpoint: StoreCheckpoint | None) -> Evidence:
    """Return the evidence in the files of a store. Parameters: checkpoint: None without a readable checkpoint."""
    lock_timestamp = None
    with contextlib.suppress(OSError):
        lock_timestamp = (root / "lock").stat().st_mtime_ns // 1_000_000
    if checkpoint is None:
        return Evidence(lock_timestamp=lock_timestamp)
    return Evidence(checkpoint.physic_msg_timestamp, checkpoint.confirm_phy_offset, lock_timestamp)


class EndRule(NamedTuple):
    """How the end of a store's log is found.

    A broker that starts after a clean stop reads the last files of the log, ends the log at the first bytes there that
    are no record, and writes on from there. It erases nothing. So old records may stand behind the end.

    Attributes: find_state, find_evidence: functions that return the present state and evidence of the store.
    last_files: how many files, from the last one that begins with a record, a broker reads after a clean stop.
    verifies_crc: whether it compares bodies with their CRC then.
    Source: CommitLog.recoverNormally, MappedFileQueue.truncateDirtyFiles.
    """

    find_state: Callable[[], StoreState]
    find_evidence: Callable[[], Evidence]
    last_files: int
    verifies_crc: bool
