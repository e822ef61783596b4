"""The files of one consume queue, read for verification without a mapping."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np

from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.holes import nonzero_end
from rocketstore.disk.positioned_read import read_readable
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.layout import BATCH_UNIT, UNIT
from rocketstore.queue.units import are_valid
from rocketstore.verify.findings import Findings, Place
from rocketstore.verify.queues.ext_files import ExtFiles
from rocketstore.verify.queues.ranges import Ranges

NEAR = 64  # units around where a unit should be, among which it is looked for
READ_TOGETHER = 1024  # units; one read of all of them is faster than a read of each sample among them
FIRST = itemgetter(0)


class QueueFiles:
    """The files of one queue. Units are numbered from the beginning of the file run, expired files included.

    Attributes: spans: for each file the first unit it has room for, the unit after the last, and the file. covered:
    units that belong to a record. missing: units that records should have. behind: unit and physical
    offset of the records after the last record with a unit; ``count_behind`` of them. last_phy_offset: the greatest
    physical offset of a record with a unit, -1 without one. lacking: unit, physical offset
    and queue offset of other records without units. count_deleted: records of a deleted topic of the same name.
    """

    def __init__(
        self, directory: Path, is_batch: bool, size: int, ext: ExtFiles | None, files: Sequence[RunFile]
    ) -> None:
        """Parameters: size: the length of every file, bytes; 0 without a file."""
        self.directory, self.is_batch, self.size, self.ext = directory, is_batch, size, ext
        self.unit = BATCH_UNIT if is_batch else UNIT
        self.per_file = max(size // self.unit.itemsize, 1)
        self.spans = [self._span(file) for file in files]
        self._full_spans = [(first, last) for first, last, _ in self.spans if first < last]
        self._written: dict[int, int] = {}  # of spans by their number: position after the last byte that is not zero
        self._heads_lock = threading.Lock()  # several threads compare chunks of the log
        self._heads: list[int] = []  # running maximum of the physical offsets that begin spans 1, 2, ...
        self.covered, self.missing = Ranges(), Ranges()
        self.behind: list[tuple[int, int]] = []
        self.count_behind = 0
        self.last_phy_offset = -1
        self.lacking: list[np.ndarray] = []
        self.count_deleted = 0
        self.begins_at: int | None = None  # physical offset of unit 0, -1 if unknown; None until needed
        # Of each sample that agrees with the log: its first unit, its last unit, and the physical offset in the last.
        self._sound_samples: list[tuple[int, int, int]] = []
        self.unreadable: list[tuple[StorePath, int, int]] = []  # file, begin, end: zeros were read instead

    def _span(self, file: RunFile) -> tuple[int, int, RunFile]:
        """Return the first unit that a file has room for, the unit after the last, and the file."""
        first = file.file_from_offset // max(self.size, 1) * self.per_file
        return first, first + min(file.size // self.unit.itemsize, self.per_file), file

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes of the units from ``begin`` to ``end``, up to the first missing file."""
        parts = []
        at = self._span_number(begin)
        for first, last, file in map(self.spans.__getitem__, range(max(at, 0), len(self.spans))):
            if not first <= begin < min(last, end):
                break
            count = min(last, end) - begin
            part, lost = read_readable(file.path, count * self.unit.itemsize, (begin - first) * self.unit.itemsize)
            parts.append(part)
            self.unreadable += ((file.path, *bounds) for bounds in lost)
            begin += count
        return b"".join(parts)

    def _span_number(self, unit: int) -> int:
        """Return the number of the last span that begins at or before a unit, -1 without one."""
        return bisect.bisect_right(self.spans, unit, key=FIRST) - 1

    def add_unreadable(self, findings: Findings) -> None:
        """Report what the disk could not read, each page once."""
        for path, begin, end in sorted(set(self.unreadable)):
            findings.add("disk-unreadable", path, begin, f"{end - begin} bytes")

    def units(self, begin: int, end: int) -> np.ndarray:
        """Return the units from ``begin`` to ``end``, up to the first missing file."""
        data = self.read(begin, end)
        return np.frombuffer(data, self.unit, len(data) // self.unit.itemsize)

    def chosen_units(self, numbers: np.ndarray) -> np.ndarray:
        """Return the units with these numbers, up to the first missing file.

        Parameters: numbers: int64[n], n > 0, ascending.
        """
        begin, last = int(numbers[0]), int(numbers[-1])
        if last - begin > READ_TOGETHER:
            return np.concatenate([self.units(unit, unit + 1) for unit in numbers.tolist()])
        units = self.units(begin, last + 1)
        places = numbers - begin
        chosen: np.ndarray = units[places[places < len(units)]]
        return chosen

    def first_units(self, begin: int, end: int) -> tuple[int, np.ndarray]:
        """Return the units of the first file that begins after ``begin``, and their first number, up to ``end``."""
        at, units = self._span_number(begin) + 1, self.units(begin, begin)
        while len(units) == 0 and at < len(self.spans) and self.spans[at][0] <= end:
            begin = self.spans[at][0]
            units = self.units(begin, end)
            at += 1
        return begin, units

    def has(self, unit: int, phy_offset: int) -> bool:
        """Return whether the record at a physical offset has its unit now."""
        unit = self.find(phy_offset) if self.is_batch else unit
        units = self.units(unit, unit + 1)
        return len(units) > 0 and bool(are_valid(units)[0]) and int(units["phy_offset"][0]) == phy_offset

    def place(self, unit: int, detail: str) -> Place:
        """Return the place of a finding about a unit."""
        at = self._span_number(unit)
        if at < 0:
            return Place(self.directory, 0, detail)
        first, last, file = self.spans[at]
        return Place(file.path, min(unit - first, last - first) * self.unit.itemsize, detail)

    def find(self, phy_offset: int) -> int:
        """Return the first unit whose physical offset is not less than ``phy_offset``.

        The search assumes ascending offsets. An invalid unit counts as the end of the queue.
        """
        if not self._full_spans:
            return 0
        low, high = self._full_spans[self._find_full_span(phy_offset)]
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._is_before(middle, phy_offset) else (low, middle)
        return low

    def _find_full_span(self, phy_offset: int) -> int:
        """Return the number of the last span that begins with a unit before ``phy_offset``, 0 without one.

        The first unit of each span is read once: a queue may have thousands of files, and each chunk needs a search.
        """
        with self._heads_lock:
            while not self._heads or self._heads[-1] < phy_offset:
                number = len(self._heads) + 1
                head = self._head(number) if number < len(self._full_spans) else None
                if head is None:  # a broker may write it later
                    return len(self._heads)
                self._heads.append(max(head, self._heads[-1] if self._heads else -1))
            return bisect.bisect_left(self._heads, phy_offset)

    def _head(self, number: int) -> int | None:
        """Return the physical offset in the first unit of a span, None if it is no unit."""
        first = self._full_spans[number][0]
        units = self.units(first, first + 1)
        return int(units["phy_offset"][0]) if len(units) and are_valid(units)[0] else None

    def end(self) -> int:
        """Return the queue offset after the last unit, 0 without a unit."""
        for first, _, _ in reversed(self.spans):
            written = self.find_written_end(first)
            units = self.units(max(first, written - NEAR), written)
            units = units[are_valid(units)]
            if len(units) and self.is_batch:
                return int(units["msg_base_offset"][-1]) + int(units["batch_size"][-1])
            if len(units):
                return written
        return 0

    def has_only_covered_units(self) -> bool:
        """Return whether each unit up to the last one belongs to a record, and the last one is in the last file."""
        ranges = self.covered.sorted()
        if not self.spans or len(ranges) != 1:
            return False
        (begin, end), last = ranges[0], self.spans[-1][0]
        return begin == self.spans[0][0] and last < end and self.find_written_end(last) <= end

    def count_covered_messages(self, log_end: int) -> int | None:
        """Return the number of messages if all units belong to records before a physical offset; else None.

        None too for a batch queue, and if a file has another length or name than its place in the queue demands.
        """
        is_covered = self.last_phy_offset < log_end and self.has_only_covered_units()
        if self.is_batch or not is_covered or not self._is_regular():
            return None
        begin, end = self.covered.sorted()[0]
        return end - begin

    def add_sound_sample(self, numbers: np.ndarray, units: np.ndarray) -> None:
        """Remember that some units of a file agree with their records. Call this in the order of the files.

        Parameters: numbers: of the units, int64[n].
        """
        self._sound_samples.append((int(numbers[0]), int(numbers[-1]), int(units["phy_offset"][-1])))

    def count_sampled_messages(self, log_end: int) -> int | None:
        """Return the number of messages if the samples show that all units belong to records before ``log_end``.

        They show it if they have the first and the last unit of the queue, and agree with their records. Otherwise
        return None, and for a batch queue and irregular files, as ``count_covered_messages`` does.
        """
        if self.is_batch or not self._sound_samples or not self._is_regular():
            return None
        first, (_, last, phy_offset) = self._sound_samples[0][0], self._sound_samples[-1]
        has_both_ends = first == self.spans[0][0] and last + 1 == self.find_written_end(self.spans[-1][0])
        return last + 1 - first if has_both_ends and phy_offset < log_end else None

    def _is_regular(self) -> bool:
        """Return whether all files have the same length, without unused bytes, and no file is missing between them."""
        begin, size = self.spans[0][0] * self.unit.itemsize, self.size
        names = [file.file_from_offset for _, _, file in self.spans]
        are_complete = size % self.unit.itemsize == 0 and all(file.size == size for _, _, file in self.spans)
        return are_complete and names == list(range(begin, begin + len(names) * size, size))

    def find_written_end(self, unit: int) -> int:
        """Return the unit after the last one that is not zeros, in the file that has room for a unit."""
        number = self._span_number(unit)
        return self.spans[number][0] - (-self.find_written_bytes(number) // self.unit.itemsize)

    def find_written_bytes(self, number: int) -> int:
        """Return the position after the last byte that is not zero in the file of a span. It is searched once."""
        if number not in self._written:
            file = self.spans[number][2]
            self._written[number] = nonzero_end(file.path, 0, file.size)
        return self._written[number]

    def find_used_units(self, number: int, low: int, high: int) -> int:
        """Return the unit after the last one from ``low`` to ``high`` that is not zeros, ``low`` if all are.

        Parameters: low, high: units of the file of a span; behind ``high`` the file has no room for a unit.
        """
        first, _, file = self.spans[number]
        size, written = self.unit.itemsize, self.find_written_bytes(number)
        if written > (high - first) * size:  # bytes that belong to no unit
            written = nonzero_end(file.path, (low - first) * size, (high - first) * size)
        return max(first - (-written // size), low)

    def _is_before(self, unit: int, phy_offset: int) -> bool:
        units = self.units(unit, unit + 1)
        return len(units) > 0 and bool(are_valid(units)[0]) and int(units["phy_offset"][0]) < phy_offset

    def resolved(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the tags codes of the records, which codes no ext unit has, and the store times of ext units."""
        codes = units["tags_code"].astype(np.int64)
        return (codes, np.zeros(len(units), bool), None) if self.is_batch else ExtFiles.resolve(self.ext, codes)
