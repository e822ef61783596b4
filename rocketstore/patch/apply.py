"""Write the new records of a plan, after the old bytes were saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rocketstore.disk.durable import sync_path
from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.holes import nonzero_end
from rocketstore.disk.positioned_write import write_at
from rocketstore.disk.storage import local_path
from rocketstore.kernels.layout import BLANK_HEAD
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.tail import Tail
from rocketstore.lost.corrections import CorrectedRecord
from rocketstore.lost.new_records import NewBlank, NewBytes
from rocketstore.lost.plan import PatchedRange, PatchPlan
from rocketstore.recovery.saved_tails import is_saved, save_tail

Written = NewBytes | CorrectedRecord
HEAD = BLANK_HEAD.itemsize  # bytes; without them there is neither a record nor a blank


def apply_patch(plan: PatchPlan, log: CommitLog, saved_cuts: Path) -> list[Path]:
    """Save the old bytes, and write the new records. Return the files with the old bytes.

    The process may be killed, or lose power, at any moment: the bytes are damaged then until the last head is on the
    disk, and the same patch can be repeated. First the heads of all new records are zeroed, then the bytes behind the
    heads are written, then the heads.

    Parameters: log: the log that was planned for. saved_cuts: ``StorePlaces.saved_cuts``. Raises: StoreError, OSError.
    """
    saved = [path for part in plan.ranges for path in _save_range(part, log, saved_cuts)]
    new = [one for part in plan.ranges for one in part.new]
    _write(log, new, lambda one: (0, bytes(HEAD)))
    _write(log, new, lambda one: (HEAD, _encode(plan, one)[HEAD:]))
    _write(log, new, lambda one: (0, _encode(plan, one)[:HEAD]))
    return saved


def _encode(plan: PatchPlan, new: Written) -> bytes:
    if isinstance(new, CorrectedRecord):
        return new.data
    return new.head() if isinstance(new, NewBlank) else plan.maker.make(new)


def _save_range(part: PatchedRange, log: CommitLog, saved_cuts: Path) -> Iterator[Path]:
    """Copy the bytes of a range that are not zero. Yield the new files."""
    for file in log.file_run.between(part.begin, part.end):
        begin = max(part.begin, file.file_from_offset)
        start = file.file_from_offset
        last = start + nonzero_end(file.path, begin - start, min(part.end, file.end_offset) - start)
        tail = Tail(file, begin, last)
        if begin < last and not is_saved(saved_cuts, tail):
            yield save_tail(saved_cuts, tail).path


def _write(log: CommitLog, new: Sequence[Written], bytes_of: Callable[[Written], tuple[int, bytes]]) -> None:
    """Write a part of each of the new records, and bring it to the disk.

    Parameters: bytes_of: returns the place of the part in the record, and its bytes.
    """
    by_file: dict[RunFile, list[Written]] = {}
    for one in new:
        file = log.file_run.find(one.phy_offset)
        assert file is not None  # the plan has offsets in files alone
        by_file.setdefault(file, []).append(one)
    for file, parts in by_file.items():
        path = local_path(file.path)
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            for one in parts:
                place, data = bytes_of(one)
                write_at(fd, data, one.phy_offset + place - file.file_from_offset)
        finally:
            os.close(fd)
        sync_path(path)
