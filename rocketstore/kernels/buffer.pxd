from libc.stdint cimport uint8_t


cdef class Buffer:
    cdef Py_buffer view
    cdef uint8_t *data
    cdef readonly Py_ssize_t size
    cdef readonly object path
    cdef readonly bint writable
    cdef object file_size
    cdef int closing
    cdef int in_flight

    cdef int enter(self) except -1
    cdef void leave(self) noexcept
    cdef int check_file_size(self) except -1
