cimport cython
from libc.stdint cimport uint8_t

from rocketstore.kernels.record cimport Record, Slice


@cython.final
@cython.no_gc
cdef class Growing:
    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef Growing previous
    cdef Growing previous_but_one
    cdef bint allocate(self, Py_ssize_t capacity) noexcept nogil
    cdef bint reserve(self, Py_ssize_t more) noexcept nogil
    cdef bint add(self, const void *data, Py_ssize_t size) noexcept nogil
    cdef bint add_int32(self, Py_ssize_t value) noexcept nogil


cdef array_of(Growing bytes, dtype)
cdef Growing next_of(Growing previous)


cdef class Column:
    cdef Column following
    cdef bint append_all(self, const Record *records, Py_ssize_t n) noexcept nogil
    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil
    cdef bint expect(self, double factor) noexcept nogil
    cdef object take(self)


@cython.final
cdef class VarValues:
    cdef Growing offsets
    cdef Growing data
    cdef bint add_bytes(self, const void *data, Py_ssize_t size) noexcept nogil
    cdef bint add_text(self, const Slice *text) noexcept nogil
    cdef bint add_texts(self, const Slice *texts, Py_ssize_t n) noexcept nogil
    cdef take(self, valid=*, column_type=*)


cdef enum:
    MOST_RECORDS = 128  # that append takes at once


cdef class RecordColumns:
    cdef readonly tuple names
    cdef list columns
    cdef Column first
    cdef readonly Py_ssize_t rows
    cdef readonly bint needs_properties
    cdef bint expect(self, double factor) noexcept nogil
    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil


cdef Py_ssize_t host_text(const uint8_t *host, bint is_v6, char *ret) noexcept nogil
