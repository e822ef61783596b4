"""Verification of consume queues: each record's unit, and each unit's record."""

from __future__ import annotations

import bisect
import operator
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.disk.holes import nonzero_end
from rocketstore.disk.mapped_file_queue import LogFile, MappedFileQueue
from rocketstore.disk.positioned_read import read_readable
from rocketstore.dispatch.light_queues import more_queues, names_and_offsets
from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.dispatch import MULTI_DISPATCH
from rocketstore.kernels.layout import BATCH_UNIT, UNIT
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import INT_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.messages.topics import SYSTEM_TOPIC_PREFIXES, is_file_name
from rocketstore.queue.delivery_times import are_delivery_times
from rocketstore.state.java_numbers import find_unreadable_offset
from rocketstore.verify.ext import ExtFiles
from rocketstore.verify.ranges import Ranges
from rocketstore.verify.report import Findings, Place

__all__ = ["QueueFiles", "QueueRows", "QueueVerifier"]

FIELDS = {"size": "unit-size", "tags_code": "unit-tags-code", "msg_base_offset": "unit-batch-base",
          "batch_size": "unit-batch-size", "store_timestamp": "unit-store-time"}
CONSTANTS = {"compacted_offset": -1, "reserved": 0}  # of batch units
NEAR = 64  # units around where a unit should be, among which it is looked for
NOTED = 100
FIRST = operator.itemgetter(0)


class QueueFiles:
    """The files of one queue, read without a mapping. Units are counted from the beginning of the run's file 0."""

    def __init__(self, directory: Path, is_batch: bool, size: int | None, ext: ExtFiles | None) -> None:
        self.directory, self.is_batch, self.ext = directory, is_batch, ext
        self.unit = BATCH_UNIT if is_batch else UNIT
        self.files = MappedFileQueue([directory]).files
        self.given_size = size
        self.set_size(size or 0)
        self.covered, self.missing = Ranges(), Ranges()
        self.behind: list[tuple[int, int]] = []  # unit, physical offset: of the records behind the last with a unit
        self.count_behind = 0
        self.count_deleted = 0  # records of a topic of this name that was deleted
        self.begins_at: int | None = None  # once it is asked for
        self.unreadable: list[tuple[Path, int, int]] = []  # file, begin, end: zeros were read instead

    def set_size(self, size: int) -> None:
        self.size = size
        self.per_file = max(size // self.unit.itemsize, 1)
        self.spans = [self._span(file) for file in self.files]
        self._full_spans = [(first, last) for first, last, _ in self.spans if first < last]
        self._heads_lock = threading.Lock()  # pieces of the log are compared in several threads
        self._heads: list[int] = []  # physical offsets: the greatest at the begin of a full span, from the second on

    def _span(self, file: LogFile) -> tuple[int, int, LogFile]:
        """The units a file has room for: the first, and the one after the last."""
        first = file.file_from_offset // max(self.size, 1) * self.per_file
        return first, first + min(file.size // self.unit.itemsize, self.per_file), file

    def read(self, begin: int, end: int) -> bytes:
        """The bytes of units, as many as there are one after the other."""
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
        """Return the number of the last span that begins at or before a unit, -1 if there is none."""
        return bisect.bisect_right(self.spans, unit, key=FIRST) - 1

    def add_unreadable(self, findings: Findings) -> None:
        """Report what the disk could not read, each page once."""
        for path, begin, end in sorted(set(self.unreadable)):
            findings.add("disk-unreadable", path, begin, f"{end - begin} bytes")

    def units(self, begin: int, end: int) -> np.ndarray:
        data = self.read(begin, end)
        return np.frombuffer(data, self.unit, len(data) // self.unit.itemsize)

    def first_units(self, begin: int, end: int) -> tuple[int, np.ndarray]:
        """Return the first units behind ``begin`` that a file has, and where they begin; up to ``end``, exclusive."""
        at, units = self._span_number(begin) + 1, self.units(begin, begin)
        while len(units) == 0 and at < len(self.spans) and self.spans[at][0] <= end:
            begin = self.spans[at][0]
            units = self.units(begin, end)
            at += 1
        return begin, units

    def has(self, unit: int, phy_offset: int) -> bool:
        """Whether a record has its unit now."""
        unit = self.find(phy_offset) if self.is_batch else unit
        units = self.units(unit, unit + 1)
        return len(units) > 0 and bool(valid(units)[0]) and int(units["phy_offset"][0]) == phy_offset

    def place(self, unit: int, detail: str) -> Place:
        """Return the place of a finding about a unit."""
        at = self._span_number(unit)
        if at < 0:
            return Place(self.directory, 0, detail)
        first, last, file = self.spans[at]
        return Place(file.path, min(unit - first, last - first) * self.unit.itemsize, detail)

    def find(self, phy_offset: int) -> int:
        """The first unit of at least a physical offset, in a run of ascending ones that ends where it is invalid."""
        if not self._full_spans:
            return 0
        low, high = self._full_spans[self._find_full_span(phy_offset)]
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._is_before(middle, phy_offset) else (low, middle)
        return low

    def _find_full_span(self, phy_offset: int) -> int:
        """Return the number of the span before the first whose begin is no unit before a physical offset.

        The begin of each span is read once: a queue may have thousands of files, and each piece of the log asks.
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
        return int(units["phy_offset"][0]) if len(units) and valid(units)[0] else None

    def end(self) -> int:
        """The queue offset behind that of the last unit, 0 without one."""
        for first, _, file in reversed(self.spans):
            used = -(-nonzero_end(file.path, 0, file.size) // self.unit.itemsize)
            units = self.units(max(first, first + used - NEAR), first + used)
            units = units[valid(units)]
            if len(units) and self.is_batch:
                return int(units["msg_base_offset"][-1]) + int(units["batch_size"][-1])
            if len(units):
                return first + used
        return 0

    def _is_before(self, unit: int, phy_offset: int) -> bool:
        units = self.units(unit, unit + 1)
        return len(units) > 0 and bool(valid(units)[0]) and int(units["phy_offset"][0]) < phy_offset

    def resolved(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Tags codes as the records', which are in an ext file that has no such unit, and store times of those."""
        codes = units["tags_code"].astype(np.int64)
        return (codes, np.zeros(len(units), bool), None) if self.is_batch else ExtFiles.resolve(self.ext, codes)


def valid(units: np.ndarray) -> np.ndarray:
    good: np.ndarray = (units["phy_offset"] >= 0) & (units["size"] > 0)
    if units.dtype == BATCH_UNIT:
        good = good & (units["msg_base_offset"] >= 0) & (units["batch_size"] > 0)
    return good


def fillers(units: np.ndarray) -> np.ndarray:
    found: np.ndarray = (units["phy_offset"] == 0) & (units["size"] == INT_MAX) & (units["tags_code"] == 0)
    return found


@dataclass
class QueueRows:
    """What a piece of the log has for one queue: queue offsets, and which units there are of its records."""

    queue: QueueId
    first: int  # the first queue offset, and the one after the last; -1 of what is dispatched from other queues
    following: int
    phy_offset: int
    last_record: int
    count: int
    count_deleted: int = 0
    breaks: list[tuple[int, int, int]] = field(default_factory=list)  # phy offset, queue offset expected, found
    dispatched: list[int] = field(default_factory=list)  # queue offsets of what is dispatched from other queues
    covered: list[np.ndarray | tuple[int, int]] = field(default_factory=list)
    last_phy_offset: int = -1  # of those that have a unit
    missing: list[tuple[int, int]] = field(default_factory=list)  # unit, physical offset
    faults: list[tuple[str, int, str]] = field(default_factory=list)  # kind, unit, detail


class QueueVerifier:
    """Compares the log with all queues, in threads, and keeps what is to be known of each for the end."""

    def __init__(self, log: CommitLog, findings: Findings, queues: dict[QueueId, QueueFiles], multi: bool,
                 config: StoreConfig, batch_topics: set[str], topics: Collection[str]) -> None:
        self.log, self.findings, self.queues, self.multi, self.config = log, findings, queues, multi, config
        self._topics = {*topics, *(topic for topic, _ in queues)}
        self._may_be_deleted = len(topics) > 0  # or topics.json was lost
        self.batch_topics = batch_topics | {topic for (topic, _), files in queues.items() if files.is_batch}
        self._next: dict[QueueId, int] = {}
        self._dispatched: defaultdict[QueueId, Ranges] = defaultdict(Ranges)  # queue offsets taken from other queues
        self.records: dict[QueueId, tuple[int, int, int]] = {}  # of queues without files: how many, the first, the last

    # ---- log against queues, in threads ----------------------------------------------------------------------

    def compare(self, requests: np.ndarray, names: Sequence[QueueId]) -> list[QueueRows]:
        """Compare what a piece of the log is dispatched as with the queues' units."""
        if len(requests) == 0:
            return []
        numbers = requests["queue"]
        order = np.argsort(numbers, kind="stable") if numbers.min() != numbers.max() else slice(None)
        rows = requests[order]
        bounds = [0, *(np.flatnonzero(np.diff(rows["queue"])) + 1).tolist(), len(rows)]
        packed = packed_as(UNIT, rows)
        found = self._compare_light(requests[requests["flags"] & MULTI_DISPATCH != 0], names) if self.multi else []
        for first, last in pairwise(bounds):
            queue = names[rows["queue"][first]]
            if is_file_name(queue[0]):
                found.append(self._compare_queue(queue, rows[first:last], packed[first:last]))
        return found

    def _compare_queue(self, queue: QueueId, rows: np.ndarray, packed: np.ndarray) -> QueueRows:
        base, count = rows["msg_base_offset"], rows["batch_size"]
        following = base[:-1] + count[:-1]
        first, last = rows["phy_offset"][[0, -1]].tolist()
        result = QueueRows(queue, int(base[0]), int(base[-1]) + int(count[-1]), first, last, len(rows))
        broken = np.flatnonzero(base[1:] != following)
        for i in broken[:NOTED].tolist():
            result.breaks.append((int(rows["phy_offset"][i + 1]), int(following[i]), int(base[i + 1])))
        self._compare_units(result, rows, packed, len(broken) == 0)
        return result

    def _compare_units(self, result: QueueRows, rows: np.ndarray, packed: np.ndarray, is_dense: bool) -> None:
        files = self.queues.get(result.queue)
        if files is None:
            return
        if files.is_batch:
            rows = rows[(rows["msg_base_offset"] >= 0) & (rows["batch_size"] >= 0)]
            if len(rows) == 0:
                return
            packed, begin = packed_as(BATCH_UNIT, rows), files.find(int(rows["phy_offset"][0]))
            units = begin + np.arange(len(rows))
        else:
            begin, units = int(rows["msg_base_offset"][0]), rows["msg_base_offset"]
        is_run = (is_dense or files.is_batch) and begin >= 0
        if is_run and files.read(begin, begin + len(rows)) == packed.tobytes():
            result.covered.append((begin, begin + len(rows)))
            result.last_phy_offset = int(rows["phy_offset"][-1])
        else:
            self._examine(result, files, rows, units)

    def _examine(self, result: QueueRows, files: QueueFiles, rows: np.ndarray, expected: np.ndarray) -> None:
        """Find out what of the units of some records is not as it should be."""
        if result.first >= 0:
            is_left = rows["phy_offset"] >= self.begins_at(result.queue, files)
            result.count_deleted = len(rows) - int(is_left.sum())
            rows, expected = rows[is_left], expected[is_left]
        if len(rows) == 0:
            return
        middle = int(expected[len(expected) // 2])
        stop = middle + len(rows) + NEAR
        low = max(middle - len(rows) - NEAR, files.spans[0][0] if files.spans else 0, 0)
        units = files.units(low, stop)
        if len(units) == 0:  # a file is missing
            low, units = files.first_units(low, stop)
        good = np.flatnonzero(valid(units) & ~fillers(units))
        phy_offsets = units["phy_offset"].astype(np.int64)
        at = expected - low
        here = np.zeros(len(rows), bool)
        inside = (at >= 0) & (at < len(units))
        here[inside] = (phy_offsets[at[inside]] == rows["phy_offset"][inside]) & valid(units)[at[inside]]
        order = good[np.argsort(phy_offsets[good], kind="stable")]
        found = np.searchsorted(phy_offsets[order], rows["phy_offset"])
        elsewhere = np.zeros(len(rows), bool)
        within = found < len(order)
        elsewhere[within] = phy_offsets[order[found[within]]] == rows["phy_offset"][within]
        elsewhere &= ~here
        where = np.where(here, at, 0)
        where[elsewhere] = order[found[elsewhere]]
        self._compare_fields(result, files, rows[here | elsewhere], units[where[here | elsewhere]],
                             low + where[here | elsewhere])
        if not files.is_batch:
            for i in np.flatnonzero(elsewhere).tolist():
                detail = f"is of the record at {rows['phy_offset'][i]}, whose queue offset is {expected[i]}"
                result.faults.append(("unit-shifted", int(low + where[i]), detail))
        result.covered.append(np.unique(low + where[here | elsewhere]))
        result.last_phy_offset = int(rows["phy_offset"][here | elsewhere].max(initial=-1))
        absent = ~(here | elsewhere)
        result.missing = list(zip(expected[absent].tolist(), rows["phy_offset"][absent].tolist(), strict=True))

    def _compare_fields(self, result: QueueRows, files: QueueFiles, rows: np.ndarray, units: np.ndarray,
                        numbers: np.ndarray) -> None:
        codes, lost, times = files.resolved(units)
        names = FIELDS if files.is_batch else ("size", "tags_code")
        for name in names:
            kind = FIELDS[name]
            has, should = (codes if name == "tags_code" else units[name]), rows[name]
            wrong = (has != should) & ~lost
            if name == "tags_code":
                are_times = are_delivery_times(result.queue[0], codes, rows["store_timestamp"])
                self._add_faults(result, "unit-delivery-time", numbers, wrong & are_times, has, should)
                wrong &= ~are_times
            if name == "tags_code" and times is not None:
                in_ext = units["tags_code"] != codes
                self._add_faults(result, "ext-tags-code", numbers, wrong & in_ext, has, should)
                self._add_faults(result, "ext-store-time", numbers,
                                 (times != rows["store_timestamp"]) & in_ext & ~lost, times, rows["store_timestamp"])
                self._add_faults(result, kind, numbers, wrong & ~in_ext, has, should)
            else:
                self._add_faults(result, kind, numbers, wrong, has, should)
        if files.is_batch:
            for name, value in CONSTANTS.items():
                should = np.full(len(units), value)
                self._add_faults(result, "unit-batch-constant", numbers, units[name] != should, units[name], should)
        lost &= codes != rows["tags_code"]
        self._add_faults(result, "ext-missing", numbers, lost, codes, rows["tags_code"])

    def _add_faults(self, result: QueueRows, kind: str, units: np.ndarray, wrong: np.ndarray, has: np.ndarray,
                    should: np.ndarray) -> None:
        for i in np.flatnonzero(wrong).tolist():
            result.faults.append((kind, int(units[i]), f"has {has[i]}, its record {should[i]}"))

    def _compare_light(self, requests: np.ndarray, names: Sequence[QueueId]) -> list[QueueRows]:
        """The same for the queues that INNER_MULTI_DISPATCH names. Source: ConsumeQueue.multiDispatchLmqQueue."""
        if len(requests) == 0:
            return []
        batch, statuses = self.log.find_messages(requests["phy_offset"].astype(np.int64), columns=["properties"])
        requests = requests[statuses == OK]
        more: dict[QueueId, list[tuple[int, int]]] = {}
        for i, message in enumerate(batch):
            self._check_light_offsets(names[requests["queue"][i]][0], message, int(requests["phy_offset"][i]))
            for queue, offset in self.more_queues(names[requests["queue"][i]], message):
                more.setdefault(queue, []).append((i, offset))
        found = []
        for queue, pairs in more.items():
            rows = requests[[i for i, _ in pairs]].copy()
            rows["msg_base_offset"] = offsets = np.array([offset for _, offset in pairs])
            first, last = rows["phy_offset"][[0, -1]].tolist()
            result = QueueRows(queue, -1, -1, first, last, len(rows))
            result.dispatched = sorted(offsets.tolist())
            self._compare_units(result, rows, packed_as(UNIT, rows), bool((np.diff(offsets) == 1).all()))
            found.append(result)
        return found

    def _check_light_offsets(self, topic: str, message: Message, phy_offset: int) -> None:
        names, offsets = names_and_offsets(topic, message.properties, self.config, self.batch_topics)
        bad = find_unreadable_offset(names, offsets)
        if bad is not None:
            detail = f"INNER_MULTI_QUEUE_OFFSET has {bad!r:.80}, which is no number"
            self.findings.add_at(self.log, "log-light-offset", phy_offset, detail)

    def more_queues(self, queue: QueueId, message: Message) -> Iterator[tuple[QueueId, int]]:
        """The queues besides its own that a message is for, with its offset in each."""
        return more_queues(queue, message.properties, self.config, self.batch_topics)

    # ---- in the order of the log -----------------------------------------------------------------------------

    def merge(self, results: Sequence[QueueRows], quick: bool) -> None:
        for rows in results:
            if rows.dispatched and not quick:
                self._dispatched[rows.queue].add_all(np.array(rows.dispatched))
            if rows.first >= 0 and not quick:
                expected = self._next.get(rows.queue, rows.first)
                for phy_offset, should, has in [(rows.phy_offset, expected, rows.first), *rows.breaks]:
                    if should != has and not self._was_deleted(rows.queue, phy_offset, has):
                        self._add_break(rows.queue, phy_offset, should, has)
                self._next[rows.queue] = rows.following
            files = self.queues.get(rows.queue)
            if files is None:
                count, first, last = self.records.get(rows.queue, (0, rows.phy_offset, 0))
                last = max(last, rows.last_record)
                self.records[rows.queue] = count + rows.count, min(first, rows.phy_offset), last
                continue
            files.count_deleted += rows.count_deleted
            self._merge_units(rows, files)

    def end(self, queue: QueueId) -> int:
        """The queue offset that the next message of a queue gets, once all are dispatched."""
        files = self.queues.get(queue)
        return max(self._next.get(queue, 0), 0 if files is None else files.end())

    # ---- deleted topics: a broker keeps their records, and forgets their queues and offsets ------------------

    def is_deleted(self, topic: str) -> bool:
        """Whether nothing but records is there of a topic that can be deleted."""
        return self._may_be_deleted and topic not in self._topics and not topic.startswith(SYSTEM_TOPIC_PREFIXES)

    def begins_at(self, queue: QueueId, files: QueueFiles) -> int:
        """Where the record is that the queue's unit 0 leads to, if it is the first of a queue; else -1.

        Records of the same queue that are before it are of a topic that was deleted, and made again.
        """
        if files.begins_at is None:
            units = files.units(0, 1)
            record = self.log.find_message(int(units["phy_offset"][0])) if valid(units).all() and len(units) else None
            is_first = record is not None and (record.topic, record.queue_id, record.queue_offset) == (*queue, 0)
            files.begins_at = record.phy_offset if record is not None and is_first else -1
        return files.begins_at

    def _was_deleted(self, queue: QueueId, phy_offset: int, queue_offset: int) -> bool:
        """Whether a topic was deleted after it had a record, or right before. A missing queue is told of itself."""
        files = self.queues.get(queue)
        if files is None:
            return queue_offset == 0 or self.is_deleted(queue[0])
        return phy_offset <= self.begins_at(queue, files)

    # ---- units -----------------------------------------------------------------------------------------------

    def _merge_units(self, rows: QueueRows, files: QueueFiles) -> None:
        for part in rows.covered:
            files.covered.add(*part) if isinstance(part, tuple) else files.covered.add_all(part)
        files.missing.add_all(np.array(sorted(unit for unit, _ in rows.missing), np.int64))
        if rows.last_phy_offset >= 0:
            self.add_missing(files, files.behind, files.count_behind)
            files.behind, files.count_behind = [], 0
        within = [pair for pair in rows.missing if pair[1] < rows.last_phy_offset]
        self.add_missing(files, within, len(within))
        files.behind += rows.missing[len(within) :][: NOTED - len(files.behind)]
        files.count_behind += len(rows.missing) - len(within)
        for kind, unit, detail in rows.faults:
            self.findings.add(kind, *files.place(unit, f"unit {unit}: {detail}"))

    def add_missing(self, files: QueueFiles, pairs: Sequence[tuple[int, int]], count: int) -> None:
        """Note records without units, if a broker has not put these meanwhile.

        Parameters: pairs: unit, physical offset; of ``count`` all or the first.
        """
        looked = pairs[:NOTED]
        left = [pair for pair in looked if not files.has(*pair)]
        places = [files.place(unit, f"unit {unit}: of the record at {phy_offset}") for unit, phy_offset in left]
        self.findings.add_many("unit-missing", places, len(left) + count - len(looked))

    def _add_break(self, queue: QueueId, phy_offset: int, should: int, has: int) -> None:
        if should < has and not any(self._dispatched[queue].gaps(should, has)):
            return  # messages of other queues are there
        kind = "log-queue-offset-gap" if has > should else "log-queue-offset-again"
        self.findings.add_at(self.log, kind, phy_offset, f"{queue[0]}/{queue[1]} is at {has} after {should}")


def packed_as(unit: np.dtype[Any], rows: np.ndarray) -> np.ndarray:
    """The units of records as they are in a file."""
    packed = np.empty(len(rows), unit)
    for name in unit.names or ():
        packed[name] = rows[name] if name in (rows.dtype.names or ()) else CONSTANTS[name]
    return packed
