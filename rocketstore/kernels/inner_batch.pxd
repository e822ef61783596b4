# The messages in the body of an inner batch, as records that differ from the record of the batch. See inner_batch.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t

from rocketstore.kernels.record cimport INNER_BATCH, NEEDS_UNWRAP, Record

cdef enum:
    COPIED_HEAD = 112  # bytes; the fields of a record before its body are 108 with two IPv6 hosts
    OPENED = INNER_BATCH | NEEDS_UNWRAP  # clients open a record with both flags. Source: PullAPIWrapper.processPullResult


cdef int64_t count_inner_messages(const uint8_t *body, int64_t size) noexcept nogil
cdef int64_t read_inner_message(const Record *batch, int64_t pos, int64_t queue_offset, uint8_t *head,
                                Record *message) noexcept nogil
