from libc.stdint cimport int64_t, uint8_t

from rocketstore.kernels.csrc cimport RS_NO_FAULT, rs_acquire_fence
from rocketstore.kernels.mapping cimport Mapping


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
    cdef Mapping mapping  # None for other memory
    cdef const int64_t *first_fault  # RS_NO_FAULT while all of the memory could be read
    cdef int closing
    cdef int in_flight

    cdef int enter(self) except -1
    cdef int leave(self) except -1
    cdef int raise_fault(self) except -1
    cdef int check_file_size(self) except -1

    # Whether some of the memory could not be read, and is zeros.
    cdef inline bint is_faulty(self) noexcept:
        rs_acquire_fence()  # no read may move behind this fence
        return self.first_fault[0] != RS_NO_FAULT

    # For a call that holds the GIL in between: close() cannot run meanwhile, so nothing is counted.
    cdef inline int enter_short(self) except -1:
        if RS_HAS_GIL and not self.closing:
            return 0
        return self.enter()

    cdef inline int leave_short(self) except -1:
        if not RS_HAS_GIL:
            return self.leave()
        return self.raise_fault() if self.is_faulty() else 0
