"""Walking the chains of an index file: one, or many at once so that their cache misses overlap."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc

from rocketstore.kernels.csrc cimport RS_PREFETCH_R, rs_load_be32, rs_load_be32_acquire, rs_load_be64_acquire
from rocketstore.kernels.index_item cimport (
    BEGIN_TIMESTAMP,
    HEADER_SIZE,
    ITEM_SIZE,
    PREV_INDEX,
    SLOT_SIZE,
    IndexView,
    Query,
    Step,
    index_count,
    item_at,
    prefetch_item,
    read_item,
    slot_of,
)
from rocketstore.kernels.phy_offsets cimport Found, add_value

__all__ = ["walk_to_item"]

cdef enum:
    SLOTS_AHEAD = 64  # slots fetched ahead


cdef inline int32_t head(const IndexView *view, const uint8_t *slot, int32_t *count, Found *found) noexcept nogil:
    """Return the newest item of a slot, 0 for an empty slot. `count`: the count in the header when it was last read.

    A slot with the number of a missing item counts as empty, as in RocketMQ; `found` gets its place.
    """
    cdef int32_t ordinal = <int32_t>rs_load_be32_acquire(slot)
    if ordinal > count[0]:
        # A writer may have published more items since: a count that is read after the slot includes them.
        count[0] = index_count(view)
    if ordinal <= 0 or ordinal > count[0] or count[0] <= 1:
        if ordinal != 0:
            found.where = slot - view.header
        return 0
    if ordinal >= view.index_num:
        found.status, found.where = WALK_WILD_SLOT, slot - view.header
        return 0
    return ordinal


cdef inline bint leads_on(const IndexView *view, int32_t ordinal, int32_t next, Found *found) noexcept nogil:
    """Whether a link leads to an older item. Only these are followed, so that every walk ends."""
    if next <= ordinal:
        return True
    found.status = WALK_WILD_PREV_INDEX
    found.where = item_at(view, ordinal) - view.header + PREV_INDEX
    return False


cdef inline int64_t begin_of(const IndexView *view) noexcept nogil:
    return <int64_t>rs_load_be64_acquire(view.header + BEGIN_TIMESTAMP)


# ---- the way to one item ----------------------------------------------------------------------------------


def walk_to_item(const uint8_t[::1] data, int32_t hash_slot_num, int32_t index_num, int32_t ordinal, int64_t max_steps):
    """Walk the chain of an item's slot until it reaches the item, under a geometry that may be wrong.

    Parameters: data: the bytes of an index file. ordinal: of the item, from 0 to before ``index_num``. max_steps: reads
    of a link.
    Returns: whether the chain leads to the item, True too if the steps end before; and the number of steps.
    Raises: ValueError if the geometry does not fit the bytes.
    """
    cdef int64_t steps = 0
    cdef int32_t key_hash, at, before
    cdef const uint8_t *slots
    cdef const uint8_t *items
    cdef bint is_reachable = True
    if hash_slot_num < 1 or not 0 <= ordinal < index_num or (
        data.shape[0] < HEADER_SIZE + SLOT_SIZE * <int64_t>hash_slot_num + ITEM_SIZE * <int64_t>index_num
    ):
        raise ValueError(f"({hash_slot_num}, {index_num}), item {ordinal}: not in {data.shape[0]} bytes")
    with nogil:
        slots = &data[HEADER_SIZE]
        items = slots + SLOT_SIZE * <int64_t>hash_slot_num
        key_hash = <int32_t>rs_load_be32(items + ITEM_SIZE * <int64_t>ordinal)
        at = 0
        if key_hash >= 0:
            at = <int32_t>rs_load_be32(slots + SLOT_SIZE * <int64_t>(key_hash % hash_slot_num))
        while steps < max_steps:
            steps += 1
            if key_hash < 0 or at <= ordinal:
                is_reachable = key_hash >= 0 and at == ordinal
                break
            if at >= index_num:
                is_reachable = False
                break
            before = <int32_t>rs_load_be32(items + ITEM_SIZE * <int64_t>at + PREV_INDEX)
            if before >= at:
                is_reachable = False
                break
            at = before
    return is_reachable, steps


# ---- one chain ---------------------------------------------------------------------------------------------


cdef void start_chain(const IndexView *view, int32_t key_hash, Chain *chain, Found *found) noexcept nogil:
    cdef int32_t count = index_count(view)
    chain.key_hash = key_hash
    chain.hits = 0
    chain.ordinal = head(view, slot_of(view, key_hash), &count, found)


cdef bint walk_chain(const IndexView *view, const Query *query, Chain *chain, Found *found,
                     int64_t hops) noexcept nogil:
    """Collect the offsets of a chain from its present item on, at most `hops` items. Return whether it has ended."""
    cdef int64_t file_begin = begin_of(view)
    cdef Step step
    while chain.ordinal > 0 and chain.hits < query.max_num:
        if hops == 0:
            return False
        hops -= 1
        step = read_item(view, chain.ordinal, chain.key_hash, file_begin, query)
        if step.hit:
            chain.hits += 1
            if not add_value(found, step.phy_offset):
                found.status = WALK_NO_MEMORY
                return True
            if chain.hits == query.max_num:
                return True
        if not leads_on(view, chain.ordinal, step.next, found):
            return True
        chain.ordinal = step.next
    return True


# ---- many chains -------------------------------------------------------------------------------------------


cdef Walk *new_walk(const IndexView *view, const Query *query, const int32_t *key_hashes, Py_ssize_t n, Found *found,
                    int64_t *ends) except NULL:
    """Begin a walk: key i's offsets go to `found`, in the order of the keys, and end at `ends[i]`."""
    cdef Walk *walk = <Walk *>calloc(1, sizeof(Walk))
    if walk == NULL:
        raise MemoryError
    walk.view, walk.query, walk.found = view[0], query[0], found
    walk.key_hashes, walk.n, walk.ends = key_hashes, n, ends
    return walk


cdef void free_walk(Walk *walk) noexcept:
    free(walk.spilled)
    free(walk)


cdef bint walk_on(Walk *walk, int64_t hops) noexcept nogil:
    """Continue over at most `hops` items. Return True if all keys are done, or if the status is an error."""
    while walk.found.status == WALK_OK:
        if not walk.walking:
            if walk.start == walk.n:
                return True
            if hops <= 0:
                return False
            begin_block(walk)
            hops -= walk.size // 4  # keys with empty slots cost time, too
        hops = walk_block(walk, hops)
        if walk.active > 0 and walk.found.status == WALK_OK:
            return False
        end_block(walk)
    return True


cdef void begin_block(Walk *walk) noexcept nogil:
    cdef Py_ssize_t i
    walk.size = min(walk.n - walk.start, <Py_ssize_t>BLOCK)
    walk.walking = True
    walk.started = walk.active = walk.turn = 0
    walk.spilled_size = 0
    walk.count = index_count(&walk.view)
    walk.file_begin = begin_of(&walk.view)
    for i in range(walk.size):
        walk.slots[i] = slot_of(&walk.view, walk.key_hashes[walk.start + i])
        walk.hits[i] = 0
    if walk.query.max_num == 0:
        return
    for i in range(min(walk.size, <Py_ssize_t>SLOTS_AHEAD)):
        RS_PREFETCH_R(walk.slots[i])
    while walk.active < LANES and start_lane(walk, &walk.lanes[walk.active]):
        walk.active += 1


cdef int64_t walk_block(Walk *walk, int64_t hops) noexcept nogil:
    """Walk the lanes in turn (AMAC): while one cache line is loaded, others are read. Return the hops left."""
    cdef const IndexView *view = &walk.view
    cdef int64_t file_begin = walk.file_begin
    cdef int active = walk.active, turn = walk.turn
    cdef Chain *lane
    cdef Step step
    while active > 0 and hops > 0:
        hops -= 1
        if turn >= active:
            turn = 0
        lane = &walk.lanes[turn]
        step = read_item(view, lane.ordinal, lane.key_hash, file_begin, &walk.query)
        if step.hit and not take_hit(walk, lane.row, step.phy_offset):
            step.next = 0
        if not leads_on(view, lane.ordinal, step.next, walk.found):
            break
        if step.next > 0:
            lane.ordinal = step.next
            prefetch_item(view, step.next)
            turn += 1
        elif start_lane(walk, lane):
            turn += 1
        else:
            active -= 1
            walk.lanes[turn] = walk.lanes[active]
    walk.active, walk.turn = active, turn
    return hops


cdef inline bint start_lane(Walk *walk, Chain *lane) noexcept nogil:
    """Give a lane the next key whose slot is not empty. Return False if no key is left."""
    cdef Py_ssize_t row
    while walk.started < walk.size:
        row = walk.started
        walk.started += 1
        if row + SLOTS_AHEAD < walk.size:
            RS_PREFETCH_R(walk.slots[row + SLOTS_AHEAD])
        lane.ordinal = head(&walk.view, walk.slots[row], &walk.count, walk.found)
        if lane.ordinal > 0:
            lane.row = <int32_t>row
            lane.key_hash = walk.key_hashes[walk.start + row]
            prefetch_item(&walk.view, lane.ordinal)
            return True
    return False


cdef inline bint take_hit(Walk *walk, int32_t row, int64_t phy_offset) noexcept nogil:
    """Keep a hit. Return whether the walk of the chain must continue."""
    cdef int32_t hits = walk.hits[row]
    if hits < INLINE_HITS:
        walk.values[row][hits] = phy_offset
    elif not spill(walk, row, phy_offset):
        walk.found.status = WALK_NO_MEMORY
        return False
    walk.hits[row] = hits + 1
    return hits + 1 < walk.query.max_num


cdef bint spill(Walk *walk, int32_t row, int64_t phy_offset) noexcept nogil:
    cdef int32_t at = <int32_t>walk.spilled_size
    cdef Py_ssize_t capacity
    cdef Spilled *grown
    if walk.spilled_size == walk.spilled_capacity:
        capacity = max(2 * walk.spilled_capacity, <Py_ssize_t>1024)
        grown = <Spilled *>realloc(walk.spilled, capacity * sizeof(Spilled)) if capacity < 1 << 30 else NULL
        if grown == NULL:
            return False
        walk.spilled, walk.spilled_capacity = grown, capacity
    walk.spilled[at].phy_offset = phy_offset
    walk.spilled[at].next = -1
    if walk.hits[row] == INLINE_HITS:
        walk.first_spilled[row] = at
    else:
        walk.spilled[walk.last_spilled[row]].next = at
    walk.last_spilled[row] = at
    walk.spilled_size += 1
    return True


cdef void end_block(Walk *walk) noexcept nogil:
    """Write the hits of the block in the order of its keys."""
    cdef Py_ssize_t row
    cdef int32_t k, at
    for row in range(walk.size):
        for k in range(min(walk.hits[row], <int32_t>INLINE_HITS)):
            give(walk, walk.values[row][k])
        at = walk.first_spilled[row] if walk.hits[row] > INLINE_HITS else -1
        while at >= 0:
            give(walk, walk.spilled[at].phy_offset)
            at = walk.spilled[at].next
        walk.ends[walk.start + row] = walk.found.size
    walk.start += walk.size
    walk.walking = False


cdef inline void give(Walk *walk, int64_t phy_offset) noexcept nogil:
    if not add_value(walk.found, phy_offset):
        walk.found.status = WALK_NO_MEMORY
