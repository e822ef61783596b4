"""Verification without the GIL: the records of a log, and the chains of an index file.

The walk over records continues as long as their lengths are right. Other faults are collected: of each kind the first
places, and the number of all.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT32_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memset

from rocketstore.kernels.buffer cimport Buffer
from rocketstore.kernels.csrc cimport RS_PREFETCH_W, rs_crc32, rs_load_be32, rs_load_be64
from rocketstore.kernels.index_item cimport HEADER_SIZE, ITEM_SIZE, PREV_INDEX, SLOT_SIZE, TIME_DIFF
from rocketstore.kernels.record cimport (
    BAD_BODY_CRC,
    BAD_ENTRY,
    BAD_PHY_OFFSET,
    BAD_PROPERTY_CRC,
    BODY_CRC,
    CRC_PROPERTY_SIZE,
    ENTRY_INDEX,
    ENTRY_TERM,
    RECORD_BLANK,
    RECORD_OK,
    Record,
    crc_agrees,
    head_size,
    is_entry_head,
    parse_framed,
    parse_record,
)

from rocketstore.kernels.commit_log import checked_framing

cdef enum:
    PIECE = 16 << 20  # bytes between two checks for signals: some milliseconds
    ITEMS = 1 << 19  # items between two checks for signals
    AHEAD = 48  # slots fetched ahead, as in index_put
    FALLS = BAD_ENTRY + 1
    NO_CRC = FALLS + 1
    ORDER_OF_ENTRIES = NO_CRC + 1
    KINDS = ORDER_OF_ENTRIES + 1
    COMPRESSED = 1  # of sysFlag
    COMPRESSION_TYPE_SHIFT = 8
    LZ4 = 1  # compression types; 0 is zlib too, of releases without types
    ZSTD = 2
    ZLIB = 3
    LZ4_MAGIC = 0x04224D18
    ZSTD_MAGIC = 0x28B52FFD
    LEAST_COMPRESSED = 64  # room for places of compressed bodies at first
    CHAIN = 0  # kinds of faults of an item
    NEWER = 1
    HASH = 2
    ORDER = 3
    TIME = 4
    NOTED = 16  # faults of each kind

TIME_FALLS, NO_PROPERTY_CRC, BAD_ENTRY_HEAD, ENTRY_ORDER = FALLS, NO_CRC, BAD_ENTRY, ORDER_OF_ENTRIES
WRONG_LINK, NEWER_LINK, NEGATIVE_HASH, FALLING_OFFSET, NEGATIVE_TIME = CHAIN, NEWER, HASH, ORDER, TIME

cdef struct Faults:
    int64_t counts[KINDS]
    int64_t places[KINDS][NOTED]


cdef inline void note(Faults *faults, int kind, int64_t place) noexcept nogil:
    if faults.counts[kind] < NOTED:
        faults.places[kind][faults.counts[kind]] = place
    faults.counts[kind] += 1


cdef dict noted(const Faults *faults):
    """{kind: (number of faults, the first places)}"""
    cdef int64_t kind, i
    return {
        kind: (faults.counts[kind], [faults.places[kind][i] for i in range(min(faults.counts[kind], <int64_t>NOTED))])
        for kind in range(KINDS) if faults.counts[kind]
    }


cdef class LogChecker:
    """Walks over records of the log, chunk by chunk. Call ``begin`` before each chunk.

    The CRC of each body is checked, and the CRC property of each record that has one.

    Parameters: force_prop_crc: a record without CRC property is bad. expects_prop_crc: a record without it is reported;
    it is bad if only the name of the property is missing. framing: bytes before each record, as for ``RecordScanner``.
    Attributes: n_records. last_phy_offset: of the last record, -1 before the first. first_store_timestamp,
    last_store_timestamp, max_store_timestamp: epoch ms. first_entry, last_entry: index and term of the first and the
    last entry of DLedger's log; (-1, -1) before the first.
    Source: CommitLog.checkMessageAndReturnSize.
    """

    cdef bint force_prop_crc
    cdef bint expects_prop_crc
    cdef int framing
    cdef Faults faults
    cdef int64_t *compressed  # physical offsets
    cdef int64_t n_compressed
    cdef int64_t room  # for so many of them
    cdef bint is_out_of_memory
    cdef readonly int64_t n_records
    cdef readonly int64_t last_phy_offset
    cdef readonly int64_t first_store_timestamp
    cdef readonly int64_t last_store_timestamp
    cdef readonly int64_t max_store_timestamp
    cdef int64_t[2] first_head  # index and term
    cdef int64_t[2] last_head

    def __cinit__(self, *, bint force_prop_crc=False, bint expects_prop_crc=False, int framing=0):
        self.framing = checked_framing(framing)
        self.force_prop_crc, self.expects_prop_crc = force_prop_crc, expects_prop_crc
        self.begin()

    def __dealloc__(self):
        free(self.compressed)

    def begin(self):
        """Forget all records and faults."""
        memset(&self.faults, 0, sizeof(Faults))
        self.n_compressed = 0
        self.n_records = 0
        self.last_phy_offset = -1
        for i in range(2):
            self.first_head[i] = self.last_head[i] = -1

    @property
    def first_entry(self):
        return self.first_head[0], self.first_head[1]

    @property
    def last_entry(self):
        return self.last_head[0], self.last_head[1]

    def faults_found(self):
        """Return the faults: {kind: (number, first physical offsets)}.

        The kinds are statuses of records, TIME_FALLS, NO_PROPERTY_CRC, BAD_ENTRY_HEAD (the head of an entry does not
        fit the record or its place), and ENTRY_ORDER (its index is not the next one, or its term falls).
        """
        return noted(&self.faults)

    def take_compressed(self):
        """Return the physical offsets of compressed bodies that begin as no codec writes them, and forget them.

        Their CRC is right. A body that a codec began and did not end has a right CRC only if a client stored it so.
        """
        offsets = [self.compressed[i] for i in range(self.n_compressed)]
        self.n_compressed = 0
        return offsets

    def scan(self, Buffer buffer, int64_t from_offset, int64_t offset, int64_t end):
        """Walk over the records of one file from ``offset`` up to ``end``. One call does a bounded amount of work.

        Parameters: buffer: bytes of the file, the first at ``from_offset`` of the log.
        Returns: (next_offset, status): OK, BLANK, END, or the reason why no record begins at next_offset.
        Raises: StoreClosedError; CorruptFileError if the file was cut; MemoryError.
        """
        cdef int64_t pos = offset - from_offset, stop = min(end - from_offset, <int64_t>buffer.size)
        cdef int status
        if not 0 <= pos <= buffer.size:
            raise ValueError(f"offset {offset} is not in the buffer from {from_offset} of {buffer.size} bytes")
        stop = min(stop, pos + PIECE)
        buffer.check_file_size()
        PyErr_CheckSignals()
        buffer.enter()
        try:
            with nogil:
                status = self.walk(buffer.data, from_offset, &pos, stop, buffer.size)
        finally:
            buffer.leave()
        if self.is_out_of_memory:
            raise MemoryError
        return from_offset + pos, status

    cdef int walk(self, const uint8_t *data, int64_t from_offset, int64_t *pos, int64_t stop,
                  int64_t size) noexcept nogil:
        cdef Record record
        cdef int64_t head
        cdef int status
        while pos[0] < stop:
            head = head_size(data + pos[0], size - pos[0], self.framing)
            if head == 0:
                status = parse_framed(data + pos[0], size - pos[0], from_offset + pos[0], self.framing, 0, NULL, NULL,
                                      &record)
            else:
                status = parse_record(data + pos[0] + head, size - pos[0] - head, 0, NULL, NULL, &record)
            if head and status == RECORD_BLANK:
                return BAD_ENTRY
            if status != RECORD_OK:
                return status
            if head:
                self.check_entry(data + pos[0], from_offset + pos[0], record.size)
            pos[0] += head
            self.check(&record, from_offset + pos[0])
            pos[0] += record.size
        return RECORD_OK

    cdef void check_entry(self, const uint8_t *head, int64_t place, int64_t record_size) noexcept nogil:
        cdef int64_t index = <int64_t>rs_load_be64(head + ENTRY_INDEX), term = <int64_t>rs_load_be64(head + ENTRY_TERM)
        if not is_entry_head(head, place, record_size):
            note(&self.faults, BAD_ENTRY, place)
        if self.first_head[0] == -1:
            self.first_head[0], self.first_head[1] = index, term
        elif index - self.last_head[0] != 1 or term < self.last_head[1]:
            note(&self.faults, ORDER_OF_ENTRIES, place)
        self.last_head[0], self.last_head[1] = index, term

    cdef void check(self, const Record *record, int64_t phy_offset) noexcept nogil:
        if record.phy_offset != phy_offset:
            note(&self.faults, BAD_PHY_OFFSET, phy_offset)
        self.check_crcs(record, phy_offset)
        if self.n_records == 0:
            self.first_store_timestamp = self.max_store_timestamp = record.store_timestamp
        elif record.store_timestamp < self.last_store_timestamp:
            note(&self.faults, FALLS, phy_offset)
        self.last_store_timestamp = record.store_timestamp
        self.max_store_timestamp = max(self.max_store_timestamp, record.store_timestamp)
        self.last_phy_offset = phy_offset
        self.n_records += 1

    cdef void check_crcs(self, const Record *record, int64_t phy_offset) noexcept nogil:
        cdef uint32_t crc
        cdef const uint8_t *tail = record.data + record.size - CRC_PROPERTY_SIZE
        if record.body.size > 0:
            crc = rs_crc32(0, record.body.data, <size_t>record.body.size) & INT32_MAX
            if crc != rs_load_be32(record.data + BODY_CRC):
                note(&self.faults, BAD_BODY_CRC, phy_offset)
            elif record.sys_flag & COMPRESSED and not begins_as_compressed(record):
                self.note_compressed(phy_offset)
        if record.properties.size >= CRC_PROPERTY_SIZE and memcmp(tail, b"__CRC32#\1", 9) == 0:
            if tail[CRC_PROPERTY_SIZE - 1] != 2 or not crc_agrees(record, tail + 9, 10):
                note(&self.faults, BAD_PROPERTY_CRC, phy_offset)
        elif self.force_prop_crc:
            note(&self.faults, BAD_PROPERTY_CRC, phy_offset)
        elif self.expects_prop_crc:
            if record.properties.size >= CRC_PROPERTY_SIZE and crc_agrees(record, tail + 9, 10):
                note(&self.faults, BAD_PROPERTY_CRC, phy_offset)
            else:
                note(&self.faults, NO_CRC, phy_offset)

    cdef void note_compressed(self, int64_t phy_offset) noexcept nogil:
        cdef int64_t room
        cdef void *more
        if self.n_compressed == self.room:
            room = max(2 * self.room, <int64_t>LEAST_COMPRESSED)
            more = realloc(self.compressed, <size_t>room * sizeof(int64_t))
            if more == NULL:
                self.is_out_of_memory = True
                return
            self.compressed, self.room = <int64_t *>more, room
        self.compressed[self.n_compressed] = phy_offset
        self.n_compressed += 1


cdef bint begins_as_compressed(const Record *record) noexcept nogil:
    """Return whether a body begins with the header that the codec of its record writes. An empty body does too."""
    cdef const uint8_t *body = record.body.data
    cdef int codec = record.sys_flag >> COMPRESSION_TYPE_SHIFT & 7
    if record.body.size == 0:
        return True
    if record.body.size < 4:
        return False
    if codec == LZ4:
        return rs_load_be32(body) == <uint32_t>LZ4_MAGIC
    if codec == ZSTD:
        return rs_load_be32(body) == <uint32_t>ZSTD_MAGIC
    # RFC 1950: deflate with a window of at most 32 KiB, and a check of both bytes.
    return codec <= ZLIB and body[0] & 0x8F == 8 and (body[0] << 8 | body[1]) % 31 == 0


def are_items_of(const uint8_t[::1] data, int64_t begin_timestamp, const int32_t[:] key_hashes,
                 const int64_t[:] phy_offsets, const int64_t[:] store_timestamps):
    """Return whether items of an index file, none of them the first, are those of records, with the right times.

    Parameters: data: the bytes of n items. begin_timestamp: of the file, epoch ms. key_hashes, phy_offsets,
    store_timestamps: what the items must have, n each. A negative time in an item is another finding.
    Source: IndexFile.putKey.
    """
    cdef Py_ssize_t i, n = key_hashes.shape[0]
    cdef const uint8_t *item
    cdef int32_t time_diff
    cdef int64_t seconds
    cdef bint good = True
    if data.shape[0] != ITEM_SIZE * n or phy_offsets.shape[0] != n or store_timestamps.shape[0] != n:
        return False
    with nogil:
        for i in range(n):
            item = &data[ITEM_SIZE * i]
            seconds = 0
            if begin_timestamp > 0:
                seconds = <int64_t>(<uint64_t>store_timestamps[i] - <uint64_t>begin_timestamp) // 1000
                seconds = min(max(seconds, 0), <int64_t>INT32_MAX)
            time_diff = <int32_t>rs_load_be32(item + TIME_DIFF)
            if (<int32_t>rs_load_be32(item) != key_hashes[i] or <int64_t>rs_load_be64(item + 4) != phy_offsets[i]
                    or (time_diff != seconds and time_diff >= 0 and store_timestamps[i] != -1)):
                good = False
                break
    return good


cdef int64_t begin_of_items(Buffer buffer, int32_t count, int64_t slots) except -1:
    """Return the offset of item 0 of an index file, which is not used. Raises: ValueError if the file is too short."""
    cdef int64_t begin = HEADER_SIZE + SLOT_SIZE * min(slots, <int64_t>INT32_MAX)
    if not 1 <= slots <= INT32_MAX or count < 0 or buffer.size < begin + ITEM_SIZE * (<int64_t>count + 1):
        raise ValueError(f"{count} items and {slots} slots are not within {buffer.size} bytes")
    return begin


def are_in_order(Buffer buffer, int32_t count, int64_t slots):
    """Return whether no item of an index file has a physical offset before that of the previous item.

    Parameters: buffer: the whole file. count: items. slots: of the file.
    Raises: CorruptFileError if the file was cut; StoreClosedError; ValueError if the file has fewer items or slots.
    """
    cdef int64_t k = 1, stop, items_at = begin_of_items(buffer, count, slots), before = INT64_MIN, phy_offset
    cdef bint good = True
    while good and k <= count:
        PyErr_CheckSignals()
        stop = min(k + ITEMS, <int64_t>count + 1)
        buffer.check_file_size()
        buffer.enter()
        try:
            with nogil:
                while good and k < stop:
                    phy_offset = <int64_t>rs_load_be64(buffer.data + items_at + ITEM_SIZE * k + 4)
                    good = phy_offset >= before
                    before = phy_offset
                    k += 1
        finally:
            buffer.leave()
    return good


def check_chains(Buffer buffer, int32_t count, int32_t[::1] newest):
    """Repeat the puts of all items of an index file in memory, and compare the links of the chains.

    Parameters: buffer: the whole file. count: items. newest: int32[slots], zeros; filled with the last item of each
    slot.
    Returns: (number of items that found their slot empty, {kind: (number of faults, the first items)}). The kinds are
    WRONG_LINK; NEWER_LINK, which may be a circle; NEGATIVE_HASH; NEGATIVE_TIME; and FALLING_OFFSET: the physical offset
    is before that of the previous item.
    Raises: CorruptFileError if the file was cut; StoreClosedError; ValueError if the file has fewer items or slots.
    Source: IndexFile.putKey.
    """
    cdef int64_t slots = newest.shape[0], k = 1, stop, filled = 0, items_at = begin_of_items(buffer, count, slots)
    cdef Faults faults
    memset(&faults, 0, sizeof(Faults))
    while k <= count:
        PyErr_CheckSignals()
        stop = min(k + ITEMS, <int64_t>count + 1)
        buffer.check_file_size()
        buffer.enter()
        try:
            with nogil:
                filled += link_items(buffer.data + items_at, k, stop, <uint32_t>slots, &newest[0], &faults)
        finally:
            buffer.leave()
        k = stop
    return filled, noted(&faults)


cdef int64_t link_items(const uint8_t *items, int64_t k, int64_t stop, uint32_t slots, int32_t *newest,
                        Faults *faults) noexcept nogil:
    """Link items from ``k`` to before ``stop``. Return how many found their slot empty."""
    cdef const uint8_t *item
    cdef int32_t *last
    cdef int32_t prev
    cdef uint32_t key_hash
    cdef int64_t filled = 0, phy_offset, before
    before = <int64_t>rs_load_be64(items + ITEM_SIZE * (k - 1) + 4) if k > 1 else -1
    while k < stop:
        item = items + ITEM_SIZE * k
        if k + AHEAD < stop:  # a negative hash, which is rare, fetches a slot in vain
            RS_PREFETCH_W(&newest[(rs_load_be32(item + ITEM_SIZE * AHEAD) & INT32_MAX) % slots])
        key_hash, phy_offset = rs_load_be32(item), <int64_t>rs_load_be64(item + 4)
        prev = <int32_t>rs_load_be32(item + PREV_INDEX)
        if phy_offset < before:
            note(faults, ORDER, k)
        before = phy_offset
        if <int32_t>key_hash < 0:
            note(faults, HASH, k)
            key_hash = 0
        if <int32_t>rs_load_be32(item + TIME_DIFF) < 0:
            note(faults, TIME, k)
        last = &newest[key_hash % slots]
        if prev != last[0]:
            note(faults, NEWER if prev >= k else CHAIN, k)
        filled += last[0] == 0
        last[0] = <int32_t>k
        k += 1
    return filled
