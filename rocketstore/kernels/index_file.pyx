"""Index files: the kernel class behind IndexFile, scalar and batch, directly on the mapping.

    header, 40 bytes                              slots, 4 bytes each, from byte 40
       0  i64  beginTimestamp                       i32  ordinal of the newest item of the slot, 0: none
       8  i64  endTimestamp
      16  i64  beginPhyOffset                     items, 20 bytes each, from byte 40 + 4 * hashSlotNum
      24  i64  endPhyOffset                          0  i32  keyHash
      32  i32  hashSlotCount                         4  i64  phyOffset
      36  i32  indexCount: items + 1, 0: none       12  i32  timeDiff, seconds after beginTimestamp
                                                    16  i32  prevIndex: the next older item of the slot, 0: none

Integers are big-endian. Item 0 is never used, so a file holds indexNum - 1 items. An item is published in the order
item, slot, count. A process that reads the file meanwhile finds every earlier key.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove

from rocketstore.kernels.buffer cimport Buffer
from rocketstore.kernels.csrc cimport (
    rs_load_be32,
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
    HEADER_SIZE,
    INDEX_COUNT,
    ITEM_SIZE,
    PREV_INDEX,
    SLOT_SIZE,
    IndexView,
    Query,
    index_count,
    item_at,
    slot_of,
)
from rocketstore.kernels.index_put cimport Stream, put_items, stage_items
from rocketstore.kernels.index_select cimport (
    INLINE_HITS,
    WALK_NO_MEMORY,
    WALK_OK,
    WALK_WILD_SLOT,
    Chain,
    Walk,
    free_walk,
    new_walk,
    start_chain,
    walk_chain,
    walk_on,
)
from rocketstore.kernels.keys cimport java_hash_str, key_hash_of
from rocketstore.kernels.phy_offsets cimport Found, FoundValues, free_found, start_found

import io
import operator
import os
import sys
import threading
import time
from datetime import date

import numpy as np

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.columns import checked_hashes, checked_offsets, int64_column
from rocketstore.kernels.keys import hash_keys
from rocketstore.limits import LONG_MAX
from rocketstore.text_values import epoch_ms

cdef enum:
    PIECE = 65536  # items put between two checks for signals: some 2 ms
    HOPS = 524288  # items read between two checks for signals: some 10 ms, 50 where each is a cache miss
    SHORT_HOPS = 256  # items that one lookup reads before it releases the GIL
    HUGE_PAGE = 2097152

cdef object USUAL_MAX_NUM = 32, ZERO = 0


cdef class IndexFileKernel:
    """One index file in a Buffer. ``IndexFile`` adds opening, closing and geometry.

    Parameters: buffer: the whole file. hash_slot_num, index_num: its geometry. counts_every_put: count in hashSlotCount
    as RocketMQ up to 4.7.0. fd: the file's descriptor, or -1. unpublished: no other process has this file yet, so a
    first batch need not publish each item.
    Attributes: met_wild_slot: whether a batch of keys met a slot with the number of a missing item.
    """

    cdef Buffer buffer
    cdef IndexView view
    cdef bint counts_every_put
    cdef bint unpublished
    cdef readonly bint met_wild_slot
    cdef int fd
    cdef unsigned long streaming_thread  # 0: none
    cdef cython.pymutex write_lock

    def __cinit__(self, Buffer buffer, int32_t hash_slot_num, int32_t index_num, bint counts_every_put=False,
                  int fd=-1, bint unpublished=False):
        cdef int64_t size = HEADER_SIZE + SLOT_SIZE * <int64_t>hash_slot_num + ITEM_SIZE * <int64_t>index_num
        if hash_slot_num < 1 or index_num < 2:
            raise ValueError(f"hash_slot_num={hash_slot_num}, index_num={index_num}: at least 1 and 2 are needed")
        if buffer.size != size:
            raise CorruptFileError(
                buffer.path, buffer.size, "file size", f"{hash_slot_num} slots and {index_num} items need {size} bytes"
            )
        if <size_t>buffer.data % 8:
            raise ValueError(f"{buffer.path}: the buffer is not aligned to 8 bytes")
        self.buffer = buffer
        self.view.header = buffer.data
        self.view.slots = buffer.data + HEADER_SIZE
        self.view.items = self.view.slots + SLOT_SIZE * <int64_t>hash_slot_num
        self.view.hash_slot_num = <uint32_t>hash_slot_num
        self.view.index_num = index_num
        self.counts_every_put = counts_every_put
        self.fd = fd
        self.unpublished = unpublished
        with buffer:
            count = <int32_t>rs_load_be32_acquire(buffer.data + INDEX_COUNT)
        if count > index_num:
            raise CorruptFileError(buffer.path, INDEX_COUNT, "indexCount", f"{count} of at most {index_num}")

    @property
    def hash_slot_num(self):
        """The number of hash slots."""
        return <int32_t>self.view.hash_slot_num

    @property
    def index_num(self):
        """The number of items that the file has room for, plus one: item 0 is never used."""
        return self.view.index_num

    # ---- header --------------------------------------------------------------------------------------------

    def _header(self):
        self.buffer.enter()
        try:
            return (
                <int64_t>rs_load_be64_acquire(self.view.header + BEGIN_TIMESTAMP),
                <int64_t>rs_load_be64_acquire(self.view.header + END_TIMESTAMP),
                <int64_t>rs_load_be64_acquire(self.view.header + BEGIN_PHY_OFFSET),
                <int64_t>rs_load_be64_acquire(self.view.header + END_PHY_OFFSET),
                <int32_t>rs_load_be32_acquire(self.view.header + HASH_SLOT_COUNT),
                index_count(&self.view),
            )
        finally:
            self.buffer.leave()

    def _seed_header(self, int64_t end_phy_offset, int64_t end_timestamp):
        """Begin where the previous file ended. Values up to 0 are ignored. Source: IndexFile.<init>."""
        self.require_writable()
        self.buffer.enter()
        if end_phy_offset > 0:
            rs_store_be64_release(self.view.header + BEGIN_PHY_OFFSET, <uint64_t>end_phy_offset)
            rs_store_be64_release(self.view.header + END_PHY_OFFSET, <uint64_t>end_phy_offset)
        if end_timestamp > 0:
            rs_store_be64_release(self.view.header + BEGIN_TIMESTAMP, <uint64_t>end_timestamp)
            rs_store_be64_release(self.view.header + END_TIMESTAMP, <uint64_t>end_timestamp)
        self.buffer.leave()

    def _write_count(self):
        """Write the count of an empty file, 1 instead of 0. Source: IndexHeader.updateByteBuffer."""
        self.require_writable()
        with self.write_lock:
            self.buffer.enter()
            if <int32_t>rs_load_be32_acquire(self.view.header + INDEX_COUNT) <= 0:
                rs_store_be32_release(self.view.header + INDEX_COUNT, 1)
            self.buffer.leave()

    def _undo_torn_put(self):
        """Remove an item from its slot if the writer was killed before it counted the item.

        The next item goes to the same place. Without this, the slot would lose its older items, as in RocketMQ.
        """
        cdef uint8_t *item
        cdef uint8_t *slot
        cdef int32_t count, key_hash, prev
        self.require_writable()
        with self.write_lock:
            self.buffer.enter()
            count = index_count(&self.view)
            if count < self.view.index_num:
                item = item_at(&self.view, count)
                key_hash = <int32_t>rs_load_be32(item)
                prev = <int32_t>rs_load_be32(item + PREV_INDEX)
                slot = slot_of(&self.view, key_hash)
                if key_hash >= 0 and <int32_t>rs_load_be32_acquire(slot) == count:
                    rs_store_be32_release(slot, <uint32_t>prev if 0 < prev < count else 0)
            self.buffer.leave()

    def _check_file_size(self):
        self.buffer.check_file_size()

    cdef int require_writable(self) except -1:
        if not self.buffer.writable:
            raise io.UnsupportedOperation(f"{self.buffer.path} is open for reading: open it with mode 'r+' to put keys")
        return 0

    # ---- put -----------------------------------------------------------------------------------------------

    def put_key(self, index_key, phy_offset, store_timestamp):
        """Add one key.

        Parameters: index_key: the whole ``topic#key``. phy_offset: of the message in the commit log, bytes, not
        negative. store_timestamp: of the message, epoch milliseconds, a datetime, a date or an ISO 8601 text.
        Returns: False if the file is full, else True.
        Raises: ValueError for a negative offset and a number beyond int64; TypeError for numbers that are not integers;
        io.UnsupportedOperation in mode "r"; StoreClosedError.
        Source: IndexFile.putKey. This call does not notice a file that is cut while it is open.
        """
        cdef int64_t offset = to_int64(phy_offset, "phy_offset")
        cdef int64_t timestamp = to_time(store_timestamp, "store_timestamp")
        cdef uint32_t code
        cdef int32_t key_hash
        self.require_writable()
        if offset < 0:
            raise ValueError(f"phy_offset={offset}: must not be negative")
        java_hash_str(0, index_key, &code)
        key_hash = key_hash_of(code)
        return self.put_piece(&key_hash, &offset, &timestamp, 1) == 1

    def put_keys(self, keys, phy_offsets, store_timestamps, *, topic=None):
        """Add a batch of keys, in order, until the file is full.

        Parameters
        ----------
        keys : as for ``hash_keys``, n strings; each the whole ``topic#key``, or the key alone if ``topic`` is given.
        phy_offsets : int64[n], bytes in the commit log, not negative.
        store_timestamps : int64[n], epoch milliseconds.
        topic : str or column of n str, optional.

        Returns
        -------
        How many keys were added before the file was full.

        Raises
        ------
        ValueError, TypeError : a bad row or length; checked before anything is written.
        KeyboardInterrupt : part of the batch was added; ``len`` tells how many keys.

        Source: IndexFile.putKey, for each row.
        """
        self.require_writable()
        return self.put_batch(hash_keys(keys, topic=topic), phy_offsets, store_timestamps)

    def put_key_hashes(self, key_hashes, phy_offsets, store_timestamps):
        """Add a batch of keys by their hashes.

        Parameters: key_hashes: int32[n] from ``hash_keys``. phy_offsets, store_timestamps; returns; raises: as for
        ``put_keys``. Source: IndexFile.putKey, for each key.
        """
        return self.put_batch(checked_hashes(key_hashes), phy_offsets, store_timestamps)

    cdef put_batch(self, const int32_t[::1] hashes, phy_offsets, store_timestamps):
        cdef const int64_t[::1] offsets = checked_offsets(phy_offsets, hashes.shape[0])
        cdef const int64_t[::1] times = int64_column(store_timestamps, "store_timestamps", hashes.shape[0])
        self.require_writable()
        self.buffer.check_file_size()
        # The stream form always writes all slots: it is faster if the items are larger than the slots.
        outweighs = hashes.shape[0] * ITEM_SIZE >= SLOT_SIZE * <int64_t>self.view.hash_slot_num
        if outweighs and self.claim_stream():
            try:
                return self.put_stream(hashes, offsets, times)
            finally:
                self.streaming_thread = 0
        return self.put_in_place(hashes, offsets, times)

    cdef Py_ssize_t put_piece(self, const int32_t *key_hashes, const int64_t *phy_offsets,
                              const int64_t *store_timestamps, Py_ssize_t n) except -1:
        while True:
            with self.write_lock:
                if self.streaming_thread == 0:
                    self.unpublished = False
                    self.buffer.enter()
                    if n == 1:  # releasing the GIL would take longer than the put
                        n = put_items(&self.view, key_hashes, phy_offsets, store_timestamps, n, self.counts_every_put)
                    else:
                        with nogil:
                            n = put_items(&self.view, key_hashes, phy_offsets, store_timestamps, n,
                                          self.counts_every_put)
                    self.buffer.leave()
                    return n
            self.await_stream()

    cdef Py_ssize_t put_in_place(self, const int32_t[::1] hashes, const int64_t[::1] offsets,
                                 const int64_t[::1] times) except -1:
        cdef Py_ssize_t n = hashes.shape[0], done = 0, piece, taken
        while done < n:
            piece = min(n - done, <Py_ssize_t>PIECE)
            taken = self.put_piece(&hashes[done], &offsets[done], &times[done], piece)
            done += taken
            if taken < piece:
                break
            PyErr_CheckSignals()
        return done

    cdef bint claim_stream(self) except -1:
        """Whether this call may fill the file as a stream: the file is unpublished and empty."""
        with self.write_lock:
            self.buffer.enter()
            claimed = self.unpublished and self.fd >= 0 and index_count(&self.view) == 1
            self.unpublished = False
            if claimed:
                self.streaming_thread = threading.get_ident()
            self.buffer.leave()
        return claimed

    cdef int await_stream(self) except -1:
        """Wait a moment for a stream that another thread writes."""
        if self.streaming_thread == threading.get_ident():
            raise RuntimeError(f"{self.buffer.path}: a put from a signal handler, while this thread is in put_keys")
        time.sleep(0.001)
        return 0

    cdef Py_ssize_t put_stream(self, const int32_t[::1] hashes, const int64_t[::1] offsets,
                               const int64_t[::1] times) except -1:
        """Fill an unpublished file: items in sequence, then the slots from memory, the header last."""
        cdef Py_ssize_t n = min(hashes.shape[0], <Py_ssize_t>self.view.index_num - 1), done = 0, piece
        cdef Py_ssize_t filled = 0, room
        cdef int64_t position = HEADER_SIZE + SLOT_SIZE * <int64_t>self.view.hash_slot_num + ITEM_SIZE
        cdef uint32_t[::1] table = np.zeros(self.view.hash_slot_num, np.uint32)
        cdef uint8_t[::1] staged = np.empty(HUGE_PAGE + ITEM_SIZE, np.uint8)
        cdef Stream stream = Stream(&table[0], self.view.hash_slot_num, 0, self._header()[0])
        while done < n:
            # Whole huge pages at a time: the page cache then keeps huge pages, and lookups are a third faster.
            room = HUGE_PAGE - position % HUGE_PAGE
            piece = min(n - done, (room - filled + ITEM_SIZE - 1) // ITEM_SIZE)
            with nogil:
                stage_items(&stream, &staged[filled], done, &hashes[done], &offsets[done], &times[done], piece)
            done += piece
            filled += piece * ITEM_SIZE
            if filled >= room:
                # After an error, or if the file is closed, slots and header are not written: the file stays empty.
                self.write(staged[:room], position)
                position += room
                filled -= room
                memmove(&staged[0], &staged[room], filled)
            try:
                PyErr_CheckSignals()
            except BaseException:
                self.end_stream(&stream, staged[:filled], position, table, offsets, times, done)
                raise
        self.end_stream(&stream, staged[:filled], position, table, offsets, times, done)
        return done

    cdef int write(self, data, int64_t position) except -1:
        """Write a whole buffer at a position of the file."""
        cdef Py_ssize_t written
        view = memoryview(data).cast("B")
        self.buffer.enter()
        try:
            while len(view):
                written = os.pwrite(self.fd, view, position)
                view = view[written:]
                position += written
        finally:
            self.buffer.leave()
        return 0

    cdef int end_stream(self, Stream *stream, uint8_t[::1] last_items, int64_t position, uint32_t[::1] table,
                        const int64_t[::1] offsets, const int64_t[::1] times, Py_ssize_t done) except -1:
        """Publish the first `done` items: the last of them, then the slots, then the header."""
        cdef uint8_t *header = self.view.header
        self.write(last_items, position)
        if sys.byteorder == "little":
            np.asarray(table).byteswap(inplace=True)
        self.write(table, HEADER_SIZE)
        with self.write_lock:
            self.buffer.enter()
            rs_store_be64_release(header + BEGIN_PHY_OFFSET, <uint64_t>offsets[0])
            rs_store_be64_release(header + BEGIN_TIMESTAMP, <uint64_t>times[0])
            rs_store_be32_release(header + HASH_SLOT_COUNT,
                                  <uint32_t>done if self.counts_every_put else stream.hash_slot_count)
            rs_store_be32_release(header + INDEX_COUNT, <uint32_t>(done + 1))
            rs_store_be64_release(header + END_PHY_OFFSET, <uint64_t>offsets[done - 1])
            rs_store_be64_release(header + END_TIMESTAMP, <uint64_t>times[done - 1])
            self.buffer.leave()
        return 0

    # ---- select --------------------------------------------------------------------------------------------

    def select_phy_offset(self, index_key, max_num=32, begin_timestamp=0, end_timestamp=LONG_MAX):
        """Find the offsets of one key.

        Parameters: index_key: the whole ``topic#key``. max_num: at most this many offsets. begin_timestamp,
        end_timestamp: epoch milliseconds, a datetime, a date or an ISO 8601 text, inclusive; an item's time is known
        to the second, rounded down.
        Returns: physical offsets, list of int, newest first. Hash hits: another key may have the same hash.
        Raises: CorruptFileError for a chain that leaves the file or goes in a circle; ValueError for a negative
        max_num, and one or a time beyond int64; StoreClosedError.
        Source: IndexFile.selectPhyOffset, which notices only circles of one item. This call does not notice a file
        that is cut while it is open.
        """
        cdef int64_t values[INLINE_HITS]
        cdef Found found
        cdef Chain chain
        cdef Query query
        cdef uint32_t code
        cdef bint ended
        make_query(&query, max_num, begin_timestamp, end_timestamp)
        start_found(&found, values, INLINE_HITS)
        java_hash_str(0, index_key, &code)
        self.buffer.enter_short()
        start_chain(&self.view, key_hash_of(code), &chain, &found)
        ended = walk_chain(&self.view, &query, &chain, &found, SHORT_HOPS)
        if self.buffer.is_faulty():
            free_found(&found)
        self.buffer.leave_short()
        if ended and found.status == WALK_OK and found.size == 1:
            return [values[0]]
        try:
            while not ended:
                PyErr_CheckSignals()
                self.buffer.enter()
                with nogil:
                    ended = walk_chain(&self.view, &query, &chain, &found, HOPS)
                self.buffer.leave()
            if found.status != WALK_OK:
                raise_status(self.buffer.path, &found)
            return [found.values[i] for i in range(found.size)]
        finally:
            free_found(&found)

    def _select_range(self, const int32_t[::1] hashes, int64_t[::1] ends, max_num, begin_timestamp, end_timestamp,
                      threads):
        """Find the offsets of some of the hashes that one call looks up. Return them, int64[m].

        Parameters: hashes: int32[n]. ends: int64[n]; is filled with the end of each hash's offsets in the result.
        threads: the WorkThreads that search at once. If they are cancelled, the search ends early. None for a search in
        one thread. The others: as of ``select_phy_offset``.
        """
        cdef Query query
        cdef Py_ssize_t n = hashes.shape[0]
        cdef FoundValues found = FoundValues(n)
        cdef Walk *walk
        cdef bint ended = n == 0
        if ends.shape[0] != n:
            raise ValueError(f"{n} hashes, and a column of {ends.shape[0]} ends")
        make_query(&query, max_num, begin_timestamp, end_timestamp)
        walk = new_walk(&self.view, &query, &hashes[0] if n else NULL, n, &found.found, &ends[0] if n else NULL)
        try:
            while not ended and (threads is None or not threads.are_cancelled):
                self.buffer.enter()
                with nogil:
                    ended = walk_on(walk, HOPS)
                self.buffer.leave()
                PyErr_CheckSignals()
        finally:
            free_walk(walk)
        if found.found.status != WALK_OK:
            raise_status(self.buffer.path, &found.found)
        if found.found.where:
            self.met_wild_slot = True
        return found.array()


cdef int raise_status(path, const Found *found) except -1:
    if found.status == WALK_NO_MEMORY:
        raise MemoryError
    if found.status == WALK_WILD_SLOT:
        raise CorruptFileError(path, found.where, "slot", "names an item that the file has no room for")
    raise CorruptFileError(path, found.where, "prevIndex", "names a newer item, where only an older one can be")


# ---- arguments ---------------------------------------------------------------------------------------------


cdef inline int64_t to_int64(value, str name) except? -1:
    """Convert an integer of Python or NumPy. Raises: TypeError, for a float too; ValueError beyond int64."""
    cdef int overflow = 0
    cdef int64_t number = PyLong_AsLongLongAndOverflow(
        value if isinstance(value, int) else operator.index(value), &overflow
    )
    if overflow:
        raise ValueError(f"{name}={value} is beyond int64")
    return number


cdef inline int64_t to_time(value, str name) except? -1:
    """Convert a time in any form of ``epoch_ms``. Integers are milliseconds, whatever their size. Raises: as both."""
    if not isinstance(value, int) and isinstance(value, (str, date)):
        value = epoch_ms(value, name)
    return to_int64(value, name)


cdef int make_query(Query *query, max_num, begin_timestamp, end_timestamp) except -1:
    """Fill a query. Raises: ValueError, TypeError."""
    cdef int64_t limit
    if max_num is USUAL_MAX_NUM and begin_timestamp is ZERO and end_timestamp is LONG_MAX:
        # The defaults need no conversion, which would take a quarter of the time of a lookup.
        query[0] = Query(32, 0, INT64_MAX)
        return 0
    limit = to_int64(max_num, "max_num")
    if limit < 0:
        raise ValueError(f"max_num={max_num}: must not be negative")
    query[0] = Query(<int32_t>min(limit, <int64_t>INT32_MAX), to_time(begin_timestamp, "begin_timestamp"),
                     to_time(end_timestamp, "end_timestamp"))
    return 0
