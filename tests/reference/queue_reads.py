"""Reads through a queue: offsets by time, and messages."""

from typing import NamedTuple

from .consume_queue import LONG_MIN, UNIT_SIZE, is_ext_addr, read_ext
from .java import divide, java_hash, to_int


class BufferUnderflow(Exception):
    """What Java throws where a search starts behind the last unit of a file."""


def get_offset_in_queue_by_time(queue, log, timestamp, boundary="lower"):
    """ConsumeQueueStore.getOffsetInQueueByTime, of 5.1.1 and later; log: reference.commit_log.CommitLog."""
    find = find_batch_by_time if queue.is_batch else find_by_time
    found = find(queue, log, timestamp, boundary == "lower")
    return min(max(found, queue.min_offset), queue.max_offset)


def find_by_time(queue, log, timestamp, lower):
    start = file_by_time(queue, log, timestamp, lower)
    if start is None or queue.written(start) == 0:
        return 0
    units = queue.units(start)
    times = [log.pickup_store_timestamp(unit.offset, unit.size) for unit in units]
    floor = max(queue.min_logic_offset - start, 0) // UNIT_SIZE
    first = start // UNIT_SIZE
    if times[-1] < timestamp:
        return first + len(units) - (not lower)
    if floor >= len(units):
        raise BufferUnderflow
    if times[floor] > timestamp:
        return first if lower else 0
    return search_by_time(units, times, floor, log.min_offset, timestamp, start, lower)


def search_by_time(units, times, floor, min_phy_offset, timestamp, start, lower):
    low, high, left, right = floor, len(units) - 1, None, None
    while high >= low:
        middle = (low + high) // 2
        if units[middle].offset < min_phy_offset:
            low, left = middle + 1, middle
        elif times[middle] < 0:
            return 0
        elif times[middle] == timestamp:
            step, stop = (-1, floor) if lower else (1, len(units) - 1)
            while middle != stop and times[middle + step] == timestamp:
                middle += step
            return start // UNIT_SIZE + middle
        elif times[middle] > timestamp:
            high, right = middle - 1, middle
        else:
            low, left = middle + 1, middle
    found = right if lower else left
    return divide(start - 1, UNIT_SIZE) if found is None else start // UNIT_SIZE + found


def file_by_time(queue, log, timestamp, lower):
    """MappedFileQueue.getConsumeQueueMappedFileByTime: the start of the file that is searched."""
    starts = queue.starts
    if lower:
        for start in starts[:-1]:
            if stored_time(queue, log, start, queue.file_size - UNIT_SIZE) >= timestamp:
                return start
        return starts[-1] if starts else None
    for start in reversed(starts):
        if stored_time(queue, log, start, 0) <= timestamp:
            return start
    return None


def stored_time(queue, log, start, position):
    if position + UNIT_SIZE > queue.written(start):
        return -1
    unit = queue.unit(start + position)
    time = log.pickup_store_timestamp(unit.offset, unit.size)
    return time if time > 0 else -1


def find_batch_by_time(queue, log, timestamp, lower):
    """BatchConsumeQueue.getOffsetInQueueByTime: between two units UPPER finds nothing."""
    filled = [queue.units(start) for start in queue.starts if queue.written(start)]
    if not filled:
        return -1
    files = [units for units in filled if units[0].store_timestamp <= timestamp]
    units = files[-1] if files else filled[0]
    if timestamp >= units[-1].store_timestamp:
        return units[-1].queue_offset
    low, high = 0, len(units) - 1
    while low <= high:
        middle = (low + high) // 2
        time = units[middle].store_timestamp
        if middle in (low, high):
            if time >= timestamp:
                return units[middle].queue_offset
            if middle == high:
                return -1
            low = middle + 1
        elif lower:
            low, high = (middle + 1, high) if time < timestamp else (low, middle)
        else:
            low, high = (middle, high) if time <= timestamp else (low, middle - 1)
    return -1


def units_from(queue, queue_offset):
    """iterateFrom: the units from that one to the end of its file, or None."""
    if not queue.is_batch:
        logic_offset = queue_offset * UNIT_SIZE
        start = logic_offset // queue.file_size * queue.file_size
        position = logic_offset - start
        if logic_offset < queue.min_logic_offset or start not in queue.files or position >= queue.written(start):
            return None
        return queue.units(start)[position // UNIT_SIZE :]
    for start in reversed(queue.starts):
        units = queue.units(start)
        for number, unit in enumerate(units):
            if unit.queue_offset <= queue_offset < unit.queue_offset + unit.batch_num:
                return units[number:]
    return None


class GetMessageResult(NamedTuple):
    status: str
    next_begin_offset: int
    min_offset: int
    max_offset: int
    units: list

    @property
    def message_count(self):
        return sum(unit.batch_num for unit in self.units)


def get_message(queue, log, offset, max_msg_nums, tags=None, *, cq_ext=None, max_bytes=1 << 27):
    """DefaultMessageStore.getMessage of records in memory.

    tags: "A || B", or None for no filter; cq_ext: the extension files of the queue, if it has any.
    """
    low, high = queue.min_offset, queue.max_offset
    refusals = [
        (high == 0, "NO_MESSAGE_IN_QUEUE", 0),
        (offset < low, "OFFSET_TOO_SMALL", low),
        (offset == high, "OFFSET_OVERFLOW_ONE", offset),
        (offset > high, "OFFSET_OVERFLOW_BADLY", high),
    ]
    for applies, status, next_offset in refusals:
        if applies:
            return GetMessageResult(status, next_offset, low, high, [])
    units = units_from(queue, offset)
    if units is None:
        return GetMessageResult("OFFSET_FOUND_NULL", next_file_offset(queue, offset), low, high, [])
    max_scan = max(16000, max_msg_nums * queue.unit_size)
    status, next_offset, found, skip_until = "NO_MATCHED_MESSAGE", offset, [], LONG_MIN
    for unit in units:
        if next_offset >= high or (unit.queue_offset - offset) * queue.unit_size >= max_scan:
            break
        if is_the_batch_full(found, unit, max_msg_nums, max_bytes):
            break
        next_offset = unit.queue_offset + unit.batch_num
        if unit.offset < skip_until:
            continue
        if not is_matched(tags, unit.tags_code, cq_ext):
            status = status if found else "NO_MATCHED_MESSAGE"
            continue
        if log.select(unit.offset, unit.size) is None:
            status = status if found else "MESSAGE_WAS_REMOVING"
            skip_until = log.roll_next_file(unit.offset)
            continue
        found.append(unit)
        status, skip_until = "FOUND", LONG_MIN
    return GetMessageResult(status, next_offset, low, high, found)


def next_file_offset(queue, queue_offset):
    if queue.is_batch:
        return 0
    per_file = queue.file_size // UNIT_SIZE
    return queue_offset + per_file - queue_offset % per_file


def is_the_batch_full(found, unit, max_msg_nums, max_bytes):
    if not found:
        return False
    count, size = sum(unit.batch_num for unit in found), sum(unit.size for unit in found)
    if count + unit.batch_num > max_msg_nums or size + unit.size > max_bytes or size >= max_bytes:
        return True
    return size + unit.size > 262144 or count > 31


def is_matched(tags, tags_code, cq_ext):
    """DefaultMessageFilter: low 32 bits of the tags code against the hashes of the tags."""
    if tags is None or tags == "*":
        return True
    if cq_ext is not None and is_ext_addr(tags_code):
        unit = read_ext(cq_ext, tags_code)
        if unit is None:
            return True
        tags_code = unit.tags_code
    return to_int(tags_code) in {java_hash(tag.strip()) for tag in tags.split("||")}
