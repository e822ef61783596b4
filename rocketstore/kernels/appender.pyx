"""Appending encoded records to the last file of a commit log: their offsets, their time, and the copy into the mapping."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from rocketstore.kernels.buffer cimport Buffer
from rocketstore.kernels.csrc cimport (
    rs_crc32,
    rs_fits,
    rs_load_be64,
    rs_release_fence,
    rs_store_be32,
    rs_store_be64,
)
from rocketstore.kernels.record cimport MAGIC, PHY_OFFSET, QUEUE_OFFSET
from rocketstore.kernels.record_encoder cimport Encoded, RecordEncoder

cdef enum:
    HEAD = 8  # size and magic, without which there is no record
    END_FILE_MIN_BLANK_LENGTH = 8
    MAGIC_BLANK = 0xCBD43194
    CRC_PROPERTY_SIZE = 20
    CRC_DIGITS = 9  # where they are in the property


cdef class Appender:
    """Where a commit log is written, and the queue offsets that come next.

    Attributes: from_offset: of the file, bytes; position: in it, where the next record goes; queue_offsets: the next
    one by (topic, queueId), which ``find_queue_offset`` gives for a queue that is not among them; last_phy_offset,
    last_store_timestamp: of the record that was appended last, -1 before.
    Source: CommitLog.asyncPutMessage, CommitLog.DefaultAppendMessageCallback.
    """

    cdef Buffer buffer
    cdef readonly int64_t from_offset
    cdef readonly int64_t position
    cdef readonly dict queue_offsets
    cdef readonly int64_t last_phy_offset
    cdef readonly int64_t last_store_timestamp
    cdef object find_queue_offset

    def __init__(self, find_queue_offset):
        self.queue_offsets = {}
        self.find_queue_offset = find_queue_offset
        self.last_phy_offset = self.last_store_timestamp = -1

    @property
    def phy_offset(self):
        """Where the next record goes in the log, bytes."""
        return self.from_offset + self.position

    def set_file(self, Buffer buffer not None, int64_t from_offset, int64_t position):
        """Go on in another file of the log."""
        if not buffer.writable or not 0 <= position <= buffer.size:
            raise ValueError(f"{buffer.path}: cannot be appended to at byte {position}")
        self.buffer, self.from_offset, self.position = buffer, from_offset, position

    def append(self, RecordEncoder records not None, Py_ssize_t first, store_timestamp, bint is_batch,
               int64_t[::1] phy_offsets not None, int64_t[::1] queue_offsets not None):
        """Append records from ``first`` on, as many as the file has room for.

        Parameters: store_timestamp: epoch ms for all, None for what is in them. is_batch: all or none.
        phy_offsets, queue_offsets: int64[n], filled for each that was appended.
        Returns: how many of the records are appended now. If that is not all, the file is closed by a blank.
        Raises: StoreClosedError; what ``find_queue_offset`` raises.
        """
        cdef Py_ssize_t n = len(records), i = first
        cdef int64_t time = -1 if store_timestamp is None else store_timestamp
        cdef int64_t needed = 0
        cdef const Encoded *record
        cdef object queue, last_queue = None
        cdef int64_t queue_offset = 0
        if first < 0 or phy_offsets.shape[0] < n or queue_offsets.shape[0] < n:
            raise ValueError(f"{n} records, and columns of {phy_offsets.shape[0]} and {queue_offsets.shape[0]}")
        if self.buffer is None:
            return first  # there is no file yet
        if n - first > 1:
            self.buffer.check_file_size()
        self.buffer.enter()
        try:
            if is_batch and n and not self.has_room(records.at(n - 1).start + records.at(n - 1).size):
                self.write_blank()
                return 0
            while i < n:
                record = records.at(i)
                if not self.has_room(record.size):
                    self.write_blank()
                    break
                queue = records.queues[i]
                if queue is not last_queue:
                    last_queue, queue_offset = queue, self.next_queue_offset(queue)
                phy_offsets[i] = self.from_offset + self.position
                queue_offsets[i] = queue_offset if record.message_num else 0
                self.put(records, record, queue_offsets[i], time, store_timestamp is not None)
                if record.message_num:
                    queue_offset += record.message_num
                    self.queue_offsets[queue] = queue_offset
                i += 1
        finally:
            self.buffer.leave()
        return i

    def next_queue_offset(self, tuple queue not None):
        """Give the queue offset of the next message of (topic, queueId)."""
        found = self.queue_offsets.get(queue)
        if found is None:
            found = self.queue_offsets[queue] = self.find_queue_offset(*queue)
        return found

    cdef bint has_room(self, int64_t size) noexcept:
        return rs_fits(self.buffer.size, self.position, size + END_FILE_MIN_BLANK_LENGTH)

    cdef void write_blank(self) noexcept:
        """Close the file. What is behind the eight bytes stays as it is."""
        cdef uint8_t *data = self.buffer.data + self.position
        cdef int64_t left = self.buffer.size - self.position
        if left >= HEAD:
            rs_store_be32(data, <uint32_t>left)
            rs_store_be32(data + MAGIC, MAGIC_BLANK)
        self.position = self.buffer.size

    cdef void put(self, RecordEncoder records, const Encoded *record, int64_t queue_offset, int64_t time,
                  bint has_time) noexcept:
        """Complete a record and copy it, its head last: without it nobody takes the rest for one."""
        cdef uint8_t *made = records.data.data + record.start
        cdef uint8_t *into = self.buffer.data + self.position
        rs_store_be64(made + QUEUE_OFFSET, <uint64_t>queue_offset)
        rs_store_be64(made + PHY_OFFSET, <uint64_t>(self.from_offset + self.position))
        if has_time:
            rs_store_be64(made + record.store_timestamp, <uint64_t>time)
        if records.append_prop_crc:
            write_crc(made, record.size)
        memcpy(into + HEAD, made + HEAD, record.size - HEAD)
        rs_release_fence()
        memcpy(into, made, HEAD)
        self.last_phy_offset = self.from_offset + self.position
        self.last_store_timestamp = <int64_t>rs_load_be64(made + record.store_timestamp)
        self.position += record.size


cdef void write_crc(uint8_t *record, int32_t size) noexcept nogil:
    """Write the last property: the CRC of all before it, in ten decimal digits, the lowest first."""
    cdef uint8_t *text = record + size - CRC_PROPERTY_SIZE
    cdef uint32_t crc = rs_crc32(0, record, <size_t>size - CRC_PROPERTY_SIZE) & INT32_MAX
    cdef int i
    memcpy(text, b"__CRC32#\x01", CRC_DIGITS)
    for i in range(CRC_DIGITS, CRC_PROPERTY_SIZE - 1):
        text[i] = <uint8_t>(c"0" + crc % 10)
        crc //= 10
    text[CRC_PROPERTY_SIZE - 1] = 2
