from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rocketstore.kernels.record cimport Record, Slice


cdef enum:
    MOST_LITERALS = 16


cdef class TextSet:
    cdef bytes data
    cdef const uint8_t *start
    cdef int32_t[::1] offsets
    cdef int32_t[::1] slots
    cdef uint32_t mask
    cdef bint contains(self, const Slice *text) noexcept nogil


cdef class RecordFilter:
    cdef tuple given
    cdef TextSet topics
    cdef TextSet tags
    cdef TextSet keys
    cdef int32_t[::1] queue_ids
    cdef int64_t begin_timestamp
    cdef int64_t end_timestamp
    cdef readonly bint needs_properties
    cdef bint matches_fixed(self, const Record *record) noexcept nogil
    cdef bint matches_properties(self, const Record *record) noexcept nogil


cdef class BodyLiterals:
    cdef tuple literals
    cdef Py_ssize_t count
    cdef const uint8_t *starts[MOST_LITERALS]
    cdef Py_ssize_t sizes[MOST_LITERALS]
    cdef bint may_have(self, const Record *record) noexcept nogil


cdef bint equals_decoded(const Slice *text, const uint8_t *wanted, int32_t size) noexcept nogil
