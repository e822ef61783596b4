"""Consume queues, batch consume queues and extension files: units, recovery, the first offset, appending, cutting."""

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
    first_made: int = -1  # where the file begins that was made when there was none
    min_queue_offset: int = -1  # of a batch queue
    next_queue_offset: int = 0  # of a batch queue whose last unit has expired
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
        return last.queue_offset + last.batch_num if last else self.next_queue_offset


def load(directory, file_size, unit_size=UNIT_SIZE):
    """A queue as a broker has it after loading and recovering it, before anything is cut or corrected."""
    queue = Queue(file_size, unit_size, read_files(directory))
    recover(queue)
    return queue


def recover(queue):
    """ConsumeQueue.recover, BatchConsumeQueue.recover: the last three files decide where the queue ends.

    Returns the starts of the files that were read.
    """
    read = []
    for start in queue.starts[-3:]:
        read.append(start)
        position = 0
        while position + queue.unit_size <= queue.file_size and queue.unit(start + position).is_valid:
            unit = queue.unit(start + position)
            queue.max_physic_offset = unit.offset if queue.is_batch else unit.offset + unit.size
            position += queue.unit_size
        queue.end = start + position
        if position < queue.file_size:
            break
    queue.files = {start: data for start, data in queue.files.items() if start <= queue.end}
    if queue.is_batch:
        revise_min_batch_offset(queue)
    return read


def correct_min_offset(queue, min_phy_offset, release=(5, 5, 1)):
    """ConsumeQueue.correctMinOffset, BatchConsumeQueue.correctMinOffset. Returns the unit that was found, or None."""
    if queue.is_batch:
        return correct_min_batch_offset(queue, min_phy_offset)
    if release >= (5, 5, 1) and not queue.files:
        queue.min_logic_offset, queue.max_physic_offset = 0, -1
        return None
    if queue.min_logic_offset >= queue.end:
        return None
    last_start = queue.starts[-1]
    if queue.written(last_start) and queue.last_unit.offset < min_phy_offset:
        queue.min_logic_offset = queue.end
        return None
    first = queue.starts[0]
    start = max(queue.min_logic_offset - first, 0)
    if start >= queue.written(first):
        return None
    offsets = [unit.offset for unit in queue.units(first)[start // UNIT_SIZE :]]
    if queue.min_logic_offset >= first and offsets[0] >= min_phy_offset:
        return None
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
            return queue.unit(queue.min_logic_offset)
    return None


def correct_min_batch_offset(queue, min_phy_offset):
    """The base of the first unit of the first file, or what follows the units of it that are before the log."""
    revise_min_batch_offset(queue)
    for unit in queue.units(queue.starts[0]) if queue.files else []:
        if unit.offset >= min_phy_offset:
            return
        queue.min_queue_offset = unit.queue_offset + unit.batch_num


def revise_min_batch_offset(queue):
    units = queue.units(queue.starts[0]) if queue.files else []
    queue.min_queue_offset = units[0].queue_offset if units else -1


def truncate(queue, phy_offset):
    """truncateDirtyLogicFiles: remove units of records from there on, file by file. Unit 0 of a file is trusted."""
    queue.max_physic_offset = phy_offset - 1 if queue.is_batch else phy_offset
    queue.end = queue.next_queue_offset = 0
    while queue.files:
        start = queue.starts[-1]
        if queue.unit(start).offset >= phy_offset:
            del queue.files[start]
            continue
        for logic_offset in range(start, start + queue.file_size, queue.unit_size):
            unit = queue.unit(logic_offset)
            if logic_offset > start and (not unit.is_valid or unit.offset >= phy_offset):
                break
            queue.end = logic_offset + queue.unit_size
            queue.max_physic_offset = unit.offset if queue.is_batch else unit.offset + unit.size
        break
    if queue.is_batch:
        revise_min_batch_offset(queue)


def delete_expired(queue, min_phy_offset):
    """deleteExpiredFileByOffset: the starts of the files that went, all before the log, and never the last one."""
    deleted = []
    queue.next_queue_offset = queue.max_offset
    for start in queue.starts[:-1]:
        if queue.unit(start + queue.file_size - queue.unit_size).offset >= min_phy_offset:
            break
        del queue.files[start]
        deleted.append(start)
    return deleted


def put(queue, offset, size, tags_code, queue_offset):
    """ConsumeQueue.putMessagePositionInfo: a unit that is already there is ignored, a gap is not left.

    The file for the unit is made before its queue offset is looked at.
    """
    if offset + size <= queue.max_physic_offset:
        return
    expected = (queue_offset * UNIT_SIZE + 2**63) % 2**64 - 2**63
    if not queue.files:
        queue.end = queue.first_made = max(expected, 0) // queue.file_size * queue.file_size
        queue.files[queue.end] = bytearray(queue.file_size)
    if queue_offset and queue.end == queue.first_made:
        queue.min_logic_offset = expected
        fillers = max(expected, 0) % queue.file_size // UNIT_SIZE
        for _ in range(fillers):
            append(queue, FILLER)
    queue.files.setdefault(queue.end // queue.file_size * queue.file_size, bytearray(queue.file_size))
    if queue_offset and expected < queue.end:
        return
    queue.max_physic_offset = offset + size
    append(queue, UNIT.pack(offset, size, tags_code))


def put_batch(queue, offset, size, tags_code, store_timestamp, msg_base_offset, batch_size):
    """BatchConsumeQueue.putMessagePositionInfoWrapper: only where the record begins tells that a unit is there."""
    if msg_base_offset < 0 or batch_size < 0 or offset <= queue.max_physic_offset:
        return
    is_first = not queue.files
    append(queue, pack_batch_unit(offset, size, tags_code, store_timestamp, msg_base_offset, batch_size))
    queue.max_physic_offset = offset
    if is_first:
        revise_min_batch_offset(queue)


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


@dataclass
class Ext:
    """The files of extension units of a queue, and up to where they are written."""

    file_size: int
    files: dict = field(default_factory=dict)
    end: int = 0

    def cut(self, end):
        self.files = {start: data for start, data in self.files.items() if start <= end}
        self.end = end if self.files else 0

    def size_at(self, position):
        start = position // self.file_size * self.file_size
        return int.from_bytes(self.files[start][position - start : position - start + 2], "big", signed=True)


def put_ext(ext, tags_code, store_timestamp, bit_map=b""):
    """ConsumeQueueExt.put: the address; the tags code where three files had no room for it."""
    unit = pack_ext(tags_code, store_timestamp, bit_map) if len(bit_map) <= 32747 else None
    for _ in range(3 if unit else 0):
        start = ext.end // ext.file_size * ext.file_size
        file = ext.files.setdefault(start, bytearray(ext.file_size))
        at = ext.end - start
        if len(unit) <= ext.file_size - at - 4:
            file[at : at + len(unit)] = unit
            ext.end += len(unit)
            return ext_addr(start + at)
        file[at : at + 2] = b"\xff\xff"
        ext.end = start + ext.file_size
    return tags_code


def recover_ext(ext):
    """ConsumeQueueExt.recover: through all files, by the sizes of units."""
    end = 0
    for start in sorted(ext.files):
        end = start
        while (size := ext.size_at(end)) > 0:
            end += size
    ext.cut(end)


def truncate_ext_by_max_address(ext, address):
    """ConsumeQueueExt.truncateByMaxAddress: what follows the unit of an address goes."""
    position = address - LONG_MIN
    if not is_ext_addr(address) or not ext.files:
        return
    at = position or min(ext.files)  # findMappedFileByOffset gives the first file for offset 0
    if min(ext.files) <= at < ext.end and ext.size_at(at) > 0:
        ext.cut(position + ext.size_at(at))


def truncate_ext_by_min_address(ext, address):
    """ConsumeQueueExt.truncateByMinAddress: files that end before an address go."""
    if is_ext_addr(address):
        ext.files = {s: data for s, data in ext.files.items() if s + ext.file_size >= address - LONG_MIN}
        ext.end = ext.end if ext.files else 0
