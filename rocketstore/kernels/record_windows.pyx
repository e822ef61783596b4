"""Parts of a commit log in memory, used together: each given offset is in one of them."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from rocketstore.kernels.buffer cimport Buffer
from rocketstore.kernels.csrc cimport RS_PREFETCH_R, rs_load_be32
from rocketstore.kernels.record cimport MIN_RECORD

import numpy as np

cdef enum:
    AHEAD = 12  # rows to prefetch ahead: the ends of records; twice as far: their heads
    FIXED_FIELDS = 88  # bytes before the body, with IPv4 hosts
    LAST_FIELDS = 192  # bytes; usually topic and properties


cdef class Windows:
    """Windows (buffer, from_offset), and for each row the window that has its offset, -1 without one.

    Raises: IndexError for a window out of range.
    """

    def __cinit__(self, windows, const int32_t[::1] window_of):
        if window_of.shape[0] and np.max(window_of) >= len(windows):
            raise IndexError(f"window_of: there are {len(windows)} windows")
        self.buffers = []
        self.table = np.empty((len(windows), 3), np.int64)
        self.window_of = window_of
        cdef Buffer buffer
        cdef Py_ssize_t i
        for i in range(len(self.table)):
            buffer, from_offset = windows[i]
            self.buffers.append(buffer)
            self.table[i, 0], self.table[i, 1] = <int64_t><size_t>buffer.data, buffer.size
            self.table[i, 2] = from_offset

    cdef int enter(self) except -1:
        """Count a piece of work in with every buffer. Raises: StoreClosedError; CorruptFileError if a file was cut."""
        cdef Py_ssize_t n = 0
        try:
            for buffer in self.buffers:
                (<Buffer>buffer).check_file_size()
                (<Buffer>buffer).enter()
                n += 1
        except BaseException:
            leave_all(self.buffers[:n])
            raise
        return 0

    cdef int leave(self) except -1:
        """Count the piece of work out. Raises: the error of the first fault, if some memory could not be read."""
        leave_all(self.buffers)
        return 0

    cdef const uint8_t *place_of(self, const int64_t[::1] offsets, Py_ssize_t i, int64_t *remaining) noexcept nogil:
        """Return the record of row `i`, and how many bytes its window has from there; NULL without a window."""
        cdef int64_t pos
        cdef int32_t window
        if i >= offsets.shape[0] or self.window_of[i] < 0:
            return NULL
        window = self.window_of[i]
        pos = offsets[i] - self.table[window, 2]
        remaining[0] = self.table[window, 1] - pos
        return <const uint8_t *><size_t>self.table[window, 0] + pos if 0 <= pos < self.table[window, 1] else NULL

    cdef void prefetch(self, const int64_t[::1] offsets, Py_ssize_t i, bint with_body) noexcept nogil:
        """Before row `i` is read, prefetch the heads of later records, and their ends, which have the properties."""
        cdef int64_t remaining, size
        cdef const uint8_t *record = self.place_of(offsets, i + 2 * AHEAD, &remaining)
        if record != NULL:
            prefetch_lines(record, FIXED_FIELDS)
        record = self.place_of(offsets, i + AHEAD, &remaining)
        if record == NULL or remaining < MIN_RECORD:
            return
        size = <int32_t>rs_load_be32(record)
        if not 0 < size <= remaining:
            return
        if with_body and size < 4096:
            prefetch_lines(record, size)
        else:
            prefetch_lines(record + max(size - LAST_FIELDS, 0), min(size, LAST_FIELDS))


cdef int leave_all(list buffers) except -1:
    """Leave every buffer, even if some of them raise errors."""
    cdef Py_ssize_t i
    for i in range(len(buffers)):
        try:
            (<Buffer>buffers[i]).leave()
        except BaseException:
            leave_all(buffers[i + 1:])
            raise
    return 0


cdef inline void prefetch_lines(const uint8_t *data, int64_t size) noexcept nogil:
    cdef const uint8_t *end = data + size
    data -= <size_t>data % 64
    while data < end:
        RS_PREFETCH_R(data)
        data += 64
