"""copy: copy a store, also one that a broker is writing."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from rocketstore.backup.config_files import ConfigFiles, config_of_topics, limit_offsets, read_config_files
from rocketstore.backup.copy_plan import (
    CopiedDatabase,
    CopyChoice,
    LogPlan,
    choose_needed,
    divide_files,
    find_begin,
    find_databases,
    find_log_files,
    find_other_files,
    first_offset,
    hold_new_files,
    plan_log,
)
from rocketstore.backup.copy_report import CopiedFile, CopyReport, count_parts
from rocketstore.backup.databases import copy_database
from rocketstore.backup.held_files import find_files, hold_files, many_descriptors
from rocketstore.backup.part_of_log import PartOfLog
from rocketstore.backup.remote_target import RemoteTarget
from rocketstore.compare.diff import compare_copy
from rocketstore.config import StoreConfig
from rocketstore.disk.durable import make_directory, replace_file, sync_path
from rocketstore.disk.held_file import Count, HeldFile
from rocketstore.disk.remote.remote_path import RemotePath
from rocketstore.disk.storage import is_remote, local_path, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.java_text import parse_boolean
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import StoreState
from rocketstore.messages.arguments import text_list
from rocketstore.progress import Progress, Report, show_progress
from rocketstore.queue.queue_source import offset_range
from rocketstore.recovery.recover import recover_surveyed
from rocketstore.recovery.settings import warn_of
from rocketstore.root_places import COPY_WORK
from rocketstore.salvage.new_root import is_part_of_store, new_directory, require_outside
from rocketstore.state.abort import make_abort
from rocketstore.state.checkpoint import FILE_SIZE
from rocketstore.state.rocksdb import is_rocksdb
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.known_names import require_known_topics
from rocketstore.survey.condition import find_store_state, read_checkpoint
from rocketstore.survey.owners import lock_owner_of
from rocketstore.survey.places import AnyPlaces, LocalPlaces, StorePlaces
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.sizes import ASSUMED_LOG_SIZE
from rocketstore.survey.survey import Survey
from rocketstore.survey.unfinished import describe_unfinished
from rocketstore.text_values import Time, ms_or_none

INDEX_IN_COPY = "index-only-in-b"  # a key of a message without an item in the index of the store
# Differences that disappear when a broker starts on the copy: it adds the last units and items, as after a crash.
COMPLETED_LATER = {"index-only-in-a", "units-only-in-a", "queue-only-in-a"}
NO_PROCESS = b"0"  # the content of the file ``abort``, in place of the id of a broker's process


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

    With DLedger's log, or with queues or topics in RocksDB, the copy of a store that was not stopped is a store after a
    crash: it has the file ``abort``, and the broker that starts on it completes the queues. Of a running member of
    DLedger, the entries are copied that are committed, up to those that are in the log when it is copied.

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
        inside = stack.enter_context(new_directory(target, COPY_WORK, is_part_of_store, mode))
        shown = stack.enter_context(show_progress(progress, "copy"))
        report = copy_to_directory(survey, StorePlaces.of(inside), choice, shown)
    return replace(report, new=target)


def require_outside_remote(new: RemotePath, root: StorePath) -> None:
    """Raise ValueError if a remote copy would be its own source, or inside it."""
    if new.is_within(root):
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
        report = copy_to_directory(survey, places, choice, progress, target)
    return replace(report, new=root)


def copy_to_directory(
    survey: Survey, new: LocalPlaces, choice: CopyChoice, progress: Report, target: RemoteTarget | None = None
) -> CopyReport:
    """Copy a store to a directory on this machine, recover the copy, and compare it.

    Parameters: new: the places of the directory. target: a remote root to which the directory is written then, with the
    files of the log that recovery does not read; None without one.
    """
    state = find_store_state(survey.places.abort, survey.places.lock)
    config_files = read_config_files(survey.places)
    if choice.topics is not None:
        config_files = config_of_topics(config_files, choice.topics)
    checkpoint = read_checkpoint(survey.places) if choice.topics is None else None  # all is dispatched again
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(MessageStore.of_survey(survey))
        require_known_topics([store], choice.topics or ())
        log = store.commit_log
        log.refresh()
        # Copy queues and index before the end of the log is found: then the log has all records to which they lead.
        databases = find_databases(survey, config_files, choice)
        held_log = hold_files(find_log_files(survey, new, log), stack)
        held = hold_files(find_other_files(survey, choice.topics), stack)
        begin, assumptions = find_begin(log, choice.since)
        others = list(choose_needed(held, begin, choice.since))
        total = log.max_phy_offset - begin + sum(file.size for file in others)
        count = ByteCount(progress, total)
        copied = copy_databases(databases, new, count)
        copied += [copy_held(file, new, file.size, count) for file in others]
        plan = plan_log(survey, log, state, begin, needs_all=target is None or choice.topics is not None)
        held_log += hold_new_files(survey, new, log, held_log, stack)
        files = divide_files(held_log, plan)
        copied += copy_log(survey, log, files.staged, new, plan, choice.topics, count)
        copied += write_config(survey.places, new, config_files, checkpoint)
        notes = complete_copy(survey, new, choice, state)
        limited = lower_offsets(survey, new, choice, config_files)
        messages = compare_with_copy(survey, store, new, choice, plan)
        if target is not None:
            copied = target.write(new.root, files.unstaged)
    return CopyReport(
        path=survey.root,
        new=new.root,
        min_phy_offset=plan.begin,
        max_phy_offset=plan.end,
        messages=messages,
        parts=count_parts(copied),
        limited_offsets=limited,
        left_out=() if choice.credentials else tuple(f"config/{name}" for name in config_files.others),
        notes=(*assumptions, *notes, *describe_unwritten(survey)),
    )


class ByteCount:
    """Reports a progress: it is called with the bytes that each step copied. ``total`` is an estimate of all bytes."""

    def __init__(self, report: Report, total: int) -> None:
        self._report, self._total, self._done = report, total, 0

    def __call__(self, size: int) -> None:
        self._done += size
        self._report(min(self._done, self._total), self._total)


# ---- the files -----------------------------------------------------------------------------------------------


def copy_held(file: HeldFile, new: LocalPlaces, end: int, count: Count) -> CopiedFile:
    """Copy the bytes of a file before ``end``."""
    target = new.root / file.name
    make_directory(target.parent)
    file.copy_to(target, end, count)
    return CopiedFile(file.name, file.size)


def copy_databases(databases: Iterable[CopiedDatabase], new: LocalPlaces, count: Count) -> list[CopiedFile]:
    """Copy RocksDBs, and directories of the configuration that have other files."""
    copied = []
    for path, name in databases:
        if is_rocksdb(path):
            target = new.root / name
            copy_database(path, target, count)
            copied += [CopiedFile(f"{name}/{each.name}", each.stat().st_size) for each in sorted(target.iterdir())]
        else:
            with contextlib.ExitStack() as stack:
                found = find_files(path, name) if path.is_dir() else [(path, name)]
                copied += [copy_held(file, new, file.size, count) for file in hold_files(found, stack)]
    return copied


def copy_log(
    survey: Survey,
    log: CommitLog,
    files: Iterable[HeldFile],
    new: LocalPlaces,
    plan: LogPlan,
    topics: Collection[str] | None,
    count: Count,
) -> list[CopiedFile]:
    """Copy files of the log up to the planned end.

    Parameters: topics: records of other topics become fillers; None to copy all records.
    """
    if topics is None:
        return [copy_held(file, new, min(plan.end - first_offset(file), file.size), count) for file in files]
    part = PartOfLog(log, survey.settings, topics)
    make_directory(new.default_log)
    copied = []
    for file in files:
        part.copy(file, new, plan.end, count)
        copied.append(CopiedFile(file.name, file.size))
    return copied


def write_config(
    old: AnyPlaces, new: LocalPlaces, config_files: ConfigFiles, checkpoint: bytes | None
) -> list[CopiedFile]:
    """Write the configuration and the checkpoint that were read before the first byte was copied."""
    copied = []
    make_directory(new.config)
    for name, data in config_files.files.items():
        source = old.config_file(name)
        like = None if is_remote(source) or not source.exists() else local_path(source)
        replace_file(new.config_file(name), data, like=like)
        copied.append(CopiedFile(f"{old.config.name}/{name}", len(data)))
    if checkpoint is not None:
        replace_file(new.checkpoint, checkpoint.ljust(FILE_SIZE, b"\0"))
        copied.append(CopiedFile(new.checkpoint.name, FILE_SIZE))
    return copied


# ---- the copy as a store -------------------------------------------------------------------------------------


def config_of_copy(survey: Survey, choice: CopyChoice) -> StoreConfig | None:
    """Return the configuration for the copy, whose log is in its root.

    A copy of topics has no index yet, and may have no queue: the files of the store show the sizes of these files.
    """
    config = survey.given if choice.topics is None else survey.sizes.config
    if config is None:
        return None
    return replace(config, store_path_commit_log=None, read_only_commit_log_store_paths=None)


def complete_copy(survey: Survey, new: LocalPlaces, choice: CopyChoice, state: StoreState) -> tuple[str, ...]:
    """Cut queues and index where the log ends, and complete them. Return notes.

    Queues in RocksDB and DLedger's log are completed by a broker, if it finds that the store was not stopped.
    """
    formats = survey.formats
    if formats.is_dledger or formats.queue_database is not None or formats.config_databases:
        if state == StoreState.STOPPED:
            return ()
        replace_file(new.abort, NO_PROCESS)
        return ("the copy is a store after a crash: a broker completes queues in RocksDB and DLedger's log on it",)
    config = config_of_copy(survey, choice)
    if state != StoreState.STOPPED or choice.topics is not None:
        make_abort(new.abort)
    elif not recover_surveyed(begin_entry("recover dry run", new.root, config), dry_run=True).actions:
        return ()  # sizes of files need not be known
    report = recover_surveyed(begin_entry("recover", new.root, config))
    # A copied file keeps its length, whatever the size of log files is: a warning of an assumed size would not help.
    warn_of((text for text in report.assumptions if not text.startswith(ASSUMED_LOG_SIZE)), new.root)
    new.abort.unlink(missing_ok=True)
    new.lock.unlink(missing_ok=True)
    sync_path(new.root)
    return tuple(report.notes)


def lower_offsets(survey: Survey, new: LocalPlaces, choice: CopyChoice, config_files: ConfigFiles) -> int:
    """Lower offsets behind the ends of queues. Return their number."""
    count = 0
    with MessageStore.of_survey(begin_entry("copy", new.root, config_of_copy(survey, choice))) as store:

        def find_end(topic: str, queue_id: int) -> int | None:
            with contextlib.suppress(KeyError):
                return offset_range(store.log_queue(topic, queue_id))[1]
            return None

        for name, data in config_files.files.items():
            limited, number = limit_offsets(name, data, find_end)
            if number:
                replace_file(new.config_file(name), limited)
                count += number
    return count


def compare_with_copy(survey: Survey, store: MessageStore, new: LocalPlaces, choice: CopyChoice, plan: LogPlan) -> int:
    """Compare the copy with the store. Return how many messages of queues both have. Raises: StoreError."""
    with MessageStore.of_survey(begin_entry("copy", new.root, config_of_copy(survey, choice))) as copied:
        report = compare_copy(store, copied, plan.staged_from, plan.end, choice.topics)
    allowed = {INDEX_IN_COPY} if choice.topics is not None else set()  # the index of the copy is built anew
    allowed |= COMPLETED_LATER if new.abort.exists() else set()
    if wrong := [difference for difference in report.differences if difference.kind not in allowed]:
        first = wrong[0]
        raise StoreError(f"{survey.root}: the copy differs: {first.kind} in {first.name}, from {first.begin}")
    return report.messages


def describe_unwritten(survey: Survey) -> Iterator[str]:
    """Yield a note if the broker may have acknowledged messages that are in no file."""
    if parse_boolean(survey.settings.other.get("transientStorePoolEnable", "")):
        yield "transientStorePoolEnable: acknowledged messages that were in no file yet are not in the copy"
