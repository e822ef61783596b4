"""Where a stopped, running or crashed store's commit log ends: at a broker's cut, or nowhere because of damage.

`judge(root, state)` reads the files of a store and returns `Judgement(end, places)`. The words of the rule:

* X: where bytes begin that are no record although a sound record stands behind them. Each X of a log is a `Place`.
* R: the sound record that ends at X; at the start of a file the last record of the file before.
* behind: all sound records behind X, also those behind further bad places. Y: the first of them.

A broker cut the log at X if five conditions hold (`Proof`). In doubt X is damage.
"""

import itertools
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .commit_log import read_files
from .index_file import HEADER, ITEM
from .record import COMMIT, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, ROLLBACK, Record, parse_record
from .recovery import CHECKPOINT, CONFIRM

STATES = ("stopped", "running", "crashed")
SMALLEST_RECORD = 92  # of a topic of one character
MAGICS = [struct.pack(">i", magic) for magic in (MAGIC_V1, MAGIC_V2)]
UNITS = {"consumequeue": struct.Struct(">qiq"), "batchconsumequeue": struct.Struct(">qiqqqhii")}


class Placed(NamedTuple):
    """A sound record and where it begins."""

    offset: int
    record: Record

    @property
    def end(self):
        return self.offset + self.record.total_size

    @property
    def has_number(self):
        """Whether the record has a queue offset of its own; prepared and rolled back messages have none."""
        return self.record.sys_flag & ROLLBACK in (0, COMMIT)

    @property
    def number(self):
        """(topic, queue id, queue offset); the offset of the first message of an inner batch."""
        return self.record.topic, self.record.queue_id, self.record.msg_base_offset


class Unit(NamedTuple):
    """A unit of a queue file, also a stale one behind the queue's end."""

    offset: int
    size: int
    number: tuple  # (topic, queue id, queue offset)
    is_batch: bool


@dataclass
class Place:
    """An X. before, behind: the sound records of the log on both sides. run: those up to the next bad place."""

    offset: int
    before: list
    behind: list
    run: list

    @property
    def later(self):
        """Y."""
        return self.behind[0].offset


@dataclass
class Proof:
    """The conditions of a cut, each with its answer. is_cut: whether all of them hold, so that it is no damage."""

    has_queues: bool
    is_in_last_file: bool  # 1: a cut deletes the files behind it
    is_no_record_known: bool  # 2: no unit, no item and no rest of a header says that a record began at X
    is_newer: bool  # 3: R was stored after all records behind
    is_unconfirmed: bool  # 4: confirmPhyOffset names no record behind X
    has_new_record: bool  # 5a: R is a record of after the cut
    is_gap_too_small: bool  # 5b: no record fits between X and Y
    is_number_given_again: bool  # 5c: a queue offset of a record behind belongs to a record before X too

    @property
    def is_cut(self):
        shows_writes = self.has_new_record or self.is_gap_too_small or self.is_number_given_again
        return (
            self.has_queues
            and self.is_in_last_file
            and self.is_no_record_known
            and self.is_newer
            and self.is_unconfirmed
            and shows_writes
        )


class Judgement(NamedTuple):
    """end: where the log ends. why: complete, growing, torn or cut. damaged: the offsets X that readers step over."""

    end: int
    why: str
    damaged: list
    records: list  # Placed, those that readers return


# ---- the files -----------------------------------------------------------------------------------------------


def parse(data, position, start):
    """Return what parse_record does; a record of another place is none."""
    parsed = parse_record(data, position)
    if parsed.record is not None and parsed.record.phy_offset != start + position:
        return parse_record(b"")
    return parsed


def find_record(data, position, start):
    """Return the position of the first sound record behind a position, None if there is none."""
    while True:
        found = [at for at in (data.find(magic, position + 5) for magic in MAGICS) if at >= 0]
        if not found:
            return None
        position = min(found) - 4
        if parse(data, position, start).record is not None:
            return position


class Log:
    """All sound records of a log, in runs between the bad places.

    bad: (X, number of sound records before it). tail: where the bytes behind the last record begin.
    """

    def __init__(self, files):
        self.files = files
        self.file_size = len(next(iter(files.values()), b""))
        self.records = []
        self.bad = []
        self.tail = min(files, default=0)
        x = None
        for start, data in sorted(files.items()):
            x = self.walk_file(start, data, x)

    def walk_file(self, start, data, x):
        """Add the records of a file; x: where bytes began that are no record, None if there are none so far."""
        position = 0
        while position < len(data):
            parsed = parse(data, position, start)
            if parsed.record is not None:
                if x is not None:
                    self.bad.append((x, len(self.records)))
                    x = None
                self.records.append(Placed(start + position, parsed.record))
                position += parsed.size
                self.tail = start + position
            elif parsed.success and x is None:
                return None  # a blank
            else:
                x = start + position if x is None else x
                position = find_record(data, position, start)
                if position is None:
                    return x
        return x

    def file_of(self, offset):
        return max(start for start in self.files if start <= offset)

    def read(self, offset, size):
        start = self.file_of(offset)
        return bytes(self.files[start][offset - start : offset - start + size])

    def places(self):
        ends = [number for _, number in [*self.bad, (None, len(self.records))][1:]]
        for (offset, number), end in zip(self.bad, ends, strict=True):
            yield Place(offset, self.records[:number], self.records[number:], self.records[number:end])


def read_units(root):
    """Return the units of all queue files, also stale ones; those of zeros are none."""
    return [unit for directory in UNITS for unit in units_of(Path(root) / directory, UNITS[directory])]


def units_of(directory, layout):
    is_batch = layout.size == 46
    for queue in sorted(path for path in directory.glob("*/*") if path.name.isdecimal()):
        for start, data in sorted(read_files(queue).items()):
            for position in range(0, len(data) - layout.size + 1, layout.size):
                offset, size, _, *batch = layout.unpack_from(data, position)
                if size > 0:
                    base = batch[1] if is_batch else (start + position) // layout.size
                    yield Unit(offset, size, (queue.parent.name, int(queue.name), base), is_batch)


def read_items(root, hash_slot_num):
    """Return the offsets that the items of all index files name."""
    return {offset for path in sorted(Path(root).glob("index/*")) for offset in items_of(path, hash_slot_num)}


def items_of(path, hash_slot_num):
    data = path.read_bytes()
    if len(data) < HEADER.size:
        return
    count = HEADER.unpack_from(data)[5]
    begin = HEADER.size + 4 * hash_slot_num
    for number in range(1, count):
        if begin + ITEM.size * (number + 1) <= len(data):
            yield ITEM.unpack_from(data, begin + ITEM.size * number)[1]


def read_confirm_phy_offset(root):
    """Return 0 if the checkpoint is missing; releases before 5.1.1 store 0."""
    path = Path(root) / "checkpoint"
    data = path.read_bytes() if path.exists() else b""
    return CHECKPOINT.unpack_from(data)[CONFIRM] if len(data) >= CHECKPOINT.size else 0


# ---- the proof -----------------------------------------------------------------------------------------------


class Store:
    """The files of a store that say something about the end of its log."""

    def __init__(self, root, hash_slot_num=97):
        self.log = Log(read_files(Path(root) / "commitlog"))
        self.units = read_units(root)
        self.items = read_items(root, hash_slot_num)
        self.confirm_phy_offset = read_confirm_phy_offset(root)
        self.units_at = {}
        for unit in self.units:
            self.units_at.setdefault(unit.offset, []).append(unit)

    def read_proof(self, place):
        last = place.before[-1] if place.before else None
        return Proof(
            has_queues=bool(self.units),
            is_in_last_file=self.log.file_of(place.offset) == self.log.file_of(self.log.records[-1].offset),
            is_no_record_known=not self.is_record_known(place.offset),
            is_newer=last is not None
            and last.record.store_timestamp > max(placed.record.store_timestamp for placed in place.behind),
            is_unconfirmed=all(placed.offset != self.confirm_phy_offset for placed in place.behind),
            has_new_record=last is not None and self.has_new_record(place, last),
            is_gap_too_small=place.later - place.offset < SMALLEST_RECORD,
            is_number_given_again=any(self.is_number_given_again(place, placed) for placed in place.run),
        )

    def is_record_known(self, offset):
        """Whether a unit, an item or a rest of a header says that a record began at an offset."""
        header = self.log.read(offset, 36).ljust(36, b"\0")
        magic = int.from_bytes(header[4:8], "big", signed=True)
        return (
            offset in self.units_at
            or offset in self.items
            or magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)
            or int.from_bytes(header[28:36], "big", signed=True) == offset
        )

    def has_new_record(self, place, last):
        start = self.log.file_of(place.offset)
        times = [placed.record.store_timestamp for placed in place.before if placed.offset >= start]
        if any(later < time for time, later in itertools.pairwise(times)):
            return False
        if last.record.born_timestamp <= max(placed.record.born_timestamp for placed in place.behind):
            return False
        return self.has_own_unit(last) or self.is_tiled(place)

    def has_own_unit(self, placed):
        return any(
            unit.size == placed.record.total_size
            and unit.number == (placed.number if unit.is_batch else (*placed.number[:2], placed.record.queue_offset))
            for unit in self.units_at.get(placed.offset, ())
        )

    def is_tiled(self, place):
        """Whether units lead from a record that reached over X, one behind the other, exactly to Y."""
        ends = {unit.offset + unit.size for unit in self.units if unit.offset < place.offset}
        reached = {end for end in ends if place.offset < end <= place.later}
        for offset in range(place.offset, place.later):
            if offset in reached:
                reached |= {offset + unit.size for unit in self.units_at.get(offset, ())}
        return place.later in reached

    def is_number_given_again(self, place, placed):
        if not placed.has_number or placed.offset in self.units_at:
            return False
        before = {older.offset: older for older in place.before if older.has_number}
        return any(
            unit.number == placed.number and unit.offset in before and before[unit.offset].number == placed.number
            for unit in self.units
        )


def judge(root, state, *, hash_slot_num=97, run_began=None):
    """Judge where the log of a store ends, asked from the front.

    run_began: for the state "running", the time of the broker's start in ms since the epoch. Records behind bad bytes
    that were stored since then, and that have a unit, show that the bytes are damaged. Otherwise the log ends there.
    Without the time no record counts as one of this run.
    """
    store = Store(root, hash_slot_num)
    damaged = []
    for place in store.log.places():
        if state != "crashed" and store.read_proof(place).is_cut:
            return Judgement(place.offset, "cut", damaged, place.before)
        if state == "running" and not is_of_this_run(store, place, run_began):
            return Judgement(place.offset, "growing", damaged, place.before)
        damaged.append(place.offset)
    why = {"stopped": "complete", "running": "growing", "crashed": "torn"}[state]
    return Judgement(store.log.tail, why, damaged, store.log.records)


def is_of_this_run(store, place, run_began):
    return any(placed.record.store_timestamp >= run_began and store.has_own_unit(placed) for placed in place.behind)
