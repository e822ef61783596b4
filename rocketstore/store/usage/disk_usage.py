"""DiskUsage: the disk space that each part of a store occupies, and the free space of the disk."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from rocketstore.disk.storage import is_remote, names_in
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.message_columns import Field
from rocketstore.made_by import made_by
from rocketstore.messages.rows import Rows
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX
from rocketstore.preview import Preview
from rocketstore.queue.queue_source import offset_range, read_units_between
from rocketstore.state.rocksdb import is_rocksdb
from rocketstore.store.overview.summary import collect_error
from rocketstore.store.readable_store import ReadableStore
from rocketstore.store.usage.measure_files import FileTotals, measure_files

LOG, QUEUES, INDEX, OTHER = "log", "queues", "index", "other"
UNITS_AT_ONCE = 1 << 16


class PartUsage(NamedTuple):
    """The space that a part of a store occupies: the log, the queues, the index, or another directory of the root.

    ``file_bytes``: the lengths of all files together. ``used_bytes``: the bytes of the files that have records, units
    or items; other parts use all their bytes. ``preallocated_bytes``: the other bytes, which were allocated in advance
    or are not used any more. ``disk_bytes``: the disk space that the files occupy. ``sparse_bytes``: the bytes of the
    files that are holes and occupy no disk space. Both are None for a remote store. ``share``: the part of the space of
    the whole store, from 0 to 1.

    ``messages``: for the log, the messages of its queues; for the queues, their units. ``items``: the items of the
    index. Both are None for other parts.

    Examples:
    >>> usage = rocketstore.open("demo").du()
    >>> {part.part: part.messages for part in usage if part.messages}
    {'log': 101, 'queues': 101}
    """

    part: str
    path: str
    files: int
    messages: int | None
    items: int | None
    used_bytes: int
    preallocated_bytes: int
    file_bytes: int
    sparse_bytes: int | None
    disk_bytes: int | None
    share: float


class DiskSpace(NamedTuple):
    """The space of a disk that has directories of a store, bytes. ``path``: the first of these directories.

    ``used_share`` is ``used_bytes / (used_bytes + free_bytes)``, from 0 to 1, rounded up to a hundredth, as a broker
    computes it. ``total_bytes`` may be larger than both together: a file system reserves space for root, which a broker
    cannot use.

    Examples:
    >>> [disk] = rocketstore.open("demo").du().disks
    >>> disk.free_bytes < disk.total_bytes
    True
    """

    path: str
    total_bytes: int
    used_bytes: int
    free_bytes: int
    used_share: float

    def without(self, freed: int) -> DiskSpace:
        """Return the space after some bytes are free again."""
        return space_with(self.path, self.total_bytes, max(self.used_bytes - freed, 0), self.free_bytes + freed)


PART_FIELDS = (
    Field("part", "u"), Field("path", "u"), Field("files", "l"), Field("messages", "l", nullable=True),
    Field("items", "l", nullable=True), Field("usedBytes", "l"), Field("preallocatedBytes", "l"),
    Field("fileBytes", "l"), Field("sparseBytes", "l", nullable=True), Field("diskBytes", "l", nullable=True),
    Field("share", "g"),
)  # fmt: skip
DISK_FIELDS = (
    Field("path", "u"),
    Field("totalBytes", "l"),
    Field("usedBytes", "l"),
    Field("freeBytes", "l"),
    Field("usedShare", "g"),
)


@made_by("store.du()")
class DiskUsage(Rows[PartUsage]):
    """The parts of a store, the largest first.

    Attributes: disks: with the space that they have left; none for a remote store. reasons: why numbers may be wrong.

    Examples:
    >>> usage = rocketstore.open("demo").du()
    >>> usage.total().files == sum(part.files for part in usage)
    True
    """

    def __init__(self, rows: Sequence[PartUsage], disks: Sequence[DiskSpace], reasons: Sequence[str]) -> None:
        super().__init__(rows, PART_FIELDS)
        self.disks = Rows(disks, DISK_FIELDS)
        self.reasons = list(reasons)

    def total(self) -> PartUsage:
        """Return the sums of all parts. ``messages`` are those of the log."""
        disk = [part.disk_bytes for part in self if part.disk_bytes is not None]
        sparse = [part.sparse_bytes for part in self if part.sparse_bytes is not None]
        messages = [part.messages for part in self if part.part == LOG and part.messages is not None]
        return PartUsage(
            part="total",
            path="",
            files=sum(part.files for part in self),
            messages=sum(messages) if messages else None,
            items=sum(part.items or 0 for part in self),
            used_bytes=sum(part.used_bytes for part in self),
            preallocated_bytes=sum(part.preallocated_bytes for part in self),
            file_bytes=sum(part.file_bytes for part in self),
            sparse_bytes=sum(sparse) if len(sparse) == len(self) else None,
            disk_bytes=sum(disk) if len(disk) == len(self) else None,
            share=1.0,
        )

    def _preview(self) -> Preview:
        return replace(super()._preview(), notes=self.reasons)


@dataclass(frozen=True)
class Contents:
    """What a part has: bytes that are used, messages, items. None: unknown, or nothing that is counted."""

    used_bytes: int | None = None
    messages: int | None = None
    items: int | None = None


def measure_disk(store: ReadableStore) -> DiskUsage:
    """Measure the parts of a store. ``MessageStore.du`` has the documentation."""
    reasons: list[str] = []
    contents = find_contents(store, reasons)
    return measure_parts(store, contents, reasons)


def measure_parts(
    store: ReadableStore, contents: Mapping[StorePath, Contents], reasons: Sequence[str] = ()
) -> DiskUsage:
    """Measure the files of each part of a store.

    Parameters: contents: what each part has, by its path; a part without contents uses all its bytes. reasons: why the
    contents may be wrong.
    """
    reasons = list(reasons)
    directories = list(find_directories(store))
    measured: list[tuple[str, StorePath, FileTotals]] = []
    for part, path in directories:
        with collect_error(reasons):
            measured.append((part, path, measure_files(path)))
    whole = sum(space_of(totals) for _, _, totals in measured)
    rows = [
        _part_of(part, path, totals, contents.get(path, Contents()), whole)
        for part, path, totals in measured
        if totals.files
    ]
    disks = (
        []
        if is_remote(store.path)
        else find_disks([Path(str(path)) for path in (store.path, *(path for _, path, _ in measured))])
    )
    return DiskUsage(sorted(rows, key=lambda row: (-(row.disk_bytes or 0), -row.file_bytes, row.path)), disks, reasons)


def space_of(totals: FileTotals) -> int:
    """Return the disk space that files occupy, bytes; their lengths if the space is unknown."""
    return totals.file_bytes if totals.disk_bytes is None else totals.disk_bytes


def _part_of(part: str, path: StorePath, totals: FileTotals, contents: Contents, whole: int) -> PartUsage:
    used = totals.file_bytes if contents.used_bytes is None else min(contents.used_bytes, totals.file_bytes)
    sparse = None if totals.disk_bytes is None else max(totals.file_bytes - totals.disk_bytes, 0)
    return PartUsage(
        part=part,
        path=str(path),
        files=totals.files,
        messages=contents.messages,
        items=contents.items,
        used_bytes=used,
        preallocated_bytes=totals.file_bytes - used,
        file_bytes=totals.file_bytes,
        sparse_bytes=sparse,
        disk_bytes=totals.disk_bytes,
        share=space_of(totals) / whole if whole else 0.0,
    )


# ---- parts -------------------------------------------------------------------------------------------------


def find_directories(store: ReadableStore) -> Iterator[tuple[str, StorePath]]:
    """Yield the name and the path of each part: the entries of the root, and directories of the log elsewhere."""
    places = store.places
    names = {
        places.default_log: LOG,
        places.plain_queues: QUEUES,
        places.batch_queues: QUEUES,
        places.ext_files: QUEUES,
        places.queue_databases[0]: QUEUES,
        places.index: INDEX,
        places.rocksdb: "rocksdb",
        places.pop_database: "rocksdb",
        places.compaction: "compaction",
        places.timer_wheel: "timers",
        places.timer_log: "timers",
        places.tiered_index: "tier",
        places.config: "config",
        places.saved_cuts: "saved",
    }
    log = store.find_commit_log()
    logs = set(places.log_directories if log is None else log.directories)
    of_dledger = {path.parent for path in logs} if log is not None and log.reader.framing else set()

    def split(path: StorePath) -> Iterator[tuple[str, StorePath]]:
        if path == store.path or (path not in logs and any(is_below(log, path) for log in logs)):
            for name in sorted(names_in(path)):
                yield from split(path / name)
        else:
            other = "dledger" if path.parent in of_dledger else names.get(path, OTHER)
            yield LOG if path in logs else other, path

    yield from split(store.path)
    yield from ((LOG, path) for path in sorted(logs, key=str) if not is_below(path, store.path) and path.is_dir())


def is_below(path: StorePath, directory: StorePath) -> bool:
    """Return whether a path is somewhere below a directory."""
    return str(path).startswith(f"{directory}/")


def find_contents(store: ReadableStore, reasons: list[str]) -> dict[StorePath, Contents]:
    """Return what log, queues and index have, by path. Parts that cannot be read are among the reasons."""
    contents: dict[StorePath, Contents] = {}
    messages = None
    with collect_error(reasons):
        units = count_units(store, reasons)
        contents |= {path: Contents(used, count) for path, (used, count) in units.of_files.items()}
        messages = units.messages
    with collect_error(reasons):
        used = find_used_log(store)
        contents |= {path: Contents(size, messages if len(used) == 1 else None) for path, size in used.items()}
    with collect_error(reasons):
        if (service := store.index) is not None:
            files = [(file.geometry.item_offset(file.header.index_count), len(file)) for file in service.files]
            contents[service.directory] = Contents(sum(end for end, _ in files), None, sum(n for _, n in files))
    return contents


def find_used_log(store: ReadableStore) -> dict[StorePath, int]:
    """Return the bytes of records and blanks in each directory of the log."""
    log = store.commit_log
    end = log.look(again=True).records_end
    used: dict[StorePath, int] = defaultdict(int)
    for file in log.file_run.files:
        used[file.path.parent] += max(min(file.end_offset, end) - file.file_from_offset, 0)
    return dict(used)


class UnitTotals(NamedTuple):
    """The messages of all queues except light ones; for each directory of queues in files, bytes and messages."""

    messages: int
    of_files: dict[StorePath, tuple[int, int]]


def count_units(store: ReadableStore, reasons: list[str]) -> UnitTotals:
    """Count the units of all queues. Queues that cannot be read are among the reasons."""
    places = store.places
    found: dict[StorePath, tuple[int, int]] = defaultdict(lambda: (0, 0))
    messages = 0
    for name in store.queues():
        with collect_error(reasons):
            queue = store.log_queue(*name)
            begin, end = offset_range(queue)
            count = units = len(queue)
            if queue.has_batches:
                units = sum(map(len, read_units_between(queue, begin, end, UNITS_AT_ONCE)))
            directory = places.batch_queues if queue.has_batches else places.plain_queues
            if not is_light(name.topic):
                messages += count
            if not is_rocksdb(queue.directory):
                size, known = found[directory]
                found[directory] = size + units * queue.unit_size, known + count
    return UnitTotals(messages, dict(found))


def is_light(topic: str) -> bool:
    """Return whether the queues of a topic are light queues: their messages are those of other topics."""
    return topic.startswith(LIGHT_QUEUE_PREFIX)


def find_disks(paths: Sequence[Path]) -> list[DiskSpace]:
    """Return the space of each disk that has one of these paths."""
    first: dict[int, Path] = {}
    for path in paths:
        if path.exists():
            first.setdefault(path.stat().st_dev, path)
    return [disk_space(path) for path in first.values()]


def disk_space(path: Path) -> DiskSpace:
    """Return the space of the disk of a path. Source: UtilAll.getDiskPartitionSpaceUsedPercent."""
    usage = shutil.disk_usage(path)
    return space_with(str(path), usage.total, usage.used, usage.free)


def space_with(path: str, total: int, used: int, free: int) -> DiskSpace:
    share = -(-used * 100 // (used + free)) / 100 if used + free else 0.0
    return DiskSpace(path, total, used, free, share)
