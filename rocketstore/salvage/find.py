"""Find the intact records of damaged files, choose one copy of each, and list the lost ranges between them."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush, nlargest
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.disk.closable import Closable
from rocketstore.disk.holes import data_ranges, nonzero_end
from rocketstore.disk.mapped_file import MappedFile, is_offset_name
from rocketstore.disk.positioned_read import read_path_at
from rocketstore.disk.ranges import find_overlap, merge_ranges
from rocketstore.errors import DiskReadError, StoreError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import BLANK, OK, RecordScanner, bad_reason
from rocketstore.kernels.layout import MIN_RECORD
from rocketstore.kernels.salvage import BAD_INSIDE, BAD_NAME, UNVERIFIED, PieceFinder
from rocketstore.kernels.salvage import PIECE as PIECES
from rocketstore.log.dledger import FRAMING

PIECE = 8 << 20  # bytes; the bytes that were scanned are still in the page cache when they are copied
MAX_SIZES = 256  # candidates for the file size that are compared with each base; a hostile file has thousands
MAX_KEPT_FILES = 64  # Linux lets a process have 65,530 mappings by default
BEGIN = itemgetter(0)


class MappedFiles(Closable):
    """Maps the files of the log. The mappings of the first MAX_KEPT_FILES files are kept until ``close``.

    A salvage reads each file several times. Each new mapping of 1 GiB would cost 0.1 seconds of page faults. Several
    threads may open different files at the same time.
    """

    def __init__(self) -> None:
        self._kept: dict[Path, MappedFile] = {}

    @contextlib.contextmanager
    def open(self, path: Path) -> Iterator[MappedFile]:
        """Yield the mapping of a file for a ``with`` block. It has zeros for bytes that the disk cannot read."""
        if kept := self._kept.get(path):
            yield kept
            return
        mapped = MappedFile(path, tolerant=True)
        if len(self._kept) < MAX_KEPT_FILES:
            self._kept[path] = mapped
            yield mapped
            return
        with contextlib.closing(mapped):
            yield mapped

    def close(self) -> None:
        while self._kept:
            self._kept.popitem()[1].close()


class LostRange(NamedTuple):
    """Bytes that were not copied: ``size`` bytes at ``offset`` of the file, and at ``phy_offset`` of the log.

    Examples:
    >>> import shutil
    >>> copy = shutil.copytree("demo", "damaged")
    >>> with open("damaged/commitlog/00000000000000000000", "r+b") as file:
    ...     _ = file.write(bytes(8))
    >>> lost = rocketstore.salvage("damaged", "rest").lost[0]
    >>> lost.offset, lost.size
    (0, 127)
    """

    path: Path
    offset: int
    size: int
    phy_offset: int
    reason: str


class UnverifiedRange(NamedTuple):
    """Records that were copied, though their properties may have been overwritten: they have no CRC property.

    Other records of the file have one. There are ``records`` of them, in ``size`` bytes at ``offset`` of the file.

    Examples:
    >>> rocketstore.salvage("demo", "checked").unverified
    ()
    """

    path: Path
    offset: int
    size: int
    records: int


@dataclass
class DamagedFile:
    """One file, and the records, blanks and damaged ranges in it.

    Attributes: mapped_files: maps the file. named: the physical offset in the file's name, if it has one. base: the
    physical offset of its first byte: ``named`` if any record agrees, else the base of most of its records. unreadable:
    the ranges that the disk cannot read, (begin, end), bytes, in order. unverified: the records without a CRC property,
    if others of the file have one, as pieces.
    """

    path: Path
    mapped_files: MappedFiles
    named: int | None
    length: int
    pieces: np.ndarray
    base: int | None = None
    unreadable: tuple[tuple[int, int], ...] = ()
    unverified: np.ndarray = field(default_factory=lambda: np.empty(0, PIECES))

    @classmethod
    def scan(
        cls, path: Path, mapped_files: MappedFiles, config: StoreConfig, progress: Callable[[int], object]
    ) -> DamagedFile:
        """Find the records of a file. Parameters: progress: is called with the bytes that were scanned."""
        named = int(path.name) if is_offset_name(path.name) else None
        file = cls(path, mapped_files, named, path.stat().st_size, np.empty(0))
        while file._find_pieces(config, progress):  # again without the bytes that proved to be unreadable
            continue
        bases: Counter[int] = Counter()
        for run in file.runs():
            bases[run.base] += run.end - run.begin
        file.base = named if named in bases else max(bases, key=bases.__getitem__, default=named)
        return file

    def _find_pieces(self, config: StoreConfig, progress: Callable[[int], object]) -> bool:
        """Scan the file. Return whether bytes proved to be unreadable that were not known before."""
        finder = PieceFinder(
            self.named,
            force_verify_prop_crc=config.force_verify_prop_crc,
            may_end_in_zeros=not Compat.of(config.compat).trailing_separator,
            message_delay_level=config.message_delay_level,
            appends_prop_crc=config.enabled_append_prop_crc,
        )
        end, pos = _data_end(self.path, self.length), 0
        with self.mapped_files.open(self.path) as mapped:
            mapped.advise("sequential")
            for begin, stop, readable in self._readable(end):
                # The buffer ends before unreadable bytes, so that no record contains them.
                buffer = Buffer(mapped.view()[:readable], self.path)
                while pos < stop:
                    pos = finder.scan(buffer, max(pos, begin), min(stop, max(pos, begin) + PIECE))
                    progress(pos)
                buffer.close()
            lost = tuple(merge_ranges([*self.unreadable, *mapped.buffer.lost_ranges()]))
        self.pieces = finder.take(end)
        self.unverified = self.of(UNVERIFIED)
        self.pieces["status"][self.pieces["status"] == UNVERIFIED] = OK
        self.pieces = join_records(self.pieces)
        self.unreadable, before = lost, self.unreadable
        return lost != before

    def _readable(self, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the ranges up to ``end`` that are neither holes nor unreadable: (begin, end, limit).

        ``limit`` is where the next unreadable bytes begin, or where the file ends.
        """
        first = 0
        for lost, behind in (*self.unreadable, (self.length, self.length)):
            if first < min(lost, end):
                for begin, stop in data_ranges(self.path, first, min(lost, end)):
                    yield begin, stop, lost
            first = behind

    def unverified_ranges(self) -> Iterator[UnverifiedRange]:
        """Yield the ranges of unverified records."""
        rows = zip(*(self.unverified[name].tolist() for name in ("pos", "size", "count")), strict=True)
        for pos, size, count in rows:
            yield UnverifiedRange(self.path, pos, size, count)

    def reason(self, pos: int, size: int, status: int) -> str:
        """Return why bytes of the file are lost."""
        lost = find_overlap(self.unreadable, pos, pos + size)
        return _reason(status) if lost is None else "the disk cannot read bytes {} to {}".format(*lost)

    def runs(self) -> Iterator[RecordRun]:
        rows = zip(*(self.of(OK)[name].tolist() for name in ("pos", "size", "base")), strict=True)
        for pos, size, base in rows:
            yield RecordRun(base + pos, base + pos + size, base, self)

    def of(self, status: int) -> np.ndarray:
        found: np.ndarray = self.pieces[self.pieces["status"] == status]
        return found


class RecordRun(NamedTuple):
    """Records of a file that follow each other.

    Attributes: begin, end, base: physical offsets of the first record, behind the last one, and of the file.
    """

    begin: int
    end: int
    base: int
    file: DamagedFile

    @contextlib.contextmanager
    def open(self) -> Iterator[RunSource]:
        """Yield the open file for a ``with`` block. No record of the run has unreadable bytes.

        Raises: StoreError if the file is replaced meanwhile; DiskReadError, when the block ends, if the disk cannot
        read the run any more.
        """
        path = self.file.path
        with self.file.mapped_files.open(path) as mapped, path.open("rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_ino != mapped.identity:
                raise StoreError(f"{path}: was replaced while it was read")
            mapped.advise("sequential")
            try:
                yield RunSource(self, mapped.buffer, file.fileno())
            finally:
                for begin, _ in mapped.buffer.lost_ranges(self.begin - self.base, self.end - self.base):
                    raise DiskReadError(self.file.path, begin, errno.EIO)

    def count_records(self) -> int:
        return len(_places(self)[0])

    def is_like(self, other: RecordRun, begin: int, end: int) -> bool:
        """Return whether another run has the same bytes between two physical offsets."""
        parts = ((at, min(at + PIECE, end)) for at in range(begin, end, PIECE))
        return all(self.bytes(*part) == other.bytes(*part) for part in parts)

    def bytes(self, begin: int, end: int) -> bytes:
        return read_path_at(self.file.path, end - begin, begin - self.base)


class RunSource(NamedTuple):
    """The open file of a run.

    Attributes: run. buffer: the bytes of the file, with zeros for unreadable bytes. fd: a descriptor of the same file.
    """

    run: RecordRun
    buffer: Buffer
    fd: int


class Finds:
    """The records of all files, each once and in the order of the log, and the lost ranges.

    Attributes: chosen: the runs to copy. lost. duplicates: the number of records that were found again.
    """

    def __init__(self, files: list[DamagedFile], log_begin: int = 0) -> None:
        """Parameters: log_begin: a physical offset before which the log has no records; 0 if that is not known."""
        self.files = files
        self._log_begin = log_begin
        self.chosen: list[RecordRun] = []
        self.lost: list[LostRange] = []
        self.duplicates = 0

    def begin(self) -> int:
        """Return the physical offset where the log begins: that of the first file, or the known begin in this file."""
        return max(min(file.base for file in self.files if file.base is not None), self._log_begin)

    def sorted_lost(self) -> tuple[LostRange, ...]:
        return tuple(sorted(self.lost, key=lambda lost: lost.phy_offset))

    def choose(self) -> None:
        """Choose one copy of each record: first by file names, then by the bases of most records, then others."""
        runs = sorted((run for file in self.files for run in file.runs()), key=BEGIN)
        by_rank: list[list[RecordRun]] = [[], [], []]
        for run in runs:
            by_rank[0 if run.base == run.file.named else 1 if run.base == run.file.base else 2].append(run)
        for run in by_rank[0] + by_rank[1]:
            self._choose_run(run)
        span = max(file.length for file in self.files)
        low, high = self.chosen[0].begin - span, self.chosen[-1].end + span
        for run in by_rank[2]:
            if low <= run.begin and run.end <= high:
                self._choose_run(run)
            else:
                self._lose(run, run.begin, run.end, "a record of another log")

    def _lose(self, run: RecordRun, begin: int, end: int, reason: str) -> None:
        self.lost.append(LostRange(run.file.path, begin - run.base, end - begin, begin, reason))

    def _choose_run(self, run: RecordRun) -> None:
        """Choose the records of a run whose physical offsets are free."""
        first = max(bisect_right(self.chosen, run.begin, key=BEGIN) - 1, 0)
        last = bisect_left(self.chosen, run.end, key=BEGIN)
        others = [other for other in self.chosen[first:last] if other.end > run.begin]
        if not others:
            self.chosen.insert(last, run)
            return
        places, ends = _places(run)
        is_free, is_same = np.ones(len(places), bool), np.zeros(len(places), bool)
        for other in others:
            touched = slice(ends.searchsorted(other.begin, "right"), places.searchsorted(other.end))
            inside = _inside(places, ends, other.begin, other.end)
            is_free[touched] = False
            for begin, end in _all_or_each(run, other, places[inside], ends[inside]):
                is_same[_inside(places, ends, begin, end)] = True
        self.duplicates += int(is_same.sum())
        kinds = np.where(is_free, 0, np.where(is_same, 1, 2))
        bounds = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(places)]
        for i, j in pairwise(bounds):
            part = run._replace(begin=int(places[i]), end=int(ends[j - 1]))
            if kinds[i] == 0:
                self.chosen.insert(bisect_left(self.chosen, part.begin, key=BEGIN), part)
            elif kinds[i] == 2:
                self._lose(part, part.begin, part.end, "another record has this physical offset")

    def find_lost(self, size: int) -> None:
        """List the bytes that are not a record, unless another file has the record, and those that no file has."""
        known = [(run.begin, run.end) for run in self.chosen]
        if self._log_begin:
            known.append((self._log_begin // size * size, self._log_begin))
        for file in self.files:
            if file.base is not None:
                blanks = file.of(BLANK)
                begins = (blanks["pos"] + file.base).tolist()
                known += zip(begins, (blanks["pos"] + blanks["count"] + file.base).tolist(), strict=True)
        union = merge_ranges(known)
        for file in self.files:
            if file.base is None:
                continue  # the file does not belong to a log
            bad = file.pieces[(file.pieces["status"] != OK) & (file.pieces["status"] != BLANK)]
            for pos, length, status in zip(*(bad[name].tolist() for name in ("pos", "size", "status")), strict=True):
                begin = file.base + pos
                at = bisect_right(union, begin, key=BEGIN) - 1
                if at < 0 or union[at][1] < begin + length:
                    self.lost.append(LostRange(file.path, pos, length, begin, file.reason(pos, length, status)))
                    known.append((begin, begin + length))
        first, last = self.chosen[0].begin // size * size, self.chosen[-1].end
        gaps = []
        for (_, begin), (end, _) in pairwise([(first, first), *merge_ranges(known), (last, last)]):
            is_blank = end % size == 0 and end - begin < MIN_RECORD + 8  # at the end of a file that was cut
            if begin < end and first <= begin and end <= last and not is_blank:
                gaps.append((begin, end))
        self.lost += self._missing(gaps, size)

    def _missing(self, gaps: list[tuple[int, int]], size: int) -> Iterator[LostRange]:
        """Yield the lost range of each gap, in the first file that has its begin. Parameters: gaps: in order."""
        bases = [(file.base, number) for number, file in enumerate(self.files) if file.base is not None]
        bases.sort(reverse=True)
        open_files: list[int] = []  # a heap of the files that begin before a gap
        for begin, end in gaps:
            while bases and bases[-1][0] <= begin:
                heappush(open_files, bases.pop()[1])
            while open_files and begin >= _end_of(self.files[open_files[0]]):
                heappop(open_files)
            if open_files:
                file = self.files[open_files[0]]
                assert file.base is not None
                yield LostRange(file.path, begin - file.base, end - begin, begin, "no record is left here")
            else:
                start = begin // size * size
                path = self.files[0].path.with_name(f"{start:020d}")
                yield LostRange(path, begin - start, end - begin, begin, "no file has these bytes")

    def shown_size(self) -> int | None:
        """Return the size of log files, by the ends of most blanks, the distances between files, and their lengths."""
        spans = Counter(file.length for file in self.files if file.length % 1024 == 0)
        for file in self.files:
            spans.update((file.of(BLANK)["pos"] + file.of(BLANK)["count"]).tolist())
        bases = sorted({file.base for file in self.files if file.base is not None})
        spans.update(after - before for before, after in pairwise(bases))
        possible = [span for span in spans if 0 < span < 2**31]
        likely = nlargest(MAX_SIZES, possible, key=lambda span: (spans[span], -span))
        fits = {span: sum(base % span == 0 for base in bases) for span in likely}
        known = [span for span in fits if fits[span]]
        return max(known, key=lambda span: (spans[span], fits[span], -span), default=None)


def _end_of(file: DamagedFile) -> int:
    return (file.base or 0) + file.length


def _places(run: RecordRun) -> tuple[np.ndarray, np.ndarray]:
    """Return where the records of a run, with the heads of their entries, begin and end, physical offsets."""
    scanner = RecordScanner(["phy_offset", "size"], framing=FRAMING)
    with run.open() as source:
        at = run.begin
        while at < run.end:
            at, status = scanner.scan(source.buffer, run.base, at, run.end, at_rest=True)
            if status != OK:
                raise StoreError(f"{run.file.path}: was changed while it was read")
    columns = scanner.take()
    ends = columns["phy_offset"] + columns["size"]
    return np.append(run.begin, ends[:-1]), ends


def _inside(places: np.ndarray, ends: np.ndarray, begin: int, end: int) -> slice:
    """Return the rows of the records of a run that lie between two physical offsets.

    The records of a run are sorted, so that a binary search finds them: a run may overlap thousands of others.
    """
    return slice(places.searchsorted(begin), ends.searchsorted(end, "right"))


def _all_or_each(run: RecordRun, other: RecordRun, begins: np.ndarray, ends: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the parts of a run that another run has too, byte for byte."""
    if not len(begins):
        return
    span = int(begins[0]), int(ends[-1])
    if run.is_like(other, *span):
        yield span
        return
    for part in zip(begins.tolist(), ends.tolist(), strict=True):
        if run.is_like(other, *part):
            yield part


def _data_end(path: Path, end: int) -> int:
    """Return where the last byte ends that is not zero. Bytes that the disk cannot read count as not zero."""
    begin = 0
    while True:
        try:
            return nonzero_end(path, begin, end)
        except DiskReadError as error:
            begin = min(error.offset - error.offset % mmap.PAGESIZE + mmap.PAGESIZE, end)


def join_records(pieces: np.ndarray) -> np.ndarray:
    """Join pieces of records that follow each other."""
    is_ok, ends = pieces["status"] == OK, pieces["pos"] + pieces["size"]
    follows = is_ok[1:] & is_ok[:-1] & (pieces["base"][1:] == pieces["base"][:-1]) & (pieces["pos"][1:] == ends[:-1])
    starts = np.flatnonzero(np.append(True, ~follows)) if len(pieces) else np.empty(0, np.int64)
    joined: np.ndarray = pieces[starts]
    for name in ("size", "count") if len(pieces) else ():
        joined[name] = np.add.reduceat(pieces[name], starts)
    return joined


def _reason(status: int) -> str:
    if status == BAD_NAME:
        return "topic: cannot be the name of a directory, which its queues need"
    if status == BAD_INSIDE:
        return "size: another record, or a blank, begins inside"
    return "{}: {}".format(*bad_reason(status))
