from libc.stdint cimport int32_t, int64_t, uint8_t

from rocketstore.kernels.text cimport TextChunk


cdef extern from *:
    """
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    struct ArrowSchema {
        const char *format, *name, *metadata;
        int64_t flags, n_children;
        struct ArrowSchema **children, *dictionary;
        void (*release)(struct ArrowSchema *);
        void *private_data;
    };
    struct ArrowArray {
        int64_t length, null_count, offset, n_buffers, n_children;
        const void **buffers;
        struct ArrowArray **children, *dictionary;
        void (*release)(struct ArrowArray *);
        void *private_data;
    };
    #endif
    #ifndef ARROW_C_STREAM_INTERFACE
    #define ARROW_C_STREAM_INTERFACE
    struct ArrowArrayStream {
        int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
        int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
        const char *(*get_last_error)(struct ArrowArrayStream *);
        void (*release)(struct ArrowArrayStream *);
        void *private_data;
    };
    #endif
    """
    struct ArrowSchema:
        const char *format
        const char *name
        const char *metadata
        int64_t flags
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept nogil
        void *private_data

    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void **buffers
        ArrowArray **children
        ArrowArray *dictionary
        void (*release)(ArrowArray *) noexcept nogil
        void *private_data

    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept nogil
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept nogil
        const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
        void (*release)(ArrowArrayStream *) noexcept nogil
        void *private_data


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
    cdef int64_t total  # the last offset: the bytes of data there are

    cdef int64_t offset_of(self, Py_ssize_t row) noexcept


cdef class StringViewChunk(ArrowChunk):
    cdef const uint8_t *views
    cdef const ArrowArray *array


cdef class DictionaryChunk(ArrowChunk):
    cdef const uint8_t *indices
    cdef int width
    cdef bint signed_indices
    cdef TextChunk values
    # The hashes of the values that were met, all from one seed.
    cdef object known
    cdef object codes

    cdef int64_t index(self, Py_ssize_t row) except -1


cdef list import_text_chunks(object column)
