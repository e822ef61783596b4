from libc.stdint cimport uint32_t

cdef enum TextForm:
    TEXT_NULL = 0
    TEXT_LATIN1 = 1
    TEXT_UCS2 = 2
    TEXT_UCS4 = 4
    TEXT_UTF8 = 8

# One string in its original memory. `length` counts bytes, code units or code points, by its form.
cdef struct Text:
    TextForm form
    const void *data
    Py_ssize_t length


cdef class TextChunk:
    cdef Py_ssize_t length
    cdef int get(self, Py_ssize_t row, Text *text) except -1


cdef class ObjectChunk(TextChunk):
    cdef list values
    cdef object held


cdef class FixedWidthChunk(TextChunk):
    cdef object array
    cdef const unsigned char *data
    cdef Py_ssize_t stride
    cdef Py_ssize_t width
    cdef TextForm form


cdef int text_of_str(str value, Text *text) except -1
cdef bint hash_text(uint32_t seed, const Text *text, uint32_t *hash_ret) noexcept nogil
