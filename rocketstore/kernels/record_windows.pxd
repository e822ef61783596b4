cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t


@cython.final
cdef class Windows:
    cdef list buffers
    cdef int64_t[:, ::1] table  # address, size, from_offset
    cdef const int32_t[::1] window_of

    cdef int enter(self) except -1
    cdef int leave(self) except -1
    cdef const uint8_t *place_of(self, const int64_t[::1] offsets, Py_ssize_t i, int64_t *remaining) noexcept nogil
    cdef void prefetch(self, const int64_t[::1] offsets, Py_ssize_t i, bint with_body) noexcept nogil
