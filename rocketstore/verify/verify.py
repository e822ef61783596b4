"""Verify a whole store: the entry of this room, and the checks of the small files beside log, queues and index."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rocketstore.config import DEFAULT_SIZES, StoreConfig
from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.disk.ranges import merge_ranges
from rocketstore.disk.rocksdb.reader_program import find_missing_reader
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.disk.small_file import read_file_start
from rocketstore.disk.storage import local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.dispatch.dispatch_begin import find_dispatch_begin
from rocketstore.dispatch.light_queues import with_light_queues
from rocketstore.dispatch.topic_lives import KnownTopics
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.jobs.intent import intent_path
from rocketstore.kernels.layout import RECORD_HEAD, RECORD_MAGICS, read_field
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import Leftovers
from rocketstore.messages.topics import SCHEDULE_TOPIC
from rocketstore.progress import Progress, Report, show_progress
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.rocks_units import RocksUnits
from rocketstore.state.checkpoint import FILE_SIZE, StoreCheckpoint
from rocketstore.state.config_values import OFFSETS, TopicConfig
from rocketstore.state.json_tables import batch_topics
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.summary import count_messages
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.formats import find_dledger, find_log_directories
from rocketstore.survey.open_log import open_log
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.sizes import PATHS, read_saved
from rocketstore.survey.survey import Survey
from rocketstore.text_values import format_count, utc
from rocketstore.verify.checkpoint import check_checkpoint, find_lost_end
from rocketstore.verify.compaction import check_compacted_topics
from rocketstore.verify.config import kind_of_problem
from rocketstore.verify.dledger import check_dledger
from rocketstore.verify.file_listing import FileListing, is_lock_held
from rocketstore.verify.findings import Findings, VerifyReport
from rocketstore.verify.index.index_verifier import IndexVerifier
from rocketstore.verify.known_files import is_known
from rocketstore.verify.log.log_verifier import LogVerifier
from rocketstore.verify.patches import plan_mends, with_patches
from rocketstore.verify.queues.database_verifier import DatabaseVerifier
from rocketstore.verify.queues.queue_verifier import QueueVerifier
from rocketstore.verify.queues.unit_verifier import UnitVerifier
from rocketstore.verify.start import check_start_files
from rocketstore.verify.tiered_storage import check_tier

MOST_THREADS = 4


def verify(
    path: str | os.PathLike[str] | StorePath,
    *,
    quick: bool = False,
    threads: int | None = None,
    config: StoreConfig | None = None,
    progress: Progress = False,
) -> VerifyReport:
    """Verify a store. Change nothing and take no lock; a broker may be writing the store.

    Parameters
    ----------
    quick : check headers, ends and samples only.
    threads : chunks of the log that are checked at once; None for one per processor, at most 4.
    config : sizes of files, and the directories of the log. By default they come from the files and from the settings
        that a rocketstore writer saved.
    progress : True shows a bar on standard error. A function is called with the bytes of the log that
        were checked, and all its bytes.

    Returns
    -------
    VerifyReport. Damage is a finding in the report, not an error.

    Raises
    ------
    StoreError, OSError : if ``path`` is no store. ValueError : if ``threads`` is below 1.

    Source: none. A finding tells what a broker does at its next start: DefaultMessageStore.load.

    Examples:
    >>> report = rocketstore.verify("demo")
    >>> report.ok, report.messages
    (True, 101)
    """
    threads = choose_threads(threads)
    survey = begin_entry("verify", local_path(path), config)
    with show_progress(progress, "verify") as report:
        return Verification(survey).run(quick, threads, report)


def choose_threads(threads: int | None) -> int:
    """Return how many chunks are checked at once, None for one per processor. Raises: ValueError below 1."""
    if threads is None:
        return min(os.cpu_count() or 1, MOST_THREADS)
    if threads < 1:
        raise ValueError(f"threads={threads}: at least 1 is needed")
    return threads


class QueueTotals(NamedTuple):
    """The number of queues, and of the messages in them."""

    queues: int
    messages: int


class Verification:
    """One verification of a store, with the state that it reads first: configuration, checkpoint, lock."""

    def __init__(self, survey: Survey) -> None:
        self.places = survey.local_places
        self.root = self.places.root
        self.findings = Findings(is_dledger=survey.formats.is_dledger)
        saved: dict[str, Any] = {}
        path, config = self.places.saved_settings, survey.given
        with self.findings.reporting_errors(path, "sizes-damaged"):
            saved = {name: value for name, value in read_saved(path).items() if name not in PATHS}
        sizes: dict[str, Any] = {name: getattr(config, name, None) or saved.get(name) for name in DEFAULT_SIZES}
        self.config = replace(config or StoreConfig(**saved), **sizes)
        self.topics: dict[str, TopicConfig] = {}
        self.batch_topics: set[str] = set()
        self.next_offsets: list[tuple[str, str, int, int]] = []
        self.delay_offsets: dict[int, int] = {}
        self.offsets_file = OFFSETS
        self.checkpoint: StoreCheckpoint | None = None
        self.is_locked = False
        self.last_exit_ok = not os.path.lexists(self.places.abort)
        self.formats = survey.formats
        if survey.has_found_log:
            detail = (
                f"by its files, the commit log is in {survey.found_log}: name these directories in the configuration"
            )
            self.findings.add("log-elsewhere", self.places.default_log, 0, detail)

    def run(self, quick: bool, threads: int, progress: Report) -> VerifyReport:
        """Check the small files, then the log with queues and index."""
        self._check_state(quick=quick)
        self._check_config()
        log = self._open_log()
        if log is None:
            return self._report_without_log(quick)
        with contextlib.closing(log), contextlib.ExitStack() as stack:
            log.file_run.tolerate_faults()
            database = self._open_database(log, stack)
            return self._check(log, database, quick, threads, progress)

    def _open_log(self) -> CommitLog | None:
        """Open the log with all its records, also old ones and those of an unfinished write.

        Returns: None, and a finding, if the log is missing or cannot be read: nothing can be compared with it.
        """
        whole_to = LONG_MAX if self.last_exit_ok and not self.is_locked else 0
        directory = find_log_directories(self.places, self.config)[0]
        try:
            log = open_log(self.places, self.config, whole_to=whole_to)
        except OSError as error:
            kind, detail = "unreadable", error.strerror or str(error)
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                kind = "log-missing"
                detail += ": if it is elsewhere, give store_path_commit_log (storePathCommitLog in --broker-conf FILE)"
            self.findings.add(kind, directory, 0, detail)
            return None
        if not log.file_run.files and not self.is_locked and (what := self._describe_remains()) is not None:
            log.close()
            self.findings.add("log-missing", directory, 0, f"it has no file, but {what}")
            return None
        return log

    def _describe_remains(self) -> str | None:
        """Return in words how many messages and items queues and index have; None if they have none."""
        messages = self._count_queues().messages
        items = 0
        with contextlib.suppress(StoreError, OSError, ValueError), MessageStore(self.places, self.config) as store:
            items = 0 if store.index is None else sum(map(len, store.index.files))
        parts = (messages, "the queues have", "message"), (items, "the index has", "item")
        return ", and ".join(f"{has} {format_count(count, noun)}" for count, has, noun in parts if count) or None

    def _report_without_log(self, quick: bool) -> VerifyReport:
        totals = self._count_queues()
        return VerifyReport(
            self.findings.sorted(),
            min_phy_offset=0,
            max_phy_offset=0,
            messages=totals.messages,
            records=0,
            queues=totals.queues,
            index_files=0,
            last_exit_ok=self.last_exit_ok,
            is_locked=self.is_locked,
            quick=quick,
            has_log=False,
        )

    def _open_database(self, log: CommitLog, stack: contextlib.ExitStack) -> DatabaseVerifier | None:
        """Open the queues in RocksDB; None without any, and if RocksDB is not read. Parameters: stack: closes them."""
        path = self.formats.queue_database
        if path is None or find_missing_reader() is not None:
            return None
        units = stack.enter_context(RocksUnits(RocksDatabase(path)))
        return DatabaseVerifier(units, log, self.findings, is_served=self.formats.are_queues_in_database)

    def _check(
        self, log: CommitLog, database: DatabaseVerifier | None, quick: bool, threads: int, progress: Report
    ) -> VerifyReport:
        """Compare the log with queues and index. Parameters: database: the queues in RocksDB."""
        stop = log.max_phy_offset if self.is_locked else None
        self._check_dledger(log)
        leftovers = self._find_leftovers(log)
        files = FileListing(self.places, self.config, self.formats, self.findings, self.is_locked, self.last_exit_ok)
        queues = self._open_queues(log, files, database)
        index = IndexVerifier(log, self.findings, files.index_files())
        checked = LogVerifier(log, self.config, self.findings, queues, index)
        checked.run(stop, leftovers, quick, threads, progress)
        self._check_lock()
        is_live = self.is_locked or checked.is_growing
        # Units behind an end of the log that was lost are no leftovers.
        is_end_lost = self.checkpoint is not None and any(find_lost_end(self.checkpoint, checked))
        is_stopped = self.last_exit_ok and not is_live
        self._check_units(log, queues, checked, is_live, is_stopped and not is_end_lost, quick)
        index.finish(self.places.index, checked.end, is_live or not self.last_exit_ok, is_live)
        self._check_index_files(index, checked)
        if self.checkpoint is not None and not is_live:
            check_checkpoint(self.checkpoint, self.places.checkpoint, self.findings, log, checked, index)
        self._check_consumers(queues, quick)
        lost_end = [(checked.end, LONG_MAX)] if is_end_lost and is_stopped else []
        messages = self._count_queues(None if is_live else queues).messages
        return self._report(log, queues, index, checked, [*checked.damaged, *lost_end], messages, quick)

    def _check_dledger(self, log: CommitLog) -> None:
        """Check the log of DLedger, if the store has one and no broker writes it."""
        dledger = find_dledger(self.places, self.config) if log.reader.framing else None
        if dledger is not None and not self.is_locked:
            check_dledger(dledger, log, self.findings, is_stopped=self.last_exit_ok)

    def _open_queues(self, log: CommitLog, files: FileListing, database: DatabaseVerifier | None) -> QueueVerifier:
        """Return the verifier of the queues. Parameters: database: the verifier of the queues in RocksDB."""
        names = [entry.name for entry in files.entries(self.places.queues(ConsumeQueue))]
        in_database = () if database is None else database.queues
        light = with_light_queues(self.config, [*names, *(queue.topic for queue in in_database)])
        multi = light.enable_multi_dispatch
        if not multi:
            light = replace(light, enable_multi_dispatch=True, enable_lmq=True)
        queue_files = dict(files.queues(self.topics, self.batch_topics))
        # A queue that a crash may have left without files is reported as behind, before this is asked.
        known_topics = KnownTopics.of(self.places, self.config, is_stopped=True)
        return QueueVerifier(log, self.findings, queue_files, multi, light, self.batch_topics, known_topics, database)

    def _check_lock(self) -> None:
        """Report a process that holds the lock. A broker may have started since the check began."""
        self.is_locked = self.is_locked or is_lock_held(self.places.lock)
        if self.is_locked:
            self.findings.add("lock-held", self.places.lock, 0, "another process holds the lock")

    def _check_units(
        self, log: CommitLog, queues: QueueVerifier, checked: LogVerifier, is_live: bool, is_stopped: bool, quick: bool
    ) -> None:
        """Compare the units of all queues with the records.

        Parameters: is_live: whether a broker writes the store. is_stopped: whether units behind the end of the log are
        leftovers of a broker that was stopped.
        """
        point = self.checkpoint or StoreCheckpoint()
        dispatch_from = None if self.last_exit_ok else find_dispatch_begin(log, point, self.config)
        units = UnitVerifier(log, self.findings, queues, checked.begin, checked.end, dispatch_from, is_live, is_stopped)
        if quick:
            units.sample()
        else:
            units.finish(
                self.places,
                self.batch_topics,
                has_database=self.formats.queue_database is not None,
                is_in_database=self.formats.are_queues_in_database,
            )
        for queue in queues.queues.values():
            queue.add_unreadable(self.findings)

    def _report(
        self,
        log: CommitLog,
        queues: QueueVerifier,
        index: IndexVerifier,
        checked: LogVerifier,
        damaged: list[tuple[int, int]],
        messages: int,
        quick: bool,
    ) -> VerifyReport:
        """Return the report, with the repairs of the damage.

        Parameters: damaged: ranges of the log. messages: in all queues.
        """
        plan = None if quick else plan_mends(self.places, self.config, log, damaged, queues.contradicted)
        if plan is not None:
            damaged = [*damaged, *((record.phy_offset, record.phy_offset + 1) for record in plan.corrected)]
        found = self.findings.sorted()
        return VerifyReport(
            found if plan is None else with_patches(found, plan, log),
            checked.begin,
            checked.end,
            messages,
            checked.n_records,
            len(queues.ids()),
            len(index.files),
            self.last_exit_ok,
            self.is_locked,
            quick,
            tuple(merge_ranges(damaged)),
            () if plan is None else plan.lost,
        )

    def _count_queues(self, compared: QueueVerifier | None = None) -> QueueTotals:
        """Count the queues that can be read, and their messages.

        A queue is not opened again if its messages are known from the comparison of its units with the log.
        Parameters: compared: the queues after the comparison; None if they were not compared, or are being written.
        """
        with contextlib.suppress(StoreError, OSError), MessageStore(self.places, self.config) as store:
            queues, known = list(store.queues()), dict[QueueId, int]()
            if compared is not None and self.formats.queue_database is None:
                known = compared.count_covered_messages(store.commit_log.look().queue_end)
            unknown = [queue for queue in queues if queue not in known]
            counted = sum(known[queue] for queue in queues if queue in known)
            return QueueTotals(len(queues), counted + count_messages(store.log_queue, unknown, []))
        return QueueTotals(0, 0)

    def _find_leftovers(self, log: CommitLog) -> Leftovers | None:
        """Find the records behind the end of the log of a cleanly stopped broker; None without any."""
        if not self.last_exit_ok or self.is_locked or not log.file_run.files:
            return None
        try:
            with MessageStore(self.places, self.config) as store:
                return store.commit_log.end_finder.find_leftovers()
        except CorruptFileError:  # the checks of log and intent report the damage
            return None

    # ---- state -----------------------------------------------------------------------------------------------

    def _check_state(self, *, quick: bool) -> None:
        add, root = self.findings.add, self.root
        logs = list(map(local_path, find_log_directories(self.places, self.config)))
        tier = [Path(self.config.tiered_store_file_path)] if self.config.tiered_store_file_path else []
        named = {path for place in [*logs, *tier] for path in (place.absolute(), *place.absolute().parents)}
        files = FileListing(self.places, self.config, self.formats, self.findings, False, self.last_exit_ok)
        entries = files.entries(root)
        names = [entry.name for entry in entries]
        for entry in entries:
            if not is_known(entry.name, names) and Path(entry.path).absolute() not in named:
                if has_log_files(Path(entry.path)):
                    detail = "it has files as of a commit log: give storePathCommitLog, if it is one of its directories"
                    add("not-checked", Path(entry.path), 0, detail)
                else:
                    add("foreign-file", Path(entry.path), 0, "none of a store's")
        for directory in logs:
            files.check_stray_files(directory)
        if not self.last_exit_ok:
            add("abort", self.places.abort, 0, "the file is there")
        check_start_files(self.places, self.config, self.findings)
        self.is_locked = is_lock_held(self.places.lock)
        for path in () if self.is_locked else root.glob(f"{intent_path(root).stem}*.json"):
            detail = "opening for writing undoes or finishes it" if path == intent_path(root) else "it was left so"
            add("write-unfinished", path, 0, detail)
        self._check_other_formats(quick=quick)
        path = self.places.checkpoint
        if not os.path.lexists(path):
            if not self.is_locked:  # a broker writes it at its next flush
                add("checkpoint-missing", path, 0, "no such file")
            return
        with self.findings.reporting_errors(path, "checkpoint-damaged"):
            self.checkpoint = StoreCheckpoint.open(path)
            if path.stat().st_size != FILE_SIZE:
                add("checkpoint-size", path, path.stat().st_size, f"{path.stat().st_size} bytes")

    def _check_other_formats(self, *, quick: bool) -> None:
        """Check compaction and tiered storage, and report other formats that are not checked."""
        formats, add = self.formats, self.findings.add
        problem = find_missing_reader()
        if formats.queue_database is not None and problem is not None:
            add("not-checked", formats.queue_database, 0, f"queues in RocksDB: {problem}")
        if formats.index_database is not None:
            add("not-checked", formats.index_database, 0, "an index in RocksDB")
        elif formats.has_other_data:
            add("not-checked", self.places.rocksdb, 0, "timers or transactions in RocksDB")
        check_compacted_topics(self.places, self.config, formats.compacted_topics, self.findings, quick=quick)
        if formats.is_tiered or self.config.tiered_store_file_path:
            check_tier(self.places, self.config, self.findings, quick=quick)

    def _check_config(self) -> None:
        config = open_tables(self.places, self.config).read_all()
        self.topics, self.batch_topics = config.topics, batch_topics(config.topics)
        self.next_offsets, self.delay_offsets = list(config.next_offsets()), config.delay_offsets
        databases = {*self.formats.config_databases.values()}
        self.offsets_file = config.offsets_file
        for path, problem in config.problems:
            if path not in databases:
                kind = kind_of_problem(path, problem, self.config, config.offsets_file)
            else:
                kind = "rocksdb-damaged" if find_missing_reader() is None else "not-checked"
            self.findings.add(kind, path, 0, problem)

    def _check_consumers(self, queues: QueueVerifier, quick: bool) -> None:
        if quick and not self.last_exit_ok:
            return  # queues may be behind the log, and only samples of the log were checked
        for group, topic, queue_id, offset in self.next_offsets:
            if (topic, queue_id) in queues.ids():  # a deleted queue leaves its consumers' offsets
                self._check_offset(queues, self.offsets_file, group, QueueId(topic, queue_id), offset)
        for level, offset in sorted(self.delay_offsets.items()):
            if queues.database is not None or not self.formats.are_queues_in_database:
                delay_queue = QueueId(SCHEDULE_TOPIC, level - 1)
                self._check_offset(queues, "delayOffset.json", f"level {level}", delay_queue, offset)

    def _check_offset(self, queues: QueueVerifier, name: str, owner: str, queue: QueueId, offset: int) -> None:
        """Report an offset to consume next that is beyond the end of its queue."""
        with self.findings.reporting_errors(self.places.topic(ConsumeQueue, queue[0])):
            if offset > (end := queues.end(queue)):
                detail = f"{owner} of {queue[0]}/{queue[1]}: {offset} is beyond the queue's end, {end}"
                self.findings.add("config-offset", self.places.config_file(name), 0, detail)

    def _check_index_files(self, index: IndexVerifier, checked: LogVerifier) -> None:
        directory = self.places.index
        if not index.files:
            has_files = any(path.is_file() for path in directory.glob("*")) if directory.is_dir() else False
            enabled = self.config.message_index_enable and self.formats.index_database is None
            if checked.n_records and enabled and not has_files and not checked.is_growing:
                self.findings.add(
                    "index-missing", directory, 0, f"the log has {format_count(checked.n_records, 'message')}"
                )
        elif not self.last_exit_ok and self.checkpoint is not None:
            for part in index.files:
                end, known = part.header.end_timestamp, self.checkpoint.index_msg_timestamp
                if end > known:
                    saved = f"of {utc(known)}" if known else "without a time"
                    detail = f"its last message was stored at {utc(end)}, and the checkpoint of the index is {saved}"
                    self.findings.add("index-to-be-deleted", part.path, 8, detail)


def has_log_files(directory: Path) -> bool:
    """Return whether a directory has a file that is named as one of a commit log and begins with a record."""
    with contextlib.suppress(OSError):
        paths = sorted(path for path in directory.iterdir() if is_offset_name(path.name))
        return any(read_field(read_file_start(path, 8), RECORD_HEAD, "magic") in RECORD_MAGICS for path in paths[:1])
    return False
