"""Rows of a column of strings or bytes."""

cimport cython
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np


@cython.boundscheck(False)
@cython.wraparound(False)
def take_values(const int32_t[::1] offsets, const uint8_t[::1] data, const int64_t[::1] rows):
    """Return some rows of a column of values of any length, in their order.

    Parameters: offsets: int32[n + 1], positions in ``data``. data: uint8[k]. rows: int64[m].
    Returns: offsets int32[m + 1] and data uint8[j]. Raises: IndexError for a row that the column does not have, or
    whose offsets lie outside of the data; MemoryError if the rows have more than 2 GiB.
    """
    cdef Py_ssize_t i, m = rows.shape[0], n = offsets.shape[0] - 1, size
    cdef int64_t row, total = 0
    taken_offsets = np.zeros(m + 1, np.int32)
    cdef int32_t[::1] ends = taken_offsets
    for i in range(m):
        row = rows[i]
        if not (0 <= row < n and 0 <= offsets[row] <= offsets[row + 1] <= data.shape[0]):
            raise IndexError(f"row {row} of {n}")
        total += offsets[row + 1] - offsets[row]
        if total > INT32_MAX:
            raise MemoryError("the rows of a column have more than 2 GiB: take fewer rows at once")
        ends[i + 1] = <int32_t>total
    taken_data = np.empty(total, np.uint8)
    cdef uint8_t[::1] into = taken_data
    for i in range(m):
        size = ends[i + 1] - ends[i]
        if size:
            memcpy(&into[ends[i]], &data[offsets[rows[i]]], <size_t>size)
    return taken_offsets, taken_data
