"""QueueUnits: the units of all queues that lead into one file of the log, also units behind the ends of the queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rocketstore.disk.file_run_reader import FileRunReader, RunFile
from rocketstore.disk.holes import data_ranges
from rocketstore.disk.remote.remote_file_run import open_file_run
from rocketstore.disk.storage import is_remote
from rocketstore.kernels.layout import BATCH_UNIT
from rocketstore.limits import INT_MAX
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.queue_directories import queue_directories
from rocketstore.survey.places import AnyPlaces

STEP = 1 << 16  # units that are read at once
MAX_REMOTE_BYTES = 1 << 30  # of all queues of a remote store; they would be fetched completely
NO_UNITS = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)


class OwnUnit(NamedTuple):
    """The unit that a record has in its own queue. number: the queue offset; of a batch the first one."""

    topic: str
    queue_id: int
    number: int
    is_batch: bool


@dataclass(frozen=True)
class QueueUnits:
    """Units of all queues, in the order of the physical offsets to which they lead.

    Attributes: phy_offset, size, int64[n], bytes. number: the queue offset, int64[n]; of a batch the first one. queue:
    the place of each unit's queue in ``queues``, int32[n]. queues: topic, id and whether it is a batch queue.
    by_number: the units of each queue in the order of their numbers: places in the other columns, int64[m].
    """

    phy_offset: np.ndarray
    size: np.ndarray
    number: np.ndarray
    queue: np.ndarray
    queues: tuple[tuple[str, int, bool], ...]
    by_number: tuple[np.ndarray, ...]

    def leads_to(self, phy_offset: int) -> bool:
        """Return whether a unit leads to a physical offset."""
        return len(self._at(phy_offset)) > 0

    def has(self, unit: OwnUnit, phy_offset: int, size: int) -> bool:
        """Return whether the queues have this unit, and it leads to a record of this size at a physical offset."""
        return any(self._name(at) == unit and self.size[at] == size for at in self._at(phy_offset))

    def find(self, unit: OwnUnit) -> list[int]:
        """Return the physical offsets to which the unit with a number leads in its queue."""
        queue = unit.topic, unit.queue_id, unit.is_batch
        if queue not in self.queues:
            return []
        units = self.by_number[self.queues.index(queue)]
        first, last = np.searchsorted(self.number[units], (unit.number, unit.number + 1))
        offsets: list[int] = self.phy_offset[units[first:last]].tolist()
        return offsets

    def cover(self, place: int, end: int) -> bool:
        """Return whether units that follow each other cover the bytes from before ``place`` to exactly ``end``."""
        ends = self.phy_offset + self.size
        reached = set(ends[(self.phy_offset < place) & (ends > place)].tolist())
        seen: set[int] = set()
        while reached:
            here = reached.pop()
            if here == end:
                return True
            if here > end or here in seen:
                continue
            seen.add(here)
            reached.update((here + self.size[self._at(here)]).tolist())
        return False

    def _at(self, phy_offset: int) -> range:
        first, last = np.searchsorted(self.phy_offset, (phy_offset, phy_offset + 1))
        return range(int(first), int(last))

    def _name(self, at: int) -> OwnUnit:
        topic, queue_id, is_batch = self.queues[self.queue[at]]
        return OwnUnit(topic, queue_id, int(self.number[at]), is_batch)


def read_queue_units(places: AnyPlaces, target: RunFile) -> QueueUnits | None:
    """Read the units of all queues of a store that lead into a file of its log.

    All bytes of all queue files are read, since old units behind the end of a queue are in no order.
    Returns: None if the store has no queue files, or if they are remote and have too many bytes to fetch. Raises:
    OSError; StoreError.
    """
    queues: list[tuple[str, int, bool]] = []
    columns: list[tuple[np.ndarray, ...]] = [NO_UNITS]
    fetched = 0
    for kind in QUEUE_KINDS:
        for directory in queue_directories(places.queues(kind)):
            run = open_file_run([directory])
            fetched += sum(file.size for file in run.files) if is_remote(places.root) else 0
            if fetched > MAX_REMOTE_BYTES:
                return None
            if run.files:
                layout = kind.run_type.layout
                units = [_leading_into(target, part, layout) for part in _read_parts(run, layout.itemsize)]
                columns += [(*unit, np.full(len(unit[0]), len(queues), np.int32)) for unit in units]
                queues.append((directory.parent.name, int(directory.name), layout is BATCH_UNIT))
            run.close()
    if not queues:
        return None
    phy_offset, size, number, queue = map(np.concatenate, zip(*columns, strict=True))
    order = np.argsort(phy_offset, kind="stable")
    phy_offset, size, number, queue = phy_offset[order], size[order], number[order], queue[order]
    order = np.lexsort((number, queue))
    by_number = np.split(order, np.searchsorted(queue[order], np.arange(1, len(queues))))
    return QueueUnits(phy_offset, size, number, queue, tuple(queues), tuple(by_number))


def _read_parts(run: FileRunReader, unit_size: int) -> Iterator[tuple[int, bytes]]:
    """Yield complete units of a queue's files, and the number of the first of them. Holes are left out."""
    for file in run.files:
        limit = file.size // unit_size * unit_size
        for begin, end in data_ranges(file.path, 0, limit):
            begin -= begin % unit_size
            end = min(-(-end // unit_size) * unit_size, limit)
            for place in range(begin, end, STEP * unit_size):
                data = run.pread(file.file_from_offset + place, min(end - place, STEP * unit_size))
                yield (file.file_from_offset + place) // unit_size, data[: len(data) // unit_size * unit_size]


def _leading_into(target: RunFile, part: tuple[int, bytes], layout: np.dtype) -> tuple[np.ndarray, ...]:
    """Return the physical offset, size and number of the units that lead into a file of the log."""
    first, data = part
    units = np.frombuffer(data, layout)
    phy_offset, size = units["phy_offset"].astype(np.int64), units["size"].astype(np.int64)
    number = first + np.arange(len(units)) if layout is not BATCH_UNIT else units["msg_base_offset"].astype(np.int64)
    wanted = (phy_offset >= target.file_from_offset) & (phy_offset < target.end_offset)
    wanted &= (size > 0) & (size < INT_MAX)  # a filler unit has size INT_MAX
    return phy_offset[wanted], size[wanted], number[wanted]
