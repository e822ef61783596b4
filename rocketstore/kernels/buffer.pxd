from libc.stdint cimport uint8_t


cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define RS_HAS_GIL 0
    #else
    #define RS_HAS_GIL 1
    #endif
    """
    bint RS_HAS_GIL


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

    # For a call that keeps the GIL from one to the other: then close() cannot come between, and nothing is counted.
    cdef inline int enter_short(self) except -1:
        if RS_HAS_GIL and not self.closing:
            return 0
        return self.enter()

    cdef inline void leave_short(self) noexcept:
        if not RS_HAS_GIL:
            self.leave()
