"""Recovery that loses less than a broker's: only a torn tail goes, and queues and index are completed up to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

from rocketstore.config import DEFAULT_COMPAT, Compat, StoreConfig
from rocketstore.disk.durable import make_directory, sync_path, zero_range
from rocketstore.disk.holes import nonzero_end
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.errors import DAMAGE_ADVICE, GAP_ADVICE, CorruptFileError, StoreError
from rocketstore.index.index_file import HEADER_SIZE, SLOT_SIZE, IndexHeader
from rocketstore.index.index_service import index_paths, open_index
from rocketstore.jobs.intent import UnfinishedWrite, find_unfinished, intent_path
from rocketstore.kernels.commit_log import BLANK, HALF, OK, read_message
from rocketstore.kernels.layout import INDEX_ITEM
from rocketstore.kernels.queue_id import QueueId
from rocketstore.layout.geometry import read_saved, save_geometry, saved_path
from rocketstore.layout.places import require_log_directory
from rocketstore.lazy import lazy_property
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_rule import Evidence
from rocketstore.log.stopped_end import find_stopped_end, is_cut_by_broker
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS, BatchConsumeQueue
from rocketstore.recovery.index import (
    IndexCut,
    IndexItems,
    cut_index,
    first_item,
    hashes_of,
    look_at_index,
    read_header,
    sound_phy_offsets,
)
from rocketstore.recovery.queues import (
    QueueEnd,
    empty_ext_files,
    find_missing,
    find_queues,
    settle,
    units_agree,
)
from rocketstore.recovery.report import RecoveryAction, RecoveryReport
from rocketstore.recovery.tail import Tail, is_saved, save_tail, tails
from rocketstore.state.broker_config import TopicConfig, batch_topics, read_topics
from rocketstore.state.checkpoint import StoreCheckpoint

__all__ = ["Completion", "complete_store", "open_completion", "plan_completion"]

CHUNK = 1 << 20
TAIL_SIZE = 64 << 20
NEAR = 16 << 20  # bytes behind the index's last record where one that it lacks is looked for
NO_TAGS = "5.3"
OTHER_TYPE = (  # of plain queues, and of batch queues
    "topics.json says that {0} has queue.type BatchCQ; these have not",
    "these are batch queues, and topics.json does not say that {0} has queue.type BatchCQ: restore it, "
    "or give {0} this attribute there",
)


@dataclass
class Completion:
    """What there is to do to a store, found by looking: ``apply`` does it.

    It survives being killed at any moment: before anything is changed there is ``abort``, which has the next recovery
    look at everything; nothing is cut off the log before it is saved, but for a write that is undone, whose messages
    are the job's that failed; a queue that is built again keeps its directory.
    """

    root: Path
    config: Any
    log: CommitLog
    last_exit_ok: bool
    checkpoint: StoreCheckpoint
    end: int = 0
    last_phy_offset: int = -1  # of the last record
    checked_from: int = 0  # up to where the log was known to be on the disk
    tails: list[Tail] = field(default_factory=list)
    queues: list[QueueEnd] = field(default_factory=list)
    empty_ext_files: list[Path] = field(default_factory=list)
    index_cuts: list[IndexCut] = field(default_factory=list)
    queue_begin: int = LONG_MAX
    index_begin: int = LONG_MAX
    is_thorough: bool = True
    steps: list[RecoveryAction] = field(default_factory=list)
    write: UnfinishedWrite | None = None

    @lazy_property
    def topics(self) -> dict[str, TopicConfig]:
        return read_topics(self.root, self.config)

    @lazy_property
    def batch_topics(self) -> set[str]:
        return batch_topics(self.topics)

    @property
    def _without_tags(self) -> Any:
        """To look for what an index lacks: one of a release that has no items of tags may be as it should."""
        return replace(self.config, compat=NO_TAGS)

    def report(self, dry_run: bool = False) -> RecoveryReport:
        return RecoveryReport(
            "complete", self.last_exit_ok, self.log.min_phy_offset, self.end, tuple(self.steps), dry_run
        )

    # ---- look ----------------------------------------------------------------------------------------------

    def look(self, *, thorough: bool) -> None:
        """Find what there is to do. Raises: CorruptFileError, StoreError; nothing was changed."""
        self._check_log_files()
        self.check_queue_types()
        self.empty_ext_files = empty_ext_files(self.root, self.config)
        is_clean = self.last_exit_ok and (self.root / "checkpoint").exists()
        self.is_thorough = thorough or not (is_clean and self._look_at_ends())
        if self.is_thorough:
            self.queue_begin = self.index_begin = LONG_MAX
            self._look_at_everything(thorough)
        self.steps = list(self._find_steps())

    def look_at_log(self, *, last_file: bool = False) -> None:
        """Find what there is to do to the log alone. Raises: CorruptFileError; nothing was changed.

        Parameters: last_file: look at no more than that where no checkpoint says what to look at: the rest is read
        by somebody who finds what is wrong with it.
        """
        self._check_log_files()
        is_clean, is_cut = self.last_exit_ok and (self.root / "checkpoint").exists(), False
        flushed = self.checkpoint.physic_msg_timestamp
        if is_clean:
            is_cut = self._is_cut_off()
            self.checked_from = self._tail_begin() if last_file and not is_cut else self._last_files_begin()
        elif last_file and flushed <= 0:
            self.checked_from = self.log.last_begun_file()
        else:
            self.checked_from = self._last_file_before(flushed, self._flushed_record())
        is_checked = self.config.check_crc_on_recover and not (is_clean and last_file and not is_cut)
        self._find_end(self.checked_from, verify_crc=is_checked)
        self.steps = list(self._log_steps())

    def _check_log_files(self) -> None:
        files, size = self.log.queue.files, self.config.mapped_file_size_commit_log
        for file in files:
            if file.size > size or (file.size < size and file != files[-1]):
                reason = f"{file.size} bytes, but files of {size} are written: check the configuration"
                raise CorruptFileError(file.path, file.size, "file size", reason)

    def check_queue_types(self, is_replaced: Callable[[str], bool] = lambda topic: False) -> None:
        """Refuse what a broker refuses to load. Source: ConsumeQueueStore.queueTypeShouldBe.

        Parameters: is_replaced: whether the queues that a topic has are not kept.
        """
        for kind in QUEUE_KINDS:
            is_batch = kind is BatchConsumeQueue
            for directory in (self.root / kind.directory_name).glob("*"):
                topic = directory.name
                if (topic in self.batch_topics) == is_batch or is_replaced(topic):
                    continue
                if any(directory.glob("*/" + "[0-9]" * 20)):
                    raise StoreError(f"{directory}: {OTHER_TYPE[is_batch].format(topic)}")

    def _look_at_ends(self) -> bool:
        """After a clean stop: see whether queues and log end where they should. False: look at everything.

        A queue that is gone is not missed for records before the newest unit: its topic may have been deleted.
        """
        self.queues = find_queues(self.root, self.config)
        for queue in self.queues:
            queue.look_at_last_file()
        last = max((queue.phy_offset for queue in self.queues), default=0)
        if self._is_cut_off():
            return False
        self.checked_from = begin = self._tail_begin()
        self._find_end(begin, verify_crc=False)
        if not begin < last <= self.end:
            return False
        if not all(units_agree(self.log, self.queues, self.batch_topics)):
            return False
        if self.empty_ext_files:
            return False
        self.queue_begin, self.index_begin = begin, last
        if self._empty_index_files():
            return False
        if self.config.message_index_enable and not self._look_at_index_end(last):
            return False
        return not self._find_missing(others_begin=last)

    def _evidence(self) -> Evidence:
        lock = self.root / "lock"
        lock_timestamp = lock.stat().st_mtime_ns // 1_000_000 if lock.exists() else None
        has_checkpoint = (self.root / "checkpoint").exists()
        flushed = self.checkpoint.physic_msg_timestamp if has_checkpoint else None
        return Evidence(flushed, self.checkpoint.confirm_phy_offset, lock_timestamp)

    def _is_cut_off(self) -> bool:
        """Return whether records stand behind the end of the log: a broker cut them off, or bytes were damaged."""
        begin, verify_crc = self.log.last_begun_file(), self.config.check_crc_on_recover
        self.log.whole_to = LONG_MAX
        found = find_stopped_end(self.log, begin, self._evidence(), verify_crc=verify_crc)
        return found.is_cut or found.is_damaged

    def _look_at_everything(self, whole_log: bool) -> None:
        """Look at all queues and files of the index, and at the log from where one of them ends, or at all of it."""
        minimum = self.log.min_phy_offset
        self.queues = find_queues(self.root, self.config)
        for queue in self.queues:
            queue.flushed = self.checkpoint.logics_physical_offset
            queue.look(LONG_MAX, minimum)
        if not self.log.queue.files and any(path for queue in self.queues for path in queue.files()):
            require_log_directory(self.root, self.config)
            raise StoreError(
                f"{self.root}: the commit log is gone, but its queues are there: restore it, "
                "or recover(policy='broker'), which deletes them, as a broker does at its next start"
            )
        self.checked_from = self._last_file_before(self.checkpoint.physic_msg_timestamp, self._flushed_record())
        self._find_end(self.checked_from, verify_crc=self.config.check_crc_on_recover)
        for queue in self.queues:
            if (end := min(queue.first_wrong(self.log), self.end)) < queue.phy_offset:
                queue.look(end, minimum)
        settle(self.log, self.queues, self.end, self.batch_topics)
        self.queue_begin = min((max(queue.phy_offset, minimum) for queue in self.queues), default=minimum)
        if not self.last_exit_ok:  # of a queue that was made later there may be nothing left, not even its name
            last = self.checkpoint.logics_msg_timestamp, self.checkpoint.logics_physical_offset or LONG_MAX
            self.queue_begin = min(self.queue_begin, self._last_file_before(*last))
        if whole_log or self._is_queue_missing() or any(queue.begins_at for queue in self.queues):
            self.queue_begin = minimum
        while wrong := self._find_missing():
            for queue in self.queues:
                if queue.queue in wrong:
                    queue.forget()
            self.queue_begin = minimum
        self._look_at_index(whole_log)

    def _tail_begin(self) -> int:
        """Where to begin after a clean stop: in the last file, some way before what was last at some start or stop."""
        file, begin = self.log.last_begun_file(), self.checkpoint.confirm_phy_offset - TAIL_SIZE
        found = self.log.find_later(begin, self.checkpoint.confirm_phy_offset + 1) if begin > file else None
        return file if found is None else found

    def _last_files_begin(self) -> int:
        """Where the files begin that a broker reads after a clean stop, and cuts at the first bad CRC."""
        last = self.log.last_begun_file()
        starts = [file.file_from_offset for file in self.log.queue.files if file.file_from_offset <= last]
        return min(starts[-Compat.of(self.config.compat).last_files :], default=0)

    def _flushed_record(self) -> int:
        """The last record on the disk, by a checkpoint whose offset and time are of one; LONG_MAX by another."""
        record = self.log.find_message(self.checkpoint.confirm_phy_offset)
        is_flushed = record is not None and record.store_timestamp == self.checkpoint.physic_msg_timestamp
        return self.checkpoint.confirm_phy_offset if is_flushed else LONG_MAX

    def _last_file_before(self, timestamp: int, phy_offset: int) -> int:
        """Where the last file begins that has a record from before a time and an offset that the checkpoint says.

        Later records may have earlier times, if a clock went back. Parameters: timestamp: epoch ms.
        """
        for file in reversed(self.log.queue.files):
            first = self.log.find_message(file.file_from_offset)
            if first is not None and first.store_timestamp <= timestamp and first.phy_offset <= phy_offset:
                return file.file_from_offset
        return self.log.min_phy_offset

    def _find_end(self, begin: int, *, verify_crc: bool) -> None:
        """Walk to the end of the log, and see that only a torn tail stands behind it, or a write to be undone."""
        may_end_in_zeros = not Compat.of(self.config.compat).trailing_separator
        self.log.whole_to = LONG_MAX if self.last_exit_ok or may_end_in_zeros else begin
        self._walk(begin, LONG_MAX, verify_crc=verify_crc)
        self.log.whole_to = self.end
        if self._is_last_torn():
            self._end_before(self.last_phy_offset)
        self.tails = tails(self.log, self.end)
        self.write = write = find_unfinished(self.root, self.log, self.end)
        self._check_tail()
        if write is not None and write.what == "undo":
            self._end_before(write.begin)

    @property
    def _is_undone(self) -> bool:
        return self.write is not None and self.write.what == "undo"

    def _is_last_torn(self) -> bool:
        """Whether the last record ends in zeros and no broker takes it: its properties lack what a queue needs."""
        end = self._end_of_record(self.last_phy_offset)
        if end == 0 or end != self.end or self.log.queue.pread(end - 1, 1) != b"\0":
            return False
        try:
            hashes_of(self.log, self.config, self.last_phy_offset, end)
        except CorruptFileError:
            return True
        return False

    def _end_before(self, phy_offset: int) -> None:
        """Have the log end where a record begins."""
        file = self.log.queue.find(phy_offset - 1)
        self._walk(file.file_from_offset if file else phy_offset, phy_offset, verify_crc=False)

    def _walk(self, begin: int, stop: int, *, verify_crc: bool) -> None:
        """Find the end of the log, or of what is before ``stop``, and the last record before it."""
        scanner = self.log.scanner((), verify_crc=verify_crc)
        self.end = begin
        while self.end < stop and (step := self.log.step(scanner, self.end, stop)) is not None:
            following, status = step
            if status == HALF and (size := self._whole_record(following)):
                following += size
            elif following == self.end and status not in (OK, BLANK):
                break
            self.end = following
        self.last_phy_offset = scanner.last_phy_offset
        before = self.log.queue.find(begin - 1)
        if self.last_phy_offset < 0 and before is not None:  # the last record is in a file before that
            self._walk(before.file_from_offset, stop, verify_crc=verify_crc)

    def _whole_record(self, offset: int) -> int:
        """The size of a record that ends in zeros, if another follows right behind it; 0 if it may be torn."""
        window = self.log.queue.read(offset, 1, "sequential")
        fields = read_message(*window, offset, at_rest=True)[1] if window is not None else None
        return fields["size"] if fields is not None and self.log.begins_record(offset + fields["size"]) else 0

    def _check_tail(self) -> None:
        later = self.log.find_later(self.end + 1, LONG_MAX) if self.tails else None
        if later is None or self._is_of_write(later) or all(is_saved(self.root, tail) for tail in self.tails):
            return
        place = self.log.ending.begin(), self.end, self.last_phy_offset, later
        is_cut = is_cut_by_broker(self.log, self._evidence(), *place) if self.last_exit_ok else self._is_unflushed()
        if is_cut:
            return
        found = self.log.queue.find(self.end)
        file = found or self.tails[0].file
        reason = f"no message begins here, but one is at {later}: {DAMAGE_ADVICE if found else GAP_ADVICE}"
        raise CorruptFileError(file.path, max(self.end - file.file_from_offset, 0), "magic", reason)

    def _is_of_write(self, later: int) -> bool:
        """Return whether the record at ``later``, behind damage, is of a write that is undone, where the log ends."""
        write = self.write
        return write is not None and write.what != "leave" and write.end == self.end and later < write.intent.end

    def _is_unflushed(self) -> bool:
        """Whether the bytes at the end may not have been on the disk, by what the checkpoint says.

        A power loss may leave what was written later and not what was before it; none of it was acknowledged. One that
        says nothing may be lost: then it is believed of the last file that was begun, and of no other.
        """
        last = self.log.find_message(self.last_phy_offset) if self.last_phy_offset >= 0 else None
        flushed = self.checkpoint.physic_msg_timestamp
        if flushed <= 0:
            return self.end >= self.log.last_begun_file()
        is_later = last is None or last.store_timestamp >= flushed or self._flushed_record() < LONG_MAX
        return is_later and self.end > self.checkpoint.confirm_phy_offset

    def _is_queue_missing(self) -> bool:
        """Whether a topic has some of the queues that topics.json says, but not all."""
        found = {queue.queue for queue in self.queues}
        known = {topic for topic, _ in found}
        topics = [topic for topic in self.topics.values() if topic.topic_name in known]
        return any((topic.topic_name, i) not in found for topic in topics for i in range(topic.write_queue_nums))

    def _find_missing(self, others_begin: int = 0) -> set[QueueId]:
        """Find where dispatch is to begin. Returns the queues that lack more, which the log may still have."""
        if self.queue_begin >= self.end:
            return set()
        begin, end = self.queue_begin, self.end
        first, wrong = find_missing(self.log, self.config, begin, end, self.queues, self.batch_topics, others_begin)
        if self.queue_begin == self.log.min_phy_offset and others_begin == 0:
            wrong &= {queue.queue for queue in self.queues if queue.unit is not None}
        if not wrong:
            self.queue_begin = first
        return wrong

    # ---- index ---------------------------------------------------------------------------------------------

    def _index_paths(self) -> list[Path]:
        return index_paths(self.root / "index") if (self.root / "index").is_dir() else []

    def _empty_index_files(self) -> list[Path]:
        """Files that never got their length, which nobody opens."""
        return [path for path in self._index_paths() if path.stat().st_size == 0]

    def _look_at_index_file(self, path: Path) -> IndexItems:
        geometry = self.config.max_hash_slot_num, self.config.max_index_num
        items = look_at_index(path, *geometry, self.end, self._is_index_trusted)
        if not self._lacks_record(items.last_phy_offset):
            return items
        size = self.config.mapped_file_size_commit_log
        last = items.last_phy_offset
        phy_offsets = sound_phy_offsets(path, *geometry, last - last % size)
        while self._lacks_record(last):  # of as many log files as there may be: the items are read once for all
            end = last - last % size
            phy_offsets = phy_offsets[: phy_offsets.searchsorted(end)]
            last = int(phy_offsets[-1]) if len(phy_offsets) else -1
        return look_at_index(path, *geometry, end, self._is_index_trusted)

    def _lacks_record(self, phy_offset: int) -> bool:
        """Return whether an item leads to a place of the log where no record begins; -1 is no item."""
        return phy_offset >= self.log.min_phy_offset and self._end_of_record(phy_offset) == 0

    def _is_index_trusted(self, header: IndexHeader) -> bool:
        """Whether the checkpoint says that all of an index file was on the disk.

        A file that is not full, or of the same time as the one that was flushed, may have got items after that.
        """
        flushed = self.checkpoint
        is_full = header.index_count >= self.config.max_index_num
        is_dispatched = header.end_phy_offset <= flushed.logics_physical_offset or not flushed.logics_physical_offset
        is_older = is_full and header.end_timestamp < flushed.index_msg_timestamp
        return self.last_exit_ok or (is_older and is_dispatched)

    def _look_at_index_end(self, last: int) -> bool:
        """After a clean stop: find what the index lacks by its last file that has items. False: look at all of it."""
        if not read_saved(saved_path(self.root)).get("message_index_enable", True):
            return False  # all that was put then has no items
        paths = self._index_paths()
        files = [self._look_at_index_file(path) for path in paths[-1:]]
        if files and not files[0].total:  # an empty one may follow a full one
            files = [*map(self._look_at_index_file, paths[-2:-1]), *files]
        if not files or any(items.sound < items.total or not items.slots_agree for items in files):
            return False
        newest = files[0]
        if (not newest.total and len(paths) > 1) or not self._are_of_record(newest) or not self._has_all([newest]):
            return False
        self.index_begin = self._first_not_indexed(self._end_of_record(newest.last_phy_offset), last)
        self._pass_what_has_no_items(files)
        return True

    def _look_at_index(self, whole_log: bool) -> None:
        """Keep each file up to its first bad item, and after a crash not what was put last: it may be incomplete."""
        if not self.config.message_index_enable:
            self.index_cuts = [IndexCut(path, 0, 0, 0) for path in self._empty_index_files()]
            return
        files = [self._look_at_index_file(path) for path in self._index_paths()]
        bad = self._first_bad(files, whole_log)
        kept = [items.sound if i <= bad else 0 for i, items in enumerate(files)]
        newest = max((items.last_phy_offset for items, count in zip(files, kept, strict=True) if count), default=-1)
        begin = self._end_of_record(newest)
        is_last = [items.last_phy_offset == newest for items in files]
        lasts = [*compress(files, is_last)]
        are_whole = all(map(self._are_of_record, lasts)) and self._has_all(lasts)
        if bad < len(files) or not self.last_exit_ok or not are_whole:
            begin = newest
            kept = [min(kept[i], items.before_last) if is_last[i] else kept[i] for i, items in enumerate(files)]
        self.index_begin = max(begin, self.log.min_phy_offset)
        items_at = HEADER_SIZE + SLOT_SIZE * self.config.max_hash_slot_num
        first_cut = next((i for i, items in enumerate(files) if i == bad or kept[i] < items.total), len(files))
        for i, (items, count) in enumerate(zip(files, kept, strict=True)):
            # An empty file behind one that is cut begins where that one ended, and would take nothing before it.
            if i >= first_cut or not items.slots_agree:
                size = (items.total - count) * INDEX_ITEM.itemsize
                self.index_cuts.append(IndexCut(items.path, count, items_at + (count + 1) * INDEX_ITEM.itemsize, size))
        self._pass_what_has_no_items(files)

    def _first_bad(self, files: list[IndexItems], whole_log: bool) -> int:
        """Find the first file that is bad, or behind which files are missing: -1 for before all; else their number."""
        most = self.config.max_index_num - 1
        for i, items in enumerate(files):
            if items.sound < items.total or (self.last_exit_ok and not items.slots_agree):
                return i
            # A file that others follow is full.
            if i + 1 < len(files) and items.total < most and (whole_log or not self.last_exit_ok):
                return i
        end = self.log.min_phy_offset
        for i, items in enumerate(files if whole_log else ()):
            begin = items.first_phy_offset
            if begin > end and first_item(self.log, self._without_tags, end, begin) < begin:
                return i - 1
            end = max(end, self._end_of_record(items.last_phy_offset))
        return len(files)

    def _first_not_indexed(self, begin: int, last: int) -> int:
        """Find the first record that has an item, near the index's end: a broker may have had its index turned off.

        Behind that, and before ``last``, nothing is looked for: of a store without keys it would be all of it.
        """
        begin = max(begin, self.log.min_phy_offset)  # the index's last record may have expired
        near = min(begin + NEAR, last)
        with suppress(CorruptFileError):  # of records far from the ends nothing is asked here
            if begin < near and (first := first_item(self.log, self._without_tags, begin, near)) < near:
                return first
        return max(begin, last)

    def _are_of_record(self, items: IndexItems) -> bool:
        """Whether the last items are those of their record, if the log still has it."""
        end = self._end_of_record(items.last_phy_offset)
        any_release = replace(self.config, compat=DEFAULT_COMPAT)
        return end == 0 or hashes_of(self.log, any_release, items.last_phy_offset, end).issuperset(items.last_hashes)

    def _has_all(self, files: list[IndexItems]) -> bool:
        """Whether the files that end with the index's last record have all its items; of full ones some may be lost."""
        if not files or files[-1].total < self.config.max_index_num - 1:
            return True
        end = self._end_of_record(files[-1].last_phy_offset)
        found = {value for items in files for value in items.last_hashes}
        return end == 0 or found.issuperset(hashes_of(self.log, self.config, files[-1].last_phy_offset, end))

    def _pass_what_has_no_items(self, files: list[IndexItems]) -> None:
        """Go on to the first record that has an item. Where a file is made next, any record has it made."""
        if files and files[-1].total < self.config.max_index_num - 1 and not self.index_cuts:
            self.index_begin = first_item(self.log, self.config, self.index_begin, self.end)

    def _end_of_record(self, phy_offset: int) -> int:
        record = self.log.find_message(phy_offset) if phy_offset >= 0 else None
        return 0 if record is None else phy_offset + record.size

    # ---- do ------------------------------------------------------------------------------------------------

    def _log_steps(self) -> Iterator[RecoveryAction]:
        yield from (action_on(tail, "save") for tail in self.tails)
        if self.write is not None:
            size = self.write.end - self.write.begin
            yield RecoveryAction(intent_path(self.root), self.write.what, self.write.begin, size)
        # From the end: killed in the middle, a write is undone in part, and the next recovery goes on with it.
        length = self.config.mapped_file_size_commit_log
        for file in reversed(self.log.queue.files):
            if file.file_from_offset > self.end or file.size == 0:
                yield RecoveryAction(file.path, "delete")
            elif file.size < length:
                yield RecoveryAction(file.path, "extend", file.size, length - file.size)
        for tail in tails(self.log, self.end) if self._is_undone else self.tails:
            if tail.file.file_from_offset <= self.end:
                yield action_on(tail, "zero")

    def _find_steps(self) -> Iterator[RecoveryAction]:
        yield from self._log_steps()
        if self.is_thorough:
            yield from (RecoveryAction(path, "delete") for path in self.empty_ext_files)
            for queue in self.queues:
                yield from self._queue_steps(queue)
        for cut in self.index_cuts:
            place = ("cut", cut.offset, cut.size) if cut.kept else ("delete",)
            yield RecoveryAction(cut.path, *place)
        begin = min(self.queue_begin, self.index_begin)
        if begin <= self.last_phy_offset:
            yield RecoveryAction(self.log.directories[0], "dispatch", begin, self.end - begin)

    def _queue_steps(self, queue: QueueEnd) -> Iterator[RecoveryAction]:
        for start, name, size in reversed(queue.files()):
            path = Path(name)
            if start >= queue.end:
                yield RecoveryAction(path, "delete")
            elif start + size > queue.end and (last := nonzero_end(path, queue.end - start, size)) > queue.end - start:
                yield RecoveryAction(path, "zero", queue.end - start, last - (queue.end - start))

    def apply(self) -> None:
        """Do it, and bring it to the disk before the checkpoint says so; ``abort`` stays. Raises: OSError."""
        if not self.steps and self.last_exit_ok:
            return
        self.apply_steps()
        self._cut_index()
        self._sync()
        self._dispatch()
        for queue in self.queues:
            if queue.unit is None:
                with suppress(OSError):  # it is not empty
                    queue.directory.rmdir()
        self.save_checkpoint()

    def apply_steps(self) -> None:
        """Do what was found to be done to files: first ``abort`` and the saved tails. Raises: OSError."""
        abort = self.root / "abort"
        if not abort.exists():
            abort.write_text(str(os.getpid()))
            sync_path(self.root)
        for tail in self.tails:
            save_tail(self.root, tail)
        if self._is_undone:  # it may have got farther than the log now does
            self.checkpoint.clear()
        for step in self.steps:
            if step.what == "zero":
                zero_range(step.path, step.offset, step.size)
            elif step.what == "extend":
                os.truncate(step.path, step.offset + step.size)
            elif step.what == "delete":
                step.path.unlink()
                sync_path(step.path.parent)
        self.log.refresh()

    def _cut_index(self) -> None:
        geometry = self.config.max_hash_slot_num, self.config.max_index_num
        for cut in self.index_cuts:
            if cut.kept:
                cut_index(cut, *geometry, self.config.compat, self.store_timestamp_of)

    def store_timestamp_of(self, phy_offset: int) -> int:
        record = self.log.find_message(phy_offset)
        return -1 if record is None else int(record.store_timestamp)

    def _sync(self) -> None:
        """After a crash: bring to the disk what was written before it, and counts from now on."""
        paths = [file.path for file in self.log.queue.files if file.end_offset > self.checked_from]
        if not self.last_exit_ok:
            for queue in self.queues:
                paths += [Path(path) for _, path, _ in queue.files()[-3:] + queue.ext_files()[-3:]]
            paths += self._index_paths()
        for path in paths:
            sync_path(path)

    def _dispatch(self) -> None:
        """First what only queues lack, then what the index lacks too: what is there is put again into no queue."""
        try:
            self._dispatch_both()
        except CorruptFileError as error:
            if Path(str(error.path)).parent not in self.log.directories:
                raise
            raise CorruptFileError(error.path, error.offset, error.field, f"{error.reason}: {DAMAGE_ADVICE}") from None

    def _dispatch_both(self) -> None:
        if self.queue_begin < min(self.index_begin, self.end):
            queues = Dispatcher(self.root, self.config, self.log, None, self.batch_topics)
            queues.dispatch(self.queue_begin, min(self.index_begin, self.end))
            queues.flush()
            queues.close()
        if self.index_begin <= self.last_phy_offset:
            index = open_index(self.root / "index", self.config, self.checkpoint)
            both = Dispatcher(self.root, self.config, self.log, index, self.batch_topics)
            both.dispatch(self.index_begin, self.end)
            both.flush()
            both.close()

    def save_checkpoint(self) -> None:
        """Say that all is on the disk: a broker's next start, clean or not, keeps it. Then no write is unfinished."""
        last = self.log.find_message(self.last_phy_offset) if self.last_phy_offset >= 0 else None
        if last is not None:
            compat, checkpoint = Compat.of(self.config.compat), self.checkpoint
            checkpoint.physic_msg_timestamp = checkpoint.logics_msg_timestamp = last.store_timestamp
            if compat.has_confirm_phy_offset:
                checkpoint.confirm_phy_offset = self.last_phy_offset
            if compat.has_logics_physical_offset:
                checkpoint.logics_physical_offset = self.last_phy_offset
        for path in self._index_paths()[:-1]:  # full, and on the disk: a broker deletes what the checkpoint knows not
            end_timestamp = read_header(path).end_timestamp
            self.checkpoint.index_msg_timestamp = max(self.checkpoint.index_msg_timestamp, end_timestamp)
        self.checkpoint.flush()
        sync_path(self.root)
        if self.write is not None:
            self.write.remove_intent()


def open_completion(root: Path, config: StoreConfig) -> Completion:
    """Open the log of a store, of which every size is set, to look at it."""
    paths = config.commit_log_paths(root)
    log = CommitLog.open(
        # Where the log is gone it is empty, and so is a store's root of files of a log.
        [path for path in paths if path.is_dir()] or [root], mapped_file_size=config.mapped_file_size_commit_log,
        force_verify_prop_crc=config.force_verify_prop_crc, message_delay_level=config.message_delay_level,
    )
    checkpoint = StoreCheckpoint.open(root / "checkpoint")
    return Completion(root, config, log, not (root / "abort").exists(), checkpoint)


def plan_completion(root: Path, config: StoreConfig, *, thorough: bool = True) -> Completion:
    """Find what there is to do to a store, and change nothing.

    Parameters: config: has every size. thorough: look at the whole log, and at everything also after a clean stop.
    Raises: CorruptFileError if sound records follow damaged bytes; StoreError.
    """
    plan = open_completion(root, config)
    plan.look(thorough=thorough)
    return plan


def complete_store(root: Path, config: StoreConfig) -> RecoveryReport:
    """Recover a store that is opened for writing, whose lock is held; ``abort`` stays if anything was done.

    What is missing is made, and its geometry noted. Raises: as ``plan_completion``; OSError.
    """
    plan = plan_completion(root, config, thorough=False)
    with plan.log:
        save_geometry(root, config)
        for path in config.commit_log_paths(root, writable=True):
            make_directory(path)
        plan.apply()
        return plan.report()


def action_on(tail: Tail, what: str) -> RecoveryAction:
    return RecoveryAction(tail.file.path, what, tail.begin - tail.file.file_from_offset, tail.end - tail.begin)
