from libc.stdint cimport int32_t, uint32_t

from rocketstore.kernels.text cimport Text, TextChunk


cdef class TextColumn:
    cdef readonly Py_ssize_t length
    cdef str name
    cdef list chunks
    cdef Py_ssize_t chunk_index
    cdef Py_ssize_t chunk_start

    cdef TextChunk chunk_of(self, Py_ssize_t row)
    cdef int require_no_null_chunk(self) except -1
    cdef int get(self, Py_ssize_t row, Text *text) except -1


cdef TextColumn text_column(column, str name)
cdef int java_hash_str(uint32_t seed, value, uint32_t *hash_ret) except -1
cdef inline int32_t key_hash_of(uint32_t code) noexcept nogil:
    """IndexFile.indexKeyHashMethod: abs, and 0 for the one int that has none."""
    cdef int32_t value = <int32_t>code
    if value < 0:
        value = <int32_t>(0 - code)
    return value if value >= 0 else 0
