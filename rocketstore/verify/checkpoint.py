"""Verification of the checkpoint against the log and the index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocketstore.kernels.layout import CHECKPOINT
from rocketstore.log.commit_log import CommitLog
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.verify.findings import Findings
from rocketstore.verify.index.index_verifier import IndexVerifier
from rocketstore.verify.log.log_verifier import LogVerifier

PLACES = {name: place for name, (_, place, *_) in (CHECKPOINT.fields or {}).items()}  # offsets of fields, bytes
# Fields with the store times, and the physical offsets, of the last record on the disk.
TIMES = ("physic_msg_timestamp", "logics_msg_timestamp")
OFFSETS = ("confirm_phy_offset", "logics_physical_offset")


def check_checkpoint(
    point: StoreCheckpoint, path: Path, findings: Findings, log: CommitLog, checked: LogVerifier, index: IndexVerifier
) -> None:
    """Compare the checkpoint at ``path`` with the log and the index, which have been checked."""

    def add(kind: str, offset: int, detail: str) -> None:
        findings.add(kind, path, offset, detail)

    for name, place in PLACES.items():
        if (number := getattr(point, name)) < 0:
            add("checkpoint-negative", place, f"{number}")
    for offset, detail in find_lost_end(point, checked):
        add("checkpoint-ahead", offset, detail)
    for name in OFFSETS:
        at = getattr(point, name)
        if checked.begin < at < checked.end and not log.reader.begins_record(at):
            add("checkpoint-offset", PLACES[name], f"{name} is {at}, where no record begins")
    full = [part.header.end_timestamp for part in index.files[:-1]]
    newest = max((part.header.end_timestamp for part in index.files), default=None)
    indexed, place = point.index_msg_timestamp, PLACES["index_msg_timestamp"]
    if newest is not None and indexed > newest:
        add("checkpoint-index-ahead", place, f"{indexed}, the newest file ends at {newest}")
    if full and full[-1] > indexed:
        add("checkpoint-index-behind", place, f"{indexed}, a full file ends at {full[-1]}")


def find_lost_end(point: StoreCheckpoint, checked: LogVerifier) -> Iterator[tuple[int, str]]:
    """Yield the fields of the checkpoint that name records behind the end of the log.

    A broker writes these fields when the records are on the disk, so the end of the log was lost.

    Yields: the offset of the field in the file, bytes, and a text.
    """
    for name in TIMES:
        time, latest = getattr(point, name), checked.max_store_timestamp
        if checked.n_records and not checked.is_sampled and time > latest:
            yield PLACES[name], f"{name} is {time}, the log has {latest}"
    for name in OFFSETS:
        at = getattr(point, name)
        if at > checked.end:
            yield PLACES[name], f"{name} is {at}, the log ends at {checked.end}"
