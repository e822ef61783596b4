"""What is copied of a store: which files, and which bytes of the log."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rocketstore.backup.config_files import ConfigFiles
from rocketstore.backup.held_files import find_files, hold_files
from rocketstore.disk.held_file import HeldFile
from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.disk.storage import names_in
from rocketstore.disk.store_path import StorePath
from rocketstore.dispatch.dispatch_begin import find_dispatch_begin
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.layout import BATCH_UNIT, UNIT, read_field
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.file_times import choose_files, describe_skipped
from rocketstore.log.log_end import StoreState
from rocketstore.log.record_reader import LARGE_RECORD
from rocketstore.root_places import BATCH_QUEUES, PLAIN_QUEUES
from rocketstore.salvage.new_root import COPIED
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.rocksdb import is_rocksdb
from rocketstore.survey.places import LocalPlaces
from rocketstore.survey.survey import Survey

WAIT_SECONDS, WAITS = 0.1, 10  # for a record that a broker is writing
COMMIT_SECONDS = 10  # a member of DLedger writes every three seconds which entries are committed
LAYOUTS = {PLAIN_QUEUES: UNIT, BATCH_QUEUES: BATCH_UNIT}  # of the units of queues


@dataclass(frozen=True)
class CopyChoice:
    """What is copied. Attributes: since: epoch milliseconds; None for all. topics: None for all. credentials."""

    since: int | None
    topics: frozenset[str] | None
    credentials: bool


class CopiedDatabase(NamedTuple):
    """A RocksDB, or another directory or file of the configuration, and its name in the copy."""

    path: StorePath
    name: str


class LogPlan(NamedTuple):
    """Which bytes of the log are copied: physical offsets. Recovery reads the log from ``staged_from`` on."""

    begin: int
    staged_from: int
    end: int


class LogFiles(NamedTuple):
    """The files of the log with planned bytes. Attributes: unstaged: those that recovery does not read."""

    staged: list[HeldFile]
    unstaged: list[HeldFile]


# ---- files -----------------------------------------------------------------------------------------------------


def find_log_files(survey: Survey, new: LocalPlaces, log: CommitLog) -> Iterator[tuple[StorePath, str]]:
    """Yield the files of the log, and their names in the copy.

    Files of DLedger's entries keep the names of their directories.
    """
    dledger = survey.formats.is_dledger
    for file in log.file_run.files:
        parent = file.path.parent
        is_entry = dledger and parent.parent != survey.root
        name = f"{parent.parent.name}/{parent.name}" if is_entry else new.default_log.name
        yield file.path, f"{name}/{file.path.name}"


def hold_new_files(
    survey: Survey, new: LocalPlaces, log: CommitLog, files: Iterable[HeldFile], stack: contextlib.ExitStack
) -> list[HeldFile]:
    """Open the files of the log that a writer made after ``files`` were opened."""
    log.refresh()
    known = {file.name for file in files}
    return hold_files((found for found in find_log_files(survey, new, log) if found[1] not in known), stack)


def find_other_files(survey: Survey, topics: Collection[str] | None) -> Iterator[tuple[StorePath, str]]:
    """Yield the files that are neither of the log, of the configuration nor of a RocksDB, and their names in the copy.

    Parameters: topics: only the files of the queues of these topics; None for all files.
    """
    old = survey.places
    if topics is not None:
        for part in old.queue_parts:
            for topic in sorted(topics):
                yield from find_files(part / topic, f"{part.name}/{topic}")
        return
    for part in (*old.queue_parts, old.index, old.timer_log, old.compacted_queues, old.compacted_logs):
        if not is_rocksdb(part):
            yield from find_files(part, str(part)[len(str(old.root)) + 1 :])
    for name in sorted(survey.names):
        path = old.root / name
        if name in COPIED or name.startswith(old.timer_wheel.name):
            yield from find_files(path, name) if path.is_dir() else [(path, name)]
        if name.startswith("dledger-"):
            for child in sorted({*names_in(path)} - {"data"}):  # the entries are files of the log
                place = path / child
                yield from find_files(place, f"{name}/{child}") if place.is_dir() else [(place, f"{name}/{child}")]


def find_databases(survey: Survey, config_files: ConfigFiles, choice: CopyChoice) -> list[CopiedDatabase]:
    """Return the RocksDBs that are copied, and files of the configuration with credentials if these are wanted."""
    if choice.topics is not None:
        return []
    old = survey.places
    found = [
        CopiedDatabase(path, path.name)
        for path in (*old.queue_databases, old.rocksdb, old.pop_database)
        if is_rocksdb(path)
    ]
    wanted = {**config_files.databases, **(config_files.others if choice.credentials else {})}
    return found + [CopiedDatabase(path, f"{old.config.name}/{name}") for name, path in wanted.items()]


def choose_needed(files: list[HeldFile], begin: int, since: int | None) -> Iterator[HeldFile]:
    """Yield all files but those of queues whose units all lead to physical offsets before ``begin``.

    The last file of a queue is always copied: it has the queue offset of the next message. Without ``since``, all are.
    """
    last = {file.name.rpartition("/")[0]: file for file in files}  # of each directory
    for file in files:
        directory, _, name = file.name.rpartition("/")
        layout = LAYOUTS.get(directory.partition("/")[0])
        is_kept = since is None or last[directory] is file or not is_offset_name(name)
        if is_kept or layout is None or reaches(file, layout, begin):
            yield file


def reaches(file: HeldFile, layout: np.dtype[Any], phy_offset: int) -> bool:
    """Return whether the last unit of a queue's file leads to a physical offset or behind it, or is unwritten.

    Parameters: layout: of a unit.
    """
    place = file.size - file.size % layout.itemsize - layout.itemsize
    data = file.read(place, place + layout.itemsize) if place >= 0 else b""
    return not any(data) or read_field(data, layout, "phy_offset") >= phy_offset


# ---- the log ---------------------------------------------------------------------------------------------------


def first_offset(file: HeldFile) -> int:
    """Return the physical offset at which a file of the log begins."""
    return int(file.path.name)


def divide_files(files: Iterable[HeldFile], plan: LogPlan) -> LogFiles:
    """Return the files with bytes of a plan. Files that were made ahead are left out."""
    wanted = [file for file in files if first_offset(file) < plan.end and first_offset(file) + file.size > plan.begin]
    unstaged = [file for file in wanted if first_offset(file) + file.size <= plan.staged_from]
    return LogFiles([file for file in wanted if file not in unstaged], unstaged)


def find_begin(log: CommitLog, since: int | None) -> tuple[int, list[str]]:
    """Return the first physical offset that is copied, and the assumption by which files before it are left out.

    Parameters: since: as for ``copy``, epoch ms.
    """
    begin = log.min_phy_offset
    if since is None:
        return begin, []
    end = log.max_phy_offset
    chosen = choose_files(log, begin, end, since, LONG_MAX)
    last = log.reader.last_begun_file()
    first = min([part[0] for part in chosen.ranges] or [last])
    return first, describe_skipped([part for part in chosen.skipped if part[0] < first])


def plan_log(survey: Survey, log: CommitLog, state: StoreState, begin: int, *, needs_all: bool) -> LogPlan:
    """Find the end of the log that is copied.

    Parameters: begin: the first physical offset. needs_all: whether all files are in the directory of the copy.
    """
    point = StoreCheckpoint.open(survey.places.checkpoint)
    staged_from = begin if needs_all else max(begin, find_dispatch_begin(log, point, survey.settings))
    if state == StoreState.RUNNING and survey.formats.is_dledger:
        wait_for_commit(log)
    return LogPlan(begin, staged_from, find_copy_end(log, state))


def wait_for_commit(log: CommitLog) -> None:
    """Wait until DLedger's checkpoint says that the entries which are in the log now are committed.

    A broker acknowledges messages that are committed, and the checkpoint is older. Entries that other members do not
    confirm are given up after ten seconds: nobody was told that they are stored.
    """
    deadline = time.monotonic() + COMMIT_SECONDS
    end = log.as_whole_to(log.reader.whole_to).look().records_end
    while log.look(again=True).records_end < end and time.monotonic() < deadline:
        time.sleep(WAIT_SECONDS)


def find_copy_end(log: CommitLog, state: StoreState) -> int:
    """Return the end of the last complete record, a physical offset.

    A record that ends in zeros may be half written. If it stays like that while a broker runs, and its CRC is right, it
    is complete.
    """
    end = log.look(again=True).records_end
    for _ in range(WAITS if state == StoreState.RUNNING else 0):
        size = find_zero_ended_record(log, end)
        if not size:
            return end
        time.sleep(WAIT_SECONDS)
        later = log.look(again=True).records_end
        if later == end:
            continue
        end = later
    return end + find_zero_ended_record(log, end)


def find_zero_ended_record(log: CommitLog, offset: int) -> int:
    """Return the size of a record that is complete if its zeros at the end are its own; 0 without such a record."""
    if offset >= log.end_finder.find_limit():  # what follows is not committed
        return 0
    place = log.reader.record_at(offset)
    size = int.from_bytes(log.file_run.pread(place, 4), "big")
    data = log.file_run.pread(place, size) if 0 < size <= LARGE_RECORD else b""
    if not data:
        return 0
    scanner = log.reader.scanner((), verify_crc=True)
    following, status = scanner.scan(Buffer(data), place, place, place + 1, at_rest=True)
    return following - offset if status == OK and following > place else 0
