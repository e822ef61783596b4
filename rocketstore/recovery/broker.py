"""The policy "broker": recovery as a broker of RocketMQ 5.3.3, 5.5.0 or 5.5.1 does it at its start, byte for byte."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rocketstore.compat import Compat
from rocketstore.config import SizedConfig, StoreConfig
from rocketstore.disk.durable import allocate, sync_path
from rocketstore.disk.file_run_reader import FileRunReader, RunFile
from rocketstore.disk.small_file import read_file_start
from rocketstore.disk.storage import local_path
from rocketstore.dispatch.dispatch_begin import is_head_before_checkpoint, is_index_safe
from rocketstore.dispatch.dispatcher import Dispatcher, Writer
from rocketstore.dispatch.light_queues import find_unreadable_offset, names_and_offsets
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_directory import is_index_name
from rocketstore.index.index_header import read_header
from rocketstore.index.index_service import open_index
from rocketstore.java_text import parse_int
from rocketstore.kernels.record import check_message_and_return_size
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_evidence import EndEvidence
from rocketstore.log.log_end import StoreState
from rocketstore.log.tail import find_tails
from rocketstore.messages.system_flags import TRANSACTION_COMMIT, TRANSACTION_TYPE
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS, BatchConsumeQueue
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter
from rocketstore.queue.queue_directories import is_queue_name
from rocketstore.recovery.lost import LostMessages, count_lost
from rocketstore.recovery.recovery_report import RecoveryAction, RecoveryReport
from rocketstore.recovery.saved_tails import is_saved, save_tail
from rocketstore.state.checkpoint import FILE_SIZE as CHECKPOINT_SIZE
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.json_tables import batch_topics
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.cut_proof import StoreEvidence
from rocketstore.survey.open_log import open_log
from rocketstore.survey.places import LocalPlaces, StorePlaces
from rocketstore.survey.survey import Survey

RELEASES = ("5.3.3", "5.5.0", "5.5.1")
DEFAULT_RECOVER_MAX_NUM = 10
COPIED_FILES = 4  # last files of a queue that a dry run copies: recovery writes to no other files


class Scanned(NamedTuple):
    """The result of reading the log: its end, its last record, and the ranges of records to dispatch."""

    end: int
    last_phy_offset: int
    ranges: list[tuple[int, int]]
    last_request: dict[str, Any] | None  # the last message that has a queue


class BrokerRecovery:
    """One start of a broker in a directory. Source: DefaultMessageStore.load."""

    def __init__(self, places: LocalPlaces, config: SizedConfig, evidence: EndEvidence) -> None:
        self.places = places
        self.evidence = evidence
        self.config = config
        self.last_exit_ok = not places.abort.exists()
        self.checkpoint = StoreCheckpoint.open(places.checkpoint)
        self.saves_tails = True
        self._has_negative_blanks = not Compat.of(config.compat).refuses_negative_sizes
        self.actions: list[RecoveryAction] = []
        self.directories = [path for path in places.log_directories if path.is_dir()]
        self.batch_topics = batch_topics(open_tables(places, config).read_topics())

    def run(self) -> RecoveryReport:
        self._check_lengths()
        self._extend_index_files()
        index = open_index(self.places.index, self.config, self.checkpoint, last_exit_ok=self.last_exit_ok)
        self.actions += [RecoveryAction(path, "delete") for path in index.rejected]
        files = FileRunReader(self.directories).files if self.directories else []
        if not files:
            self._destroy_queues()
            index.close()
            self.checkpoint.flush()
            return RecoveryReport("broker", self.last_exit_ok, 0, 0, self.actions)
        with open_log(self.places, self.config) as log:
            dispatcher = Dispatcher(self.places, self.config, log, index, self.batch_topics, as_broker=True)
            return self._recover(log, dispatcher)

    def _recover(self, log: CommitLog, dispatcher: Dispatcher) -> RecoveryReport:
        writers = [dispatcher.queue(path.parent.name, int(path.name)) for path in self._queue_directories()]
        before = {path for writer in writers for path in files_of(writer.directory)}
        max_phy_offset = max(map(_max_phy_offset, writers), default=-1)
        scanned = self._scan(log, self._first_file(log, max_phy_offset), max_phy_offset)
        lost = self._count_lost(log, scanned.end)  # before the queues change, which may prove an earlier cut
        for begin, end in scanned.ranges:
            self.actions.append(RecoveryAction(log.directories[0], "dispatch", begin, end - begin))
            dispatcher.dispatch(begin, end)
        writers = list(dispatcher.queues().values())
        if Compat.of(self.config.compat).reads_queue_ends_again:
            max_phy_offset = max(map(_max_phy_offset, writers), default=-1)
        if max_phy_offset >= scanned.end:
            for writer in writers:
                writer.truncate(scanned.end)
                writer.release()
        dispatcher.flush()
        unstartable = self._unstartable(writers)
        dispatcher.close()
        self.actions += [RecoveryAction(path, "delete") for path in sorted(before) if not path.exists()]
        self._cut_log(log, scanned.end)
        self._save_checkpoint(scanned)
        if unstartable is not None:
            raise StoreError(f"{unstartable}: its last file is empty: a broker of 5.3.3 does not start")
        return RecoveryReport("broker", self.last_exit_ok, log.min_phy_offset, scanned.end, self.actions, lost=lost)

    # ---- load ----------------------------------------------------------------------------------------------

    def _check_lengths(self) -> None:
        """Raise errors for files a broker does not load. Delete empty last files. Source: MappedFileQueue.doLoad."""
        sizes = {self.places.queues(kind): getattr(self.config, kind.size_name) for kind in QUEUE_KINDS}
        runs = dict.fromkeys(self.directories, self.config.mapped_file_size_commit_log)
        runs |= {directory: sizes[directory.parent.parent] for directory in self._queue_directories()}
        empty = []
        for directory, size in runs.items():
            files = FileRunReader([directory]).files
            for file in files:
                if file.size == 0 and file == files[-1]:
                    empty.append(local_path(file.path))
                elif file.size != size:
                    reason = f"{file.size} bytes, not {size}: a broker does not start with it"
                    raise CorruptFileError(file.path, file.size, "file size", reason)
        for path in empty:
            path.unlink()
            sync_path(path.parent)
            self.actions.append(RecoveryAction(path, "delete"))

    def _extend_index_files(self) -> None:
        """Give each index file its full length, with zeros. Source: IndexService.load, DefaultMappedFile.init."""
        size = _index_file_size(self.config)
        for path in files_in(self.places.index):
            length = path.stat().st_size
            if is_index_name(path.name) and length < size:
                with path.open("r+b") as file:
                    allocate(file.fileno(), size, length)
                self.actions.append(RecoveryAction(path, "extend", length, size - length))

    def _queue_directories(self) -> Iterator[Path]:
        """Yield the directories that a broker loads: for 007 that is 7. Source: ConsumeQueueStore.loadConsumeQueues."""
        for kind in QUEUE_KINDS:
            for path in sorted(self.places.queues(kind).glob("*/*")):
                queue_id = parse_int(path.name)
                if queue_id is None:
                    continue
                if (path.parent.name in self.batch_topics) != (kind is BatchConsumeQueue):
                    raise StoreError(f"{path}: queue.type in topics.json is another: a broker does not start")
                directory = path.parent / str(queue_id)
                if directory.is_dir():
                    yield directory

    def _destroy_queues(self) -> None:
        for part in self.places.queue_parts:
            for path in sorted(part.glob("*/*/*")):
                if not is_queue_name(path.parent.name):
                    continue
                self.actions.append(RecoveryAction(path, "delete"))
                path.unlink()
                sync_path(path.parent)

    # ---- commit log ----------------------------------------------------------------------------------------

    def _parse(self, log: CommitLog, file: RunFile, position: int) -> tuple[bool, int, dict[str, Any] | None]:
        config = self.config
        with log.file_run.map(file, "sequential").reading() as view:
            parsed: tuple[bool, int, dict[str, Any] | None] = check_message_and_return_size(
                view[position:],
                config.check_crc_on_recover,
                config.duplication_enable,
                force_verify_prop_crc=config.force_verify_prop_crc,
                negative_blank=self._has_negative_blanks,
                message_delay_level=config.message_delay_level,
            )
        return parsed

    def _first_file(self, log: CommitLog, max_phy_offset: int) -> int:
        """Return the number of the first file to read. Source: CommitLog.recoverNormally, recoverAbnormally."""
        files, last = log.file_run.files, len(log.file_run.files) - 1
        if not Compat.of(self.config.compat).limits_recovery:
            if self.last_exit_ok:
                return next((i for i in range(last, 0, -1) if files[i].file_from_offset <= max_phy_offset), 0)
            return next((i for i in range(last, -1, -1) if self._is_before_checkpoint(log, files[i])), 0)
        tries = self.config.commit_log_recover_max_num
        least = max(last + 1 - (tries if tries > 0 else DEFAULT_RECOVER_MAX_NUM), 0)
        for i in range(last, least, -1):
            if self._is_matched(log, files[i], max_phy_offset):
                return i
        return least

    def _is_before_checkpoint(self, log: CommitLog, file: RunFile) -> bool:
        """Source: CommitLog.isMappedFileMatchedRecover of 5.3.3, which checks only the magic of the record."""
        with log.file_run.map(file).reading() as view:
            return is_head_before_checkpoint(view, self.checkpoint, self.config)

    def _is_matched(self, log: CommitLog, file: RunFile, max_phy_offset: int) -> bool:
        """Source: CommitLog.isMappedFileMatchedRecover, ConsumeQueueStore.isMappedFileMatchedRecover."""
        fields = self._parse(log, file, 0)[2]
        if fields is None or fields["store_timestamp"] == 0:
            return False
        if is_index_safe(self.config) and fields["store_timestamp"] > self.checkpoint.index_msg_timestamp:
            return False
        if self.last_exit_ok:
            return bool(fields["phy_offset"] <= max_phy_offset)
        if self.checkpoint.logics_physical_offset <= 0:
            return bool(fields["store_timestamp"] <= self.checkpoint.logics_msg_timestamp)
        return bool(fields["phy_offset"] <= self.checkpoint.logics_physical_offset)

    def _scan(self, log: CommitLog, number: int, max_phy_offset: int) -> Scanned:
        """Read the records from a file on. Source: CommitLog.recoverNormally, recoverAbnormally."""
        files, position, request = log.file_run.files, 0, None
        last = self._confirm_offset(log) if self.last_exit_ok else files[number].file_from_offset
        ranges: list[tuple[int, int]] = []
        while True:
            ok, size, fields = self._parse(log, files[number], position)
            end = files[number].file_from_offset + position
            if not ok or (size == 0 and number + 1 == len(files)):
                return Scanned(end, last, ranges, request)
            if fields is None:
                number, position = number + 1, 0
                continue
            last = end
            position += size
            if self.last_exit_ok and fields["phy_offset"] <= max_phy_offset:
                continue
            if fields["sys_flag"] & TRANSACTION_TYPE in (0, TRANSACTION_COMMIT):
                self._check_light_queues(end, fields)
                request = fields
            begin = ranges.pop()[0] if ranges and ranges[-1][1] == end else end
            ranges.append((begin, end + size))

    def _check_light_queues(self, phy_offset: int, fields: dict[str, Any]) -> None:
        """Source: ConsumeQueue.multiDispatchLmqQueue, which throws."""
        names, offsets = names_and_offsets(fields["topic"], fields["properties"], self.config, self.batch_topics)
        if find_unreadable_offset(names, offsets) is not None:
            reason = f"INNER_MULTI_QUEUE_OFFSET {offsets} of the record at {phy_offset}"
            raise StoreError(f"{self.places.root}: {reason}: a broker does not start with it")

    def _confirm_offset(self, log: CommitLog) -> int:
        """Return the offset that is confirmed before recovery. Source: CommitLog.getConfirmOffset."""
        return 0 if self.config.flush_disk_type == "SYNC_FLUSH" else log.file_run.files[-1].end_offset

    def _count_lost(self, log: CommitLog, end: int) -> tuple[LostMessages, ...]:
        """Count the messages that no recovery has cut off before."""
        found = find_tails(log, end)
        return (
            () if all(is_saved(self.places.saved_cuts, tail) for tail in found) else count_lost(log, end, self.evidence)
        )

    def _cut_log(self, log: CommitLog, end: int) -> None:
        """Save the bytes behind the end, and delete the files behind it. Bytes in the last file stay."""
        for tail in find_tails(log, end):
            if is_saved(self.places.saved_cuts, tail):
                continue
            position = tail.begin - tail.file.file_from_offset
            self.actions.append(RecoveryAction(tail.file.path, "save", position, tail.end - tail.begin))
            if self.saves_tails:
                save_tail(self.places.saved_cuts, tail)
        for file in log.file_run.files:
            if file.file_from_offset > end:
                path = local_path(file.path)
                self.actions.append(RecoveryAction(path, "delete"))
                path.unlink()
                sync_path(path.parent)

    def _unstartable(self, writers: list[Writer]) -> Path | None:
        """Return a queue that ends in an empty file: 5.3.3 does not start. Source: ConsumeQueue.correctMinOffset."""
        if Compat.of(self.config.compat).starts_with_empty_queue_files:
            return None
        for writer in writers:
            if isinstance(writer, ConsumeQueueWriter) and writer.max_queue_offset > 0:
                end = writer.max_queue_offset * ConsumeQueueWriter.unit_size
                if files_of(writer.directory)[-1].name == f"{end:020}":
                    return writer.directory
        return None

    def _save_checkpoint(self, scanned: Scanned) -> None:
        self.checkpoint.confirm_phy_offset = scanned.last_phy_offset
        if scanned.last_request is not None:
            self.checkpoint.logics_msg_timestamp = scanned.last_request["store_timestamp"]
            if Compat.of(self.config.compat).has_logics_physical_offset:
                self.checkpoint.logics_physical_offset = scanned.last_request["phy_offset"]
        self.checkpoint.flush()


def _index_file_size(config: SizedConfig) -> int:
    """Return the length of an index file, bytes."""
    return IndexGeometry(config.max_hash_slot_num, config.max_index_num).file_size


def _max_phy_offset(writer: Writer) -> int:
    """Return a queue's last physical offset. Close its descriptor: a store may have more queues than descriptors."""
    max_phy_offset = writer.max_phy_offset
    writer.release()
    return max_phy_offset


def recover_as_broker(survey: Survey, config: SizedConfig) -> RecoveryReport:
    """Recover a store as a broker does at its next start. The file ``abort`` stays.

    Parameters: survey: made under the lock. config: its ``compat`` is one of RELEASES.
    Raises: StoreError if the store is not the one, or not in the state, of the survey; CorruptFileError, StoreError
    where a broker does not start. Source: DefaultMessageStore.load.
    """
    places = survey.local_places
    recovery = BrokerRecovery(places, config, find_evidence(places, config))
    survey.require_unchanged()
    return recovery.run()


def find_evidence(places: LocalPlaces, config: StoreConfig) -> StoreEvidence:
    state = StoreState.CRASHED if places.abort.exists() else StoreState.STOPPED
    return StoreEvidence(places, config, state)


def dry_run_as_broker(survey: Survey, config: SizedConfig) -> RecoveryReport:
    """Report what ``recover_as_broker`` would do.

    It runs in a temporary directory, on links to files that it only reads and on copies of files that it writes to.
    """
    places = survey.local_places
    with tempfile.TemporaryDirectory(prefix="rocketstore-") as name:
        root, copies = places.root, StorePlaces.of(Path(name))
        copy = copies.root
        logs = {copy / str(i): local_path(path) for i, path in enumerate(places.log_directories) if path.is_dir()}
        queues = [path for part in places.queue_parts for path in part.glob("*/*")]
        others = (places.index, places.config, places.saved_cuts)
        originals = logs | {copy / path.relative_to(root): path for path in (*queues, *others)}
        written = {path for queue in queues for path in files_in(queue)[-COPIED_FILES:]}
        # Opening an index file that is not full undoes a torn put, or makes the file longer.
        for path in files_in(places.index):
            if read_header(path).index_count < config.max_index_num or path.stat().st_size < _index_file_size(config):
                written.add(path)
        for target, original in originals.items():
            link_files(original, target, written)
        with contextlib.suppress(FileNotFoundError):
            copies.checkpoint.write_bytes(read_file_start(places.checkpoint, CHECKPOINT_SIZE))
        if places.abort.exists():
            copies.abort.touch()
        paths = ",".join(map(str, logs)) or str(copies.default_log)
        evidence = find_evidence(places, config)  # of the store itself: the copy has only some files of its queues
        config = replace(config, store_path_commit_log=paths, read_only_commit_log_store_paths=None)
        recovery = BrokerRecovery(StorePlaces.of(copy, config), config, evidence)
        recovery.saves_tails = False
        try:
            report = recovery.run()
        except StoreError as error:
            where, *rest = error.args
            for target, original in (*reversed(logs.items()), (copy, root)):  # 10 before 1
                where = str(where).replace(str(target), str(original))
            raise type(error)(where, *rest) from None
        actions = []
        for action in report.actions:
            path = local_path(action.path)
            actions.append(action._replace(path=originals.get(path) or originals[path.parent] / path.name))
    return replace(report, actions=actions, dry_run=True)


def link_files(directory: Path, target: Path, written: Collection[Path]) -> None:
    """Make a directory with links to the files of another one, and copies of the files in ``written``."""
    target.mkdir(parents=True)
    for path in files_in(directory):
        if path in written:
            shutil.copy(path, target)
        else:
            (target / path.name).symlink_to(path.absolute())


def files_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.is_file()) if directory.is_dir() else []


def files_of(directory: Path) -> list[Path]:
    return [local_path(file.path) for file in FileRunReader([directory]).files] if directory.is_dir() else []
