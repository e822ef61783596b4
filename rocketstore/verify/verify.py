"""Whether a store is sound: log, queues and index each against the other, and the files that say how it was left."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rocketstore.config import DEFAULT_SIZES, StoreConfig, require_config
from rocketstore.disk.descriptors import require_descriptors_to_read
from rocketstore.disk.lock_file import is_held
from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.disk.small_file import read_file_start
from rocketstore.disk.storage import local_path
from rocketstore.dispatch.light_queues import with_light_queues
from rocketstore.errors import CorruptFileError
from rocketstore.index.index_file import file_size, geometry_of
from rocketstore.index.index_service import index_paths
from rocketstore.jobs.intent import intent_path
from rocketstore.kernels.layout import RECORD_HEAD, RECORD_MAGICS, read_field
from rocketstore.kernels.queue_id import QueueId
from rocketstore.layout.geometry import PATHS, read_saved, saved_path
from rocketstore.layout.layout import look_at_store
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_rule import StoreState
from rocketstore.log.record_reader import no_limit
from rocketstore.messages.topics import SCHEDULE_TOPIC
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS, BatchConsumeQueue
from rocketstore.queue.consume_queue import is_queue_name
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.recovery.begin import find_dispatch_begin
from rocketstore.state.broker_config import BrokerConfig, TopicConfig, batch_topics
from rocketstore.state.checkpoint import FILE_SIZE, StoreCheckpoint
from rocketstore.state.config_values import OFFSETS
from rocketstore.state.java_numbers import parse_long
from rocketstore.store.message_store import MessageStore
from rocketstore.verify.config import kind_of_problem
from rocketstore.verify.ext import ExtFiles
from rocketstore.verify.index import IndexPart, IndexVerifier
from rocketstore.verify.log import LogVerifier
from rocketstore.verify.queues import QueueFiles, QueueVerifier
from rocketstore.verify.report import Findings, VerifyReport
from rocketstore.verify.start import check_start_files, stray_files
from rocketstore.verify.units import UnitVerifier

__all__ = ["verify"]

MOST_THREADS = 4
# Where numbers are in a checkpoint, bytes: times of the last record on the disk, and physical offsets of it.
CHECKPOINT_TIMES = ((0, "physic_msg_timestamp"), (8, "logics_msg_timestamp"))
CHECKPOINT_OFFSETS = ((32, "confirm_phy_offset"), (40, "logics_physical_offset"))
KNOWN = re.compile(
    r"commitlog|(batch)?consumequeue(_ext|_rocksdb)?|index|checkpoint|abort(\.bak)?|lock|config|rocksdbstore|compaction|"
    r"timerwheel.*|timerlog|epochFileCheckpoint(\.bak)?|brokerIdentity(\.bak|-temp)?|transaction|kvStore|"
    r"tiered_index_file|rocketstore-.*|dledger-.*|.*\.bak-.*"
)



def verify(
    path: str | os.PathLike[str],
    *,
    quick: bool = False,
    threads: int | None = None,
    config: StoreConfig | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> VerifyReport:
    """Look for what is wrong with a store. Changes nothing and takes no lock; a broker may be writing it.

    Parameters
    ----------
    quick : look at headers, ends and samples alone.
    threads : parts of the log that are checked at once, None for as many as there are processors, 4 at most.
    config : sizes that files do not show, and where the log is; else what a rocketstore writer left, and the files.
    progress : called with bytes of the log that were checked, and those to check.

    Returns
    -------
    VerifyReport. Damage is a finding of it, and no error.

    Raises
    ------
    StoreError, OSError : if no store is at ``path``, or its log is DLedger's. ValueError : for ``threads`` below 1.

    Source: none; what a broker does about a finding at its next start is DefaultMessageStore.load's.
    """
    if threads is None:
        threads = min(os.cpu_count() or 1, MOST_THREADS)
    if threads < 1:
        raise ValueError(f"threads={threads}: at least 1 is needed")
    require_config(config)
    root = local_path(path)
    require_descriptors_to_read(root)
    return Verification(root, config).run(quick, threads, progress)


class Verification:
    """One look at a store."""

    def __init__(self, root: Path, config: StoreConfig | None) -> None:
        self.root = root
        self.findings = Findings()
        saved: dict[str, Any] = {}
        with self.findings.noted(saved_path(root), "sizes-damaged"):
            saved = {name: value for name, value in read_saved(saved_path(root)).items() if name not in PATHS}
        sizes: dict[str, Any] = {name: getattr(config, name, None) or saved.get(name) for name in DEFAULT_SIZES}
        self.config: Any = replace(config or StoreConfig(**saved), **sizes)
        self.topics: dict[str, TopicConfig] = {}
        self.batch_topics: set[str] = set()
        self.next_offsets: list[tuple[str, str, int, int]] = []
        self.delay_offsets: dict[int, int] = {}
        self.offsets_file = OFFSETS
        self.checkpoint: StoreCheckpoint | None = None
        self.is_locked = False
        self.last_exit_ok = not os.path.lexists(root / "abort")
        self.layout = look_at_store(root, config)

    def run(self, quick: bool, threads: int, progress: Callable[[int, int], None] | None) -> VerifyReport:
        with MessageStore.open(self.root, config=self.config, leftovers=True) as store:
            self._check_state()
            self._check_config()
            with contextlib.closing(self._open_log(store)) as log:
                log.queue.tolerate_faults()
                return self._check(log, quick, threads, progress)

    def _open_log(self, store: MessageStore) -> CommitLog:
        try:
            log = store.commit_log
            log.find_limit = no_limit  # records of an unfinished write are checked too
            return log
        except OSError as error:
            kind = "log-missing" if isinstance(error, FileNotFoundError | NotADirectoryError) else "unreadable"
            paths = self.config.commit_log_paths(self.root)
            self.findings.add(kind, paths[0], 0, error.strerror or str(error))
            return CommitLog.open(self.root)  # where there are no files of a log

    def _check(self, log: CommitLog, quick: bool, threads: int, progress: Any) -> VerifyReport:
        if self.last_exit_ok and not self.is_locked:
            log.whole_to = LONG_MAX
        stop = log.max_phy_offset if self.is_locked else None
        cut = self._find_cut(log)
        light = with_light_queues(self.config, [entry.name for entry in self._entries(self.root / "consumequeue")])
        multi = light.enable_multi_dispatch
        if not multi:
            light = replace(light, enable_multi_dispatch=True, enable_lmq=True)
        queues = QueueVerifier(
            log, self.findings, dict(self._queues()), multi, light, self.batch_topics, self.topics
        )
        index = IndexVerifier(log, self.findings, self._index_parts())
        whole = LogVerifier(log, self.config, self.findings, queues, index)
        whole.run(stop, cut, quick, threads, progress)
        self.is_locked = self.is_locked or self._is_held()  # it may have started meanwhile
        if self.is_locked:
            self.findings.add("lock-held", self.root / "lock", 0, "another process holds the lock")
        is_live = self.is_locked or whole.is_growing
        point = self.checkpoint or StoreCheckpoint()
        dispatch_from = None if self.last_exit_ok else find_dispatch_begin(log, point, self.config)
        is_stopped = self.last_exit_ok and not is_live and not self._is_log_end_lost(whole)
        units = UnitVerifier(log, self.findings, queues, whole.begin, whole.end, dispatch_from, is_live, is_stopped)
        if quick:
            units.sample()
        else:
            units.finish(
                self.root, self.batch_topics, has_database=self.layout.queue_database is not None,
                is_in_database=self.layout.are_queues_in_database,
            )
        for files in queues.queues.values():
            files.add_unreadable(self.findings)
        index.finish(self.root / "index", whole.end, is_live or not self.last_exit_ok, is_live)
        self._check_index_files(index, whole)
        if self.checkpoint is not None and not is_live:
            self._check_checkpoint(self.checkpoint, log, whole, index)
        self._check_consumers(queues, quick)
        return VerifyReport(
            self.findings.sorted(), whole.begin, whole.end, whole.n_records, len(queues.queues), len(index.parts),
            self.last_exit_ok, self.is_locked, quick,
        )

    def _find_cut(self, log: CommitLog) -> int | None:
        """Find where a broker cut the log before it was stopped cleanly; None if no record is behind its end."""
        if not self.last_exit_ok or self.is_locked or not log.queue.files:
            return None
        try:
            with MessageStore.open(self.root, config=self.config) as store:
                if store.commit_log.ending.state != StoreState.STOPPED:
                    return None
                end = store.commit_log.max_phy_offset
        except CorruptFileError:  # of the log or of the intent, whose own checks report the damage
            return None
        return None if log.find_later(end, LONG_MAX) is None else end

    # ---- files -----------------------------------------------------------------------------------------------

    def _entries(self, directory: Path) -> list[os.DirEntry[str]]:
        found: list[os.DirEntry[str]] = []
        with self.findings.noted(directory), contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        return found

    def _check_run(self, directory: Path) -> None:
        """Report the stray files of a run."""
        with self.findings.noted(directory), contextlib.suppress(FileNotFoundError):
            os.scandir(directory).close()
        for end, path, detail in stray_files(directory):
            self.findings.add(f"foreign-file{end}", path, 0, detail)

    def _queue_directories(self, name: str) -> Iterator[tuple[QueueId, Path]]:
        for topic in self._entries(self.root / name):
            if not is_so(topic.is_dir):
                if self.layout.queue_database != self.root / name:
                    self.findings.add("foreign-file", Path(topic.path), 0, "no topic")
                continue
            for queue in self._entries(Path(topic.path)):
                if is_queue_name(queue.name) and is_so(queue.is_dir):
                    yield QueueId(topic.name, int(queue.name)), Path(queue.path)
                else:
                    self.findings.add("foreign-file", Path(queue.path), 0, "no queue id")

    def _queues(self) -> Iterator[tuple[QueueId, QueueFiles]]:
        if self.layout.are_queues_in_database:  # those in files are from before
            return
        ext = dict(self._queue_directories(ConsumeQueueExt.directory_name))
        for kind in QUEUE_KINDS:
            name, size, is_batch = kind.directory_name, getattr(self.config, kind.size_name), kind is BatchConsumeQueue
            found: dict[QueueId, QueueFiles] = {}
            for queue, directory in self._queue_directories(name):
                with self.findings.noted(directory):
                    self._check_run(directory)
                    ext_files = self._ext_files(ext[queue]) if queue in ext and not is_batch else None
                    found[queue] = QueueFiles(directory, is_batch, size, ext_files)
                if (queue[0] in self.batch_topics) != is_batch and (self.topics or not is_batch):
                    self.findings.add("queue-wrong-root", directory, 0, "queue.type of the topic is another")
            self._check_lengths(found)
            yield from found.items()

    def _ext_files(self, directory: Path) -> ExtFiles:
        files = ExtFiles(directory, self.config.mapped_file_size_consume_queue_ext)
        for end, path, detail in stray_files(directory):
            self.findings.add(f"ext-foreign-file{end}" if end else "foreign-file", path, 0, detail)
        for file in files.files:
            if file.size == 0 and file is files.files[-1]:
                self.findings.add("ext-file-empty", file.path, 0, "no bytes")
            elif file.size != files.size:
                self.findings.add("ext-file-size", file.path, file.size, f"{file.size} bytes, not {files.size}")
        return files

    def _check_lengths(self, queues: dict[QueueId, QueueFiles]) -> None:
        """All queues of a kind have files of one length: the one given, or that most have, the longest of such."""
        sizes = Counter(file.size for files in queues.values() for file in files.files if file.size)
        most = max(sizes, key=lambda size: (sizes[size], size), default=0)
        for files in queues.values():
            size = files.given_size or most
            files.set_size(size)
            for file in files.files:
                if file.size == 0 and file is files.files[-1]:
                    self.findings.add("queue-file-empty", file.path, 0, "no bytes")
                elif file.size != size:
                    self.findings.add("queue-file-size", file.path, file.size, f"{file.size} bytes, not {size}")
                if size and file.file_from_offset % size:
                    detail = f"{file.file_from_offset} is no multiple of {size}"
                    self.findings.add("queue-file-name", file.path, 0, detail)
            for before, file in zip(files.files, files.files[1:], strict=False):
                if file.file_from_offset - before.file_from_offset > size > 0:
                    self.findings.add("queue-file-missing", file.path, 0, f"{before.path.name} is the one before")

    def _index_parts(self) -> list[IndexPart]:
        directory = self.root / "index"
        for entry in self._entries(directory):
            if parse_long(entry.name) is not None and is_so(entry.is_dir):
                self.findings.add("foreign-file-fatal", Path(entry.path), 0, "a directory by the name of an index file")
            elif not entry.name.isdecimal() or not is_so(entry.is_file):
                self.findings.add("foreign-file", Path(entry.path), 0, "no index file")
            elif len(entry.name) != 17 or not entry.name.isascii():
                self.findings.add("index-file-name", Path(entry.path), 0, entry.name)
        parts: list[IndexPart] = []
        with self.findings.noted(directory), contextlib.suppress(FileNotFoundError):
            paths = [path for path in index_paths(directory) if len(path.name) == 17]
            slots, items = self._geometry(paths) or (0, 0)
            for path in paths if slots else ():
                with self.findings.noted(path):
                    length, size = path.stat().st_size, file_size(slots, items)
                    if length == 0 and not self.last_exit_ok:
                        self.findings.add("index-torn-put", path, 0, "the file has not got its length yet")
                    elif length != size:
                        detail = f"{length} bytes, {slots} slots and {items} items need {size}"
                        self.findings.add("index-file-size", path, length, detail)
                    else:
                        parts.append(IndexPart(path, slots, items, self.is_locked, not self.last_exit_ok))
        return parts

    def _geometry(self, paths: list[Path]) -> tuple[int, int] | None:
        config = self.config
        if config.max_hash_slot_num and config.max_index_num:
            return config.max_hash_slot_num, config.max_index_num
        for path in paths:
            with contextlib.suppress(ValueError, CorruptFileError):
                return geometry_of([path], for_writing=False)
        lengths = {path.stat().st_size for path in paths}
        default = DEFAULT_SIZES["max_hash_slot_num"], DEFAULT_SIZES["max_index_num"]
        if lengths == {file_size(*default)}:
            return default
        if paths:
            self.findings.add("index-geometry", paths[0].parent, 0, "give maxHashSlotNum and maxIndexNum")
        return None

    # ---- state -----------------------------------------------------------------------------------------------

    def _check_state(self) -> None:
        add, root = self.findings.add, self.root
        logs = self.config.commit_log_paths(root)
        known = {path for log in logs for path in (log.absolute(), *log.absolute().parents)}
        for entry in self._entries(root):
            if not KNOWN.fullmatch(entry.name) and Path(entry.path).absolute() not in known:
                if has_log_files(Path(entry.path)):
                    detail = "it has files as of a commit log: give storePathCommitLog, if it is one of its directories"
                    add("not-checked", Path(entry.path), 0, detail)
                else:
                    add("foreign-file", Path(entry.path), 0, "none of a store's")
        for directory in logs:
            self._check_run(directory)
        if not self.last_exit_ok:
            add("abort", root / "abort", 0, "the file is there")
        check_start_files(root, self.config, self.findings)
        self.is_locked = self._is_held()
        for path in () if self.is_locked else root.glob(f"{intent_path(root).stem}*.json"):
            detail = "opening for writing undoes or finishes it" if path == intent_path(root) else "it was left so"
            add("write-unfinished", path, 0, detail)
        self._check_other_formats()
        path = root / "checkpoint"
        if not os.path.lexists(path):
            if not self.is_locked:  # which writes it when it flushes
                add("checkpoint-missing", path, 0, "no such file")
            return
        with self.findings.noted(path, "checkpoint-damaged"):
            self.checkpoint = StoreCheckpoint.open(path)
            if path.stat().st_size != FILE_SIZE:
                add("checkpoint-size", path, path.stat().st_size, f"{path.stat().st_size} bytes")

    def _check_other_formats(self) -> None:
        """Name what is not checked, since its format is not read."""
        layout, add = self.layout, self.findings.add
        if layout.queue_database is not None:
            add("not-checked", layout.queue_database, 0, "queues in RocksDB")
        for database in dict.fromkeys(layout.config_databases.values()):
            add("not-checked", database, 0, "topics, consumer groups or offsets in RocksDB")
        if layout.index_database is not None:
            add("not-checked", layout.index_database, 0, "an index in RocksDB")
        elif layout.has_other_data:
            add("not-checked", self.root / "rocksdbstore", 0, "timers or transactions in RocksDB")
        for topic in layout.compacted_topics:
            path = self.root / "compaction" / "compactionLog" / topic
            add("not-checked", path, 0, "the compacted log, of which consumers of this topic are given messages")
        if layout.is_tiered:
            add("not-checked", self.root / "tiered_index_file", 0, "tiered storage, which may have older messages")

    def _is_held(self) -> bool:
        return is_so(lambda: is_held(self.root / "lock"))

    def _check_config(self) -> None:
        config = BrokerConfig.open(self.root, self.config)
        self.topics, self.batch_topics = config.topics, batch_topics(config.topics)
        self.next_offsets, self.delay_offsets = list(config.next_offsets()), config.delay_offsets
        databases = {*self.layout.config_databases.values()}
        self.offsets_file = config.offsets_file
        for path, what in config.problems:
            if path in databases:  # which is not damage
                continue
            self.findings.add(kind_of_problem(path, what, self.config, config.offsets_file), path, 0, what)

    def _check_consumers(self, queues: QueueVerifier, quick: bool) -> None:
        if quick and not self.last_exit_ok:
            return  # queues may be behind the log, of which only samples were looked at
        for group, topic, queue_id, offset in self.next_offsets:
            if (topic, queue_id) in queues.queues:  # or it was deleted, and its consumers' offsets were not
                self._check_offset(queues, self.offsets_file, group, QueueId(topic, queue_id), offset)
        for level, offset in sorted(self.delay_offsets.items()):
            if not self.layout.are_queues_in_database:
                delay_queue = QueueId(SCHEDULE_TOPIC, level - 1)
                self._check_offset(queues, "delayOffset.json", f"level {level}", delay_queue, offset)

    def _check_offset(self, queues: QueueVerifier, name: str, whose: str, queue: QueueId, offset: int) -> None:
        """Note an offset to be consumed next that is beyond a queue's end."""
        with self.findings.noted(self.root / "consumequeue" / queue[0]):
            if offset > (end := queues.end(queue)):
                detail = f"{whose} of {queue[0]}/{queue[1]}: {offset} is beyond the queue's end, {end}"
                self.findings.add("config-offset", self.root / "config" / name, 0, detail)

    def _check_index_files(self, index: IndexVerifier, whole: LogVerifier) -> None:
        directory = self.root / "index"
        if not index.parts:
            has_files = any(path.is_file() for path in directory.glob("*")) if directory.is_dir() else False
            enabled = self.config.message_index_enable and self.layout.index_database is None
            if whole.n_records and enabled and not has_files and not whole.is_growing:
                self.findings.add("index-missing", directory, 0, f"{whole.n_records} messages are in the log")
        elif not self.last_exit_ok and self.checkpoint is not None:
            for part in index.parts:
                end, known = part.header.end_timestamp, self.checkpoint.index_msg_timestamp
                if end > known:
                    detail = f"ends at {end}, the checkpoint knows {known}"
                    self.findings.add("index-to-be-deleted", part.path, 8, detail)

    def _check_checkpoint(
        self, point: StoreCheckpoint, log: CommitLog, whole: LogVerifier, index: IndexVerifier
    ) -> None:
        def add(kind: str, offset: int, detail: str) -> None:
            self.findings.add(kind, self.root / "checkpoint", offset, detail)

        for i, number in enumerate(point._numbers()):
            if number < 0:
                add("checkpoint-negative", 8 * i, f"{number}")
        for offset, detail in find_lost_end(point, whole):
            add("checkpoint-ahead", offset, detail)
        for offset, name in CHECKPOINT_OFFSETS:
            at = getattr(point, name)
            if whole.begin < at < whole.end and not log.begins_record(at):
                add("checkpoint-offset", offset, f"{name} is {at}, where no record begins")
        full = [part.header.end_timestamp for part in index.parts[:-1]]
        newest = max((part.header.end_timestamp for part in index.parts), default=None)
        if newest is not None and point.index_msg_timestamp > newest:
            add("checkpoint-index-ahead", 16, f"{point.index_msg_timestamp}, the newest file ends at {newest}")
        if full and full[-1] > point.index_msg_timestamp:
            add("checkpoint-index-behind", 16, f"{point.index_msg_timestamp}, a full file ends at {full[-1]}")

    def _is_log_end_lost(self, whole: LogVerifier) -> bool:
        """Whether the checkpoint knows of records behind the end of the log: units of these are no leftovers."""
        return self.checkpoint is not None and any(find_lost_end(self.checkpoint, whole))


def has_log_files(directory: Path) -> bool:
    """Return whether a directory has a file that is named as one of a commit log and begins with a record."""
    with contextlib.suppress(OSError):
        paths = sorted(path for path in directory.iterdir() if is_offset_name(path.name))
        return any(read_field(read_file_start(path, 8), RECORD_HEAD, "magic") in RECORD_MAGICS for path in paths[:1])
    return False


def is_so(question: Callable[[], bool]) -> bool:
    """The answer of a directory entry or the like, no for a link to itself."""
    with contextlib.suppress(OSError):
        return question()
    return False


def find_lost_end(point: StoreCheckpoint, whole: LogVerifier) -> Iterator[tuple[int, str]]:
    """Yield where the checkpoint names records behind the end of the log, and what it says of them.

    A broker writes these numbers when the records are on the disk. Yields: positions in the file, bytes; texts.
    """
    for offset, name in CHECKPOINT_TIMES:
        time, latest = getattr(point, name), whole.max_store_timestamp
        if whole.n_records and not whole.is_sampled and time > latest:
            yield offset, f"{name} is {time}, the log has {latest}"
    for offset, name in CHECKPOINT_OFFSETS:
        at = getattr(point, name)
        if at > whole.end:
            yield offset, f"{name} is {at}, the log ends at {whole.end}"
