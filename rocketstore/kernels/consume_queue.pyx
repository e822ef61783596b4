"""Units of consume queues: decoding them into columns, finding one among them, and packing them.

    unit, 20 bytes                                batch unit, 46 bytes: from byte 20 on also
       0  i64  offset of the record                 20  i64  storeTimestamp
       8  i32  size of the record                   28  i64  msgBaseOffset: the queue offset of its first message
      12  i64  tagsCode                             36  i16  batchSize: messages
                                                    38  i32  compactedOffset
    ext unit, 20 bytes and the bitmap               42  i32  0
       0  i16  size of all
       2  i64  tagsCode
      10  i64  storeTimestamp
      18  i16  bitmap size

Integers are big-endian. A filler is (0, 2147483647, 0): it stands for a queue offset before the first message.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT16_MAX, INT16_MIN, INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from rocketstore.kernels.buffer cimport Buffer
from rocketstore.kernels.csrc cimport (
    rs_columns_8_4_8,
    rs_fits,
    rs_load_be32,
    rs_load_be64,
    rs_store_be32,
    rs_store_be64,
)

import numpy as np

from rocketstore.errors import CorruptFileError

cdef enum:
    PIECE = 524288  # units decoded or packed between two checks for signals: one to six milliseconds


cdef inline int64_t int64_at(const uint8_t *p) noexcept nogil:
    return <int64_t>rs_load_be64(p)


cdef inline int32_t int32_at(const uint8_t *p) noexcept nogil:
    return <int32_t>rs_load_be32(p)


cdef inline int16_t int16_at(const uint8_t *p) noexcept nogil:
    return <int16_t>((p[0] << 8) | p[1])


cdef inline void store_int16(uint8_t *p, int64_t value) noexcept nogil:
    p[0] = <uint8_t>((value >> 8) & 0xFF)
    p[1] = <uint8_t>(value & 0xFF)


cdef inline bint is_filler(const uint8_t *unit) noexcept nogil:
    return int64_at(unit) == 0 and int32_at(unit + SIZE) == INT32_MAX and int64_at(unit + TAGS_CODE) == 0


cdef int check_units(Buffer buffer, int64_t pos, int64_t n, int64_t unit_size) except -1:
    """Raise unless the buffer has n units at a position, and the file was not cut."""
    if unit_size != UNIT_SIZE and unit_size != BATCH_UNIT_SIZE:
        raise ValueError(f"unit_size={unit_size}: must be {UNIT_SIZE} or {BATCH_UNIT_SIZE}")
    buffer.check_file_size()
    if pos < 0 or n < 0 or n > buffer.size // unit_size or not rs_fits(buffer.size, pos, n * unit_size):
        raise CorruptFileError(buffer.path, pos, "file size", f"{n} units are not within {buffer.size} bytes")
    return 0


# ---- columns -----------------------------------------------------------------------------------------------


def decode_units(Buffer buffer, int64_t pos, int64_t[::1] phy_offsets, int32_t[::1] sizes, int64_t[::1] tags_codes):
    """Decode as many units at byte ``pos`` of a file as the columns have rows. Source: ConsumeQueue.iterateFrom."""
    cdef Py_ssize_t n = phy_offsets.shape[0], first = 0, count
    if sizes.shape[0] != n or tags_codes.shape[0] != n:
        raise ValueError("the columns differ in length")
    check_units(buffer, pos, n, UNIT_SIZE)
    while first < n:
        count = min(n - first, PIECE)
        buffer.enter()
        with nogil:
            rs_columns_8_4_8(buffer.data + pos + first * UNIT_SIZE, count, &phy_offsets[first], &sizes[first],
                             &tags_codes[first])
        buffer.leave()
        PyErr_CheckSignals()
        first += count


def read_unit(Buffer buffer, int64_t pos):
    """Read the unit at byte ``pos`` of a file: offset, size, tagsCode, and whether it is a filler."""
    cdef const uint8_t *unit
    check_units(buffer, pos, 1, UNIT_SIZE)
    buffer.enter_short()
    unit = buffer.data + pos
    fields = int64_at(unit), int32_at(unit + SIZE), int64_at(unit + TAGS_CODE), is_filler(unit)
    buffer.leave_short()
    return fields


def decode_batch_units(Buffer buffer, int64_t pos, int64_t[:, ::1] longs,
                       int32_t[:, ::1] ints, Py_ssize_t first, Py_ssize_t last):
    """Decode batch units at byte ``pos`` of a file into columns ``first`` to ``last``.

    Parameters: longs, int64[4, n]: msgBaseOffset, offset, tagsCode, storeTimestamp. ints, int32[3, n]: size,
    batchSize, compactedOffset. Source: BatchConsumeQueue.iterateFrom.
    """
    cdef Py_ssize_t end, i
    cdef const uint8_t *unit
    if longs.shape[0] != 4 or ints.shape[0] != 3 or not 0 <= first <= last <= min(longs.shape[1], ints.shape[1]):
        raise ValueError("int64[4, n] and int32[3, n] of enough columns were expected")
    check_units(buffer, pos, last - first, BATCH_UNIT_SIZE)
    while first < last:
        end = min(first + PIECE, last)
        buffer.enter()
        unit = buffer.data + pos
        with nogil:
            for i in range(first, end):
                longs[0, i] = int64_at(unit + MSG_BASE_OFFSET)
                longs[1, i] = int64_at(unit)
                longs[2, i] = int64_at(unit + TAGS_CODE)
                longs[3, i] = int64_at(unit + STORE_TIMESTAMP)
                ints[0, i] = int32_at(unit + SIZE)
                ints[1, i] = int16_at(unit + BATCH_SIZE)
                ints[2, i] = int32_at(unit + COMPACTED_OFFSET)
                unit += BATCH_UNIT_SIZE
        buffer.leave()
        PyErr_CheckSignals()
        pos += (end - first) * BATCH_UNIT_SIZE
        first = end


# ---- finding -----------------------------------------------------------------------------------------------


def count_valid_units(Buffer buffer, int64_t pos, int64_t n, int64_t unit_size, int64_t last_phy_offset=INT64_MAX):
    """Count the valid units at byte ``pos``, up to the first invalid one, at most n.

    Parameters: last_phy_offset: a unit whose record begins behind this physical offset is invalid too.
    Source: ConsumeQueue.recover, BatchConsumeQueue.recover.
    """
    cdef int64_t count = 0, end
    cdef bint valid = True
    cdef const uint8_t *unit
    check_units(buffer, pos, n, unit_size)
    while valid and count < n:
        end = min(count + PIECE, n)
        buffer.enter()
        unit = buffer.data + pos + count * unit_size
        with nogil:
            while count < end:
                valid = 0 <= int64_at(unit) <= last_phy_offset and int32_at(unit + SIZE) > 0
                if unit_size == BATCH_UNIT_SIZE:
                    valid = valid and int64_at(unit + MSG_BASE_OFFSET) >= 0 and int16_at(unit + BATCH_SIZE) > 0
                if not valid:
                    break
                count += 1
                unit += unit_size
        buffer.leave()
        PyErr_CheckSignals()
    return count


def find_unit(Buffer buffer, int64_t pos, int64_t n, int64_t unit_size, int64_t field, int64_t value):
    """Find the first of n units at byte ``pos`` that is no filler and has at least ``value`` in an i64 field.

    The values must ascend. Parameters: field: bytes from the start of a unit. Returns: its number, n without a hit.
    """
    cdef int64_t low = 0, high = n, middle
    cdef const uint8_t *unit
    check_units(buffer, pos, n, unit_size)
    if not 0 <= field <= unit_size - 8:
        raise ValueError(f"field={field} is not within a unit")
    buffer.enter()
    while low < high:
        middle = low + (high - low) // 2
        unit = buffer.data + pos + middle * unit_size
        if int64_at(unit + field) < value or is_filler(unit):
            low = middle + 1
        else:
            high = middle
    buffer.leave()
    return low


def sum_sizes(Buffer buffer, int64_t pos, int64_t n, int64_t unit_size):
    """Return the sum of the sizes of the records of n units at byte ``pos``, bytes. A filler has no record."""
    cdef int64_t count = 0, end, total = 0
    cdef const uint8_t *unit
    check_units(buffer, pos, n, unit_size)
    while count < n:
        end = min(count + PIECE, n)
        buffer.enter()
        unit = buffer.data + pos + count * unit_size
        with nogil:
            while count < end:
                if not is_filler(unit):
                    total += int32_at(unit + SIZE)
                count += 1
                unit += unit_size
        buffer.leave()
        PyErr_CheckSignals()
    return total


# ---- coverage of the log -----------------------------------------------------------------------------------


cdef inline uint64_t hash_offset(int64_t phy_offset) noexcept nogil:
    """A hash of an offset, so that sums of different sets of offsets differ."""
    cdef uint64_t x = <uint64_t>phy_offset * <uint64_t>0x9E3779B97F4A7C15
    x ^= x >> 29
    x *= <uint64_t>0xBF58476D1CE4E5B9
    return x ^ x >> 32


def hash_offsets(const int64_t[::1] phy_offsets):
    """Return the hashes of physical offsets that ``sum_units`` adds, uint64[n]."""
    cdef Py_ssize_t i
    cdef uint64_t[::1] hashes = np.empty(phy_offsets.shape[0], np.uint64)
    for i in range(phy_offsets.shape[0]):
        hashes[i] = hash_offset(phy_offsets[i])
    return np.asarray(hashes)


def sum_units(Buffer buffer, int64_t pos, int64_t n, int64_t unit_size, int64_t after, const int64_t[::1] edges,
              uint64_t[::1] sums, int64_t[::1] begins, int64_t[::1] ends):
    """Add the records of n units at byte ``pos`` of a file to the parts of the log in which they begin.

    Fillers, and records before the first part or behind the last, are left out.

    Parameters: after: the physical offset in the last unit before these that is no filler, -1 without one. edges:
    int64[p + 1], ascending: where the parts begin, and where the last one ends, physical offsets. sums: uint64[p]: the
    hash of the end of each record is added, that of its begin subtracted. begins, ends: int64[p]: the least begin and
    the greatest end of the records.
    Returns: ``after`` for the units behind these; None if a unit does not lead behind the unit before it, or has a
    size that is not above 0. Then only a part of the records was added.
    """
    cdef Py_ssize_t parts = sums.shape[0], part = 0
    cdef int64_t count = 0, stop, begin, end, first = INT64_MAX, last = -1
    cdef int32_t size
    cdef uint64_t total = 0
    cdef bint good = True
    cdef const uint8_t *unit
    if parts < 1 or not edges.shape[0] - 1 == begins.shape[0] == ends.shape[0] == parts:
        raise ValueError("the columns differ in length")
    check_units(buffer, pos, n, unit_size)
    while good and count < n:
        stop = min(count + PIECE, n)
        buffer.enter()
        unit = buffer.data + pos + count * unit_size
        with nogil:
            while count < stop:
                begin, size = int64_at(unit), int32_at(unit + SIZE)
                if not is_filler(unit):
                    good = begin > after and 0 < size <= INT64_MAX - begin
                    if not good:
                        break
                    after, end = begin, begin + size
                    if not edges[part] <= begin < edges[part + 1]:
                        add_part(part, total, first, last, sums, begins, ends)
                        total, first, last = 0, INT64_MAX, -1
                        part = find_part(edges, begin)
                    if edges[part] <= begin < edges[part + 1]:
                        total += hash_offset(end) - hash_offset(begin)
                        first, last = min(first, begin), max(last, end)
                count += 1
                unit += unit_size
        buffer.leave()
        PyErr_CheckSignals()
    add_part(part, total, first, last, sums, begins, ends)
    return after if good else None


cdef inline void add_part(Py_ssize_t part, uint64_t total, int64_t first, int64_t last, uint64_t[::1] sums,
                          int64_t[::1] begins, int64_t[::1] ends) noexcept nogil:
    sums[part] += total
    begins[part], ends[part] = min(begins[part], first), max(ends[part], last)


cdef Py_ssize_t find_part(const int64_t[::1] edges, int64_t phy_offset) noexcept nogil:
    """Find the part that has an offset; the first or the last part for an offset in none."""
    cdef Py_ssize_t low = 0, high = edges.shape[0] - 1, middle
    while high - low > 1:
        middle = low + (high - low) // 2
        if edges[middle] <= phy_offset:
            low = middle
        else:
            high = middle
    return low


# ---- ext units ---------------------------------------------------------------------------------------------


def read_ext_unit(Buffer buffer, int64_t pos):
    """Read the ext unit at byte ``pos``: tagsCode, storeTimestamp, bitmap; None if there is no unit.

    Raises: CorruptFileError for impossible sizes. Source: ConsumeQueueExt.CqExtUnit.read.
    """
    cdef const uint8_t *unit
    cdef int64_t size, bitmap_size
    buffer.check_file_size()
    if pos < 0 or not rs_fits(buffer.size, pos, EXT_BITMAP):
        return None
    with buffer:
        unit = buffer.data + pos
        size, bitmap_size = int16_at(unit), max(int16_at(unit + EXT_BITMAP_SIZE), <int16_t>0)
        if size < 1:
            return None
        if size < EXT_BITMAP + bitmap_size or not rs_fits(buffer.size, pos, size):
            raise CorruptFileError(buffer.path, pos, "size", f"{size} bytes, {bitmap_size} in the bitmap")
        bitmap = PyBytes_FromStringAndSize(<const char *>unit + EXT_BITMAP, bitmap_size)
        return int64_at(unit + EXT_TAGS_CODE), int64_at(unit + EXT_STORE_TIMESTAMP), bitmap


# ---- packing -----------------------------------------------------------------------------------------------


cdef inline bint is_record(int64_t phy_offset, int64_t size) noexcept nogil:
    """Whether offset and size are possible. An impossible unit would end its queue at the next recovery."""
    return phy_offset >= 0 and 0 < size <= INT64_MAX - phy_offset


def pack_units(const int64_t[::1] phy_offsets, const int32_t[::1] sizes, const int64_t[::1] tags_codes,
               const int64_t[::1] queue_offsets, int64_t max_phy_offset, int64_t next_queue_offset):
    """Pack n units in order. Skip units that the queue already has.

    Parameters: max_phy_offset: where the record of the queue's last unit ends, bytes, -1 for an empty queue.
    next_queue_offset: the end of the queue, -1 to begin at the queue offset of the first unit.
    Returns: 20 bytes for each packed unit; the row of the first, n without one; whether the last rows have an occupied
    queue offset: a broker notices that only after it has made a file for the unit.
    Raises: ValueError for an impossible row; nothing is packed then. Source: ConsumeQueue.putMessagePositionInfo.
    """
    cdef Py_ssize_t n = phy_offsets.shape[0], i = 0, end, first = n, count = 0
    cdef bint good = True, is_old = False
    cdef uint8_t *unit
    if not sizes.shape[0] == tags_codes.shape[0] == queue_offsets.shape[0] == n:
        raise ValueError("the columns differ in length")
    packed = PyBytes_FromStringAndSize(NULL, n * UNIT_SIZE)
    unit = <uint8_t *>PyBytes_AS_STRING(packed)
    while good and i < n:
        end = min(i + PIECE, n)
        with nogil:
            while i < end:
                good = is_record(phy_offsets[i], sizes[i]) and 0 <= queue_offsets[i] < INT64_MAX // UNIT_SIZE
                if not good:
                    break
                if phy_offsets[i] + sizes[i] > max_phy_offset:
                    is_old = 0 < queue_offsets[i] < next_queue_offset
                    if not is_old:
                        if count == 0:
                            first = i
                        if next_queue_offset < 0:
                            next_queue_offset = queue_offsets[i]
                        rs_store_be64(unit, phy_offsets[i])
                        rs_store_be32(unit + SIZE, sizes[i])
                        rs_store_be64(unit + TAGS_CODE, tags_codes[i])
                        max_phy_offset = phy_offsets[i] + sizes[i]
                        next_queue_offset += 1
                        unit += UNIT_SIZE
                        count += 1
                i += 1
        PyErr_CheckSignals()
    if not good:
        raise ValueError(f"row {i}: a record of {sizes[i]} bytes at {phy_offsets[i]}, queue offset {queue_offsets[i]}")
    return packed if count == n else packed[:count * UNIT_SIZE], first, is_old


def pack_batch_units(const int64_t[::1] phy_offsets, const int32_t[::1] sizes, const int64_t[::1] tags_codes,
                     const int64_t[::1] store_timestamps, const int64_t[::1] msg_base_offsets,
                     const int32_t[::1] batch_sizes, int64_t max_phy_offset):
    """Pack n batch units in order. Skip units that the queue already has, and units without a queue offset.

    Parameters: max_phy_offset: where the record of the queue's last unit begins, bytes, -1 for an empty queue.
    Returns: 46 bytes for each packed unit. Raises: ValueError for an impossible row; nothing is packed then.
    Source: BatchConsumeQueue.putMessagePositionInfoWrapper, putBatchMessagePositionInfo.
    """
    cdef Py_ssize_t n = phy_offsets.shape[0], i = 0, end, count = 0
    cdef bint good = True
    cdef uint8_t *unit
    if not (sizes.shape[0] == tags_codes.shape[0] == store_timestamps.shape[0] == msg_base_offsets.shape[0]
            == batch_sizes.shape[0] == n):
        raise ValueError("the columns differ in length")
    packed = PyBytes_FromStringAndSize(NULL, n * BATCH_UNIT_SIZE)
    unit = <uint8_t *>PyBytes_AS_STRING(packed)
    while good and i < n:
        end = min(i + PIECE, n)
        with nogil:
            while i < end:
                good = is_record(phy_offsets[i], sizes[i]) and INT16_MIN <= batch_sizes[i] <= INT16_MAX
                if not good:
                    break
                if phy_offsets[i] > max_phy_offset and msg_base_offsets[i] >= 0 and batch_sizes[i] >= 0:
                    rs_store_be64(unit, phy_offsets[i])
                    rs_store_be32(unit + SIZE, sizes[i])
                    rs_store_be64(unit + TAGS_CODE, tags_codes[i])
                    rs_store_be64(unit + STORE_TIMESTAMP, store_timestamps[i])
                    rs_store_be64(unit + MSG_BASE_OFFSET, msg_base_offsets[i])
                    store_int16(unit + BATCH_SIZE, batch_sizes[i])
                    rs_store_be32(unit + COMPACTED_OFFSET, <uint32_t>-1)
                    rs_store_be32(unit + RESERVED, 0)
                    max_phy_offset = phy_offsets[i]
                    unit += BATCH_UNIT_SIZE
                    count += 1
                i += 1
        PyErr_CheckSignals()
    if not good:
        raise ValueError(f"row {i}: a record of {sizes[i]} bytes at {phy_offsets[i]}, {batch_sizes[i]} messages")
    return packed if count == n else packed[:count * BATCH_UNIT_SIZE]


def pack_ext_unit(int64_t tags_code, int64_t store_timestamp, bytes bitmap):
    """Pack an ext unit. Raises: ValueError for a bitmap of more than 32,747 bytes. Source: CqExtUnit.write."""
    cdef Py_ssize_t size = EXT_BITMAP + len(bitmap)
    cdef uint8_t *unit
    if size > INT16_MAX:
        raise ValueError(f"a bitmap of {len(bitmap)} bytes: a unit has {INT16_MAX} at most")
    packed = PyBytes_FromStringAndSize(NULL, size)
    unit = <uint8_t *>PyBytes_AS_STRING(packed)
    store_int16(unit, size)
    rs_store_be64(unit + EXT_TAGS_CODE, tags_code)
    rs_store_be64(unit + EXT_STORE_TIMESTAMP, store_timestamp)
    store_int16(unit + EXT_BITMAP_SIZE, len(bitmap))
    memcpy(unit + EXT_BITMAP, PyBytes_AS_STRING(bitmap), len(bitmap))
    return packed
