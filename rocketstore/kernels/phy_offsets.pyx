"""The physical offsets that lookups find: collected while they search, then given as lists in NumPy and Arrow."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from rocketstore.kernels.arrow_export cimport export_list, wants_small_list

import numpy as np


class PhyOffsets:
    """The physical offsets that a batch of lookups found: a list of them for each key.

    The offsets of key ``i`` are ``values[offsets[i]:offsets[i + 1]]``, newest first.
    Attributes: values: int64[m], bytes in the commit log. offsets: int64[n + 1], positions in ``values``.
    Source: none; RocketMQ fills a List<Long> for one key.

    Examples:
    >>> offsets = rocketstore.open("demo").index.query_offsets("Orders", ["order-0", "none"])
    >>> offsets.values, offsets.offsets
    (array([0]), array([0, 1, 1]))
    """

    __slots__ = ("offsets", "values")

    def __init__(self, values, offsets):
        self.values = values
        self.offsets = offsets

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, i):
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"key {i} of {n}")
        i %= n
        return self.values[self.offsets[i]:self.offsets[i + 1]]

    def __repr__(self):
        return f"<PhyOffsets: {len(self)} keys, {len(self.values)} offsets>"

    def to_pylist(self):
        """Return a list of a list of int for each key."""
        values, ends = self.values.tolist(), self.offsets.tolist()
        return [values[ends[i]:ends[i + 1]] for i in range(len(self))]

    def __arrow_c_array__(self, requested_schema=None):
        """Export as Arrow large_list<int64>; as list<int64> if the consumer requests it and 32-bit offsets suffice."""
        if wants_small_list(requested_schema) and len(self.values) <= 0x7FFFFFFF:
            return export_list(self.offsets.astype(np.int32), self.values, False)
        return export_list(self.offsets, self.values, True)


def join_newest_first(parts, Py_ssize_t n, int64_t max_num):
    """Join the results of several files for the same n keys, in order, with at most ``max_num`` offsets a key."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.zeros(n + 1, np.int64)
    lengths = sum((np.diff(part.offsets) for part in parts), np.zeros(n, np.int64))
    np.cumsum(np.minimum(lengths, max_num), out=offsets[1:])
    values = np.empty(offsets[n], np.int64)
    cdef int64_t[::1] ends = offsets, into = values, filled = offsets[:n].copy()
    cdef const int64_t[::1] part_ends, part_values
    cdef int64_t k
    cdef Py_ssize_t row
    for part in parts:
        part_ends, part_values = part.offsets, part.values
        with nogil:
            for row in range(n):
                for k in range(part_ends[row], min(part_ends[row + 1], part_ends[row] + ends[row + 1] - filled[row])):
                    into[filled[row]] = part_values[k]
                    filled[row] += 1
    return PhyOffsets(values, offsets)


def key_numbers(const int64_t[::1] offsets):
    """Return the number of the key of each value of a PhyOffsets, int64[m]. Parameters: offsets: as in a PhyOffsets."""
    cdef Py_ssize_t n = offsets.shape[0] - 1, key
    cdef int64_t at = 0, end, m = offsets[n]
    numbers = np.empty(m, np.int64)
    cdef int64_t[::1] into = numbers
    with nogil:
        for key in range(n):
            end = min(offsets[key + 1], m)
            while at < end:
                into[at] = key
                at += 1
    return numbers


cdef class FoundValues:
    """The offsets of a batch of n keys: in an array with room for one each, then outside Python's memory."""

    def __cinit__(self, Py_ssize_t n):
        # NumPy puts large arrays into huge pages, which saves thousands of page faults.
        self.first = np.empty(max(n, 1), np.int64)
        start_found(&self.found, <int64_t *><size_t>self.first.ctypes.data, len(self.first))

    def __dealloc__(self):
        free_found(&self.found)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.found.values, self.found.size * sizeof(int64_t), True, flags)

    cdef array(self):
        """The offsets, int64[m]."""
        if self.found.values == self.found.inline_values:
            return self.first[:self.found.size]
        return np.frombuffer(self, np.int64)


cdef bint grow(Found *found) noexcept nogil:
    cdef Py_ssize_t capacity = 2 * found.capacity + 1024
    cdef int64_t *values
    if found.values == found.inline_values:
        values = <int64_t *>malloc(capacity * sizeof(int64_t))
        if values != NULL and found.size:
            memcpy(values, found.values, found.size * sizeof(int64_t))
    else:
        values = <int64_t *>realloc(found.values, capacity * sizeof(int64_t))
    if values == NULL:
        return False
    found.values = values
    found.capacity = capacity
    return True


cdef void free_found(Found *found) noexcept nogil:
    if found.values != found.inline_values:
        free(found.values)
