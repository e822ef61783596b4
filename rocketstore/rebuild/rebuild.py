"""rebuild: build consume queues and index from the commit log alone, then replace the old ones."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from rocketstore.config import SizedConfig, StoreConfig, camel_case
from rocketstore.disk.durable import make_directory, make_root, sync_path
from rocketstore.disk.rocksdb.reader_program import find_missing_reader
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.disk.storage import local_path
from rocketstore.disk.store_path import AnyPath, StorePath
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.light_queues import with_light_queues
from rocketstore.dispatch.request_chunks import RequestChunks
from rocketstore.dispatch.topic_lives import DeletedTopics, KnownTopics, TopicLives
from rocketstore.errors import StoreError
from rocketstore.index.index_service import open_index
from rocketstore.kernels.columns import require_int64
from rocketstore.kernels.dispatch import INNER_DISPATCH
from rocketstore.kernels.queue_id import QueueId
from rocketstore.keywords import suggests_keywords
from rocketstore.log.commit_log import CommitLog
from rocketstore.progress import Progress, Report, report_nothing, show_progress
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS, BatchConsumeQueue
from rocketstore.queue.queue_directories import queue_directories, topics_in
from rocketstore.queue.rocks_units import RocksUnits
from rocketstore.rebuild.broker_files import describe_start, needs_broker_files, write_broker_files
from rocketstore.rebuild.build import INDEX_SIZES, QUEUE_SIZES, Build, topics_of
from rocketstore.rebuild.builder import Builder
from rocketstore.rebuild.files import (
    index_headers,
    name_index_files,
    remove_other_topics,
    require_replaceable,
    swap,
    take_back,
)
from rocketstore.rebuild.rebuild_report import RebuildReport
from rocketstore.recovery.apply import apply_log_repair, apply_plan, finish_repair
from rocketstore.recovery.plan import RecoveryPlan, plan_recovery
from rocketstore.recovery.plan_log import LogRepair, describe_saved_tails, plan_log
from rocketstore.recovery.saved_tails import SavedTail
from rocketstore.recovery.settings import Assumptions, BrokerSettings, find_settings, warn_of
from rocketstore.recovery.store_files import StoreFiles, check_queue_types, open_store_files
from rocketstore.recovery.unreadable import count_unreadable
from rocketstore.state.config_values import TOPICS, TopicConfig
from rocketstore.state.json_tables import batch_topics
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.owners import lock_owner_of
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.requirements import a_stopped_store, begin_entry, locked
from rocketstore.survey.sizes import (
    describe_assumed_log_size,
    require_all_sizes,
    require_batch_size,
    require_sizes,
    save_settings,
    suppose_sizes,
    with_default_sizes,
    without_assumed_log_size,
)
from rocketstore.survey.survey import Survey, survey_store
from rocketstore.text_values import find_time_zone

STAGING = "rocketstore-rebuild"
INDEX_MADE = "index-made"  # directory of index files that are named by the time they were made
RUN_AGAIN = "it has abort, as after a crash; run rebuild again before a broker starts"
MIN_PIECE, MAX_PIECE = 1 << 18, 16 << 20  # bytes of the log
MIN_ROOM = 1 << 16  # bytes of requests and items of a chunk
ROOM_PARTS = 16  # part of the memory for the requests of each chunk: their arrays grow by halves, by copying
WAITING_PARTS = 12  # part of the memory for the requests that wait: they are copied, and sorted by queue
MAX_WAITING = 16 << 20  # bytes of requests that wait at most, so that reading and writing overlap


@suggests_keywords
def rebuild(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    consume_queue: bool = True,
    index: bool = True,
    topic: str | Iterable[str] | None = None,
    config: StoreConfig | None = None,
    memory: int = 1 << 30,
    threads: int | None = None,
    tz: str | None = None,
    deleted: bool = False,
    progress: Progress = False,
) -> RebuildReport:
    """Build consume queues and index from the commit log as a broker of ``config.compat`` does that has neither.

    The new files are built in ``rocketstore-rebuild``. Then each old directory is renamed to ``*.bak-<time>``, and the
    new one takes its name. If the process is killed, every directory is the old or the new one, or is missing with the
    old one kept as ``*.bak-<time>``. Call ``rebuild`` again then: it begins anew. A torn tail of the log is cut as
    ``recover`` does, and the checkpoint is written, so that a broker's next start deletes nothing of it.

    Records of deleted topics get no units. The report counts and names them. A record belongs to an earlier life of its
    topic if its queue offset is not below that of a later record of the same queue. A topic was deleted if topics.json
    lacks it, it has no queue, and the store was stopped cleanly. In doubt a topic is kept and named.

    Parameters
    ----------
    path : the root of the store. No broker and no rocketstore may be writing it.
    out : a new directory for the result. The store is only read then, and may be read-only. If the store has DLedger's
        log, or queues, topics, groups or offsets in RocksDB, the directory also gets a checkpoint and ``config``, so
        that a broker can start on it. ``notes`` of the report say how. Sizes that no file shows are then RocketMQ's
        defaults, or those that the files suggest, with a note.
    consume_queue, index : the parts to build. Without ``out`` the other part is recovered as ``recover`` does.
    topic : one or several: build only the queues of these topics, and no index.
    config : sizes of files that no file shows, as for ``open``, and the broker's settings. Where ``config`` has
        RocketMQ's defaults, the units of the store show the delay levels, light queues and ext units of the broker.
        Levels without a sound unit are assumed: a UserWarning and ``assumptions`` of the report say so.
    memory : about the most to use besides file mappings, bytes; 0 for as little as possible.
    threads : number of threads that read the log; None: one for each processor.
    tz : time zone of the names of index files, which are the store time of their first item; None: the local zone.
    deleted : make units of deleted topics too. Messages of earlier lives of a topic then take the queue offsets, as in
        a broker that dispatches the whole log. Later messages with the same queue offsets get no unit.
    progress : True shows a bar on standard error. A function is called with the bytes of the log that were read, and
        all its bytes. If the queue offsets of a topic began again, the log is read twice.

    Raises
    ------
    ValueError : a size is not known, nothing can be built, or ``memory`` is below 0 or ``threads`` below 1.
    CorruptFileError : the log is damaged before its tail.
    StoreError : the log has records that ``config.compat`` cannot read, and ``config.allow_unreadable`` is not set; or
        topics.json cannot be read; or a directory cannot be replaced; or the swap failed in the middle, and the message
        says that ``rebuild`` must be called again.
    UnsupportedFormatError : the log is DLedger's, and ``out`` is not given; or only a part is rebuilt in place, and the
        queues are in RocksDB.
    StoreLockedError, FileExistsError, TypeError, OSError. After all errors but a failed swap the old files are as they
        were, and a store that was stopped cleanly still is.

    Source: ReputMessageService.doReput; a broker reads at most commitLogRecoverMaxNum files again.

    Examples:
    >>> rocketstore.rebuild("demo", out="built").index_items
    201
    """
    require_int64(memory=memory, threads=1 if threads is None else threads)
    if memory < 0:
        raise ValueError(f"memory={memory}: at least 0 is needed")
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads}: at least 1 is needed")
    build = Build(consume_queue, index and topic is None, topics_of(topic), out is None)
    survey = begin_entry("rebuild" if out is None else "rebuild into a new directory", local_path(path), config)
    with show_progress(progress, "rebuild") as shown:
        options = RebuildOptions(memory, threads or os.cpu_count() or 1, find_time_zone(tz), shown, deleted)
        if out is not None:
            report = Rebuilder.of(survey, build, options).build_in(local_path(out))
        else:
            Rebuilder.of(survey, build, options)  # raises errors before the file of the lock is made
            with locked("rebuild", survey) as now:
                report = Rebuilder.of(now, build, options).build_and_swap()
    warn_of(report.assumptions, survey.root, stacklevel=4)
    return report


def topics_in_database(survey: Survey) -> set[str]:
    """Return the topics that have queues in RocksDB; empty without RocksDB, or if it cannot be read."""
    path = survey.formats.queue_database
    if path is not None:
        with contextlib.suppress(StoreError, OSError), RocksUnits(RocksDatabase(path)) as units:
            return {queue.topic for queue in units.queues()}
    return set()


def staging_of(root: AnyPath) -> AnyPath:
    """Return the directory in which a rebuild builds. A killed swap leaves some queues of the store there."""
    return root / STAGING


class CopiedFrom(NamedTuple):
    """What the files of a store say, if its log was copied without its queues to another place and is rebuilt there."""

    known_topics: KnownTopics
    settings: BrokerSettings[StoreConfig]


class RebuildOptions(NamedTuple):
    """How a rebuild works. Attributes: as the parameters of ``rebuild``; zone: of the names of index files.

    copied_from: None if the queues of the store are beside its log.
    """

    memory: int = 0
    threads: int = 1
    zone: tzinfo | None = None
    progress: Report = report_nothing
    deleted: bool = False
    copied_from: CopiedFrom | None = None


@dataclass
class Rebuilder:
    """One rebuild of a store."""

    survey: Survey
    build: Build
    known: StoreConfig
    options: RebuildOptions
    shown_sizes: Collection[str]  # the names of those sizes that are given, or that files show for certain
    settings: BrokerSettings[StoreConfig] = field(init=False)  # ``known`` with the settings that the store's units show
    config: SizedConfig = field(init=False)  # these settings, with all sizes
    assumed: Assumptions = field(init=False)
    topics: dict[str, TopicConfig] = field(init=False)
    batches: set[str] = field(init=False)  # topics with batch queues
    is_wanted: list[bool] = field(init=False)  # by the numbers in requests
    unreadable: Sequence[str] = ()  # in words: records that the release cannot read
    rest_assumptions: Sequence[str] = ()  # of the recovery of the parts that are not built

    def __post_init__(self) -> None:
        staged = StorePlaces.of(staging_of(self.root))
        copied_from = self.options.copied_from
        if copied_from is None:
            self.settings = find_settings(self.places, self.known, more=[staged])
        else:
            self.settings = replace(copied_from.settings, config=self.known)
        self.config = with_default_sizes(self.settings.config)
        self.assumed = Assumptions(self.settings)
        tables = open_tables(self.places, self.known)
        # The topics tell which queues are batch queues. If RocksDB has the topics, the directories also show it.
        is_unread = TOPICS in self.survey.formats.config_databases and find_missing_reader() is not None
        self.topics = tables.read_topics(must_be_good=not is_unread)
        self.batches = batch_topics(self.topics)
        if self.survey.formats.config_databases:
            for places in (self.places, staged):
                self.batches |= {*topics_in(places.queues(BatchConsumeQueue))}

    @classmethod
    def of(cls, survey: Survey, build: Build, options: RebuildOptions) -> Self:
        """Prepare to rebuild. Parameters: survey: made under the lock if the store changes. Raises: as ``rebuild``."""
        sizes = survey.sizes_without(build.replaced_sizes())
        shown = sizes.known.keys()
        if not build.is_in_place and needs_broker_files(survey):
            sizes = suppose_sizes(survey.places, sizes, replaced=build.replaced_sizes())
        if build.is_in_place or not needs_broker_files(survey):
            names = [QUEUE_SIZES[0]] * build.consume_queue + [*INDEX_SIZES] * build.index
            require_all_sizes(survey.places, sizes, names if sizes.problem is not None else ())
        known = with_light_queues(sizes.config, topics_in_database(survey))
        build.index = build.index and known.message_index_enable
        build.require()
        self = cls(survey, build, known, options, shown)
        if not survey.formats.is_dledger and not any(path.is_dir() for path in self.places.log_directories):
            raise StoreError(f"{self.root}: no store is here: it has no commitlog")
        self.require_sizes()
        return self

    @property
    def places(self) -> StorePlaces[StorePath]:
        return self.survey.places

    @property
    def root(self) -> StorePath:
        return self.survey.root

    def require_sizes(self) -> None:
        """Raise ValueError for a size that no file shows: a broker does not load files of another size.

        A store whose queues are not in files shows none. In a new directory its queues get the default sizes.
        """
        names = self._written_sizes()
        if self.build.is_in_place or not needs_broker_files(self.survey):
            require_sizes(self.places, self.known, names)
        _, batch, _ = QUEUE_SIZES
        if batch in names:
            require_batch_size(self.config)

    @property
    def assumed_sizes(self) -> list[str]:
        """The names of the sizes with which files are made, and which no file shows for certain."""
        return [name for name in self._written_sizes() if name not in self.shown_sizes]

    def _written_sizes(self) -> list[str]:
        """Return the names of the sizes with which files are made."""
        build, (plain, batch, ext) = self.build, QUEUE_SIZES
        has_queues = build.consume_queue or build.is_in_place
        has_index = build.index or (build.is_in_place and self.config.message_index_enable)
        names = [plain] * has_queues + [batch] * build.has_queues_of(self.batches)
        return names + [ext] * (has_queues and self.config.enable_consume_queue_ext) + [*INDEX_SIZES] * has_index

    def build_in(self, out: Path) -> RebuildReport:
        """Build in an empty directory, or in one that has only what a killed call left there."""
        staging = staging_of(out)
        store, repair = self.open_log()
        with store.log, lock_owner_of(out):
            make_root(out)
            if any(path != staging for path in out.iterdir()):
                raise FileExistsError(f"{out}: is not empty: give a directory that does not exist")
            deleted = self._build(store, repair.end, staging)
            notes = self._write_broker_files(store, repair, staging, out)
            for path in staging.iterdir():
                path.rename(out / path.name)
            staging.rmdir()
            sync_path(out)
            return self._report(store.log, repair.end, out, (), deleted, notes)

    def _write_broker_files(self, store: StoreFiles, repair: LogRepair, staging: Path, out: Path) -> tuple[str, ...]:
        """Write what a broker needs to start on the new queues, if the store's own files do not serve it.

        Returns: notes. Without all queues nothing is written.
        """
        if not self.build.consume_queue or self.build.topics is not None or not needs_broker_files(self.survey):
            return ()
        places = StorePlaces.of(staging)
        write_broker_files(self.survey, store, repair.last_phy_offset, places)
        return tuple(describe_start(self.survey, out, frozenset(path.name for path in places.config.iterdir())))

    def _save_settings(self, store: StoreFiles, log_end: int) -> None:
        """Save the settings, since the replaced files may be the only ones that show a size.

        Parameters: log_end: physical offset at which the log ends.
        """
        log_size = describe_assumed_log_size(self.survey.sizes, store.log.file_run.files, log_end)
        known = without_assumed_log_size(with_default_sizes(self.known), log_size)
        save_settings(self.survey.local_places, known)

    def build_and_swap(self) -> RebuildReport:
        """Build beside the store's own files, then replace these."""
        places = self.survey.local_places
        root, staging = places.root, staging_of(places.root)
        if not self.build.consume_queue or self.build.topics is not None:
            self.survey.formats.require_written_queues()  # the other queues are completed
        store, repair = self._open_and_plan()
        with store.log:
            check_queue_types(store, lambda topic: self.build.has_queues_of([topic]))
            self._require_rights(root, repair)
            deleted = self._build(store, repair.end, staging)
            self._save_settings(store, repair.end)
            for part in self.build.parts():
                if (root / part).exists():
                    make_directory(staging / part)
            backups, rest, saved = self._swap(root, store, repair, staging)
            try:
                self._finish(store, repair, rest)
                shutil.rmtree(staging)
                places.abort.unlink()
                sync_path(root)
            except OSError as error:
                reason = f"the new files are in their places, but {error}"
                raise StoreError(f"{root}: {reason}: {RUN_AGAIN}") from error
            if rest is not None:
                deleted = deleted.joined(rest.queues.deleted)
            notes = describe_saved_tails(repair, saved)
            return self._report(store.log, repair.end, root, backups, deleted, notes)

    def _swap(
        self, root: Path, store: StoreFiles, repair: LogRepair, staging: Path
    ) -> tuple[tuple[Path, ...], RecoveryPlan | None, list[SavedTail]]:
        """Replace the old directories with the new ones. After an error rename all of them back.

        Returns: the backups of the old directories, the plan for the parts that were not built, and the files with the
        tails that were cut off the log.
        Raises: StoreError if the directories could not be renamed back, or if the log was changed.
        """
        renamed: list[tuple[Path, Path]] = []
        try:
            # It makes `abort`: a broker that starts during the swap reads everything.
            saved = apply_log_repair(store, repair)
            return swap(root, staging, self.build.parts(), renamed), self._plan_rest(store), saved
        except BaseException as error:
            if take_back(renamed) and not repair.is_write_undone:
                if store.last_exit_ok:  # with abort a broker's next start would not believe the index
                    store.local_places.abort.unlink(missing_ok=True)
                    sync_path(root)
            elif isinstance(error, Exception):
                reason = f"some directories are old ones, and some are new ones: {error}"
                raise StoreError(f"{root}: {reason}: {RUN_AGAIN}") from error
            raise

    def _require_rights(self, root: Path, repair: LogRepair) -> None:
        """Raise the errors of cutting the log and of the swap before anything is built."""
        require_replaceable(root, self.build.parts())
        paths = {self.survey.local_places.checkpoint, *((root / part).parent for part in self.build.parts())}
        for step in repair.steps:
            if step.what in ("zero", "extend", "delete"):
                path = local_path(step.path)
                paths.add(path.parent if step.what == "delete" else path)
        for path in sorted(paths):
            if path.exists() and not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    def open_log(self, *, last_file: bool = False) -> tuple[StoreFiles, LogRepair]:
        """Open the log of a store that is not being written, and find its end. Nothing in the store is changed.

        Parameters: last_file: as for ``plan_log``.
        """
        a_stopped_store(self.survey)
        return self._open_and_plan(last_file)

    def _open_and_plan(self, last_file: bool = False) -> tuple[StoreFiles, LogRepair]:
        store = open_store_files(self.survey, self.config)
        repair = plan_log(store, last_file=last_file)
        store = store.with_sound_log(repair.end)
        old = (path for part in self.build.parts() for path in (self.root / part).rglob("*"))
        if not store.log.file_run.files and any(path.is_file() for path in old):
            raise StoreError(f"{self.root}: the commit log is gone, but queues or an index are there: restore it")
        unreadable = count_unreadable(store.log, self.config.compat, store.log.min_phy_offset, repair.end)
        self.unreadable = unreadable.require_none(self.root, allow=self.config.allow_unreadable)
        return store, repair

    def _plan_rest(self, store: StoreFiles) -> RecoveryPlan | None:
        """Plan the recovery of the parts that were not built: they may end before the log, or behind it."""
        has_index = self.config.message_index_enable
        if self.build.consume_queue and self.build.topics is None and self.build.index == has_index:
            return None
        config = replace(self.config, message_index_enable=has_index and not self.build.index)
        now = survey_store(self.root, self.survey.given)
        # `abort` is that of this rebuild. Its new queues would make queues without a directory look deleted.
        rest = open_store_files(now, config, last_exit_ok=store.last_exit_ok, given_topics=store.known_topics)
        return plan_recovery(rest, thorough=True, deleted=self.options.deleted)

    def _finish(self, store: StoreFiles, repair: LogRepair, rest: RecoveryPlan | None) -> None:
        """Recover the other parts, and write a checkpoint by which a broker's next start keeps everything."""
        if rest is not None:
            with rest.store.log:
                self.rest_assumptions = rest.with_assumptions(rest.report(), Assumptions(self.settings)).assumptions
                apply_plan(rest)
        has_index = self.config.message_index_enable
        ends = [header.end_timestamp for header in index_headers(self.places.index)] if has_index else []
        store.checkpoint.index_msg_timestamp = max(ends, default=store.checkpoint.index_msg_timestamp)
        finish_repair(store, repair)

    def _report(
        self,
        log: CommitLog,
        end: int,
        out: Path,
        backups: tuple[Path, ...],
        deleted: DeletedTopics,
        notes: tuple[str, ...],
    ) -> RebuildReport:
        headers = index_headers(StorePlaces.of(out).index) if self.build.index else []
        items = sum(max(header.index_count - 1, 0) for header in headers)
        places = StorePlaces.of(out)
        queues = [path for kind in QUEUE_KINDS for path in queue_directories(places.queues(kind))]
        wanted = [path for path in queues if self.build.topics is None or path.parent.name in self.build.topics]
        count = len(wanted) if self.build.consume_queue else 0
        if self.build.consume_queue and self.build.is_in_place:
            notes += tuple(self.survey.formats.left_behind())
        if self.assumed_sizes:
            sizes = ", ".join(f"{camel_case(name)}={getattr(self.config, name)}" for name in self.assumed_sizes)
            notes += (
                f"{out}: the files of the store do not show all sizes for certain. These were assumed: {sizes}. A "
                "broker loads the files only with the same sizes",
            )
        return RebuildReport(
            log.min_phy_offset,
            end,
            count,
            len(headers),
            items,
            backups,
            out,
            notes=notes,
            assumptions=self.find_assumptions(),
            deleted=deleted.messages,
            undeclared=deleted.undeclared,
            doubtful=deleted.doubtful,
        )

    def find_assumptions(self) -> tuple[str, ...]:
        """Return, in words, unreadable records, assumed settings, and how built units differ from the old ones."""
        built = (*self.assumed.texts(), *self.settings.conflicts) if self.build.consume_queue else ()
        return tuple(dict.fromkeys([*self.unreadable, *built, *self.rest_assumptions]))

    # ---- build ---------------------------------------------------------------------------------------------

    def _build(self, store: StoreFiles, end: int, staging: Path) -> DeletedTopics:
        """Build all parts in an empty directory. Remove the directory after an error.

        If a topic proves to have batch queues, or if queue offsets began again, building begins anew.
        """
        try:
            deleted = None
            lives = self.new_lives(store)
            while deleted is None:
                if staging.exists():  # a killed call left it
                    shutil.rmtree(staging)
                make_directory(staging)
                batches = {*self.batches}
                deleted = self._build_parts(store.log, end, staging, lives)
                if deleted is None and batches != self.batches:  # light queues have other records now
                    lives = self.new_lives(store)
            if self.build.index:
                name_index_files(staging / INDEX_MADE, StorePlaces.of(staging).index, self.options.zone)
            if self.build.topics is not None:
                remove_other_topics(staging, self.build.topics)
            return deleted
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise

    def new_lives(self, store: StoreFiles) -> TopicLives | None:
        """Return what decides which records are left out; None if none is left out."""
        if self.options.deleted:
            return None
        copied_from = self.options.copied_from
        return TopicLives(store.known_topics if copied_from is None else copied_from.known_topics)

    def _build_parts(self, log: CommitLog, end: int, staging: Path, lives: TopicLives | None) -> DeletedTopics | None:
        """Build queues and index files. Return the deleted topics; None if a part is wrong and must be built again.

        A part is wrong if a topic proved to have batch queues, or if queue offsets began again.
        """
        begin = log.min_phy_offset
        room = self.options.memory // (ROOM_PARTS * (self.options.threads + 2))
        size = max(MIN_PIECE, min(MAX_PIECE, room))
        self.is_wanted, self.assumed = [], Assumptions(self.settings)
        pieces = RequestChunks(
            log, self.config, begin, end, size=size, threads=self.options.threads, room=max(room, MIN_ROOM)
        )
        with (
            contextlib.closing(self._dispatcher(log, staging, lives)) as dispatcher,
            contextlib.closing(iter(pieces)) as all_pieces,
            Builder(dispatcher, pieces.queues, min(self.options.memory // WAITING_PARTS, MAX_WAITING)) as builder,
        ):
            for piece in all_pieces:
                if piece.has_inner and self._is_of_batches(piece.requests, pieces.queues, lives):
                    return None
                wanted = self._wanted(piece.requests, pieces.queues)
                self.assumed.add(wanted, pieces.queues)
                builder.build_consume_queues(wanted)
                if piece.last is not None and not (lives is not None and lives.must_read_again):
                    builder.build_index(piece.items, piece.last[0])
                self.options.progress(piece.end - begin, end - begin)
            builder.flush()
        self.assumed.add_queues(queue for queue in pieces.queues if self._is_wanted(queue[0]))
        if lives is None:
            return DeletedTopics()
        return None if lives.finish() else lives.result(dispatcher.left_out)

    def _dispatcher(self, log: CommitLog, staging: Path, lives: TopicLives | None) -> Dispatcher:
        index = None
        if self.build.index:
            make_directory(staging / INDEX_MADE)
            index = open_index(staging / INDEX_MADE, self.config)
        return Dispatcher(StorePlaces.of(staging), self.config, log, index, self.batches, lives=lives)

    def _is_of_batches(self, requests: np.ndarray, queues: Sequence[QueueId], lives: TopicLives | None) -> bool:
        numbers = requests["queue"][requests["flags"] & INNER_DISPATCH != 0]
        return self.add_batches({queues[number][0] for number in np.unique(numbers).tolist()}, lives)

    def add_batches(self, topics: set[str], lives: TopicLives | None) -> bool:
        """Add the topics that topics.json lacks to ``batches``. Return whether a topic was added.

        A deleted topic is not added: it gets no queue.
        """
        found = topics - self.batches - self.topics.keys()
        is_light = self.build.consume_queue and self.config.enable_multi_dispatch  # their units may be in any queue
        if lives is not None and not is_light:
            found = {topic for topic in found if not lives.known.was_deleted(topic)}
        if not found or not (is_light or self.build.has_queues_of(found)):
            return False
        self.batches |= found
        self.require_sizes()
        return True

    def _wanted(self, requests: np.ndarray, queues: Sequence[QueueId]) -> np.ndarray:
        """Return the requests of the queues that are built."""
        self.is_wanted += [self._is_wanted(topic) for topic, _ in queues[len(self.is_wanted) :]]
        if all(self.is_wanted):
            return requests
        wanted: np.ndarray = requests[np.array(self.is_wanted, bool)[requests["queue"]]]
        return wanted

    def _is_wanted(self, topic: str) -> bool:
        topics, takes_all = self.build.topics, self.config.enable_multi_dispatch  # any message may be for any queue
        return self.build.consume_queue and (topics is None or topic in topics or takes_all)
