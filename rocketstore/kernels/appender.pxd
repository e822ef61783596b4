from libc.stdint cimport int64_t, uint8_t, uint64_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from rocketstore.kernels.buffer cimport Buffer
from rocketstore.kernels.record_encoder cimport Encoded, RecordEncoder

cdef enum:
    HEAD = 8  # bytes: size and magic; without them a reader sees no record
    LARGE_WRITE = 32768  # bytes; records of this size or more are written by system calls
    MAX_HEADS = 4096  # records that are written together


cdef class QueueOffset:
    """The queue offset of the next message of a queue. Its fields make no cycles: the garbage collector skips it."""
    cdef str topic  # the str object of the last plain message; None before the first plain message
    cdef int64_t queue_id
    cdef int64_t following  # the queue offset


cdef class Appender:
    cdef Buffer buffer
    cdef int fd
    cdef object extend
    cdef int64_t reserved  # the disk has room for the bytes of the file before this position
    cdef int64_t prepared  # up to this position the pages of the file are in the cache
    cdef readonly int64_t from_offset
    cdef readonly int64_t position
    cdef dict offsets  # QueueOffset by (topic, queueId)
    cdef readonly int64_t last_phy_offset
    cdef readonly int64_t last_store_timestamp
    cdef int64_t completed_phy_offset  # of the last unpublished record
    cdef int64_t completed_store_timestamp
    cdef uint64_t heads[MAX_HEADS]  # heads of the records being written; the encoder has zeros in their place

    cdef int require_fitting(self, RecordEncoder records, int64_t size) except -1
    cdef bint has_room(self, int64_t size) noexcept
    cdef bint is_reserved(self, int64_t size) noexcept
    cdef int reserve(self, int64_t size) except -1
    cdef void write_blank(self) noexcept
    cdef void complete(self, RecordEncoder records, const Encoded *record, int64_t queue_offset, int64_t position,
                       bint is_given, int64_t time) noexcept
    cdef void prepare(self, int64_t size) noexcept nogil
    cdef int publish(self, RecordEncoder records, Py_ssize_t first, Py_ssize_t stop, int64_t size) except -1
    cdef bint write_records(self, uint8_t *into, RecordEncoder records, Py_ssize_t first, Py_ssize_t stop,
                            int64_t size) noexcept nogil
    cdef int64_t write(self, const uint8_t *data, int64_t size) noexcept nogil
    cdef void take_heads(self, RecordEncoder records, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
    cdef void restore_heads(self, RecordEncoder records, Py_ssize_t first, Py_ssize_t stop) noexcept nogil


cdef inline int64_t now() noexcept nogil:
    """Epoch milliseconds."""
    cdef timespec time
    clock_gettime(CLOCK_REALTIME, &time)
    return <int64_t>time.tv_sec * 1000 + time.tv_nsec // 1_000_000
