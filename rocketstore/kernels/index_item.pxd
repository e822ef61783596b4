# The layout of an index file, and one item of it. See index_file.pyx for the picture.
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rocketstore.kernels.csrc cimport (
    RS_PREFETCH_R,
    RS_PREFETCH_R_L2,
    rs_cpu_is_amd,
    rs_load_be32,
    rs_load_be32_acquire,
    rs_load_be64,
    rs_store_be32,
    rs_store_be64,
)

cdef enum:
    BEGIN_TIMESTAMP = 0
    END_TIMESTAMP = 8
    BEGIN_PHY_OFFSET = 16
    END_PHY_OFFSET = 24
    HASH_SLOT_COUNT = 32
    INDEX_COUNT = 36
    HEADER_SIZE = 40
    SLOT_SIZE = 4
    ITEM_SIZE = 20
    PHY_OFFSET = 4
    TIME_DIFF = 12
    PREV_INDEX = 16


# An index file in memory.
cdef struct IndexView:
    uint8_t *header
    uint8_t *slots
    uint8_t *items
    uint32_t hash_slot_num
    int32_t index_num


# The conditions of a lookup.
cdef struct Query:
    int32_t max_num
    int64_t begin_timestamp
    int64_t end_timestamp


# The content of one item. `next`: the number of the next item of its chain, 0 at the end.
cdef struct Step:
    bint hit
    int64_t phy_offset
    int32_t next


cdef inline int32_t index_count(const IndexView *view) noexcept nogil:
    """The number of the next item: 1 in a file of zeros, at most the capacity."""
    cdef int32_t count = <int32_t>rs_load_be32_acquire(view.header + INDEX_COUNT)
    return 1 if count <= 0 else count if count <= view.index_num else view.index_num


cdef inline uint8_t *slot_of(const IndexView *view, int32_t key_hash) noexcept nogil:
    return view.slots + SLOT_SIZE * <int64_t>(<uint32_t>key_hash % view.hash_slot_num)


cdef inline uint8_t *item_at(const IndexView *view, int64_t ordinal) noexcept nogil:
    return view.items + ITEM_SIZE * ordinal


cdef inline int32_t time_diff(int64_t begin, int64_t store_timestamp) noexcept nogil:
    """Seconds since the file's first message. The difference wraps and the quotient is cut, as in Java."""
    cdef int64_t diff
    if begin <= 0:
        return 0
    diff = <int64_t>(<uint64_t>store_timestamp - <uint64_t>begin) / 1000
    return 0 if diff < 0 else <int32_t>min(diff, <int64_t>INT32_MAX)


cdef inline void pack_item(uint8_t *p, int32_t key_hash, int64_t phy_offset, int32_t diff, int32_t prev) noexcept nogil:
    rs_store_be32(p, <uint32_t>key_hash)
    rs_store_be64(p + PHY_OFFSET, <uint64_t>phy_offset)
    rs_store_be32(p + TIME_DIFF, <uint32_t>diff)
    rs_store_be32(p + PREV_INDEX, <uint32_t>prev)


cdef inline void prefetch_item(const IndexView *view, int32_t ordinal) noexcept nogil:
    """Fetch an item ahead; one in four lies on two lines. An AMD has few L1 miss buffers."""
    cdef const uint8_t *p = item_at(view, ordinal)
    if rs_cpu_is_amd():
        RS_PREFETCH_R_L2(p)
        RS_PREFETCH_R_L2(p + ITEM_SIZE - 1)
    else:
        RS_PREFETCH_R(p)
        RS_PREFETCH_R(p + ITEM_SIZE - 1)


cdef inline Step read_item(const IndexView *view, int32_t ordinal, int32_t key_hash, int64_t file_begin,
                           const Query *query) noexcept nogil:
    """Compare one item with a query. `next` is 0 where RocketMQ's walk ends."""
    cdef const uint8_t *p = item_at(view, ordinal)
    cdef int32_t diff = <int32_t>rs_load_be32(p + TIME_DIFF)
    cdef int64_t time = <int64_t>(<uint64_t>file_begin + <uint64_t>diff * 1000)
    cdef Step step
    step.hit = False
    step.next = 0
    if diff < 0:
        return step
    step.hit = <int32_t>rs_load_be32(p) == key_hash and query.begin_timestamp <= time <= query.end_timestamp
    step.phy_offset = <int64_t>rs_load_be64(p + PHY_OFFSET)
    if time >= query.begin_timestamp:
        step.next = <int32_t>rs_load_be32(p + PREV_INDEX)
        if step.next < 0 or step.next == ordinal:
            step.next = 0
    return step
