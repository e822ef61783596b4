from libc.stdint cimport int64_t, uint8_t, uint64_t
from posix.types cimport dev_t, ino_t

from rocketstore.kernels.csrc cimport rs_guard


cdef class Mapping:
    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t size_in_file  # the bytes behind it are zeros
    cdef rs_guard *guard
    cdef uint64_t *lost_pages  # a bit for each page, if faults are tolerated; else NULL
    cdef readonly object path
    cdef readonly bint writable
    cdef bytes _place
    cdef dev_t _device
    cdef ino_t _inode
    cdef int _exports

    cdef void _unmap(self) noexcept
    cdef int64_t file_size(self) noexcept
    cdef int raise_fault(self) except -1
