"""DatabaseVerifier: compare the log with the queues in RocksDB, unit by unit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rocketstore.dispatch.light_queues import MAX_QUEUE_OFFSET
from rocketstore.dispatch.topic_lives import TopicLives
from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX
from rocketstore.queue.delivery_times import are_delivery_times
from rocketstore.queue.rocks_units import RocksUnits, UnitPlace
from rocketstore.text_values import format_count
from rocketstore.verify.findings import Findings, Place
from rocketstore.verify.queues.ranges import Ranges

FIELDS = "size", "tags_code", "store_timestamp"
COLUMNS = ("topic", "queue_id", "queue_offset", "size", "phy_offset", "properties")
BLOCK = 8192  # units whose records are looked up at once
MAX_PLACES = 16  # findings of one kind and queue that get a place
DAMAGED = "rocksdb-damaged"


class ComparedLog(NamedTuple):
    """The log that was compared with the units.

    Attributes: begin, end: bytes. is_live: another process is writing the store. offset_in: returns the queue offset of
    a message in a queue, None if the message is not in the queue.
    """

    begin: int
    end: int
    is_live: bool
    offset_in: Callable[[QueueId, Message], int | None]


class Missing(NamedTuple):
    """Records without a unit of their own, int64[n] each.

    Attributes: instead: the physical offset of the unit that is in the place of theirs; -1 without one.
    """

    phy_offsets: np.ndarray
    queue_offsets: np.ndarray
    instead: np.ndarray


class UnitComparison(NamedTuple):
    """The records of one queue in a chunk of the log, compared with the units in RocksDB.

    Attributes: covered: the queue offsets of the records that have a unit, int64[n]. faults: kind, queue offset and
    detail of units that have other values than their records.
    """

    queue: QueueId
    covered: np.ndarray
    missing: Missing
    faults: list[tuple[str, int, str]]


@dataclass
class CheckedQueue:
    """What is known of one queue. Attributes: covered: queue offsets whose unit belongs to a record.

    behind: the number of records that were not dispatched yet, and the physical offset of the first one.
    """

    covered: Ranges = field(default_factory=Ranges)
    missing: list[Missing] = field(default_factory=list)
    behind: tuple[int, int] = (0, -1)


class DatabaseVerifier:
    """Compares the log with one RocksDB.

    ``compare`` runs in several threads, one chunk of the log each. ``merge`` gets the results in the order of the log.
    After an error of the RocksDB, nothing more of it is compared: the finding says so.

    Attributes: queues: those whose ends RocksDB had stored when the verification began, with their last units.
    """

    def __init__(self, units: RocksUnits, log: CommitLog, findings: Findings, *, is_served: bool) -> None:
        """Parameters: is_served: consumers are served from this RocksDB. Otherwise the broker may have begun to write
        it later than the log, and writes only some topics.
        """
        self.units, self.log, self.findings, self.is_served = units, log, findings, is_served
        self.path = Path(str(units.database.path))
        self.is_readable = False
        self.queues: dict[QueueId, UnitPlace] = {}
        self._dispatched = 0  # physical offset, up to which records have units
        self._checked: defaultdict[QueueId, CheckedQueue] = defaultdict(CheckedQueue)
        with findings.reporting_errors(self.path, DAMAGED):
            for queue in units.queues():
                last = units.find_ends(queue).last
                if last is not None:
                    self.queues[queue] = last
            self._dispatched = units.read_checkpoint() or 0
            self.is_readable = True

    # ---- log against units, in threads -----------------------------------------------------------------------

    def compare(self, queue: QueueId, rows: np.ndarray) -> UnitComparison | None:
        """Compare the requests of one queue, REQUEST[n], with its units. None if the RocksDB cannot be read."""
        if not self.is_readable:
            return None
        with self.findings.reporting_errors(self.path, DAMAGED):
            return self._compare(queue, rows)
        self.is_readable = False
        return None

    def _compare(self, queue: QueueId, rows: np.ndarray) -> UnitComparison:
        wanted = rows["msg_base_offset"]
        rows = rows[(wanted >= 0) & (wanted <= MAX_QUEUE_OFFSET)]
        wanted = rows["msg_base_offset"]
        stored, units = self.units.read_some_units(queue, np.unique(wanted))
        at = np.minimum(np.searchsorted(stored, wanted), max(len(stored) - 1, 0))
        exists = stored[at] == wanted if len(stored) else np.zeros(len(rows), bool)
        instead = np.full(len(rows), -1, np.int64)
        instead[exists] = units["phy_offset"][at[exists]]
        is_own = exists & (instead == rows["phy_offset"])
        missing = Missing(rows["phy_offset"][~is_own], wanted[~is_own], instead[~is_own])
        faults = find_wrong_fields(queue, rows[is_own], units[at[is_own]])
        return UnitComparison(queue, np.unique(wanted[is_own]), missing, faults)

    # ---- in the order of the log -----------------------------------------------------------------------------

    def merge(self, compared: UnitComparison) -> None:
        """Report the differences that ``compare`` found, and keep the records without units."""
        queue, missing = self._checked[compared.queue], compared.missing
        queue.covered.add_all(compared.covered)
        for kind, queue_offset, detail in compared.faults:
            self.findings.add(kind, *self._place(compared.queue, queue_offset, detail))
        is_behind = missing.phy_offsets >= self._dispatched
        if is_behind.any():
            count, first = queue.behind
            queue.behind = count + int(is_behind.sum()), first if count else int(missing.phy_offsets[is_behind][0])
        if not is_behind.all():
            queue.missing.append(Missing(*(column[~is_behind] for column in missing)))

    def end(self, queue: QueueId) -> int:
        """Return the queue offset after the stored end of a queue, 0 without one."""
        last = self.queues.get(queue)
        return 0 if last is None else last.queue_offset + 1

    # ---- after the log ---------------------------------------------------------------------------------------

    def finish(self, log: ComparedLog, lives: TopicLives) -> None:
        """Check the units that belong to no record, and report the records without a unit.

        Parameters: lives: decides which records belong to deleted topics.
        """
        if not self.is_readable:
            return
        firsts = self._check_queues(log)
        if firsts is None:
            return
        for queue, checked in sorted(self._checked.items()):
            if self.is_served or queue in firsts:
                self._add_behind(queue, checked)
                self._add_missing(queue, checked, lives, firsts.get(queue, 0))

    def _check_queues(self, log: ComparedLog) -> dict[QueueId, int] | None:
        """Check all queues, and return the first queue offset of each. None if the RocksDB cannot be read."""
        firsts: dict[QueueId, int] = {}
        with self.findings.reporting_errors(self.path, DAMAGED):
            for queue in self.units.find_stored_queues():
                firsts[queue] = self._check_queue(queue, log)
            for queue, last in self.queues.items():
                if queue not in firsts and last.phy_offset >= log.begin:
                    self._add_end(queue, f"its end is stored at queue offset {last.queue_offset}, and it has no unit")
            return firsts
        self.is_readable = False
        return None

    def sample(self, log: ComparedLog) -> None:
        """Check the first and the last unit of each queue, and report records without a unit within their queue."""
        if not self.is_readable:
            return
        with self.findings.reporting_errors(self.path, DAMAGED):
            for queue, last in self.queues.items():
                offsets, units = self.units.read_units(queue, 0, last.queue_offset + 1, limit=1)
                if len(offsets):
                    self._check_units(queue, offsets, units, log)
                    offsets, units = self.units.read_units(queue, last.queue_offset, last.queue_offset + 1)
                    self._check_units(queue, offsets, units, log)
        for queue, checked in sorted(self._checked.items()):
            last_offset = self.end(queue) - 1
            for missing in checked.missing:
                is_within = (missing.instead < 0) & (missing.queue_offsets <= last_offset)
                self._add_records(queue, Missing(*(column[is_within] for column in missing)))

    def _check_queue(self, queue: QueueId, log: ComparedLog) -> int:
        """Check the units of a queue that belong to no record, and its stored end. Return its first queue offset."""
        covered, first, last = self._checked[queue].covered, -1, -1
        for offsets, units in self.units.read_every_unit(queue):
            first = int(offsets[0]) if first < 0 else first
            last = max(last, int(offsets[units["phy_offset"] < log.end].max(initial=-1)))
            left = np.flatnonzero(~covered.are_in(offsets))
            for at in range(0, len(left), BLOCK):
                some = left[at : at + BLOCK]
                self._check_units(queue, offsets[some], units[some], log)
        end = self.queues.get(queue)
        if end is None or end.queue_offset < last:
            text = "no end of it is stored" if end is None else f"its end is stored at queue offset {end.queue_offset}"
            self._add_end(queue, f"{text}, and its last unit is at {last}")
        elif log.begin <= end.phy_offset < log.end and end.queue_offset > last:
            self._add_end(queue, f"its end is stored at queue offset {end.queue_offset}, its last unit is at {last}")
        return first

    def _check_units(self, queue: QueueId, offsets: np.ndarray, units: np.ndarray, log: ComparedLog) -> None:
        phy_offsets = units["phy_offset"].astype(np.int64)
        is_valid = (phy_offsets >= 0) & (units["size"] > 0) & (offsets >= 0)
        extra = [(offset, "its values are impossible") for offset in offsets[~is_valid].tolist()]
        is_beyond = is_valid & (phy_offsets >= log.end)
        if is_beyond.any() and not log.is_live:
            detail = f"{format_count(int(is_beyond.sum()), 'unit')}, the log ends at {log.end}"
            self.findings.add("rocksdb-unit-leftover", *self._place(queue, int(offsets[is_beyond][0]), detail))
        within = is_valid & (phy_offsets >= log.begin) & ~is_beyond  # the broker removes units of expired records later
        extra += self._find_extra(queue, offsets[within], phy_offsets[within], log)
        places = [self._place(queue, offset, detail) for offset, detail in extra[:MAX_PLACES]]
        self.findings.add_many("rocksdb-unit-extra", places, len(extra))

    def _find_extra(
        self, queue: QueueId, offsets: np.ndarray, phy_offsets: np.ndarray, log: ComparedLog
    ) -> list[tuple[int, str]]:
        """Return the queue offset of each unit that leads to no record of it, and what is wrong."""
        if len(offsets) == 0:
            return []
        batch, statuses = self.log.find_messages(phy_offsets, columns=list(COLUMNS))
        pairs = zip(offsets[statuses != OK].tolist(), phy_offsets[statuses != OK].tolist(), strict=True)
        found = [(offset, f"leads to {phy_offset}, where no record begins") for offset, phy_offset in pairs]
        for message, offset in zip(batch, offsets[statuses == OK].tolist(), strict=True):
            place = log.offset_in(queue, message)
            owner = f"leads to the record of {message.topic}/{message.queue_id} at {message.phy_offset}"
            if place is None:
                found.append((offset, owner))
            elif place != offset:
                found.append((offset, f"{owner}, whose queue offset is {place}"))
        return sorted(found)

    # ---- findings --------------------------------------------------------------------------------------------

    def _add_behind(self, queue: QueueId, checked: CheckedQueue) -> None:
        count, first = checked.behind
        if count:
            detail = f"{format_count(count, 'record')}, the first at {first}"
            self.findings.add("rocksdb-behind", *self._place(queue, self.end(queue), detail))

    def _add_missing(self, queue: QueueId, checked: CheckedQueue, lives: TopicLives, first: int) -> None:
        """Report dispatched records without a unit, those of deleted topics as such.

        Parameters: first: the queue offset of the queue's first unit.
        """
        is_light = queue.topic.startswith(LIGHT_QUEUE_PREFIX)
        is_deleted = queue not in self.queues and not is_light and lives.known.is_undeclared(queue.topic)
        count_deleted, phy_offset = 0, -1
        for missing in checked.missing:
            left_out = lives.are_left_out(queue, missing.phy_offsets, missing.queue_offsets) | is_deleted
            if left_out.any():
                phy_offset = int(missing.phy_offsets[left_out][0]) if count_deleted == 0 else phy_offset
                count_deleted += int(left_out.sum())
            is_expected = ~left_out if self.is_served else ~left_out & (missing.queue_offsets >= first)
            self._add_records(queue, Missing(*(column[is_expected] for column in missing)))
        if count_deleted:
            detail = (
                f"{queue.topic}/{queue.queue_id}: {format_count(count_deleted, 'record')}, the first at {phy_offset}"
            )
            self.findings.add("topic-deleted", self.path, 0, detail)

    def _add_records(self, queue: QueueId, missing: Missing) -> None:
        is_first = (missing.phy_offsets == 0) & (missing.instead < 0)
        for kind, rows in (
            ("rocksdb-first-record", np.flatnonzero(is_first)),
            ("rocksdb-unit-missing", np.flatnonzero(~is_first)),
        ):
            first = (column[rows[:MAX_PLACES]].tolist() for column in missing)
            places = [
                self._place(queue, offset, f"of the record at {phy_offset}{describe_other(instead)}")
                for phy_offset, offset, instead in zip(*first, strict=True)
            ]
            self.findings.add_many(kind, places, len(rows))

    def _add_end(self, queue: QueueId, detail: str) -> None:
        self.findings.add("rocksdb-queue-end", self.path, 0, f"{queue.topic}/{queue.queue_id}: {detail}")

    def _place(self, queue: QueueId, queue_offset: int, detail: str) -> Place:
        return Place(self.path, 0, f"{queue.topic}/{queue.queue_id} at queue offset {queue_offset}: {detail}")


def describe_other(phy_offset: int) -> str:
    """Describe the unit in the place of a record's own unit. Parameters: phy_offset: of that unit; -1 without one."""
    return f"; the unit there leads to {phy_offset}" if phy_offset >= 0 else ""


def find_wrong_fields(queue: QueueId, rows: np.ndarray, units: np.ndarray) -> list[tuple[str, int, str]]:
    """Return kind, queue offset and detail for each field of a unit that is not that of its record."""
    found: list[tuple[str, int, str]] = []
    for name in FIELDS:
        has, should = units[name].astype(np.int64), rows[name]
        for i in np.flatnonzero(has != should).tolist():
            is_time = name == "tags_code" and are_delivery_times(queue.topic, has[i], rows["store_timestamp"][i])
            kind = "unit-delivery-time" if is_time else "rocksdb-unit-wrong"
            detail = f"{name} is {has[i]}, that of the record at {rows['phy_offset'][i]} is {should[i]}"
            found.append((kind, int(rows["msg_base_offset"][i]), detail))
    return found
