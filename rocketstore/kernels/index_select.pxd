from libc.stdint cimport int32_t, int64_t, uint8_t

from rocketstore.kernels.index_item cimport IndexView, Query
from rocketstore.kernels.phy_offsets cimport Found

cdef enum:
    BLOCK = 1024  # keys whose hits are kept until they can be given in order
    LANES = 32  # chains walked at once; 24 to 96 alike
    INLINE_HITS = 32  # hits of a key that are kept beside its row; further hits are spilled

# Why a walk ended early.
cdef enum WalkStatus:
    WALK_OK = 0
    WALK_NO_MEMORY
    WALK_WILD_SLOT
    WALK_WILD_PREV_INDEX


# One chain being walked: `ordinal` is the next item, 0 at the end.
cdef struct Chain:
    int32_t key_hash
    int32_t ordinal
    int32_t hits
    int32_t row


# A hit without room in its row. `next`: the next spilled hit of the row, -1 at the end.
cdef struct Spilled:
    int64_t phy_offset
    int32_t next


# A walk over many keys, block by block. It can stop after any item and be resumed.
cdef struct Walk:
    IndexView view
    Query query
    const int32_t *key_hashes
    Py_ssize_t n
    int64_t *ends
    Found *found
    # The block: keys [start, start + size), `started` of them have been given to a lane.
    Py_ssize_t start
    Py_ssize_t size
    Py_ssize_t started
    bint walking
    int32_t count
    int64_t file_begin
    int active
    int turn
    Chain lanes[LANES]
    const uint8_t *slots[BLOCK]
    int32_t hits[BLOCK]
    int64_t values[BLOCK][INLINE_HITS]
    # Hits beyond INLINE_HITS, chained from first_spilled[row].
    int32_t first_spilled[BLOCK]
    int32_t last_spilled[BLOCK]
    Spilled *spilled
    Py_ssize_t spilled_size
    Py_ssize_t spilled_capacity


cdef void start_chain(const IndexView *view, int32_t key_hash, Chain *chain, Found *found) noexcept nogil
cdef bint walk_chain(const IndexView *view, const Query *query, Chain *chain, Found *found, int64_t hops) noexcept nogil
cdef Walk *new_walk(const IndexView *view, const Query *query, const int32_t *key_hashes, Py_ssize_t n, Found *found,
                    int64_t *ends) except NULL
cdef bint walk_on(Walk *walk, int64_t hops) noexcept nogil
cdef void free_walk(Walk *walk) noexcept
