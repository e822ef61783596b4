"""Consume queues, batch consume queues and extension files: units, recovery, the first offset, appending."""

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from .commit_log import read_files
from .java import INT_MAX

UNIT_SIZE, BATCH_UNIT_SIZE = 20, 46
UNIT = struct.Struct(">qiq")
BATCH_UNIT = struct.Struct(">qiqqqhii")
EXT_UNIT = struct.Struct(">hqqh")
EXT_END = -1
MAX_EXT_ADDR = -(2**31) - 1
LONG_MIN = -(2**63)


class Unit(NamedTuple):
    offset: int
    size: int
    tags_code: int
    queue_offset: int
    batch_num: int = 1
    store_timestamp: int | None = None
    compacted_offset: int | None = None

    @property
    def is_filler(self):
        return self[:3] == (0, INT_MAX, 0)

    @property
    def is_valid(self):
        return self.offset >= 0 and self.size > 0 and self.queue_offset >= 0 and self.batch_num > 0


FILLER = UNIT.pack(0, INT_MAX, 0)


def pack_batch_unit(offset, size, tags_code, store_timestamp, msg_base_offset, batch_size):
    return BATCH_UNIT.pack(offset, size, tags_code, store_timestamp, msg_base_offset, batch_size, -1, 0)


@dataclass
class Queue:
    """The files of a queue by their start, and what a broker knows of it in memory."""

    file_size: int
    unit_size: int = UNIT_SIZE
    files: dict = field(default_factory=dict)
    end: int = 0  # up to where it is written, in bytes
    min_logic_offset: int = 0
    min_queue_offset: int = -1  # of a batch queue
    max_physic_offset: int = -1

    @property
    def is_batch(self):
        return self.unit_size == BATCH_UNIT_SIZE

    @property
    def starts(self):
        return sorted(self.files)

    def written(self, start):
        """Up to where a file may be read."""
        return min(max(self.end - start, 0), self.file_size)

    def unit(self, logic_offset):
        start = max(start for start in self.files if start <= logic_offset)
        data, position = self.files[start], logic_offset - start
        if not self.is_batch:
            return Unit(*UNIT.unpack_from(data, position), logic_offset // UNIT_SIZE)
        offset, size, code, time, base, batch, compacted, _ = BATCH_UNIT.unpack_from(data, position)
        return Unit(offset, size, code, base, batch, time, compacted)

    def units(self, start):
        """The written units of a file."""
        end = start + self.written(start) // self.unit_size * self.unit_size
        return [self.unit(logic_offset) for logic_offset in range(start, end, self.unit_size)]

    @property
    def last_unit(self):
        starts = [start for start in self.starts if self.written(start)]
        return self.units(starts[-1])[-1] if starts else None

    @property
    def min_offset(self):
        return self.min_queue_offset if self.is_batch else self.min_logic_offset // UNIT_SIZE

    @property
    def max_offset(self):
        if not self.is_batch:
            return self.end // UNIT_SIZE
        last = self.last_unit
        return last.queue_offset + last.batch_num if last else 0


def load(directory, file_size, unit_size=UNIT_SIZE):
    """A queue as a broker has it after loading and recovering it, before anything is cut or corrected."""
    queue = Queue(file_size, unit_size, read_files(directory))
    recover(queue)
    return queue


def recover(queue):
    """ConsumeQueue.recover, BatchConsumeQueue.recover: the last three files decide where the queue ends."""
    starts = queue.starts[-3:]
    for start in starts:
        position = 0
        while position + queue.unit_size <= queue.file_size and queue.unit(start + position).is_valid:
            unit = queue.unit(start + position)
            queue.max_physic_offset = unit.offset if queue.is_batch else unit.offset + unit.size
            position += queue.unit_size
        queue.end = start + position
        if position < queue.file_size:
            break
    queue.files = {start: data for start, data in queue.files.items() if start <= queue.end}


def correct_min_offset(queue, min_phy_offset):
    """ConsumeQueue.correctMinOffset, BatchConsumeQueue.correctMinOffset."""
    if queue.is_batch:
        correct_min_batch_offset(queue, min_phy_offset)
        return
    if queue.min_logic_offset >= queue.end:
        return
    last_start = queue.starts[-1]
    if queue.written(last_start) and queue.last_unit.offset < min_phy_offset:
        queue.min_logic_offset = queue.end
        return
    first = queue.starts[0]
    start = max(queue.min_logic_offset - first, 0)
    if start >= queue.written(first):
        return
    offsets = [unit.offset for unit in queue.units(first)[start // UNIT_SIZE :]]
    if queue.min_logic_offset >= first and offsets[0] >= min_phy_offset:
        return
    low, high = 0, len(offsets) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if offsets[middle] == min_phy_offset:
            low = high = middle
        elif offsets[middle] > min_phy_offset:
            high = middle
        else:
            low = middle
    for number in range(low, high + 1):
        if offsets[number] >= min_phy_offset:
            queue.min_logic_offset = first + start + number * UNIT_SIZE
            return


def correct_min_batch_offset(queue, min_phy_offset):
    """The base of the first unit of the first file that is not before the log, or what follows its last unit."""
    for unit in queue.units(queue.starts[0]) if queue.files else []:
        queue.min_queue_offset = unit.queue_offset
        if unit.offset >= min_phy_offset:
            return
        queue.min_queue_offset = unit.queue_offset + unit.batch_num


def put(queue, offset, size, tags_code, queue_offset):
    """ConsumeQueue.putMessagePositionInfo: a unit that is already there is ignored, a gap is not left."""
    if offset + size <= queue.max_physic_offset:
        return
    expected = queue_offset * UNIT_SIZE
    if not queue.files:
        start = expected // queue.file_size * queue.file_size
        queue.files[start] = bytearray(queue.file_size)
        queue.end = start
        if queue_offset:
            queue.min_logic_offset = expected
            while queue.end < expected:
                append(queue, FILLER)
    if queue_offset and expected < queue.end:
        return
    queue.max_physic_offset = offset + size
    append(queue, UNIT.pack(offset, size, tags_code))


def append(queue, data):
    start = queue.end // queue.file_size * queue.file_size
    file = queue.files.setdefault(start, bytearray(queue.file_size))
    file[queue.end - start : queue.end - start + len(data)] = data
    queue.end += len(data)


class ExtUnit(NamedTuple):
    size: int
    tags_code: int
    msg_store_time: int
    bit_map: bytes | None


def is_ext_addr(tags_code):
    return tags_code <= MAX_EXT_ADDR


def ext_addr(position):
    """The tags code that stands for the extension unit at that position."""
    return position + LONG_MIN


def read_ext(files, address):
    """ConsumeQueueExt.get: the unit at an address, or None."""
    position = address - LONG_MIN
    start = max((start for start in files if start <= position), default=None)
    if start is None or position - start + EXT_UNIT.size > len(files[start]):
        return None
    size, code, time, bits = EXT_UNIT.unpack_from(files[start], position - start)
    if size < 1:
        return None
    first = position - start + EXT_UNIT.size
    return ExtUnit(size, code, time, bytes(files[start][first : first + bits]) if bits > 0 else None)


def pack_ext(tags_code, msg_store_time, bit_map=b""):
    return EXT_UNIT.pack(EXT_UNIT.size + len(bit_map), tags_code, msg_store_time, len(bit_map)) + bit_map
