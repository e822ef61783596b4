"""Appending encoded records to the last file of a commit log: their offsets, their time, and the copy into the file."""

cimport cython
from cpython.exc cimport PyErr_SetFromErrno
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from rocketstore.kernels.buffer cimport Buffer
from rocketstore.kernels.csrc cimport (
    rs_fits,
    rs_load_be64,
    rs_release_fence,
    rs_store_be32,
    rs_store_be64,
)
from rocketstore.kernels.record cimport MAGIC, MAGIC_BLANK, PHY_OFFSET, QUEUE_ID, QUEUE_OFFSET
from rocketstore.kernels.record_encoder cimport END_FILE_MIN_BLANK_LENGTH, Encoded, RecordEncoder, write_crc

import numpy as np

from rocketstore.kernels.record_encoder import ILLEGAL, refused, say_too_large

cdef extern from "unistd.h" nogil:
    Py_ssize_t pwrite(int fd, const void *data, size_t size, int64_t position)

cdef enum:
    TOGETHER = 1 << 18  # bytes of records that are written together
    AHEAD = 262144  # bytes of zeros written ahead of the position
    BEHIND = 4096  # bytes behind the position: readers look there, and a full tmpfs has no zeros for a hole

cdef uint8_t ZEROS[AHEAD]


@cython.auto_pickle(False)
cdef class QueueOffset:
    pass


cdef class Appender:
    """The place in a commit log where the next record is written, and the next queue offset of each queue.

    The caller sets the queue offset of each queue, before it appends to the queue or after an append that stopped
    because the queue offset was not set.

    Attributes: from_offset: of the file, bytes. position: in the file, where the next record goes. last_phy_offset,
    last_store_timestamp: of the last appended record, -1 before the first.
    Source: CommitLog.asyncPutMessage, CommitLog.DefaultAppendMessageCallback.
    """

    def __init__(self):
        self.offsets = {}
        self.last_phy_offset = self.last_store_timestamp = -1

    @property
    def phy_offset(self):
        """The physical offset of the next record."""
        return self.from_offset + self.position

    def queues(self):
        """Return (topic, queueId) of the queues whose queue offsets were set, as a view that later calls change."""
        return self.offsets.keys()

    def queue_offset(self, topic, int64_t queue_id):
        """Return the queue offset of the next message of a queue. Raises: KeyError if it was not set."""
        return (<QueueOffset>self.offsets[topic, queue_id]).following

    def set_queue_offset(self, topic, int64_t queue_id, int64_t following):
        """Set the queue offset of the next message of a queue."""
        cdef QueueOffset offset = self.offsets.get((topic, queue_id))
        if offset is None:
            offset = QueueOffset()
            offset.queue_id = queue_id
            self.offsets[topic, queue_id] = offset
        offset.following = following

    @property
    def is_full(self):
        """Whether no record can be appended: there is no file yet, or a blank closed it."""
        return self.buffer is None or self.position >= self.buffer.size

    def set_file(self, Buffer buffer, int64_t from_offset, int64_t position, int fd=-1, extend=None):
        """Continue in another file of the log. A descriptor of the file makes large writes faster.

        Parameters: extend: reserves the disk space before a position, at least, and returns the position up to which
        there is room. None: the whole file is reserved. Raises: OSError; the file is as before then.
        """
        cdef int64_t reserved = buffer.size
        if not buffer.writable or not 0 <= position <= buffer.size:
            raise ValueError(f"{buffer.path}: cannot be appended to at byte {position}")
        if extend is not None:
            reserved = extend(min(position + BEHIND, buffer.size))
        self.buffer, self.fd, self.from_offset, self.position = buffer, fd, from_offset, position
        self.prepared = position
        self.extend, self.reserved = extend, reserved

    def append_message(self, RecordEncoder records, message, store_timestamp, host, int32_t message_num=1,
                       int32_t max_size=INT32_MAX, bint is_completed=False, light_queues=()):
        """Append one message, encoded with ``records``.

        Parameters: message: None for the message that the last call encoded. store_timestamp: epoch ms; None for now,
        or without ``host`` for the message's own. host: of the store; None for the message's own. message_num: how many
        queue offsets the message occupies. max_size: of its record, bytes. is_completed: its properties are complete.
        light_queues: their next queue offsets, which the caller has found, are increased by one too.
        Returns: the fields of a PutMessageResult. None if nothing is appended. If the appender ``is_full`` then, it has
        no file, or the file had no room and is now closed by a blank. Otherwise the queue offset of the message's queue
        was not set.
        Raises: as ``RecordEncoder.add``; ValueError if the message must be completed first; PutMessageError if it fits
        no file; StoreClosedError.
        """
        cdef const Encoded *record
        cdef int64_t queue_offset, time
        cdef bint is_given
        cdef QueueOffset offset
        if message is not None:
            records.clear_all()
            records.add_message(message, message_num, None, host is None)
        if records.is_special and not is_completed:
            raise ValueError(f"{message!r}: its properties must be completed before the message is appended")
        if not len(records):
            raise ValueError("nothing was encoded")
        record = records.at(0)
        if record.size > max_size:
            raise refused(ILLEGAL, records.queues[0][0], f"a record of {record.size} bytes: {max_size} is the most")
        if self.buffer is None:
            return None  # the log has no file yet
        self.require_fitting(records, record.size)
        offset = self.offsets.get(records.queues[0])
        if offset is None:
            return None
        queue_offset = offset.following
        is_given = store_timestamp is None and host is None
        time = 0 if is_given else now() if store_timestamp is None else store_timestamp
        self.buffer.enter()
        try:
            if not self.has_room(record.size):
                self.write_blank()
                return None
            if not record.message_num:
                queue_offset = 0
            self.complete(records, record, queue_offset, self.position, is_given, time)
            self.publish(records, 0, 1, record.size)
            offset.following += record.message_num
            for queue in light_queues:  # here, where Ctrl-C cannot interrupt
                offset = self.offsets[queue]
                offset.following += 1
        finally:
            self.buffer.leave()
        return (self.last_phy_offset, record.size, record.queue_id, queue_offset, self.last_store_timestamp,
                records.last_store_host if host is None else host)

    def append(self, RecordEncoder records, Py_ssize_t first, store_timestamp, bint is_batch,
               int64_t[::1] phy_offsets, int64_t[::1] queue_offsets):
        """Append records from ``first`` on, as many as the file has room for.

        Parameters: store_timestamp: of all records, epoch ms; None for the times in the records. is_batch: append all
        records or none. phy_offsets, queue_offsets: int64[n], filled for each appended record.
        Returns: the number of the first record that was not appended: because the appender ``is_full``, or because
        the queue offset of any queue was not set. In the second case no record was appended.
        Raises: PutMessageError if a record, or the batch, fits no file; StoreClosedError; OSError.
        """
        cdef Py_ssize_t n = len(records), i = first, stop = first
        cdef int64_t at, time = 0 if store_timestamp is None else store_timestamp
        cdef bint is_given = store_timestamp is None
        cdef int64_t[::1] following
        cdef QueueOffset offset
        cdef Py_ssize_t number
        cdef const Encoded *record
        if first < 0 or phy_offsets.shape[0] < n or queue_offsets.shape[0] < n:
            raise ValueError(f"{n} records, and columns of {phy_offsets.shape[0]} and {queue_offsets.shape[0]}")
        if self.buffer is None or i >= n:
            return i  # the log has no file yet
        self.buffer.check_file_size()
        self.require_fitting(records, records.data.size if is_batch else records.largest)
        if not self.offsets.keys() >= set(records.queues):
            return i
        offsets = [self.offsets[queue] for queue in records.queues]
        following = np.array([(<QueueOffset>offset).following for offset in offsets], np.int64)
        self.buffer.enter()
        try:
            if is_batch and not self.has_room(records.data.size):
                self.write_blank()
                return i
            while i < n and self.has_room(records.at(i).size):
                at = self.position
                stop = i
                while (stop < n and at - self.position < TOGETHER and stop - i < MAX_HEADS
                        and self.has_room(at - self.position + records.at(stop).size)):
                    record = records.at(stop)
                    phy_offsets[stop] = self.from_offset + at
                    queue_offsets[stop] = following[record.queue] if record.message_num else 0
                    self.complete(records, record, queue_offsets[stop], at, is_given, time)
                    following[record.queue] += record.message_num
                    at += record.size
                    stop += 1
                self.publish(records, i, stop, at - self.position)
                i = stop
            if i < n:
                self.write_blank()
        finally:
            self.buffer.leave()
            while stop > i:  # not published
                stop -= 1
                following[records.at(stop).queue] -= records.at(stop).message_num
            for number, offset in enumerate(offsets):
                offset.following = following[number]
        return i

    cdef int require_fitting(self, RecordEncoder records, int64_t size) except -1:
        if size + END_FILE_MIN_BLANK_LENGTH > self.buffer.size:
            raise refused(ILLEGAL, records.queues[0][0], say_too_large(size, self.buffer.size))
        return 0

    cdef bint has_room(self, int64_t size) noexcept:
        return rs_fits(self.buffer.size, self.position, size + END_FILE_MIN_BLANK_LENGTH)

    cdef bint is_reserved(self, int64_t size) noexcept:
        """Whether the disk has room for so many bytes at the position, and for some behind them."""
        return min(self.position + size + BEHIND, self.buffer.size) <= self.reserved

    cdef int reserve(self, int64_t size) except -1:
        """Reserve disk space for so many bytes at the position, and for some behind them. Raises: OSError."""
        if not self.is_reserved(size):
            self.reserved = self.extend(min(self.position + size + BEHIND, self.buffer.size))
        return 0

    cdef void write_blank(self) noexcept:
        """Close the file by a blank of eight bytes. The bytes behind it stay unchanged."""
        cdef uint8_t *data = self.buffer.data + self.position
        cdef int64_t left = self.buffer.size - self.position
        if left >= HEAD:
            rs_store_be32(data, <uint32_t>left)
            rs_store_be32(data + MAGIC, MAGIC_BLANK)
        self.position = self.buffer.size

    cdef void complete(self, RecordEncoder records, const Encoded *record, int64_t queue_offset, int64_t position,
                       bint is_given, int64_t time) noexcept:
        """Set the fields of a record that depend on its place in the file. is_given: it already has its store time."""
        cdef uint8_t *made = records.data.data + record.start
        rs_store_be64(made + QUEUE_OFFSET, <uint64_t>queue_offset)
        rs_store_be64(made + PHY_OFFSET, <uint64_t>(self.from_offset + position))
        if not is_given:
            rs_store_be64(made + record.store_timestamp, <uint64_t>time)
        if records.append_prop_crc:
            write_crc(made, record.size)
        self.completed_phy_offset = self.from_offset + position
        self.completed_store_timestamp = <int64_t>rs_load_be64(made + record.store_timestamp)

    cdef void prepare(self, int64_t size) noexcept nogil:
        """Write zeros ahead of the position, unless this was done for the next ``size`` bytes.

        One system call fills the page cache faster than page faults do.
        """
        cdef int64_t start = max(self.prepared, self.position)
        # Readers look a little behind the bytes that were written: there must be space too.
        cdef int64_t stop = self.reserved - (0 if self.reserved == self.buffer.size else BEHIND)
        if self.fd < 0 or self.position + size <= self.prepared or start >= stop:
            return
        stop = min(start + AHEAD, stop)
        pwrite(self.fd, ZEROS, <size_t>(stop - start), start)
        self.prepared = stop

    cdef int publish(self, RecordEncoder records, Py_ssize_t first, Py_ssize_t stop, int64_t size) except -1:
        """Write completed records into the file: first all bytes but their heads, then the heads in their order.

        A head is written only after all bytes of its record and all heads before it. So a reader never sees a record
        with a head that is incomplete, and a process that is killed leaves a torn tail, never a record behind a hole.

        Parameters: first, stop: numbers of the records in the encoder. size: bytes of all these records.
        Raises: OSError; none of the records is in the file then.
        """
        cdef uint8_t *into = self.buffer.data + self.position
        cdef bint is_written
        self.reserve(size)
        if size < LARGE_WRITE or self.fd < 0:
            self.prepare(size)
            self.take_heads(records, first, stop)
            memcpy(into, records.data.data + records.at(first).start, <size_t>size)
            self.restore_heads(records, first, stop)
            store_heads(into, records, first, stop)
        else:
            with nogil:
                is_written = self.write_records(into, records, first, stop, size)
            if not is_written:
                PyErr_SetFromErrno(OSError)
        # Both at once: a thread that flushes reads them as one value.
        self.last_phy_offset, self.last_store_timestamp = self.completed_phy_offset, self.completed_store_timestamp
        self.position += size
        return 0

    cdef bint write_records(self, uint8_t *into, RecordEncoder records, Py_ssize_t first, Py_ssize_t stop,
                            int64_t size) noexcept nogil:
        """Publish records with system calls, which add pages to the page cache faster than a mapping does.

        Returns: False after an error, which is in errno; the records are erased then.
        """
        cdef const uint8_t *made = records.data.data + records.at(first).start
        cdef int64_t written
        self.take_heads(records, first, stop)
        written = self.write(made, size)
        self.restore_heads(records, first, stop)
        if written < size:
            memset(into, 0, <size_t>written)
            return False
        # Through the mapping instead of a second call: a page fault costs less than one more copy of the page.
        store_heads(into, records, first, stop)
        return True

    cdef int64_t write(self, const uint8_t *data, int64_t size) noexcept nogil:
        """Write bytes at the position. Returns how many were written before the first error."""
        cdef int64_t written = 0
        cdef Py_ssize_t n
        while written < size:
            n = pwrite(self.fd, data + written, <size_t>(size - written), self.position + written)
            if n < 0:
                break
            written += n
        return written

    cdef void take_heads(self, RecordEncoder records, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
        """Replace the heads of encoded records by zeros, and keep them until ``restore_heads``."""
        cdef Py_ssize_t i
        cdef uint8_t *made
        for i in range(first, stop):
            made = records.data.data + records.at(i).start
            memcpy(&self.heads[i - first], made, HEAD)
            memset(made, 0, HEAD)

    cdef void restore_heads(self, RecordEncoder records, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(first, stop):
            memcpy(records.data.data + records.at(i).start, &self.heads[i - first], HEAD)


cdef void store_heads(uint8_t *into, RecordEncoder records, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    """Store the heads of records in a mapping. Each store is visible only after all earlier stores."""
    cdef Py_ssize_t i
    cdef int64_t start = records.at(first).start
    for i in range(first, stop):
        rs_release_fence()
        memcpy(into + (records.at(i).start - start), records.data.data + records.at(i).start, HEAD)


def count_appended(RecordEncoder records, Py_ssize_t first, store_timestamp, Buffer buffer,
                   int64_t from_offset, int64_t position, int64_t end):
    """Count the records from ``first`` on that ``append`` wrote to a file, one after the other, from ``position`` on.

    Queue offsets are not compared, nor the queues of records with queue id -1.

    Parameters: store_timestamp: as for ``append``. from_offset: of the file. position, end: in the file, bytes.
    Returns: the number of the first missing record, and the position where it would be.
    """
    cdef Appender appended = Appender()
    cdef Py_ssize_t i = first, n = len(records)
    cdef int64_t time = 0 if store_timestamp is None else store_timestamp
    cdef bint is_given = store_timestamp is None
    cdef const Encoded *record
    cdef uint8_t *made
    cdef const uint8_t *found
    if first < 0 or not 0 <= position <= end <= buffer.size:
        raise ValueError(f"record {first}, bytes {position} to {end} of {buffer.size}")
    appended.from_offset = from_offset
    buffer.check_file_size()
    buffer.enter()
    try:
        while i < n and rs_fits(end, position, records.at(i).size):
            record = records.at(i)
            made, found = records.data.data + record.start, buffer.data + position
            if record.queue_id < 0:
                memcpy(made + QUEUE_ID, found + QUEUE_ID, sizeof(int32_t))
            appended.complete(records, record, <int64_t>rs_load_be64(found + QUEUE_OFFSET), position, is_given, time)
            if memcmp(made, found, <size_t>record.size) != 0:
                break
            position += record.size
            i += 1
    finally:
        buffer.leave()
    return i, position
