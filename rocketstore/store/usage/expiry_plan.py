"""ExpiryPlan: which files a broker would delete, and when; which messages queues and consumer groups lose by that."""

from __future__ import annotations

import bisect
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import NamedTuple, Self

from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.storage import is_remote
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.made_by import made_by
from rocketstore.messages.rows import Rows
from rocketstore.preview import Preview
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.queue_source import StoredQueue, offset_range
from rocketstore.store.expiry import older_files
from rocketstore.store.overview.lag import find_lags
from rocketstore.store.overview.summary import collect_error
from rocketstore.store.readable_store import ReadableStore
from rocketstore.store.usage.clean_rules import CleanRules
from rocketstore.store.usage.disk_usage import INDEX, LOG, QUEUES, DiskSpace, disk_space, is_light
from rocketstore.store.usage.measure_files import FileTotals, measure_files
from rocketstore.store.usage.zone_bins import HOUR
from rocketstore.text_values import datetime_or_none, format_count, utc


class FileToDelete(NamedTuple):
    """A file that a broker would delete. ``part``: "log", "queues" or "index".

    ``modified_timestamp``: when it was changed last; ``delete_timestamp``: when a broker would delete it, or its file
    of the log; None if it never would, because of its settings. Both are epoch ms. ``is_forced``: whether it is deleted
    before its time, because the disk is full.

    Examples:
    >>> list(rocketstore.open("demo").expiry())
    []
    """

    part: str
    path: str
    file_bytes: int
    disk_bytes: int | None
    modified_timestamp: int
    delete_timestamp: int | None
    is_forced: bool

    @property
    def delete_time(self) -> datetime | None:
        """``delete_timestamp`` as a datetime in UTC; None if it is unknown."""
        return None if self.delete_timestamp is None else datetime_or_none(self.delete_timestamp)


class QueueLoss(NamedTuple):
    """Messages that a queue loses: those from ``min_offset`` to before ``new_min_offset``.

    Examples:
    >>> list(rocketstore.open("demo").expiry().queues)
    []
    """

    topic: str
    queue_id: int
    min_offset: int
    new_min_offset: int
    messages: int
    log_bytes: int


class ConsumerGroupLoss(NamedTuple):
    """Messages of a queue that a consumer group has not consumed, and that it would never get.

    A message that two groups have not consumed is in a loss of each of them.

    Examples:
    >>> list(rocketstore.open("demo").expiry().groups)
    []
    """

    group: str
    topic: str
    queue_id: int
    consumer_offset: int
    new_min_offset: int
    messages: int


FILE_FIELDS = (
    Field("part", "u"), Field("path", "u"), Field("fileBytes", "l"), Field("diskBytes", "l", nullable=True),
    Field("modifiedTimestamp", "tsm:UTC"), Field("deleteTimestamp", "tsm:UTC", nullable=True), Field("isForced", "b"),
)  # fmt: skip
QUEUE_FIELDS = (
    MESSAGE_FIELDS["topic"], MESSAGE_FIELDS["queue_id"], Field("minOffset", "l"), Field("newMinOffset", "l"),
    Field("messages", "l"), Field("logBytes", "l"),
)  # fmt: skip
GROUP_FIELDS = (
    Field("group", "u"), MESSAGE_FIELDS["topic"], MESSAGE_FIELDS["queue_id"], Field("consumerOffset", "l"),
    Field("newMinOffset", "l"), Field("messages", "l"),
)  # fmt: skip


@made_by("store.expiry()")
class ExpiryPlan(Rows[FileToDelete]):
    """The files that a broker would delete: of the log, the queues and the index, the oldest first.

    Attributes: queues, groups: the lost messages, as Rows of QueueLoss and ConsumerGroupLoss. min_phy_offset: where the
    log begins after the deletion, bytes. next_timestamp: when the oldest file that stays may be deleted, epoch ms; None
    if no file may be. rules: the settings of the broker. disks: of the log and the queues. notes: assumptions. reasons:
    why the plan may be wrong.

    Examples:
    >>> plan = rocketstore.open("demo").expiry(hours=1)
    >>> len(plan), plan.min_phy_offset, plan.disk_bytes
    (0, 0, 0)
    """

    def __init__(
        self,
        rows: Sequence[FileToDelete],
        queues: Sequence[QueueLoss],
        groups: Sequence[ConsumerGroupLoss],
        *,
        min_phy_offset: int,
        next_timestamp: int | None,
        rules: CleanRules,
        disks: Sequence[DiskSpace],
        notes: Sequence[str],
        reasons: Sequence[str],
    ) -> None:
        super().__init__(rows, FILE_FIELDS)
        self.queues = Rows(queues, QUEUE_FIELDS)
        self.groups = Rows(groups, GROUP_FIELDS)
        self.min_phy_offset = min_phy_offset
        self.next_timestamp = next_timestamp
        self.rules = rules
        self.disks = list(disks)
        self.notes = list(notes)
        self.reasons = list(reasons)

    @property
    def file_bytes(self) -> int:
        """The lengths of all these files together."""
        return sum(file.file_bytes for file in self)

    @property
    def disk_bytes(self) -> int:
        """The space that is free then, bytes. Of a remote store the lengths of the files."""
        return sum(file.file_bytes if file.disk_bytes is None else file.disk_bytes for file in self)

    def _preview(self) -> Preview:
        return replace(super()._preview(), notes=[*self.notes, *self.reasons])


# ---- planning ----------------------------------------------------------------------------------------------


def plan_expiry(
    store: ReadableStore, hours: float | None, before: int | None, zone: tzinfo | None, now: int | None = None
) -> ExpiryPlan:
    """Plan what a broker would delete. ``MessageStore.expiry`` has the documentation.

    Parameters: before: epoch ms. now: epoch ms; None for the present time.
    """
    now = time.time_ns() // 1_000_000 if now is None else now
    rules = CleanRules.of_config(store.config, max(now - before, 0) / HOUR if before is not None else hours)
    reasons: list[str] = []
    log = store.commit_log
    log.refresh()
    oldest = older_files(log.file_run.files, log.look(again=True).records_end)
    modified_times = [modified_ms(file.path) for file in oldest]
    disks = Disks.of(store)
    deletions = choose_files(rules, [*map(_log_file, oldest, modified_times)], disks, now)
    count = len(deletions)
    files = log.file_run.files
    min_phy_offset = files[count].file_from_offset if files else 0
    rows = [_with_time(rules, row, zone, now) for row in deletions]
    last_time = rows[-1].delete_timestamp if rows else None
    next_timestamp = None
    if count < len(oldest):
        next_file = _log_file(oldest[count], modified_times[count])
        next_timestamp = _with_time(rules, next_file, zone, now).delete_timestamp
    queues: list[QueueLoss] = []
    groups: list[ConsumerGroupLoss] = []
    if rows:
        rows += _files_of_queues(store, min_phy_offset, last_time, reasons)
        rows += _files_of_index(store, min_phy_offset, last_time, reasons)
        queues = _find_queue_losses(store, min_phy_offset, reasons)
        groups = _find_group_losses(store, queues, reasons)
    return ExpiryPlan(
        rows,
        queues,
        groups,
        min_phy_offset=min_phy_offset,
        next_timestamp=next_timestamp,
        rules=rules,
        disks=disks.spaces(),
        notes=_describe(store, rules, disks, zone),
        reasons=[*([] if rules.problem is None else [rules.problem]), *reasons],
    )


def modified_ms(path: StorePath) -> int:
    """Return when a file was changed last, epoch ms, as Java rounds it."""
    return int(path.stat().st_mtime * 1000)


def _log_file(file: RunFile, modified_time: int) -> FileToDelete:
    totals = measure_files(file.path)
    return FileToDelete(LOG, str(file.path), totals.file_bytes, totals.disk_bytes, modified_time, None, False)


def _with_time(rules: CleanRules, row: FileToDelete, zone: tzinfo | None, now: int) -> FileToDelete:
    """Return a row with the time of its deletion. A row that has one keeps it."""
    if row.delete_timestamp is not None:
        return row
    old_enough = row.modified_timestamp + round(rules.file_reserved_hours * HOUR)
    return row._replace(delete_timestamp=rules.next_deletion(max(now, old_enough), zone))


class Disk(NamedTuple):
    """A disk: its device number, and its space."""

    device: int
    space: DiskSpace

    @classmethod
    def of(cls, path: Path) -> Self:
        return cls(path.stat().st_dev, disk_space(path))


@dataclass(frozen=True)
class Disks:
    """The disks of log and queues, as a broker looks at them.

    Attributes: log: of each directory of the log. queues: of the directory of the queues; None if it is missing, which
    a broker takes for a full disk. is_known: False for a remote store.
    """

    log: Sequence[Disk]
    queues: Disk | None
    is_known: bool = True

    @classmethod
    def of(cls, store: ReadableStore) -> Disks:
        if is_remote(store.path):
            return cls([], None, is_known=False)
        directories = [Path(str(path)) for path in store.commit_log.directories]
        queues = Path(str(store.places.plain_queues))
        found = [Disk.of(path) for path in directories if path.is_dir()]
        return cls(found, Disk.of(queues) if queues.is_dir() else None)

    def spaces(self) -> list[DiskSpace]:
        """Return the space of each disk once."""
        found = [*self.log, *([] if self.queues is None else [self.queues])]
        return list({disk.device: disk.space for disk in reversed(found)}.values())

    def shares(self, freed: Mapping[int, int]) -> tuple[float, float]:
        """Return the used shares after files were deleted: of the log that of the emptiest disk, and of the queues.

        Parameters: freed: bytes, by device number. Returns: -1 for a missing directory.
        """

        def share(disk: Disk) -> float:
            return disk.space.without(freed.get(disk.device, 0)).used_share

        log = min((share(disk) for disk in self.log), default=-1.0)
        return log, -1.0 if self.queues is None else share(self.queues)


def choose_files(rules: CleanRules, files: Sequence[FileToDelete], disks: Disks, now: int) -> list[FileToDelete]:
    """Return the files of the log that a broker deletes now or at its next hour, with the time of those it deletes now.

    Parameters: files: of the log, oldest first, without the last file. now: epoch ms.

    Source: MappedFileQueue.deleteExpiredFileByTime.
    """
    latest = now - round(rules.file_reserved_hours * HOUR)
    found: list[FileToDelete] = []
    freed: Counter[int] = Counter()
    while len(found) < len(files):
        shares = disks.shares(freed) if disks.is_known and rules.problem is None else (0.0, 0.0)
        is_full = max(shares) > min(rules.disk_clean_forcibly_ratio, rules.disk_warning_level_ratio)
        is_forced = is_full and rules.clean_file_forcibly_enable
        at_once = is_full or any(share < 0 or share > rules.disk_max_used_ratio for share in shares)
        chosen = []
        for file in files[len(found) : len(found) + rules.delete_file_batch_max]:
            is_old = file.modified_timestamp <= latest
            if not is_old and not is_forced:
                break
            chosen.append(file._replace(delete_timestamp=now if at_once else None, is_forced=not is_old))
        if not chosen:
            break
        found += chosen
        for file in chosen if disks.is_known else ():
            freed[Path(file.path).stat().st_dev] += file.disk_bytes or 0
    return found


def _describe(store: ReadableStore, rules: CleanRules, disks: Disks, zone: tzinfo | None) -> list[str]:
    notes = []
    if not store.config.is_of_broker_file:
        notes.append("the broker's settings are assumed to be RocketMQ's defaults: its properties file has them")
    if zone is None:
        notes.append("the broker is assumed to have the time zone of this machine")
    if not disks.is_known:
        notes.append("the disk of a remote store is unknown: it is assumed to have enough space")
    elif disks.queues is None:
        directory = store.places.plain_queues
        notes.append(f"{directory} is missing: a broker takes that for a full disk, and deletes old files at any hour")
    elif rules.problem is None:
        share = max(disks.shares({}))
        for bound, text in (
            (rules.disk_warning_level_ratio, "the broker refuses new messages, and deletes files whatever their age"),
            (rules.disk_clean_forcibly_ratio, "the broker deletes files whatever their age"),
            (rules.disk_max_used_ratio, "the broker deletes old files at once, at any hour"),
        ):
            if share > bound:
                notes.append(f"a disk is used by {share:.0%}, more than {bound:.0%}: {text}")
                break
    return notes


# ---- queues, index and groups ------------------------------------------------------------------------------


def _files_of_queues(
    store: ReadableStore, min_phy_offset: int, when: int | None, reasons: list[str]
) -> list[FileToDelete]:
    """Return the files of queues whose units all lead to deleted records, never the last file of a queue."""
    rows: list[FileToDelete] = []
    with collect_error(reasons):
        for name in store.queues():
            with collect_error(reasons):
                queue = store.log_queue(*name)
                if isinstance(queue, ConsumeQueue):
                    rows += [_other_file(QUEUES, file.path, when) for file in queue.find_expired_files(min_phy_offset)]
    return rows


def _files_of_index(
    store: ReadableStore, min_phy_offset: int, when: int | None, reasons: list[str]
) -> list[FileToDelete]:
    """Return the index files whose items all lead to deleted records, never the newest file."""
    with collect_error(reasons):
        service = store.index
        files = [] if service is None else service.find_expired_files(min_phy_offset)
        return [_other_file(INDEX, path, when) for path in files]
    return []


def _other_file(part: str, path: StorePath, when: int | None) -> FileToDelete:
    totals: FileTotals = measure_files(path)
    return FileToDelete(part, str(path), totals.file_bytes, totals.disk_bytes, modified_ms(path), when, False)


def _find_queue_losses(store: ReadableStore, min_phy_offset: int, reasons: list[str]) -> list[QueueLoss]:
    losses: list[QueueLoss] = []
    with collect_error(reasons):
        for name in store.queues():
            with collect_error(reasons):
                queue = store.log_queue(*name)
                begin, end = offset_range(queue)
                first = find_first_at(queue, min_phy_offset, begin, end)
                if first > begin:
                    size = 0 if is_light(name.topic) else queue.count_bytes(begin, first)
                    losses.append(QueueLoss(*name, begin, first, first - begin, size))
    return losses


def find_first_at(queue: StoredQueue, phy_offset: int, begin: int, end: int) -> int:
    """Return the first queue offset from ``begin`` on whose record is at a physical offset or behind it, else ``end``.

    The physical offsets of a queue rise. A queue in RocksDB may lack units.
    """

    def leads_behind(queue_offset: int) -> bool:
        units = queue[queue_offset : queue_offset + 1]
        return len(units) > 0 and int(units.phy_offsets[-1]) >= phy_offset

    return begin + bisect.bisect_left(range(begin, end), True, key=leads_behind)


def _find_group_losses(
    store: ReadableStore, queues: Sequence[QueueLoss], reasons: list[str]
) -> list[ConsumerGroupLoss]:
    lost = {(loss.topic, loss.queue_id): loss for loss in queues}
    losses: list[ConsumerGroupLoss] = []
    with collect_error(reasons):
        for lag in find_lags(store, None):
            loss = lost.get((lag.topic, lag.queue_id))
            if loss is not None and (count := loss.new_min_offset - max(lag.consumer_offset, loss.min_offset)) > 0:
                place = lag.topic, lag.queue_id, lag.consumer_offset
                losses.append(ConsumerGroupLoss(lag.group, *place, loss.new_min_offset, count))
    return losses


def describe_plan(plan: ExpiryPlan) -> str:
    """Return in one line how many files would be deleted, what that frees, and when the next file may be deleted."""
    later = "" if plan.next_timestamp is None else f"; the next file may be deleted at {utc(plan.next_timestamp)}"
    messages = sum(loss.messages for loss in plan.queues)
    if not plan:
        return f"a broker would delete no file{later}"
    return (
        f"would be deleted: {format_count(len(plan), 'file')} with {plan.file_bytes:,} bytes "
        f"({plan.disk_bytes:,} on disk), and {format_count(messages, 'message')}"
        f"{_describe_group_losses(plan.groups)}{later}"
    )


def _describe_group_losses(losses: Rows[ConsumerGroupLoss]) -> str:
    """Return the end of a sentence on the messages that groups lose; an empty text without a loss."""
    if not losses:
        return ""
    groups = format_count(len({loss.group for loss in losses}), "consumer group loses", "consumer groups lose")
    messages = format_count(sum(loss.messages for loss in losses), "unconsumed message")
    return f"; {groups} {messages}, counted per group"
