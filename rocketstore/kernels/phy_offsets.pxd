from libc.stdint cimport int64_t


# Physical offsets found so far, at first in the caller's `inline_values`. `status`: the error that ended a walk,
# `where` the byte of the file it stopped at, or of a wild slot that it skipped; 0: none.
cdef struct Found:
    int64_t *values
    Py_ssize_t size
    Py_ssize_t capacity
    int status
    int64_t where
    int64_t *inline_values


cdef class FoundValues:
    cdef Found found
    cdef object first

    cdef array(self)


cdef bint grow(Found *found) noexcept nogil
cdef void free_found(Found *found) noexcept nogil


cdef inline void start_found(Found *found, int64_t *inline_values, Py_ssize_t capacity) noexcept nogil:
    found.values = inline_values
    found.inline_values = inline_values
    found.capacity = capacity
    found.size = 0
    found.status = 0
    found.where = 0


cdef inline bint add_value(Found *found, int64_t value) noexcept nogil:
    """Keep one more offset. Return False without memory."""
    if found.size == found.capacity and not grow(found):
        return False
    found.values[found.size] = value
    found.size += 1
    return True
