"""Putting items into an index file: in place if others read the file, or as a stream if it is unpublished."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rocketstore.kernels.csrc cimport (
    RS_PREFETCH_W,
    rs_load_be32_acquire,
    rs_load_be64_acquire,
    rs_store_be32_release,
    rs_store_be64_release,
)
from rocketstore.kernels.index_item cimport (
    BEGIN_PHY_OFFSET,
    BEGIN_TIMESTAMP,
    END_PHY_OFFSET,
    END_TIMESTAMP,
    HASH_SLOT_COUNT,
    INDEX_COUNT,
    ITEM_SIZE,
    IndexView,
    index_count,
    item_at,
    pack_item,
    slot_of,
    time_diff,
)

cdef enum:
    AHEAD = 48  # slots fetched ahead; 8 and 16 are too few, 32 to 64 alike


cdef Py_ssize_t put_items(const IndexView *view, const int32_t *key_hashes, const int64_t *phy_offsets,
                          const int64_t *store_timestamps, Py_ssize_t n, bint counts_every_put) noexcept nogil:
    """Put up to n items in Java's order of writes, each published before the next; return how many fitted."""
    cdef uint8_t *header = view.header
    cdef int32_t count = index_count(view)
    cdef int64_t begin = <int64_t>rs_load_be64_acquire(header + BEGIN_TIMESTAMP)
    cdef uint32_t slot_count = rs_load_be32_acquire(header + HASH_SLOT_COUNT)
    cdef uint8_t *ahead[AHEAD]
    cdef uint8_t *slot
    cdef int32_t prev
    cdef Py_ssize_t i, turn = 0
    n = min(n, <Py_ssize_t>(view.index_num - count))
    for i in range(min(n, <Py_ssize_t>AHEAD)):
        ahead[i] = slot_of(view, key_hashes[i])
        RS_PREFETCH_W(ahead[i])
    for i in range(n):
        slot = ahead[turn]
        if i + AHEAD < n:
            ahead[turn] = slot_of(view, key_hashes[i + AHEAD])
            RS_PREFETCH_W(ahead[turn])
        turn = turn + 1 if turn + 1 < AHEAD else 0
        prev = <int32_t>rs_load_be32_acquire(slot)
        if prev <= 0 or prev > count:
            prev = 0
        pack_item(item_at(view, count), key_hashes[i], phy_offsets[i], time_diff(begin, store_timestamps[i]), prev)
        rs_store_be32_release(slot, <uint32_t>count)
        if count <= 1:
            begin = store_timestamps[i]
            rs_store_be64_release(header + BEGIN_PHY_OFFSET, <uint64_t>phy_offsets[i])
            rs_store_be64_release(header + BEGIN_TIMESTAMP, <uint64_t>begin)
        if prev == 0 or counts_every_put:
            slot_count += 1
            rs_store_be32_release(header + HASH_SLOT_COUNT, slot_count)
        count += 1
        rs_store_be32_release(header + INDEX_COUNT, <uint32_t>count)
        rs_store_be64_release(header + END_PHY_OFFSET, <uint64_t>phy_offsets[i])
        rs_store_be64_release(header + END_TIMESTAMP, <uint64_t>store_timestamps[i])
    return n


cdef void stage_items(Stream *stream, uint8_t *staged, Py_ssize_t done, const int32_t *key_hashes,
                      const int64_t *phy_offsets, const int64_t *store_timestamps, Py_ssize_t n) noexcept nogil:
    """Pack n items after the `done` first ones into `staged`, chained through the stream's table."""
    cdef uint32_t *ahead[AHEAD]
    cdef uint32_t *slot
    cdef Py_ssize_t i, turn = 0
    for i in range(min(n, <Py_ssize_t>AHEAD)):
        ahead[i] = stream.table + <uint32_t>key_hashes[i] % stream.hash_slot_num
        RS_PREFETCH_W(ahead[i])
    for i in range(n):
        slot = ahead[turn]
        if i + AHEAD < n:
            ahead[turn] = stream.table + <uint32_t>key_hashes[i + AHEAD] % stream.hash_slot_num
            RS_PREFETCH_W(ahead[turn])
        turn = turn + 1 if turn + 1 < AHEAD else 0
        pack_item(staged + ITEM_SIZE * i, key_hashes[i], phy_offsets[i],
                  time_diff(stream.begin_timestamp, store_timestamps[i]), <int32_t>slot[0])
        stream.hash_slot_count += slot[0] == 0
        slot[0] = <uint32_t>(done + i + 1)
        if done + i == 0:
            stream.begin_timestamp = store_timestamps[0]
