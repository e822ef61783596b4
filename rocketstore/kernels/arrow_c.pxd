from libc.stdint cimport int32_t, int64_t, uint8_t

from rocketstore.kernels.arrow_structs cimport ArrowArray, ArrowArrayStream, ArrowSchema
from rocketstore.kernels.text cimport TextChunk


cdef class ArrowOwner:
    cdef ArrowArray array


cdef class ArrowChunk(TextChunk):
    cdef ArrowOwner owner
    cdef const uint8_t *validity
    cdef int64_t offset
    cdef bytes copy

    cdef int hold(self, ArrowOwner owner, const ArrowArray *array) except -1
    cdef const uint8_t *values_at(self, const ArrowArray *array, int64_t n, int64_t width) except? NULL
    cdef bint is_null(self, Py_ssize_t row) noexcept


cdef class NullChunk(TextChunk):
    pass


cdef class Utf8Chunk(ArrowChunk):
    cdef const uint8_t *data
    cdef const int32_t *offsets32
    cdef const int64_t *offsets64
    cdef int64_t total  # the last offset: how many bytes of data exist

    cdef int64_t offset_of(self, Py_ssize_t row) noexcept


cdef class StringViewChunk(ArrowChunk):
    cdef const uint8_t *views
    cdef const ArrowArray *array


cdef class DictionaryChunk(ArrowChunk):
    cdef const uint8_t *indices
    cdef int width
    cdef bint signed_indices
    cdef TextChunk values
    # The hashes of the values met so far, all from one seed.
    cdef object known
    cdef object codes

    cdef int64_t index(self, Py_ssize_t row) except -1


cdef list import_text_chunks(object column)
