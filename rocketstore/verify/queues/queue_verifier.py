"""Verification of consume queues: each record has its unit, and the unit has the values of the record."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

import numpy as np

from rocketstore.config import StoreConfig
from rocketstore.dispatch.light_queues import find_unreadable_offset, more_queues, names_and_offsets
from rocketstore.dispatch.topic_lives import KnownTopics, TopicLives
from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.dispatch import MULTI_DISPATCH, are_units_of, sort_requests
from rocketstore.kernels.layout import BATCH_UNIT
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.messages.topics import is_file_name
from rocketstore.queue.delivery_times import are_delivery_times
from rocketstore.queue.units import are_fillers, are_valid
from rocketstore.verify.findings import Findings
from rocketstore.verify.patched_records import are_patched
from rocketstore.verify.queues.database_verifier import DatabaseVerifier, UnitComparison
from rocketstore.verify.queues.queue_files import NEAR, QueueFiles
from rocketstore.verify.queues.ranges import Ranges

FIELDS = {
    "size": "unit-size",
    "tags_code": "unit-tags-code",
    "msg_base_offset": "unit-batch-base",
    "batch_size": "unit-batch-size",
    "store_timestamp": "unit-store-time",
}
CONSTANTS = {"compacted_offset": -1, "reserved": 0}  # of batch units
MAX_KEPT = 100  # missing units and breaks whose places are kept for each chunk and queue


@dataclass
class QueueRows:
    """The records of one queue in a chunk of the log, compared with the queue's units."""

    queue: QueueId
    first: int  # the first queue offset; -1 if the records are dispatched from other queues
    following: int  # the queue offset after the last; -1 likewise
    phy_offset: int  # of the first record
    count: int  # records
    count_deleted: int = 0
    breaks: list[tuple[int, int, int]] = field(default_factory=list)  # phy offset, queue offset expected, found
    dispatched: list[int] = field(default_factory=list)  # queue offsets of messages of other queues
    covered: list[np.ndarray | tuple[int, int]] = field(default_factory=list)
    last_phy_offset: int = -1  # of the last record that has a unit
    missing: list[tuple[int, int]] = field(default_factory=list)  # unit, physical offset
    missing_offsets: list[int] = field(default_factory=list)  # queue offsets of the records of ``missing``
    records: tuple[np.ndarray, ...] = ()  # as ``TopicLives.add`` needs them
    in_database: UnitComparison | None = None
    faults: list[tuple[str, int, str]] = field(default_factory=list)  # kind, unit, detail
    contradicted: list[int] = field(default_factory=list)  # physical offsets of records whose unit is elsewhere


class QueueVerifier:
    """Compare the log with all queues.

    ``compare`` runs in several threads, one chunk of the log each. ``merge`` gets the results in the order of the log.

    Attributes: records: of queues without files: the number of records, and the physical offset of the first. lives:
    decides which records without units belong to deleted topics. contradicted: the physical offsets of records whose
    units are in another place than the records say.
    """

    def __init__(
        self,
        log: CommitLog,
        findings: Findings,
        queues: dict[QueueId, QueueFiles],
        multi: bool,
        config: StoreConfig,
        batch_topics: set[str],
        known_topics: KnownTopics,
        database: DatabaseVerifier | None,
    ) -> None:
        """Parameters: queues: in files. multi: whether light queues are compared. database: the queues in RocksDB."""
        self.log, self.findings, self.queues, self.multi, self.config = log, findings, queues, multi, config
        self.database = database
        self.lives = TopicLives(known_topics)
        self.batch_topics = batch_topics | {topic for (topic, _), files in queues.items() if files.is_batch}
        self._next: dict[QueueId, int] = {}
        self._dispatched: defaultdict[QueueId, Ranges] = defaultdict(Ranges)  # queue offsets in light queues
        self.contradicted: list[int] = []
        self.records: dict[QueueId, tuple[int, int]] = {}

    # ---- log against queues, in threads ----------------------------------------------------------------------

    def compare(self, requests: np.ndarray, names: Sequence[QueueId]) -> list[QueueRows]:
        """Compare the dispatch requests of a chunk of the log with the units of their queues."""
        if len(requests) == 0:
            return []
        rows, ends = sort_requests(requests, len(names))
        bounds = [0, *ends[np.diff(ends, prepend=0) > 0].tolist()]
        found = self._compare_light(requests[requests["flags"] & MULTI_DISPATCH != 0], names) if self.multi else []
        for first, last in pairwise(bounds):
            queue = names[rows["queue"][first]]
            if is_file_name(queue[0]):
                found.append(self._compare_queue(queue, rows[first:last]))
        return found

    def _compare_queue(self, queue: QueueId, rows: np.ndarray) -> QueueRows:
        base, count = rows["msg_base_offset"], rows["batch_size"]
        following = base[:-1] + count[:-1]
        result = QueueRows(queue, int(base[0]), int(base[-1]) + int(count[-1]), int(rows["phy_offset"][0]), len(rows))
        result.records = tuple(rows[name].copy() for name in ("phy_offset", "msg_base_offset", "batch_size"))
        broken = np.flatnonzero(base[1:] != following)
        for i in broken[:MAX_KEPT].tolist():
            result.breaks.append((int(rows["phy_offset"][i + 1]), int(following[i]), int(base[i + 1])))
        self._compare_units(result, rows, len(broken) == 0)
        return result

    def _compare_units(self, result: QueueRows, rows: np.ndarray, is_dense: bool) -> None:
        if self.database is not None:
            result.in_database = self.database.compare(result.queue, rows)
        files = self.queues.get(result.queue)
        if files is None:
            return
        if files.is_batch:
            rows = rows[(rows["msg_base_offset"] >= 0) & (rows["batch_size"] >= 0)]
            if len(rows) == 0:
                return
            begin = files.find(int(rows["phy_offset"][0]))
            units = begin + np.arange(len(rows))
        else:
            begin, units = int(rows["msg_base_offset"][0]), rows["msg_base_offset"]
        is_run = (is_dense or files.is_batch) and begin >= 0
        if is_run and has_units_of(files.read(begin, begin + len(rows)), rows, is_batch=files.is_batch):
            result.covered.append((begin, begin + len(rows)))
            result.last_phy_offset = int(rows["phy_offset"][-1])
        else:
            self._examine(result, files, rows, units)

    def _examine(self, result: QueueRows, files: QueueFiles, rows: np.ndarray, expected: np.ndarray) -> None:
        """Find the missing, shifted and wrong units of some records."""
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
        good = np.flatnonzero(are_valid(units) & ~are_fillers(units))
        phy_offsets = units["phy_offset"].astype(np.int64)
        at = expected - low
        here = np.zeros(len(rows), bool)
        inside = (at >= 0) & (at < len(units))
        here[inside] = (phy_offsets[at[inside]] == rows["phy_offset"][inside]) & are_valid(units)[at[inside]]
        order = good[np.argsort(phy_offsets[good], kind="stable")]
        found = np.searchsorted(phy_offsets[order], rows["phy_offset"])
        elsewhere = np.zeros(len(rows), bool)
        within = found < len(order)
        elsewhere[within] = phy_offsets[order[found[within]]] == rows["phy_offset"][within]
        elsewhere &= ~here
        where = np.where(here, at, 0)
        where[elsewhere] = order[found[elsewhere]]
        self._compare_fields(
            result, files, rows[here | elsewhere], units[where[here | elsewhere]], low + where[here | elsewhere]
        )
        if not files.is_batch:
            for i in np.flatnonzero(elsewhere).tolist():
                detail = f"is of the record at {rows['phy_offset'][i]}, whose queue offset is {expected[i]}"
                result.faults.append(("unit-shifted", int(low + where[i]), detail))
                result.contradicted.append(int(rows["phy_offset"][i]))
        result.covered.append(np.unique(low + where[here | elsewhere]))
        result.last_phy_offset = int(rows["phy_offset"][here | elsewhere].max(initial=-1))
        absent = ~(here | elsewhere)
        result.missing = list(zip(expected[absent].tolist(), rows["phy_offset"][absent].tolist(), strict=True))
        result.missing_offsets = rows["msg_base_offset"][absent].tolist()

    def _compare_fields(
        self, result: QueueRows, files: QueueFiles, rows: np.ndarray, units: np.ndarray, numbers: np.ndarray
    ) -> None:
        codes, lost, times = files.resolved(units)
        names = FIELDS if files.is_batch else ("size", "tags_code")
        for name in names:
            kind = FIELDS[name]
            has, should = (codes if name == "tags_code" else units[name]), rows[name]
            wrong = (has != should) & ~lost
            if name == "tags_code":
                wrong[wrong] = ~are_patched(self.log, rows["phy_offset"][wrong].astype(np.int64))
                are_times = are_delivery_times(result.queue[0], codes, rows["store_timestamp"])
                self._add_faults(result, "unit-delivery-time", numbers, wrong & are_times, has, should)
                wrong &= ~are_times
            if name == "tags_code" and times is not None:
                in_ext = units["tags_code"] != codes
                self._add_faults(result, "ext-tags-code", numbers, wrong & in_ext, has, should)
                self._add_faults(
                    result,
                    "ext-store-time",
                    numbers,
                    (times != rows["store_timestamp"]) & in_ext & ~lost,
                    times,
                    rows["store_timestamp"],
                )
                self._add_faults(result, kind, numbers, wrong & ~in_ext, has, should)
            else:
                self._add_faults(result, kind, numbers, wrong, has, should)
        if files.is_batch:
            for name, value in CONSTANTS.items():
                should = np.full(len(units), value)
                self._add_faults(result, "unit-batch-constant", numbers, units[name] != should, units[name], should)
        lost &= codes != rows["tags_code"]
        lost[lost] = ~are_patched(self.log, rows["phy_offset"][lost].astype(np.int64))
        self._add_faults(result, "ext-missing", numbers, lost, codes, rows["tags_code"])

    def _add_faults(
        self, result: QueueRows, kind: str, units: np.ndarray, wrong: np.ndarray, has: np.ndarray, should: np.ndarray
    ) -> None:
        for i in np.flatnonzero(wrong).tolist():
            result.faults.append((kind, int(units[i]), f"has {has[i]}, its record {should[i]}"))

    def _compare_light(self, requests: np.ndarray, names: Sequence[QueueId]) -> list[QueueRows]:
        """Compare records with their units in the light queues. Source: ConsumeQueue.multiDispatchLmqQueue."""
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
            result = QueueRows(queue, -1, -1, int(rows["phy_offset"][0]), len(rows))
            result.records = rows["phy_offset"], offsets, np.ones(len(rows), np.int64)
            result.dispatched = sorted(offsets.tolist())
            self._compare_units(result, rows, bool((np.diff(offsets) == 1).all()))
            found.append(result)
        return found

    def _check_light_offsets(self, topic: str, message: Message, phy_offset: int) -> None:
        names, offsets = names_and_offsets(topic, message.properties, self.config, self.batch_topics)
        bad = find_unreadable_offset(names, offsets)
        if bad is not None:
            detail = f"INNER_MULTI_QUEUE_OFFSET has {bad!r:.80}, which is no number"
            self.findings.add_at(self.log, "log-light-offset", phy_offset, detail)

    def more_queues(self, queue: QueueId, message: Message) -> Iterator[tuple[QueueId, int]]:
        """Yield the light queues of a message, with its queue offset in each."""
        return more_queues(queue, message.properties, self.config, self.batch_topics)

    def offset_in(self, queue: QueueId, message: Message) -> int | None:
        """Return the queue offset of a message in its own queue or a light queue, None if it is not in the queue."""
        own = QueueId(message.topic, int(message.queue_id or 0))
        if own == queue:
            return int(message.queue_offset)
        return next((offset for name, offset in self.more_queues(own, message) if name == queue), None)

    # ---- in the order of the log -----------------------------------------------------------------------------

    def merge(self, results: Sequence[QueueRows], quick: bool) -> None:
        """Report the differences that ``compare`` found, and follow the queue offsets from chunk to chunk."""
        for rows in results:
            if not quick:
                self.lives.add(rows.queue, *rows.records)
            if rows.dispatched and not quick:
                self._dispatched[rows.queue].add_all(np.array(rows.dispatched))
            if rows.first >= 0 and not quick:
                expected = self._next.get(rows.queue, rows.first)
                for phy_offset, should, has in [(rows.phy_offset, expected, rows.first), *rows.breaks]:
                    if should != has and not self._was_deleted(rows.queue, phy_offset, has):
                        self._add_break(rows.queue, phy_offset, should, has)
                self._next[rows.queue] = rows.following
            if self.database is not None and rows.in_database is not None:
                self.database.merge(rows.in_database)
            files = self.queues.get(rows.queue)
            if files is None:
                count, first = self.records.get(rows.queue, (0, rows.phy_offset))
                self.records[rows.queue] = count + rows.count, min(first, rows.phy_offset)
                continue
            files.count_deleted += rows.count_deleted
            self._merge_units(rows, files, quick)

    def end(self, queue: QueueId) -> int:
        """Return the queue offset of the next message, after all records are dispatched."""
        files = self.queues.get(queue)
        noted = 0 if self.database is None else self.database.end(queue)
        return max(self._next.get(queue, 0), noted, 0 if files is None else files.end())

    def ids(self) -> set[QueueId]:
        """Return the queues in files and in RocksDB."""
        return {*self.queues, *(() if self.database is None else self.database.queues)}

    def count_covered_messages(self, log_end: int) -> dict[QueueId, int]:
        """Return the numbers of messages of the queues whose units all belong to records before ``log_end``.

        After a quick verification, only samples of the units were compared. Queues that cannot be read are left out.
        Parameters: log_end: a physical offset. No reader hides records before it.
        """
        counts = {}
        for queue, files in self.queues.items():
            with contextlib.suppress(OSError):
                count = files.count_covered_messages(log_end)
                count = files.count_sampled_messages(log_end) if count is None else count
                if count is not None:
                    counts[queue] = count
        return counts

    # ---- deleted topics: a broker keeps their records, and forgets their queues and offsets ------------------

    def begins_at(self, queue: QueueId, files: QueueFiles) -> int:
        """Return the physical offset of the queue's first record, -1 if unit 0 does not lead to a first record.

        Earlier records with the same queue name belong to a topic that was deleted and created again: their queue
        offsets are not below 0. That is known before the whole log was read, and if only samples of it are read.
        """
        if files.begins_at is None:
            units = files.units(0, 1)
            has_unit = len(units) > 0 and are_valid(units)[0]
            record = self.log.find_message(int(units["phy_offset"][0])) if has_unit else None
            is_first = record is not None and (record.topic, record.queue_id, record.queue_offset) == (*queue, 0)
            files.begins_at = record.phy_offset if record is not None and is_first else -1
        return files.begins_at

    def _was_deleted(self, queue: QueueId, phy_offset: int, queue_offset: int) -> bool:
        """Return whether the record's topic was deleted after it, or right before it.

        A missing queue has a finding of its own.
        """
        files = self.queues.get(queue)
        if files is None:
            return queue_offset == 0 or self.lives.known.was_deleted(queue[0])
        return phy_offset <= self.begins_at(queue, files)

    # ---- units -----------------------------------------------------------------------------------------------

    def _merge_units(self, rows: QueueRows, files: QueueFiles, quick: bool) -> None:
        self.contradicted += rows.contradicted
        for part in rows.covered:
            files.covered.add(*part) if isinstance(part, tuple) else files.covered.add_all(part)
        files.missing.add_all(np.array(sorted(unit for unit, _ in rows.missing), np.int64))
        files.last_phy_offset = max(files.last_phy_offset, rows.last_phy_offset)
        if rows.last_phy_offset >= 0:
            self.add_missing(files, files.behind, files.count_behind)
            files.behind, files.count_behind = [], 0
        within = [pair for pair in rows.missing if pair[1] < rows.last_phy_offset]
        if quick:
            self.add_missing(files, within, len(within))
        elif within:
            offsets = rows.missing_offsets[: len(within)]
            files.lacking.append(np.column_stack([np.array(within, np.int64), np.array(offsets, np.int64)]))
        files.behind += rows.missing[len(within) :][: MAX_KEPT - len(files.behind)]
        files.count_behind += len(rows.missing) - len(within)
        for kind, unit, detail in rows.faults:
            self.findings.add(kind, *files.place(unit, f"unit {unit}: {detail}"))

    def add_lacking(self, queue: QueueId, files: QueueFiles) -> None:
        """Report records without units, after the whole log was read. Count those of earlier lives of the topic."""
        if not files.lacking:
            return
        units, phy_offsets, offsets = np.concatenate(files.lacking).T
        are_left_out = self.lives.are_left_out(queue, phy_offsets, offsets)
        files.count_deleted += int(are_left_out.sum())
        pairs = zip(units[~are_left_out].tolist(), phy_offsets[~are_left_out].tolist(), strict=True)
        self.add_missing(files, list(islice(pairs, MAX_KEPT)), int((~are_left_out).sum()))

    def made_again_at(self, queue: QueueId, files: QueueFiles) -> int:
        """Return the physical offset of a queue's first record since its topic was created again."""
        restarts = self.lives.restarts_of(queue)
        return restarts[-1][0] if restarts else self.begins_at(queue, files)

    def add_missing(self, files: QueueFiles, pairs: Sequence[tuple[int, int]], count: int) -> None:
        """Report records without units, unless a broker has appended the units meanwhile.

        Parameters: pairs: unit and physical offset of all ``count`` records, or of the first.
        """
        looked = pairs[:MAX_KEPT]
        left = [pair for pair in looked if not files.has(*pair)]
        places = [files.place(unit, f"unit {unit}: of the record at {phy_offset}") for unit, phy_offset in left]
        self.findings.add_many("unit-missing", places, len(left) + count - len(looked))

    def _add_break(self, queue: QueueId, phy_offset: int, should: int, has: int) -> None:
        if should < has and not any(self._dispatched[queue].gaps(should, has)):
            return  # messages of other queues fill the gap
        kind = "log-queue-offset-gap" if has > should else "log-queue-offset-again"
        self.findings.add_at(self.log, kind, phy_offset, f"{queue[0]}/{queue[1]} is at {has} after {should}")


def has_units_of(data: bytes, rows: np.ndarray, *, is_batch: bool) -> bool:
    """Return whether the bytes of units are exactly those of the units of records, REQUEST[n]."""
    if not is_batch:
        return are_units_of(data, rows)
    packed = np.empty(len(rows), BATCH_UNIT)
    for name in BATCH_UNIT.names or ():
        packed[name] = rows[name] if name in (rows.dtype.names or ()) else CONSTANTS[name]
    return data == packed.tobytes()
