"""salvage: make a sound store of the intact records of a damaged commit log."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import SizedConfig, StoreConfig
from rocketstore.disk.ahead import iterate_ahead
from rocketstore.disk.closable import Closable
from rocketstore.disk.descriptors import require_descriptors_to_write
from rocketstore.disk.durable import make_directory, replace_file
from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.storage import local_path
from rocketstore.disk.work_threads import work_threads
from rocketstore.dispatch.topic_lives import DeletedTopics, KnownTopics, TopicLives
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.dispatch import RequestScanner
from rocketstore.kernels.message_columns import Field
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.dledger import FRAMING
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.rows import export_rows
from rocketstore.messages.topics import SYSTEM_TOPIC_PREFIXES
from rocketstore.preview import WIDE_CELL, Preview, Previewed, first_of
from rocketstore.progress import Progress, Report, show_progress
from rocketstore.recovery.lost import LostMessages
from rocketstore.recovery.settings import LEARNED, Assumptions, BrokerSettings, find_settings, find_unstated, warn_of
from rocketstore.recovery.unreadable import UnreadableRecords
from rocketstore.root_places import SALVAGE_WORK
from rocketstore.salvage.copy import LOG_SIZE, LogCopy, with_property
from rocketstore.salvage.find import (
    PIECE,
    DamagedFile,
    Finds,
    LostRange,
    MappedFiles,
    RecordRun,
    RunSource,
    UnverifiedRange,
)
from rocketstore.salvage.lost_messages import count_lost_messages
from rocketstore.salvage.new_root import is_part_of_store, new_root, require_free_root, require_outside
from rocketstore.salvage.new_store import NewStore, RunPart
from rocketstore.salvage.queue_offsets import Assigned, QueueOffsets
from rocketstore.state.json_tables import MAX_SIZE as MAX_CONFIG_FILE
from rocketstore.state.json_tables import batch_topics
from rocketstore.survey.broker_config import open_json_tables, open_tables
from rocketstore.survey.nearby import hint_at_store
from rocketstore.survey.open_log import list_log_directories, open_log
from rocketstore.survey.owners import lock_owner_of
from rocketstore.survey.places import LocalPlaces, StorePlaces
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.sizes import find_sizes, with_default_sizes
from rocketstore.survey.survey import Survey
from rocketstore.text_values import format_count

AT_START = np.zeros(1, np.int64)
# A part of a run has PIECE bytes, and as much again for each QUEUES_OF_PIECE queues, up to MAX_PIECES times PIECE.
QUEUES_OF_PIECE, MAX_PIECES = 256, 32
MAX_KEPT = 256 << 20  # bytes of requests and items that are kept until their records are copied


LOST_FIELDS = (
    Field("path", "u"), Field("offset", "l"), Field("size", "l"), Field("phyOffset", "l"), Field("reason", "u"),
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class SalvageReport(Previewed, ArrowStream):
    """The result of a salvage. ``to_arrow``, ``to_pandas`` and ``to_polars`` make a table of the lost ranges.

    Attributes: records: number of records of the new store. min_phy_offset, max_phy_offset: where its log begins and
    ends, bytes. duplicates: records that were found again, with the same bytes. out_of_order: records that were found
    at another place than the name of their file says. moved: records that have another physical offset now.
    renumbered: messages that have another queue offset now, by topic and queue id. lost: ranges, in the order of the
    log. misplaced: messages whose unit in a light queue is at another offset than they say, or is missing, by topic and
    queue id. unverified: records that were copied without a CRC property, though other records of their file have one.
    assumptions: the broker's settings that neither ``config`` nor the old store states, and on which the bytes of units
    depend. deleted: messages of deleted topics that got no unit, by topic and queue id. undeclared: topics that
    topics.json lacks, and whose messages have units, because the topics may exist. doubtful: as of ``RebuildReport``.
    lost_messages: the messages of each topic to which units of queues lead, but of which no intact record is
    left; None if the queues cannot be read. dry_run: whether nothing was written. A dry run knows neither the bounds of
    the new log nor ``moved``, ``renumbered`` and ``misplaced``: they are None.

    Examples:
    >>> report = rocketstore.salvage("demo", "copied")
    >>> report.records, report.duplicates, len(report.lost)
    (101, 0, 0)
    """

    out: Path | None
    mapped_file_size: int
    min_phy_offset: int | None
    max_phy_offset: int | None
    records: int
    duplicates: int
    out_of_order: int
    moved: int | None
    renumbered: dict[QueueId, int] | None
    lost: tuple[LostRange, ...]
    misplaced: dict[QueueId, int] | None
    unverified: tuple[UnverifiedRange, ...] = ()
    assumptions: tuple[str, ...] = ()
    deleted: Mapping[QueueId, int] = field(default_factory=dict)
    undeclared: Sequence[str] = ()
    doubtful: Sequence[QueueId] = ()
    lost_messages: tuple[LostMessages, ...] | None = None
    dry_run: bool = False

    def _preview(self) -> Preview:
        title = f"SalvageReport: {format_count(self.records, 'record')}"
        counts = f"{format_count(self.duplicates, 'duplicate')}, {self.out_of_order:,} out of order"
        title += f" to copy, {counts}, nothing was written" if self.dry_run else self._describe_new_store(counts)
        lost = format_count(len(self.lost), "lost range")
        return Preview(f"{title}, {lost}", LostRange._fields, first_of(self.lost), width=WIDE_CELL)

    def _describe_new_store(self, counts: str) -> str:
        renumbered, misplaced = (sum((queues or {}).values()) for queues in (self.renumbered, self.misplaced))
        return (
            f" in {str(self.out)!r}, log from {self.min_phy_offset:,} to {self.max_phy_offset:,}, {counts}, "
            f"{self.moved:,} moved, {renumbered:,} renumbered, {misplaced:,} misplaced"
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the lost ranges as an Arrow stream."""
        return export_rows(LOST_FIELDS, self.lost)


def salvage(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    dry_run: bool = False,
    config: StoreConfig | None = None,
    deleted: bool = False,
    progress: Progress = False,
) -> SalvageReport:
    """Copy all messages that are still in a damaged commit log to a new store. Nothing in ``path`` is changed.

    A record is known by its own physical offset, at any place: files may be damaged, cut, renamed, swapped, doubled or
    missing. A record is intact if RocketMQ can read it, and its CRC is right. If any record of its file has a right CRC
    property, its CRC property must be right too. There, records without a CRC property are copied, and ``unverified``
    of the report names them: their properties may have been overwritten, or a broker wrote them without
    ``enabled_append_prop_crc``. With ``enabled_append_prop_crc`` one such record alone is lost.

    These are not intact: a record in the body of another one; a record behind the blank that ends a file; a record in
    which another one begins behind its body, because bytes are missing. The last record must not end in a zero, except
    with a ``compat`` whose properties may end so.

    The records keep their bytes and their order, except for these:

    * The CRC property is made right.
    * The physical offset. A record behind a loss moves down to close it. The next file begins where it did before, so
      that all its records keep their offsets. Up to 16 missing files in a row become blanks; more of them are left out.
      ``prepared_transaction_offset`` is not changed.
    * The queue offset, if messages of its queue are lost. The last message of a queue keeps its offset, and the
      messages before a gap move up to close it: a broker closes a gap in a queue too, and then gives out wrong offsets.
      So no consumer misses a message. A consumer that stopped before the gap gets some messages again. INNER_BASE is
      changed too. Messages of light queues keep their offsets there. Their units move up to close a gap, as in a
      broker, and the report counts them.
    * The physical offset of all records of DLedger's log, also of those that are not committed. The new log has plain
      files, in which no entry is before a record: start the broker without ``enableDLegerCommitLog``.
    * A log that begins at 0 begins with its second file instead, if a queue now begins after 0. In the first file a
      broker would read the start of that queue's file as messages. All physical offsets are higher by one file then.

    ``config`` is copied, with the offsets of consumers, if it can be read. Queues and index are built anew.

    Parameters
    ----------
    path : the root of a store, a directory of commit log files of any names, or one such file.
    out : the root of the new store: a directory that is empty, or does not exist. A dry run needs none.
    dry_run : write nothing, and only report what is lost.
    config : sizes of files, and directories of the commit log; default: those of the old store, or RocketMQ's defaults.
        With ``force_verify_prop_crc`` a record without a right CRC property is lost.
    deleted : give messages of deleted topics a queue offset too. Otherwise they are copied to the log, but get no unit.
        The report counts and names them. ``rebuild`` says how a deleted topic is known. A topic that was created
        again then begins with the messages of its earlier lives.
    progress : True shows a bar on standard error. A function is called with the bytes of the log that
        were processed, and all its bytes.

    Returns
    -------
    SalvageReport.

    Raises
    ------
    StoreError : ``path`` has no record, or has records that ``config.compat`` cannot read; or it has the logs of
        several members of DLedger, and ``config`` does not choose one. FileExistsError : ``out`` is not empty.
        ValueError : ``out`` is missing, or is inside ``path``, or inside the directory of ``path`` if that is a file;
        or a record does not fit into a file of the size of ``config``.
        OSError. After an error ``out`` is empty again.

    Source: none; a broker cuts its log off at the first bytes that it cannot read.

    Examples:
    >>> report = rocketstore.salvage("demo", "saved")
    >>> report.records, len(report.lost)
    (101, 0)
    >>> rocketstore.salvage("demo", dry_run=True).lost_messages
    ()
    """
    if out is None and not dry_run:
        raise ValueError("out=None: give the directory of the new store, or dry_run=True")
    root = local_path(path)
    new = None if out is None else local_path(out)
    if new is not None:
        require_descriptors_to_write(new)
    survey = begin_entry("salvage", root, config)
    paths = _log_files(survey)
    if new is not None:
        require_outside(new, [root, *(path.parent for path in paths)])
        require_free_root(new, SALVAGE_WORK, is_part_of_store)
    if dry_run or new is None:
        with tempfile.TemporaryDirectory(prefix="rocketstore-") as name:
            make_directory(Path(name, SALVAGE_WORK))
            with (
                show_progress(progress, "salvage") as shown,
                _Salvage(survey, paths, Path(name), shown, deleted=deleted) as call,
            ):
                return replace(call.find_losses(), out=new)
    with lock_owner_of(new), show_progress(progress, "salvage") as shown:
        report = _salvage_into(survey, paths, new, shown, deleted=deleted)
    warn_of(report.assumptions, root)
    return report


def _salvage_into(survey: Survey, paths: list[Path], new: Path, progress: Report, *, deleted: bool) -> SalvageReport:
    """Write the new store. After an error, remove everything that was written."""
    mode = stat.S_IMODE(paths[0].parent.stat().st_mode) | 0o700 if paths else 0o777
    with new_root(new, SALVAGE_WORK, mode), _Salvage(survey, paths, new, progress, deleted=deleted) as call:
        return call.run()


def _log_files(survey: Survey) -> list[Path]:
    """Return the files that may have records, in the order of their names."""
    places = survey.local_places
    if places.root.is_file():
        return [places.root]
    directories = [*map(local_path, list_log_directories(places, survey.settings))] or [places.root]
    files = (file for path in directories for file in path.iterdir() if file.is_file())
    return sorted(files, key=lambda path: path.name)


class _Salvage(Closable):
    """One call of ``salvage``. Old files stay mapped until ``close``.

    Attributes: kept: the first parts of each run, as they were counted, by the run's file, begin, end and base. The
    copy reads the rest again.
    """

    def __init__(self, survey: Survey, paths: list[Path], out: Path, progress: Report, *, deleted: bool) -> None:
        self.deleted = deleted
        self.places, self.given = survey.local_places, survey.given
        self.root, self.out, self.work = self.places.root, out, StorePlaces.of(out / SALVAGE_WORK)
        self.paths, self.progress = paths, progress
        self.mapped_files = MappedFiles()
        known = _old_config(survey, self.work)
        self.settings = _find_settings(self.places, known)
        self.known, self.config = known, self.settings.config
        self.assumed = Assumptions(self.settings)
        self.unreadable = UnreadableRecords(self.config.compat)
        self.scanner = RequestScanner(
            message_delay_level=self.config.message_delay_level,
            indexes_tags=Compat.of(self.config.compat).indexes_tags,
            framing=FRAMING,
        )
        self.log_begin = _find_log_begin(survey, known)
        self.kept: dict[tuple[Path, int, int, int], list[RunPart]] = {}
        self.kept_size = 0
        self.done = 0
        self.total = 2 * sum(path.stat().st_size for path in paths)

    def close(self) -> None:
        self.mapped_files.close()

    def scan_file(self, path: Path) -> DamagedFile:
        """Find the records of a file."""
        return DamagedFile.scan(
            path, self.mapped_files, self.config, functools.partial(self.report_progress, self.done)
        )

    def report_progress(self, done: int, more: int = 0) -> None:
        """Report the bytes that were processed. Parameters: done, more: their sum."""
        self.progress(done + more, self.total)

    def find_losses(self) -> SalvageReport:
        """Return a report of the losses of ``run``. Write nothing."""
        files = []
        for path in self.paths:
            if length := path.stat().st_size:
                files.append(self.scan_file(path))
                self.done += length
        finds = self.choose(files)
        size: int = getattr(self.new_config(finds), LOG_SIZE)
        finds.find_lost(size)
        counts = [(run.count_records(), run.base != run.file.named) for run in finds.chosen]
        self.report_progress(self.total)
        return SalvageReport(
            None,
            size,
            None,
            None,
            sum(count for count, _ in counts),
            finds.duplicates,
            sum(count for count, is_out_of_order in counts if is_out_of_order),
            None,
            None,
            finds.sorted_lost(),
            None,
            lost_messages=self.count_lost_messages(finds),
            dry_run=True,
        )

    def choose(self, files: list[DamagedFile]) -> Finds:
        """Choose one copy of each record. Raises: StoreError without a record."""
        if not any(len(file.of(OK)) for file in files):
            raise StoreError(f"{self.root}: there is no record of a commit log{hint_at_store(self.root)}")
        finds = Finds(files, self.log_begin)
        finds.choose()
        return finds

    def count_lost_messages(self, finds: Finds) -> tuple[LostMessages, ...] | None:
        return count_lost_messages(self.places, self.given or StoreConfig(), finds.chosen, finds.begin())

    def run(self) -> SalvageReport:
        files, offsets = [], self.new_offsets(self.new_lives())
        with work_threads(1, "rocketstore-salvage") as thread:
            counting = []
            for path in self.paths:
                if length := path.stat().st_size:
                    file = self.scan_file(path)
                    counting.append(thread.submit(self.count, list(file.runs()), offsets))
                    self.done += length
                    files.append(file)
            for counted in counting:
                counted.result()
        finds = self.choose(files)
        found = [run for file in files for run in file.runs()]
        if [run[:3] for run in finds.chosen] != [run[:3] for run in found]:  # others, or in another order
            offsets = self.count_again(finds.chosen, self.new_lives())
        if offsets.lives is not None and offsets.lives.finish():
            offsets = self.count_again(finds.chosen, offsets.lives)
        unreadable = self.unreadable.require_none(self.root, allow=self.config.allow_unreadable)
        config = self.new_config(finds)
        size: int = getattr(config, LOG_SIZE)
        finds.find_lost(size)
        _copy_config(self.places, self.work)
        offsets.start(batch_topics(open_tables(self.work).read_topics()))
        begin = finds.chosen[0].begin // size * size
        shift = size if begin == 0 and offsets.begins_late else 0
        log = LogCopy(self.work.default_log, size, begin + shift, self.paths[0])
        self.declare(offsets)
        stated = replace(config, **{name: getattr(self.known, name) for name in LEARNED})
        with (
            work_threads(1, "rocketstore-salvage-lost") as thread,
            NewStore.open(self.work, config, stated, log, self.scanner.queues) as new,
        ):
            lost_messages = thread.submit(self.count_lost_messages, finds)
            records, out_of_order = self.copy(finds.chosen, log, offsets, shift, new)
            new.finish()
        self.report_progress(self.total)
        deleted = DeletedTopics() if offsets.lives is None else offsets.lives.result(offsets.left_out)
        return SalvageReport(
            self.out,
            size,
            begin + shift,
            log.phy_offset,
            records,
            finds.duplicates,
            out_of_order,
            log.moved,
            offsets.renumbered(),
            finds.sorted_lost(),
            offsets.misplaced,
            tuple(part for file in files for part in file.unverified_ranges()),
            (*unreadable, *self.assumed.texts(), *self.settings.conflicts),
            deleted.messages,
            deleted.undeclared,
            deleted.doubtful,
            lost_messages.result(),
        )

    def new_lives(self) -> TopicLives | None:
        """Return what decides which records get no unit. A file, or a directory without a store, has no topics."""
        if self.deleted:
            return None
        is_stopped = not self.places.abort.exists()
        return TopicLives(KnownTopics.of(self.places, self.config, is_stopped=is_stopped))

    def new_offsets(self, lives: TopicLives | None) -> QueueOffsets:
        return QueueOffsets(self.scanner, self.config, lives)

    def count_again(self, runs: Iterable[RecordRun], lives: TopicLives | None) -> QueueOffsets:
        """Count the messages of runs, in the order of the log, anew."""
        offsets = self.new_offsets(lives)
        self.kept, self.kept_size = {}, 0
        self.unreadable = UnreadableRecords(self.config.compat)
        self.count(runs, offsets)
        return offsets

    def count(self, runs: Iterable[RecordRun], offsets: QueueOffsets) -> None:
        """Count the messages of runs. Keep the parts until ``MAX_KEPT`` bytes are kept."""
        for run in runs:
            kept = self.kept[run.file.path, *run[:3]] = []
            with run.open() as source, closing(iterate_ahead(self.read_parts(source, run.begin))) as parts:
                for part in parts:
                    offsets.count(part.requests, source.buffer, run.base)
                    if self.unreadable.can_exist:
                        places = part.requests["phy_offset"] - part.begin
                        self.unreadable.add_bytes(run.bytes(part.begin, part.end), places)
                    if self.kept_size < MAX_KEPT:
                        kept.append(part)
                        self.kept_size += part.requests.nbytes + part.items.nbytes

    def parts(self, source: RunSource) -> Iterator[RunPart]:
        """Yield the kept parts of a run, then read the others."""
        run = source.run
        begin = run.begin
        for part in self.kept.pop((run.file.path, *run[:3]), ()):
            yield part
            begin = part.end
        yield from self.read_parts(source, begin)

    def read_parts(self, source: RunSource, begin: int) -> Iterator[RunPart]:
        """Yield the parts of a run from a physical offset on.

        Each part takes time for each queue of the store. So a store of many queues has larger parts.
        """
        run = source.run
        while begin < run.end:
            size = PIECE * min(1 + len(self.scanner.queues) // QUEUES_OF_PIECE, MAX_PIECES)
            stop = self.scanner.scan(source.buffer, run.base, begin, run.end, size)
            if stop == begin:
                raise StoreError(f"{run.file.path}: was changed while it was read")
            yield RunPart(begin, stop, *self.scanner.take())
            begin = stop

    def new_config(self, finds: Finds) -> SizedConfig:
        config = replace(self.config, store_path_commit_log=None, read_only_commit_log_store_paths=None)
        config = config.without_dledger()
        if not (self.given and getattr(self.given, LOG_SIZE)) and (shown := finds.shown_size()):
            config = replace(config, mapped_file_size_commit_log=shown)
        return with_default_sizes(config)

    def copy(
        self, runs: list[RecordRun], log: LogCopy, offsets: QueueOffsets, shift: int, new: NewStore
    ) -> tuple[int, int]:
        """Write the new log. Return the number of records, and how many of them were out of order."""
        records = out_of_order = 0
        self.assumed.add_queues(self.scanner.queues)
        for run in runs:
            log.go_to(run.begin + shift)
            with run.open() as source, closing(iterate_ahead(self.assigned_parts(source, offsets))) as parts:
                for part, assigned in parts:
                    count = self.copy_part(log, source, part, assigned, new)
                    records += count
                    if run.base != run.file.named:
                        out_of_order += count
                    self.done += part.end - part.begin
                    self.report_progress(self.done)
        return records, out_of_order

    def assigned_parts(self, source: RunSource, offsets: QueueOffsets) -> Iterator[tuple[RunPart, Assigned]]:
        """Yield the parts of a run with their new queue offsets."""
        for part in self.parts(source):
            self.assumed.add(part.requests, self.scanner.queues)
            yield part, offsets.assign(part.requests, source.buffer, source.run.base)

    def copy_part(self, log: LogCopy, source: RunSource, part: RunPart, assigned: Assigned, new: NewStore) -> int:
        """Copy records, rewrite those with another INNER_BASE, and build their units and items. Return how many."""
        requests, begin, (run, buffer, fd) = part.requests, part.begin, source
        places = requests["phy_offset"] - run.base
        numbers, changes, left_out = assigned
        first = records = 0
        for row, inner_base in changes:
            at, end = int(requests["phy_offset"][row]), int(requests["phy_offset"][row] + requests["size"][row])
            record = Buffer(with_property(run.bytes(at, end), "INNER_BASE", inner_base), run.file.path)
            records += log.copy(buffer, begin, at, run.base, places[first:row], numbers[first:row], fd=fd)
            records += log.copy(record, at, at + record.size, at, AT_START, numbers[row : row + 1])
            begin, first = end, row + 1
        records += log.copy(buffer, begin, part.end, run.base, places[first:], numbers[first:], fd=fd)
        if self.scanner.has_inner:
            new.read_and_build(left_out)
        else:
            new.build(part, numbers, left_out)
        return records

    def declare(self, offsets: QueueOffsets) -> None:
        """Add the topics and their queues to topics.json."""
        tables = open_json_tables(self.work)
        known = tables.read_topics()
        queues = {
            topic: count
            for topic, count in offsets.topics().items()
            if topic in offsets.batches or not topic.startswith(SYSTEM_TOPIC_PREFIXES)
        }
        types = {topic: "BatchCQ" for topic in offsets.batches if topic not in known}
        with contextlib.suppress(StoreError):  # a topics.json that cannot be extended stays unchanged
            tables.extend_topics(queues, types)


def _old_config(survey: Survey, copies: LocalPlaces) -> StoreConfig:
    """Return the configuration of the old store: as given, or by its files, or by its rocketstore.json."""
    with contextlib.suppress(ValueError, StoreError, OSError):
        return with_default_sizes(survey.sizes.config)
    saved, copied = survey.local_places.saved_settings, copies.saved_settings
    with contextlib.suppress(ValueError, StoreError, OSError):
        make_directory(copied.parent)
        replace_file(copied, read_small_file(saved), like=saved)
        return with_default_sizes(find_sizes(copies, survey.given).config)
    copied.unlink(missing_ok=True)
    return survey.settings


def _find_log_begin(survey: Survey, known: StoreConfig) -> int:
    """Return where DLedger's log begins, a physical offset; 0 for a log of plain files, or if it cannot be read."""
    if survey.formats.is_dledger:
        with contextlib.suppress(ValueError, StoreError, OSError), open_log(survey.places, known) as log:
            return log.min_phy_offset
    return 0


def _find_settings(places: LocalPlaces, known: StoreConfig) -> BrokerSettings[StoreConfig]:
    """Return the settings that the sound units of the old store show. A file of a log alone shows none."""
    with contextlib.suppress(ValueError, StoreError, OSError):
        return find_settings(places, known)
    return BrokerSettings(known, find_unstated(known, {}))


def _copy_config(places: LocalPlaces, copies: LocalPlaces) -> None:
    """Copy the files of ``config`` that a broker can read. A link that leads out of the store is not followed."""
    if not places.config.is_dir():
        return
    real_root = places.root.resolve()
    bad = {problem.path for problem in open_tables(places).check()}
    for path in sorted(places.config.iterdir()):
        good = path.name.endswith((".json", ".json.bak")) and path != places.saved_settings
        if not good or not path.is_file() or path in bad:
            continue
        if real_root not in path.resolve().parents:
            warnings.warn(f"{path}: leads out of the store and is not copied", stacklevel=1)
            continue
        try:
            data = read_small_file(path, MAX_CONFIG_FILE)
        except (OSError, CorruptFileError) as error:
            warnings.warn(f"{path}: is not copied: {error}", stacklevel=1)
            continue
        make_directory(copies.config)
        replace_file(copies.config_file(path.name), data, like=path)
