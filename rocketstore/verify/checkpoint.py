"""Verification of the checkpoint against the log and the index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocketstore.log.commit_log import CommitLog
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.verify.index import IndexVerifier
from rocketstore.verify.log import LogVerifier
from rocketstore.verify.report import Findings

__all__ = ["check_checkpoint", "find_lost_end"]

# Offsets of fields in a checkpoint, bytes: store times and physical offsets of the last record on the disk.
CHECKPOINT_TIMES = ((0, "physic_msg_timestamp"), (8, "logics_msg_timestamp"))
CHECKPOINT_OFFSETS = ((32, "confirm_phy_offset"), (40, "logics_physical_offset"))


def check_checkpoint(
    point: StoreCheckpoint, path: Path, findings: Findings, log: CommitLog, checked: LogVerifier, index: IndexVerifier
) -> None:
    """Compare the checkpoint at ``path`` with the log and the index, which have been checked."""
    def add(kind: str, offset: int, detail: str) -> None:
        findings.add(kind, path, offset, detail)

    for i, number in enumerate(point._numbers()):
        if number < 0:
            add("checkpoint-negative", 8 * i, f"{number}")
    for offset, detail in find_lost_end(point, checked):
        add("checkpoint-ahead", offset, detail)
    for offset, name in CHECKPOINT_OFFSETS:
        at = getattr(point, name)
        if checked.begin < at < checked.end and not log.begins_record(at):
            add("checkpoint-offset", offset, f"{name} is {at}, where no record begins")
    full = [part.header.end_timestamp for part in index.files[:-1]]
    newest = max((part.header.end_timestamp for part in index.files), default=None)
    if newest is not None and point.index_msg_timestamp > newest:
        add("checkpoint-index-ahead", 16, f"{point.index_msg_timestamp}, the newest file ends at {newest}")
    if full and full[-1] > point.index_msg_timestamp:
        add("checkpoint-index-behind", 16, f"{point.index_msg_timestamp}, a full file ends at {full[-1]}")


def find_lost_end(point: StoreCheckpoint, checked: LogVerifier) -> Iterator[tuple[int, str]]:
    """Yield the fields of the checkpoint that name records behind the end of the log.

    A broker writes these fields when the records are on the disk, so the end of the log was lost.

    Yields: the offset of the field in the file, bytes, and a text.
    """
    for offset, name in CHECKPOINT_TIMES:
        time, latest = getattr(point, name), checked.max_store_timestamp
        if checked.n_records and not checked.is_sampled and time > latest:
            yield offset, f"{name} is {time}, the log has {latest}"
    for offset, name in CHECKPOINT_OFFSETS:
        at = getattr(point, name)
        if at > checked.end:
            yield offset, f"{name} is {at}, the log ends at {checked.end}"
