"""Write the messages that are new since the last export as one more file of a directory.

A part is written under a temporary name. When it is complete on the disk, the state announces it, and then it gets its
name. After a crash before the announcement, the next run writes the part again. After a crash behind it, the next run
gives the part its name. So each message is in one part, and each part is complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rocketstore.disk.durable import make_root, sync_path
from rocketstore.errors import StoreError
from rocketstore.incremental.export_state import ExportState, LastRecord, read_state, save_state
from rocketstore.log.commit_log import CommitLog
from rocketstore.preview import show_fields

PART, PARTIAL = "part-", ".partial"
WritePart = Callable[[Path, int, int], int]


class NewPart(NamedTuple):
    """The messages that an incremental export has added to its directory.

    Attributes: path: of the new file; None if no message is new. messages: in it. begin, end: the range of the log that
    was read, physical offsets. reasons: why messages may be missing.

    Examples:
    >>> with rocketstore.open("demo") as store:
    ...     first = store.export_new("lake", "lake/.state", topic="Orders")
    ...     again = store.export_new("lake", "lake/.state", topic="Orders")
    >>> first.path.name, first.messages, again.path
    ('part-00000000000000000000.parquet', 100, None)
    """

    path: Path | None
    messages: int
    begin: int
    end: int
    reasons: Sequence[str] = ()

    def __repr__(self) -> str:
        return show_fields(self)


def export_new_part(
    log: CommitLog, directory: Path, state_path: Path, asked: Mapping[str, Any], suffix: str, write: WritePart
) -> NewPart:
    """Add a part with what is new to a directory, which is made if it is missing.

    Parameters: asked: all that decides on the contents of parts, as JSON. suffix: of their names. write: writes a
    complete file with the messages of a range of the log, physical offsets, and returns their number.
    Raises: StoreError if the state does not fit the log, the directory or ``asked``, or if another process exports to
    the directory; OSError.
    """
    make_root(directory)
    with locked(directory):
        state = read_state(state_path, asked) or new_state(directory, state_path, asked)
        state = publish_announced(directory, state_path, state)
        reasons = compare_with_log(log, state, state_path)
        begin, end = max(state.next_offset, log.min_phy_offset), log.look(again=True).records_end
        if begin >= end:
            return NewPart(None, 0, begin, begin, reasons)
        name = f"{PART}{begin:020}.{suffix}"
        temporary = directory / f"{name}{PARTIAL}"
        for left in directory.glob(f"{PART}*{PARTIAL}"):  # of a run that was killed
            left.unlink()
        messages = write(temporary, begin, end)
        state = replace(state, next_offset=end, last=find_last_record(log, begin, end) or state.last)
        if messages:
            sync_path(temporary)
            state = replace(state, announced=name)
            save_state(state_path, state)
            publish_announced(directory, state_path, state)
        else:
            temporary.unlink()
            save_state(state_path, state)
    return NewPart(directory / name if messages else None, messages, begin, end, reasons)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock a directory for one export. Raises: StoreError if another process has locked it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"{directory}: another process exports to it: wait until it has ended") from None
        yield
    finally:
        os.close(descriptor)


def new_state(directory: Path, state_path: Path, asked: Mapping[str, Any]) -> ExportState:
    """Return the state before the first part. Raises: StoreError if the directory already has parts."""
    parts = sorted(path for path in directory.glob(f"{PART}*") if path.suffix != PARTIAL)
    if parts:
        raise StoreError(
            f"{parts[0]}: is a part of an export whose state is not {state_path}: give its state, or another directory"
        )
    return ExportState(asked, 0, None)


def publish_announced(directory: Path, state_path: Path, state: ExportState) -> ExportState:
    """Give the announced part its name, unless it has it. Return the state without it.

    Raises: StoreError if the part is missing.
    """
    if state.announced is None:
        return state
    path = directory / state.announced
    temporary = directory / f"{state.announced}{PARTIAL}"
    if temporary.exists():
        temporary.replace(path)
        sync_path(directory)
    elif not path.exists():
        raise StoreError(f"{path}: is missing, but {state_path} counts its messages as exported")
    state = replace(state, announced=None)
    save_state(state_path, state)
    return state


def compare_with_log(log: CommitLog, state: ExportState, state_path: Path) -> list[str]:
    """Return why messages are missing between the last part and the next one.

    Raises: StoreError if the log is not the one of earlier parts, or was cut.
    """
    end, least = log.look(again=True).records_end, log.min_phy_offset
    where = f"the log was exported up to offset {state.next_offset}, as {state_path} says"
    hint = "it was cut, or is the log of another store: export to a new directory, with a new state"
    if end < state.next_offset:
        raise StoreError(f"{where}, but now it ends at {end}: {hint}")
    if state.last is not None and state.last.phy_offset >= least:
        message = log.find_message(state.last.phy_offset)
        if message is None:
            return [f"{where}, but the last of these messages, at {state.last.phy_offset}, cannot be read now"]
        if state.last != LastRecord(message.phy_offset, message.store_timestamp, message.body_crc):
            raise StoreError(f"{where}, but it has another message at {state.last.phy_offset} now: {hint}")
    if 0 < state.next_offset < least:
        return [f"{where}, and now begins at {least}: messages between these offsets expired before this export"]
    return []


def find_last_record(log: CommitLog, begin: int, end: int) -> LastRecord | None:
    """Return the last record in a range of the log that can be read."""
    found = log.scan(begin, end, columns=LastRecord._fields, on_corrupt="skip").tail(1)
    return None if not len(found) else LastRecord(*(int(found.columns[name][0]) for name in LastRecord._fields))
