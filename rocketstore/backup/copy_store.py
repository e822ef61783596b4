"""copy: copy a store, also one that a broker is writing."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rocketstore.backup.config_files import ConfigFiles, config_of_topics, limit_offsets, read_config_files
from rocketstore.backup.copy_report import CopiedFile, CopyReport, count_parts
from rocketstore.backup.databases import copy_database
from rocketstore.backup.held_files import find_files, hold_files, many_descriptors
from rocketstore.backup.part_of_log import PartOfLog
from rocketstore.backup.remote_target import RemoteTarget
from rocketstore.compare.diff import compare_copy
from rocketstore.config import StoreConfig
from rocketstore.disk.durable import make_directory, replace_file, sync_path
from rocketstore.disk.held_file import HeldFile
from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.disk.remote.remote_path import RemotePath
from rocketstore.disk.storage import is_remote, local_path, names_in, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.dispatch.dispatch_begin import find_dispatch_begin
from rocketstore.errors import StoreError
from rocketstore.java_text import parse_boolean
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.layout import BATCH_UNIT, UNIT, read_field
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.file_times import choose_files, describe_skipped
from rocketstore.log.log_end import StoreState
from rocketstore.log.record_reader import LARGE_RECORD
from rocketstore.messages.arguments import text_list
from rocketstore.progress import Progress, Report, show_progress
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.queue_source import offset_range
from rocketstore.recovery.recover import recover
from rocketstore.root_places import COPY_WORK
from rocketstore.salvage.new_root import COPIED, new_root, require_outside
from rocketstore.state.abort import make_abort
from rocketstore.state.checkpoint import FILE_SIZE, StoreCheckpoint
from rocketstore.state.rocksdb import is_rocksdb
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.known_names import require_known_topics
from rocketstore.survey.condition import read_checkpoint
from rocketstore.survey.owners import lock_owner_of
from rocketstore.survey.places import LocalPlaces, StorePlaces
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.survey import Survey
from rocketstore.survey.unfinished import describe_unfinished
from rocketstore.text_values import Time, ms_or_none

INDEX_IN_COPY = "index-only-in-b"  # a key of a message without an item in the index of the store
WAIT_SECONDS, WAITS = 0.1, 10  # for a record that a broker is writing


def copy(
    path: str | os.PathLike[str] | StorePath,
    new: str | os.PathLike[str] | StorePath,
    *,
    since: Time | None = None,
    topic: str | Iterable[str] | None = None,
    credentials: bool = False,
    config: StoreConfig | None = None,
    progress: Progress = False,
) -> CopyReport:
    """Copy a store, also while a broker writes it. Each message that was acknowledged before the call is in the copy.

    The copy is a store after a clean stop, on which a broker starts. The configuration is read first, and all files are
    opened before the first byte is copied, so that a broker may delete files meanwhile. The log is copied up to the end
    of a record. Queues and index are cut there, and get the units and items that the broker had not written yet.
    Offsets of consumers behind the end of their queue are lowered. Holes stay holes. At the end, ``diff`` compares the
    copy with the store.

    Until ``new`` is complete, it has a directory ``rocketstore-copy``. If the process is killed, call ``copy`` again
    with the same ``new``: it begins anew. After an error ``new`` is as it was before.

    Parameters
    ----------
    path : the root of the store, local or remote.
    new : the root of the copy: a directory that is empty, or does not exist. On a remote file system it may have an
        earlier copy: only files that changed are written, and files that the store no longer has are removed. The end
        of the log, queues and index are written to a temporary directory first, and compared there.
    since : copy the log from the file on that has the first message of this store time, epoch milliseconds, a datetime,
        a date or an ISO 8601 text, the files of queues that lead there, and the index; None for all files. ``notes`` of
        the report name the assumption by which earlier files are left out.
    topic : one or several: copy only the messages of these topics. All other records become filler records without
        content, of which no queue has a unit, so that physical offsets, message ids and queues stay right. They are
        holes in the files. The index is built anew. ``config`` gets these topics, their consumer offsets, and the
        groups that consume them. Only for a store whose log, queues and configuration are in files; None for all
        topics.
    credentials : also copy what may have credentials: files and RocksDBs in ``config`` that have no topics, groups,
        offsets, filters or timers, such as those of access control. ``left_out`` of the report names them otherwise.
    config : sizes of files and directories of the log; by default those that the files show. The copy has its log in
        ``commitlog``.
    progress : True shows a bar on standard error. A function is called with the bytes of the log and the
        queues that were copied, and an estimate of all bytes.

    Returns
    -------
    CopyReport.

    Raises
    ------
    StoreError : the store is damaged, has no such topic, or the copy differs from it. OSError.
    FileExistsError : ``new`` has files. ValueError : ``new`` is inside the store.

    Notes
    -----
    With ``transientStorePoolEnable`` a broker acknowledges messages that are in no file yet. A copy cannot have them.
    Stop the broker first.

    Source: none.

    Examples:
    >>> rocketstore.copy("demo", "copied").messages
    101
    """
    topics = None if topic is None else frozenset(text_list(topic, "topic") or ())
    survey = begin_entry("copy", path, config)
    if topics is not None:
        require_files(survey)
        survey.find_sized_config()  # the index is built anew
    choice = CopyChoice(ms_or_none(since, "since"), topics, credentials=credentials)
    if (unfinished := describe_unfinished(survey.root, survey.names)) is not None:
        raise StoreError(f"{survey.root}: {unfinished}")
    place = to_path(new)
    if is_remote(place):
        require_outside_remote(place, survey.root)
        with show_progress(progress, "copy") as shown:
            return copy_to_remote(survey, place, choice, shown)
    target = local_path(new)
    if not is_remote(survey.root):
        require_outside(target, [local_path(survey.root), *map(local_path, survey.places.log_directories)])
    with lock_owner_of(target), many_descriptors(), contextlib.ExitStack() as stack:
        mode = 0o777 if is_remote(survey.root) else local_path(survey.root).stat().st_mode & 0o777 | 0o700
        places = stack.enter_context(new_root(target, COPY_WORK, mode))
        shown = stack.enter_context(show_progress(progress, "copy"))
        report = StoreCopy(survey, places, choice, shown).run()
    return replace(report, new=target)


@dataclass(frozen=True)
class CopyChoice:
    """What is copied. Attributes: since: epoch milliseconds; None for all. topics: None for all. credentials."""

    since: int | None
    topics: frozenset[str] | None
    credentials: bool


def require_outside_remote(new: RemotePath, root: StorePath) -> None:
    """Raise ValueError if a remote copy would be its own source, or inside it."""
    if isinstance(root, RemotePath) and new.fs == root.fs and f"{new}/".startswith(f"{root}/"):
        raise ValueError(f"{new} is inside {root}, which must not change: give a directory elsewhere")


def require_files(survey: Survey) -> None:
    """Raise UnsupportedFormatError unless log, queues and configuration are in files."""
    survey.formats.require_file_log()
    survey.formats.require_written_queues()
    survey.formats.require_config_files()


def copy_to_remote(survey: Survey, root: RemotePath, choice: CopyChoice, progress: Report) -> CopyReport:
    """Copy a store to a remote file system."""
    target = RemoteTarget(root)
    with many_descriptors(), tempfile.TemporaryDirectory(prefix="rocketstore-") as name:
        places = StorePlaces.of(Path(name))
        report = StoreCopy(survey, places, choice, progress, target).run()
    return replace(report, new=root)


class StoreCopy:
    """Copies a store once, to a directory on this machine. A remote copy is completed in that directory first.

    Attributes: old, new: the places of the store and of the directory. done, total: bytes, for ``progress``. files: of
    the copy, so far. unstaged: files of the log that are not copied to the directory, but only to the remote root,
    since recovery does not read them.
    """

    def __init__(
        self,
        survey: Survey,
        places: LocalPlaces,
        choice: CopyChoice,
        progress: Report,
        target: RemoteTarget | None = None,
    ) -> None:
        """Parameters: target: the remote root; None to leave the files in ``places``."""
        self.survey, self.old, self.new = survey, survey.places, places
        self.choice, self.since, self.topics = choice, choice.since, choice.topics
        self.progress = progress
        self.done = self.total = 0
        self.files: list[CopiedFile] = []
        self.target = target
        self.unstaged: list[HeldFile] = []

    def run(self) -> CopyReport:
        """Copy, recover and compare."""
        state = self.survey.look_again().state
        config_files = read_config_files(self.old)
        if self.topics is not None:
            config_files = config_of_topics(config_files, self.topics)
        checkpoint = read_checkpoint(self.old) if self.topics is None else None  # all is dispatched again
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(MessageStore.of_survey(self.survey))
            require_known_topics([store], self.topics or ())
            if self.topics is None:
                self._copy_databases(config_files)
            log = store.commit_log
            log.refresh()
            held_log = hold_files(self._log_files(log), stack)
            held = hold_files(self._other_files() if self.topics is None else self._files_of_topics(self.topics), stack)
            begin, assumptions = self._find_begin(log)
            end = find_copy_end(log, state)
            held_log += self._hold_new_files(log, held_log, stack)
            self.total = end - begin + sum(file.size for file in held)
            staged_from = self._copy_log(log, held_log, begin, end)
            for file in self._choose(held, begin):
                self._copy(file, file.size)
            self._write_config(config_files, checkpoint)
            notes = self._recover(state)
            limited = self._limit_offsets(config_files)
            messages = self._compare(store, staged_from, end)
            if self.target is not None:
                self.files = self.target.write(self.new.root, self.unstaged)
        left_out = () if self.choice.credentials else tuple(f"config/{name}" for name in config_files.others)
        return CopyReport(
            path=self.survey.root,
            new=self.new.root,
            min_phy_offset=begin,
            max_phy_offset=end,
            messages=messages,
            parts=count_parts(self.files),
            limited_offsets=limited,
            left_out=left_out,
            notes=(*assumptions, *notes, *self._notes()),
        )

    # ---- the files -----------------------------------------------------------------------------------------

    def _log_files(self, log: CommitLog) -> Iterator[tuple[StorePath, str]]:
        """Yield the files of the log. Files of DLedger's entries keep the names of their directories."""
        dledger = self.survey.formats.is_dledger
        for file in log.file_run.files:
            parent = file.path.parent
            is_entry = dledger and parent.parent != self.survey.root
            name = f"{parent.parent.name}/{parent.name}" if is_entry else self.new.default_log.name
            yield file.path, f"{name}/{file.path.name}"

    def _other_files(self) -> Iterator[tuple[StorePath, str]]:
        """Yield the files that are neither of the log, of the configuration nor of a RocksDB."""
        old = self.old
        parts = [*old.queue_parts, old.index, old.timer_log, old.compacted_queues, old.compacted_logs]
        for part in parts:
            if not is_rocksdb(part):
                name = str(part)[len(str(old.root)) + 1 :]
                yield from find_files(part, name)
        for name in sorted(self.survey.names):
            path = old.root / name
            if name in COPIED or name.startswith(old.timer_wheel.name):
                yield from find_files(path, name) if path.is_dir() else [(path, name)]
            if name.startswith("dledger-"):
                for child in sorted({*names_in(path)} - {"data"}):  # the entries are files of the log
                    place = path / child
                    yield from find_files(place, f"{name}/{child}") if place.is_dir() else [(place, f"{name}/{child}")]

    def _files_of_topics(self, topics: Collection[str]) -> Iterator[tuple[StorePath, str]]:
        """Yield the files of the queues of some topics."""
        for part in self.old.queue_parts:
            for topic in sorted(topics):
                yield from find_files(part / topic, f"{part.name}/{topic}")

    def _copy_databases(self, config_files: ConfigFiles) -> None:
        """Copy each RocksDB, before the end of the log is known: its units lead to records that are copied."""
        old = self.old
        found = [(path, path.name) for path in (*old.queue_databases, old.rocksdb, old.pop_database)]
        found += [(path, f"{old.config.name}/{name}") for name, path in config_files.databases.items()]
        if self.choice.credentials:
            found += [(path, f"{old.config.name}/{name}") for name, path in config_files.others.items()]
        for path, name in found:
            target = self.new.root / name
            if is_rocksdb(path):
                copy_database(path, target, self._count)
            elif name.startswith(old.config.name):
                self._copy_tree(path, name)

    def _copy_tree(self, path: StorePath, name: str) -> None:
        """Copy a file, or the files of a directory."""
        with contextlib.ExitStack() as stack:
            for file in hold_files(find_files(path, name) if path.is_dir() else [(path, name)], stack):
                self._copy(file, file.size)

    # ---- log and queues ------------------------------------------------------------------------------------

    def _find_begin(self, log: CommitLog) -> tuple[int, list[str]]:
        """Return the first physical offset that is copied, and the assumption by which files before it are left out."""
        begin = log.min_phy_offset
        if self.since is None:
            return begin, []
        end = log.max_phy_offset
        chosen = choose_files(log, begin, end, self.since, LONG_MAX)
        last = log.reader.last_begun_file()
        first = min([part[0] for part in chosen.ranges] or [last])
        return first, describe_skipped([part for part in chosen.skipped if part[0] < first])

    def _find_staged_begin(self, log: CommitLog) -> int:
        """Return the physical offset from which on recovery reads the log."""
        point = StoreCheckpoint.open(self.old.checkpoint)
        return find_dispatch_begin(log, point, self.survey.settings)

    def _hold_new_files(self, log: CommitLog, files: list[HeldFile], stack: contextlib.ExitStack) -> list[HeldFile]:
        """Open the files of the log that a writer made after ``files`` were opened."""
        log.refresh()
        known = {file.name for file in files}
        return hold_files((found for found in self._log_files(log) if found[1] not in known), stack)

    def _copy_log(self, log: CommitLog, files: list[HeldFile], begin: int, end: int) -> int:
        """Copy the log from ``begin`` to ``end``, physical offsets. Files that were made ahead are left out.

        Returns: the physical offset from which on the log is in the directory. Files before it are unstaged.
        """
        if self.topics is not None:
            self._copy_part_of_log(log, files, begin, end, self.topics)
            return begin
        staged_from = begin if self.target is None else max(begin, self._find_staged_begin(log))
        for file in files:
            start = int(file.path.name)
            if begin < start + file.size <= staged_from:
                self.unstaged.append(file)
            elif start < end and start + file.size > begin:
                self._copy(file, min(end - start, file.size))
        return staged_from

    def _copy_part_of_log(
        self, log: CommitLog, files: list[HeldFile], begin: int, end: int, topics: Collection[str]
    ) -> None:
        """Copy the messages of some topics, and fillers in place of the others."""
        part = PartOfLog(log, self.survey.settings, topics)
        make_directory(self.new.default_log)
        for file in files:
            start = int(file.path.name)
            if start < end and start + file.size > begin:
                part.copy(file, self.new, end, self._count)
                self.files.append(CopiedFile(file.name, file.size))

    def _choose(self, files: list[HeldFile], begin: int) -> Iterator[HeldFile]:
        """Yield the files that are copied: all but files of queues whose units all lead to offsets before ``begin``.

        The last file of a queue is always copied: it has the queue offset of the next message.
        """
        layouts = {self.new.queues(kind).name: UNIT if kind is ConsumeQueue else BATCH_UNIT for kind in QUEUE_KINDS}
        last = {file.name.rpartition("/")[0]: file for file in files}  # of each directory
        for file in files:
            directory, _, name = file.name.rpartition("/")
            layout = layouts.get(directory.partition("/")[0])
            is_kept = self.since is None or last[directory] is file or not is_offset_name(name)
            if is_kept or layout is None or reaches(file, layout, begin):
                yield file

    def _copy(self, file: HeldFile, end: int) -> None:
        target = self.new.root / file.name
        make_directory(target.parent)
        file.copy_to(target, end, self._count)
        self.files.append(CopiedFile(file.name, file.size))

    def _count(self, size: int) -> None:
        self.done += size
        self.progress(min(self.done, self.total), self.total)

    # ---- small files ---------------------------------------------------------------------------------------

    def _write_config(self, config_files: ConfigFiles, checkpoint: bytes | None) -> None:
        """Write the configuration and the checkpoint that were read before the first byte of the log was copied."""
        make_directory(self.new.config)
        for name, data in config_files.files.items():
            source = self.old.config_file(name)
            like = None if is_remote(source) or not source.exists() else local_path(source)
            replace_file(self.new.config_file(name), data, like=like)
            self.files.append(CopiedFile(f"{self.old.config.name}/{name}", len(data)))
        if checkpoint is not None:
            replace_file(self.new.checkpoint, checkpoint.ljust(FILE_SIZE, b"\0"))
            self.files.append(CopiedFile(self.new.checkpoint.name, FILE_SIZE))

    def _config_of_copy(self) -> StoreConfig | None:
        """Return the configuration for the copy, whose log is in its root.

        A copy of topics has no index yet, and may have no queue: the files of the store show the sizes of these files.
        """
        config = self.survey.given if self.topics is None else self.survey.sizes.config
        if config is None:
            return None
        return replace(config, store_path_commit_log=None, read_only_commit_log_store_paths=None)

    def _recover(self, state: StoreState) -> tuple[str, ...]:
        """Cut queues and index where the log ends, and complete them. A broker does this itself for other formats."""
        formats = self.survey.formats
        if formats.is_dledger or formats.queue_database is not None or formats.config_databases:
            return ("a broker completes queues in RocksDB and DLedger's log when it starts on the copy",)
        config = self._config_of_copy()
        if state != StoreState.STOPPED or self.topics is not None:
            make_abort(self.new.abort)
        elif not recover(self.new.root, config=config, dry_run=True).actions:
            return ()  # sizes of files need not be known
        report = recover(self.new.root, config=config)
        self.new.lock.unlink(missing_ok=True)
        sync_path(self.new.root)
        return tuple(report.notes)

    def _limit_offsets(self, config_files: ConfigFiles) -> int:
        """Lower offsets behind the ends of queues. Return their number."""
        count = 0
        with MessageStore.of_survey(begin_entry("copy", self.new.root, self._config_of_copy())) as store:

            def find_end(topic: str, queue_id: int) -> int | None:
                with contextlib.suppress(KeyError):
                    return offset_range(store.log_queue(topic, queue_id))[1]
                return None

            for name, data in config_files.files.items():
                limited, number = limit_offsets(name, data, find_end)
                if number:
                    replace_file(self.new.config_file(name), limited)
                    count += number
        return count

    def _compare(self, store: MessageStore, begin: int, end: int) -> int:
        """Compare the copy with the store. Return how many messages of queues both have. Raises: StoreError."""
        with MessageStore.of_survey(begin_entry("copy", self.new.root, self._config_of_copy())) as new:
            report = compare_copy(store, new, begin, end, self.topics)
        allowed = {INDEX_IN_COPY} if self.topics is not None else set()  # the index of the copy is built anew
        if wrong := [difference for difference in report.differences if difference.kind not in allowed]:
            first = wrong[0]
            raise StoreError(f"{self.survey.root}: the copy differs: {first.kind} in {first.name}, from {first.begin}")
        return report.messages

    def _notes(self) -> Iterator[str]:
        settings = self.survey.settings
        if parse_boolean(settings.other.get("transientStorePoolEnable", "")):
            yield "transientStorePoolEnable: acknowledged messages that were in no file yet are not in the copy"


def reaches(file: HeldFile, layout: np.dtype[Any], phy_offset: int) -> bool:
    """Return whether the last unit of a queue's file leads to a physical offset or behind it, or is unwritten.

    Parameters: layout: of a unit.
    """
    place = file.size - file.size % layout.itemsize - layout.itemsize
    data = file.read(place, place + layout.itemsize) if place >= 0 else b""
    return not any(data) or read_field(data, layout, "phy_offset") >= phy_offset


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
    place = log.reader.record_at(offset)
    size = int.from_bytes(log.file_run.pread(place, 4), "big")
    data = log.file_run.pread(place, size) if 0 < size <= LARGE_RECORD else b""
    if not data:
        return 0
    scanner = log.reader.scanner((), verify_crc=True)
    following, status = scanner.scan(Buffer(data), place, place, place + 1, at_rest=True)
    return following - offset if status == OK and following > place else 0
