"""From records of a commit log to requests and items in columns: consume queues and index are built from these."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from rocketstore.kernels.buffer cimport Buffer
from rocketstore.kernels.consume_queue cimport SIZE, TAGS_CODE, UNIT_SIZE
from rocketstore.kernels.csrc cimport (
    rs_java_hash_latin1,
    rs_java_hash_utf8_lossy,
    rs_load_be32,
    rs_load_be64,
    rs_utf8_repair,
    rs_utf8_valid,
)
from rocketstore.kernels.keys cimport key_hash_of
from rocketstore.kernels.record cimport (
    BAD_ENTRY,
    BAD_PHY_OFFSET,
    DISPATCH_MULTI,
    FIND_DISPATCH,
    INNER_BATCH,
    RECORD_BLANK,
    RECORD_OK,
    TRANSACTION_COMMIT,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
    DelayTable,
    PropertyReader,
    Record,
    Slice,
    are_equal,
    fetch_following,
    fill_delays,
    java_text,
    keyed_hash,
    next_word,
    parse_framed,
)
from rocketstore.kernels.record_columns cimport Growing, array_of, next_of

import numpy as np

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.commit_log import bad_reason, checked_framing
from rocketstore.kernels.queue_id import QueueId

cdef enum:
    PIECE = 1 << 20  # bytes of the log between two checks for signals: a few milliseconds
    DISPATCH_INNER = 2  # a flag like DISPATCH_MULTI
    DISPATCH_MORE = 4
    NO_MEMORY = -1

# A topic as records have it, and a queue of it that was met. The entry owns the bytes of the topic.
cdef struct QueueEntry:
    uint64_t hash
    uint32_t prefix  # the hash of "topic#"
    int32_t queue_id
    int32_t number  # topics that Java decodes to the same text share one queue
    Slice topic
    uint8_t *owned

# A message for a queue.
cdef struct Request:
    int64_t phy_offset
    int64_t tags_code
    int64_t store_timestamp
    int64_t msg_base_offset
    int32_t size
    int32_t batch_size
    int32_t queue  # the number of the queue, in the order in which queues were met
    int32_t flags

# An item for the index.
cdef struct Item:
    int64_t phy_offset
    int64_t store_timestamp
    int32_t key_hash
    int32_t padding

REQUEST = np.dtype([
    ("phy_offset", np.int64), ("tags_code", np.int64), ("store_timestamp", np.int64), ("msg_base_offset", np.int64),
    ("size", np.int32), ("batch_size", np.int32), ("queue", np.int32), ("flags", np.int32),
])
ITEM = np.dtype([
    ("phy_offset", np.int64), ("store_timestamp", np.int64), ("key_hash", np.int32), ("padding", np.int32),
])
MULTI_DISPATCH = DISPATCH_MULTI  # of flags: INNER_MULTI_DISPATCH names more queues
INNER_DISPATCH = DISPATCH_INNER  # of flags: the record is an inner batch
MORE_DISPATCH = DISPATCH_MORE  # of flags: the queue is not the record's own; a scanner never sets this


cdef class RequestScanner:
    """Collects requests and items from any number of parts of the log. ``take`` returns them.

    Attributes: queues: list of (topic, queueId) in the order of their numbers. last_phy_offset: of the last record, -1
    before the first. n_records: how many were met since ``take``. has_inner: whether a request is of an inner batch.

    Parameters: anywhere: also accept records whose own physical offset or entry is wrong, as a broker does. Their units
    and items then have the record's own offset. framing: bytes before each record, as for ``RecordScanner``.
    Source: ReputMessageService.doReput, CommitLogDispatcherBuildConsumeQueue, IndexService.buildIndex.
    """

    cdef readonly list queues
    cdef readonly int64_t last_phy_offset
    cdef readonly int64_t last_store_timestamp
    cdef readonly int64_t n_records
    cdef readonly bint has_inner
    cdef bint indexes_tags
    cdef bint anywhere
    cdef int framing
    cdef DelayTable delays
    cdef PropertyReader reader
    cdef Growing requests
    cdef Growing items
    cdef QueueEntry *entries
    cdef int32_t n_entries
    cdef int32_t n_queues
    cdef int32_t n_named  # how many of the entries are in ``queues``
    cdef int32_t capacity
    cdef int32_t *slots  # numbers of entries, plus 1, by hash; twice as many places as entries

    def __cinit__(self, *, str message_delay_level, bint indexes_tags, bint anywhere=False, int framing=0):
        self.framing = checked_framing(framing)
        fill_delays(&self.delays, message_delay_level)
        self.indexes_tags, self.anywhere = indexes_tags, anywhere
        self.queues = []
        self.requests, self.items = Growing(), Growing()
        self.last_phy_offset = self.last_store_timestamp = -1

    def __dealloc__(self):
        for i in range(self.n_entries):
            free(self.entries[i].owned)
        free(self.entries)
        free(self.slots)

    def scan(self, Buffer buffer, int64_t from_offset, int64_t begin, int64_t end, int64_t most=1 << 62,
             int64_t room=1 << 62):
        """Collect the records of one file from ``begin``, where a record begins, to ``end``. Both are physical offsets.

        Parameters: buffer: bytes of the file, the first at ``from_offset`` of the log. most: bytes of the log after
        which to stop. room: bytes of requests and items after which to stop.
        Returns: where the collection stopped; ``end``, or the end of the records in the file, if nothing stopped it.
        Raises: CorruptFileError, StoreClosedError, MemoryError.
        """
        cdef int64_t pos = begin - from_offset, stop = min(end - from_offset, <int64_t>buffer.size), limit
        cdef int64_t last = min(stop, pos + most)
        cdef int status = RECORD_OK
        if pos < 0:
            raise ValueError(f"begin={begin}: the buffer begins at {from_offset}")
        buffer.check_file_size()
        while pos < last and status == RECORD_OK and self.collected() < room:
            PyErr_CheckSignals()
            limit = min(pos + PIECE, last)
            buffer.enter()
            try:
                with nogil:
                    status = self.scan_piece(buffer.data, from_offset, &pos, limit, stop, room)
            finally:
                buffer.leave()
            self.name_queues()
        if status == NO_MEMORY:
            raise MemoryError
        if status not in (RECORD_OK, RECORD_BLANK):
            raise CorruptFileError(buffer.path, pos, *bad_reason(status))
        return from_offset + pos

    cdef inline int64_t collected(self) noexcept nogil:
        return self.requests.size + self.items.size

    cdef int scan_piece(self, const uint8_t *data, int64_t from_offset, int64_t *pos, int64_t limit, int64_t stop,
                        int64_t room) noexcept nogil:
        cdef Record record
        cdef int status
        while pos[0] < limit and self.collected() < room:
            status = parse_framed(data + pos[0], stop - pos[0], from_offset + pos[0], self.framing, FIND_DISPATCH,
                                  &self.reader, &self.delays, &record)
            if status == BAD_ENTRY and self.anywhere and record.data != data + pos[0]:
                status = RECORD_OK
            if status != RECORD_OK:
                return status
            if record.phy_offset != from_offset + (record.data - data) and not self.anywhere:
                return BAD_PHY_OFFSET
            fetch_following(data + pos[0], record.size + self.framing, data + stop)
            if not self.collect(&record):
                return NO_MEMORY
            self.last_phy_offset, self.last_store_timestamp = record.phy_offset, record.store_timestamp
            self.n_records += 1
            pos[0] = record.data - data + record.size
        return RECORD_OK

    cdef bint collect(self, const Record *record) noexcept nogil:
        cdef int32_t kind = record.sys_flag & TRANSACTION_TYPE
        cdef int32_t at = self.entry_of(&record.topic, record.queue_id)
        if at < 0:
            return False
        if kind != TRANSACTION_ROLLBACK and not self.add_items(record, self.entries[at].prefix):
            return False
        return (kind != 0 and kind != TRANSACTION_COMMIT) or self.add_request(record, self.entries[at].number)

    cdef bint add_request(self, const Record *record, int32_t number) noexcept nogil:
        cdef Request *request
        if not self.requests.reserve(sizeof(Request)):
            return False
        request = <Request *>(self.requests.data + self.requests.size)
        self.requests.size += sizeof(Request)
        request.phy_offset, request.size = record.phy_offset, record.size
        request.tags_code, request.store_timestamp = record.tags_code, record.store_timestamp
        request.msg_base_offset, request.batch_size = record.msg_base_offset, record.batch_size
        request.queue = number
        request.flags = record.dispatches
        if record.sys_flag & INNER_BATCH:
            request.flags |= DISPATCH_INNER
            self.has_inner = True
        return True

    cdef bint add_items(self, const Record *record, uint32_t prefix) noexcept nogil:
        """Add items for the unique key, keys and tags in the order of IndexService.buildIndex."""
        cdef Slice word
        cdef int32_t at = 0
        if record.uniq_key.data != NULL and not self.add_item(record, prefix, &record.uniq_key):
            return False
        while next_word(&record.keys, &at, &word):
            if not self.add_item(record, prefix, &word):
                return False
        if self.indexes_tags and record.tags.size > 0:
            return self.add_item(record, rs_java_hash_latin1(prefix, b"T#", 2), &record.tags)
        return True

    cdef bint add_item(self, const Record *record, uint32_t prefix, const Slice *text) noexcept nogil:
        cdef Item *item
        if not self.items.reserve(sizeof(Item)):
            return False
        item = <Item *>(self.items.data + self.items.size)
        self.items.size += sizeof(Item)
        item.phy_offset, item.store_timestamp, item.padding = record.phy_offset, record.store_timestamp, 0
        item.key_hash = key_hash_of(rs_java_hash_utf8_lossy(prefix, text.data, <size_t>text.size))
        return True

    def take(self):
        """Return (requests, items), arrays of REQUEST and ITEM, and begin with empty ones.

        Requests have no uncommitted transactions, items no rolled-back ones; both are in the order of the log.
        """
        taken = array_of(self.requests, REQUEST), array_of(self.items, ITEM)
        self.requests, self.items = next_of(self.requests), next_of(self.items)
        self.n_records = 0
        return taken

    # ---- queues ----------------------------------------------------------------------------------------------

    cdef int32_t entry_of(self, const Slice *topic, int32_t queue_id) noexcept nogil:
        """Return the entry of a queue, a new one if the queue was not met before; -1 without memory."""
        cdef uint64_t hash = keyed_hash(topic, <uint32_t>queue_id)
        cdef int32_t found
        if 2 * self.n_entries >= self.capacity and not self.grow():
            return -1
        found = self.slots[self.slot_of(hash, topic, queue_id)]
        return found - 1 if found else self.add_entry(hash, topic, queue_id)

    cdef uint32_t slot_of(self, uint64_t hash, const Slice *topic, int32_t queue_id) noexcept nogil:
        """Return the slot that has the queue, or the free slot where it belongs."""
        cdef uint32_t mask = <uint32_t>self.capacity - 1, slot = <uint32_t>hash & mask
        cdef const QueueEntry *entry
        while self.slots[slot]:
            entry = &self.entries[self.slots[slot] - 1]
            if entry.hash == hash and entry.queue_id == queue_id and topic != NULL and are_equal(&entry.topic, topic):
                return slot
            slot = (slot + 1) & mask
        return slot

    cdef int32_t add_entry(self, uint64_t hash, const Slice *topic, int32_t queue_id) noexcept nogil:
        cdef uint8_t *owned = <uint8_t *>malloc(max(topic.size, 1))
        cdef int32_t number = self.n_queues if rs_utf8_valid(topic.data, <size_t>topic.size) else (
            self.number_of_decoded(topic, queue_id))
        cdef QueueEntry *entry
        if owned == NULL or number < 0 or 2 * self.n_entries >= self.capacity and not self.grow():
            free(owned)
            return -1
        memcpy(owned, topic.data, topic.size)
        entry = &self.entries[self.n_entries]
        entry.owned = entry.topic.data = owned
        entry.topic.size, entry.queue_id, entry.hash, entry.number = topic.size, queue_id, hash, number
        entry.prefix = rs_java_hash_latin1(rs_java_hash_utf8_lossy(0, owned, <size_t>topic.size), b"#", 1)
        self.n_entries += 1
        self.n_queues = max(self.n_queues, number + 1)
        self.slots[self.slot_of(hash, NULL, queue_id)] = self.n_entries
        return self.n_entries - 1

    cdef int32_t number_of_decoded(self, const Slice *topic, int32_t queue_id) noexcept nogil:
        """Return the number of a queue whose topic is not valid UTF-8: decode it as Java does. -1 without memory."""
        cdef uint8_t *repaired = <uint8_t *>malloc(3 * <size_t>topic.size)
        cdef Slice decoded
        cdef int32_t at = -1
        if repaired != NULL:
            decoded.data = repaired
            decoded.size = <int32_t>rs_utf8_repair(topic.data, <size_t>topic.size, repaired)
            at = self.entry_of(&decoded, queue_id)
        free(repaired)
        return -1 if at < 0 else self.entries[at].number

    cdef bint grow(self) noexcept nogil:
        cdef int32_t i, capacity
        cdef QueueEntry *entries
        cdef int32_t *slots
        if self.capacity > INT32_MAX // 2:
            return False
        capacity = max(2 * self.capacity, 64)
        entries = <QueueEntry *>malloc(sizeof(QueueEntry) * <size_t>(capacity // 2))
        slots = <int32_t *>calloc(<size_t>capacity, sizeof(int32_t))
        if entries == NULL or slots == NULL:
            free(entries)
            free(slots)
            return False
        if self.n_entries:
            memcpy(entries, self.entries, sizeof(QueueEntry) * <size_t>self.n_entries)
        free(self.entries)
        free(self.slots)
        self.entries, self.slots, self.capacity = entries, slots, capacity
        for i in range(self.n_entries):
            slots[self.slot_of(entries[i].hash, NULL, 0)] = i + 1
        return True

    cdef int name_queues(self) except -1:
        cdef QueueEntry *entry
        while self.n_named < self.n_entries:
            entry = &self.entries[self.n_named]
            if entry.number == len(self.queues):
                self.queues.append(QueueId(java_text(&entry.topic), entry.queue_id))
            self.n_named += 1
        return 0


def sort_requests(const Request[::1] requests, Py_ssize_t n_queues):
    """Sort requests by the numbers of their queues. Requests of one queue keep their order.

    Parameters: n_queues: every number must be smaller.
    Returns: (rows, ends): REQUEST[n]; int64[n_queues], where the rows of each queue end.
    Raises: ValueError for a larger number; MemoryError.
    """
    cdef Py_ssize_t i, n = requests.shape[0]
    rows, ends = np.empty(n, REQUEST), first_rows(requests, n_queues)
    cdef Request[::1] result = rows
    cdef int64_t[::1] next_row = ends
    with nogil:
        for i in range(n):
            result[next_row[requests[i].queue]] = requests[i]
            next_row[requests[i].queue] += 1
    return rows, ends


def new_items(const Item[::1] items, int64_t end):
    """Return the columns of items whose physical offset is not before ``end`` and not before that of an earlier item.

    Returns: (key_hashes, phy_offsets, store_timestamps): int32[n], int64[n], int64[n].
    """
    cdef Py_ssize_t i, at = 0, n = items.shape[0]
    columns = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
    cdef int32_t[::1] key_hashes = columns[0]
    cdef int64_t[::1] phy_offsets = columns[1], store_timestamps = columns[2]
    with nogil:
        for i in range(n):
            if items[i].phy_offset >= end:
                end = items[i].phy_offset
                key_hashes[at], phy_offsets[at] = items[i].key_hash, end
                store_timestamps[at] = items[i].store_timestamp
                at += 1
    return tuple(column[:at] for column in columns)


def are_units_of(const uint8_t[::1] data, const Request[::1] requests):
    """Return whether the bytes of units of a consume queue are exactly those of n requests, in this order."""
    cdef Py_ssize_t i, n = requests.shape[0]
    cdef const uint8_t *unit
    cdef bint good = data.shape[0] == UNIT_SIZE * n
    with nogil:
        for i in range(n if good else 0):
            unit = &data[UNIT_SIZE * i]
            if (<int64_t>rs_load_be64(unit) != requests[i].phy_offset
                    or <int32_t>rs_load_be32(unit + SIZE) != requests[i].size
                    or <int64_t>rs_load_be64(unit + TAGS_CODE) != requests[i].tags_code):
                good = False
                break
    return good


cdef first_rows(const Request[::1] requests, Py_ssize_t n_queues):
    """Return where the rows of each queue begin if requests are sorted by their queues, int64[n_queues]."""
    cdef Py_ssize_t i, n = requests.shape[0]
    cdef int32_t queue = 0
    cdef int64_t before = 0
    cdef bint good = True
    firsts = np.zeros(n_queues, np.int64)
    cdef int64_t[::1] counts = firsts
    with nogil:
        for i in range(n):
            queue = requests[i].queue
            good = 0 <= queue < n_queues
            if not good:
                break
            counts[queue] += 1
        for i in range(n_queues):
            before += counts[i]
            counts[i] = before - counts[i]
    if not good:
        raise ValueError(f"a request is of queue {queue}, of {n_queues}")
    return firsts


def by_queue(const Request[::1] requests, Py_ssize_t n_queues):
    """Sort requests by the numbers of their queues, into columns. Requests of one queue keep their order.

    Parameters: n_queues: every number must be smaller.
    Returns: (columns, ends): a dict of the columns of units; int64[n_queues], where the rows of each queue end.
    Raises: ValueError for a larger number; MemoryError.
    """
    cdef Py_ssize_t i, at, n = requests.shape[0]
    cdef int32_t queue
    columns = {name: np.empty(n, REQUEST[name]) for name in REQUEST.names if name != "queue"}
    ends = first_rows(requests, n_queues)
    cdef int64_t[::1] phy_offsets = columns["phy_offset"], tags_codes = columns["tags_code"]
    cdef int64_t[::1] store_timestamps = columns["store_timestamp"], msg_base_offsets = columns["msg_base_offset"]
    cdef int32_t[::1] sizes = columns["size"], batch_sizes = columns["batch_size"], flags = columns["flags"]
    cdef int64_t[::1] next_row = ends
    with nogil:
        for i in range(n):
            queue = requests[i].queue
            at = next_row[queue]
            next_row[queue] = at + 1
            phy_offsets[at], sizes[at] = requests[i].phy_offset, requests[i].size
            tags_codes[at], store_timestamps[at] = requests[i].tags_code, requests[i].store_timestamp
            msg_base_offsets[at], batch_sizes[at] = requests[i].msg_base_offset, requests[i].batch_size
            flags[at] = requests[i].flags
    return columns, ends
