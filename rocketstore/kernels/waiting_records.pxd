cdef class WaitingRecords:
    cdef Py_ssize_t count
    cdef Py_ssize_t enough
    cdef bint is_woken
    cdef object wake
    cdef object hurry

    cdef int add(self, Py_ssize_t count) except -1
