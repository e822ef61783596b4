"""The Arrow C data and stream interfaces, in, without pyarrow: columns of strings, which stay where Arrow has them.

The interface does not tell the sizes of buffers. What can be checked is checked: lengths, offsets, the number of
buffers and those that are missing before anything is read; each row's offsets against the last offset of its array,
each view against the size of its buffer and each index against the length of its dictionary when the row is read. A
producer whose last offset or length leads beyond its memory cannot be told from an honest one. Columns of pyarrow,
which knows the sizes, are checked before they are exported: ``columns.require_sound_buffers``.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from rocketstore.kernels.arrow_check cimport find_contradiction
from rocketstore.kernels.csrc cimport rs_fits
from rocketstore.kernels.text cimport TEXT_NULL, TEXT_UTF8, Text, TextChunk

from rocketstore.kernels.text import RowError

cdef dict INDEX_WIDTHS = {b"c": 1, b"s": 2, b"i": 4, b"l": 8}


cdef class ArrowOwner:
    """An ArrowArray that was moved here; released when the last chunk that views it goes."""

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)


cdef class ArrowChunk(TextChunk):
    cdef int hold(self, ArrowOwner owner, const ArrowArray *array) except -1:
        self.owner = owner
        self.length = array.length
        self.offset = array.offset
        self.validity = <const uint8_t *>array.buffers[0] if array.null_count != 0 else NULL
        return 0

    cdef const uint8_t *values_at(self, const ArrowArray *array, int64_t n, int64_t width) except? NULL:
        """Find n values from the array's offset on: where they lie or, if C may not read them there, in a copy."""
        cdef const uint8_t *values = <const uint8_t *>array.buffers[1] + array.offset * width
        if array.length == 0 or <size_t>values % <size_t>width == 0:
            return values
        self.copy = values[:n * width]
        return self.copy

    cdef bint is_null(self, Py_ssize_t row) noexcept:
        cdef int64_t bit = self.offset + row
        return self.validity != NULL and not (self.validity[bit >> 3] >> (bit & 7)) & 1


cdef class NullChunk(TextChunk):
    """Arrow null: rows without buffers. A tiny array can have any number of them."""

    cdef int get(self, Py_ssize_t row, Text *text) except -1:
        text.form = TEXT_NULL
        return 0


cdef class Utf8Chunk(ArrowChunk):
    """Arrow string and large_string."""

    cdef int64_t offset_of(self, Py_ssize_t row) noexcept:
        return self.offsets32[row] if self.offsets32 != NULL else self.offsets64[row]

    cdef int get(self, Py_ssize_t row, Text *text) except -1:
        cdef int64_t start, end
        if self.is_null(row):
            text.form = TEXT_NULL
            return 0
        start, end = self.offset_of(row), self.offset_of(row + 1)
        if not 0 <= start <= end <= self.total:
            raise RowError(row, "has offsets outside the column's data")
        text.form = TEXT_UTF8
        text.data = self.data + start
        text.length = end - start
        return 0


cdef class StringViewChunk(ArrowChunk):
    """Arrow string_view: 16 bytes a row, the string in them if it has at most 12 bytes, else in a buffer."""

    cdef int get(self, Py_ssize_t row, Text *text) except -1:
        cdef const uint8_t *view = self.views + 16 * (self.offset + row)
        cdef int32_t length, buffer, start
        cdef int64_t n_data = self.array.n_buffers - 3
        if self.is_null(row):
            text.form = TEXT_NULL
            return 0
        memcpy(&length, view, 4)
        text.form = TEXT_UTF8
        text.length = length
        if 0 <= length <= 12:
            text.data = view + 4
            return 0
        memcpy(&buffer, view + 8, 4)
        memcpy(&start, view + 12, 4)
        if (
            length < 0 or not 0 <= buffer < n_data or start < 0
            or not rs_fits((<const int64_t *>self.array.buffers[n_data + 2])[buffer], start, length)
        ):
            raise RowError(row, "is a string view outside the column's data")
        text.data = <const uint8_t *>self.array.buffers[2 + buffer] + start
        return 0


cdef class DictionaryChunk(ArrowChunk):
    cdef int64_t index(self, Py_ssize_t row) except -1:
        cdef const uint8_t *p = self.indices + row * self.width
        cdef uint64_t index
        if self.width == 1:
            index = <uint64_t>(<const int8_t *>p)[0] if self.signed_indices else p[0]
        elif self.width == 2:
            index = <uint64_t>(<const int16_t *>p)[0] if self.signed_indices else (<const uint16_t *>p)[0]
        elif self.width == 4:
            index = <uint64_t>(<const int32_t *>p)[0] if self.signed_indices else (<const uint32_t *>p)[0]
        else:
            index = (<const uint64_t *>p)[0]
        if index >= <uint64_t>self.values.length:
            raise RowError(row, "has an index outside the dictionary")
        return <int64_t>index

    cdef int get(self, Py_ssize_t row, Text *text) except -1:
        if self.is_null(row):
            text.form = TEXT_NULL
            return 0
        return self.values.get(self.index(row), text)


cdef bytes string_format(const ArrowSchema *schema):
    """The format of a column of strings, of a dictionary's indices. Raises: TypeError for any other column."""
    cdef bytes form = schema.format
    if schema.dictionary != NULL:
        if form.lower() not in INDEX_WIDTHS:
            raise TypeError(f"dictionary indices of Arrow format {form.decode()!r} are not integers")
        string_format(schema.dictionary)
    elif form not in (b"u", b"U", b"vu", b"n"):
        raise TypeError(f"an Arrow column of strings was expected, not one of format {form.decode()!r}")
    return form


cdef TextChunk text_chunk(ArrowOwner owner, const ArrowSchema *schema, const ArrowArray *array):
    form = string_format(schema)
    found = find_contradiction(schema, array, 0)
    if found != NULL:
        raise contradiction(found.decode())
    if form == b"n" and schema.dictionary == NULL:
        return null_chunk(array)
    check_buffers(array, 2 if schema.dictionary != NULL else 3)
    if schema.dictionary != NULL:
        return dictionary_chunk(owner, schema, array, form)
    return string_view_chunk(owner, array) if form == b"vu" else utf8_chunk(owner, array, form == b"U")


cdef int check_buffers(const ArrowArray *array, int least) except -1:
    if array.n_buffers < least or array.buffers == NULL:
        raise contradiction(f"an array has {array.n_buffers} buffers where {least} are needed")
    if array.length and array.buffers[1] == NULL:
        raise contradiction(f"an array of length {array.length} has no buffer of offsets, views or indices")
    return 0


cdef contradiction(str what):
    return ValueError(f"the Arrow data contradicts itself: {what}")


cdef NullChunk null_chunk(const ArrowArray *array):
    cdef NullChunk chunk = NullChunk()
    if array.length > INT32_MAX:
        raise contradiction(f"a column of nulls has length {array.length}")
    chunk.length = array.length
    return chunk


cdef Utf8Chunk utf8_chunk(ArrowOwner owner, const ArrowArray *array, bint large):
    cdef Utf8Chunk chunk = Utf8Chunk()
    chunk.hold(owner, array)
    if large:
        chunk.offsets64 = <const int64_t *>chunk.values_at(array, array.length + 1, sizeof(int64_t))
    else:
        chunk.offsets32 = <const int32_t *>chunk.values_at(array, array.length + 1, sizeof(int32_t))
    chunk.total = chunk.offset_of(array.length) if array.length else 0
    # The data buffer may be missing if all strings are empty.
    if array.buffers[2] == NULL and chunk.total > 0:
        raise contradiction(f"an array with {chunk.total} bytes of strings has no buffer of them")
    chunk.data = <const uint8_t *>array.buffers[2] if array.buffers[2] != NULL else <const uint8_t *>b""
    return chunk


cdef StringViewChunk string_view_chunk(ArrowOwner owner, const ArrowArray *array):
    cdef StringViewChunk chunk = StringViewChunk()
    cdef int64_t i, size, n_data = array.n_buffers - 3
    chunk.hold(owner, array)
    if n_data and array.buffers[n_data + 2] == NULL:
        raise contradiction(f"an array of string views does not tell the sizes of its {n_data} buffers")
    for i in range(n_data):
        size = (<const int64_t *>array.buffers[n_data + 2])[i]
        if size < 0 or (size > 0 and array.buffers[2 + i] == NULL):
            raise contradiction(f"buffer {i} of string views is missing, or has a negative size")
    chunk.array = array
    chunk.views = <const uint8_t *>array.buffers[1]
    return chunk


cdef DictionaryChunk dictionary_chunk(ArrowOwner owner, const ArrowSchema *schema, const ArrowArray *array, bytes form):
    cdef DictionaryChunk chunk = DictionaryChunk()
    chunk.hold(owner, array)
    chunk.width = INDEX_WIDTHS[form.lower()]
    chunk.indices = chunk.values_at(array, array.length, chunk.width)
    chunk.signed_indices = form.islower()
    chunk.values = text_chunk(owner, schema.dictionary, array.dictionary)
    return chunk


cdef list import_text_chunks(column):
    """Return the chunks of anything with __arrow_c_stream__ or __arrow_c_array__. Raises TypeError if not strings."""
    cdef ArrowSchema *schema
    cdef ArrowArray *array
    if hasattr(column, "__arrow_c_stream__"):
        return import_stream(column.__arrow_c_stream__())
    schema_capsule, array_capsule = column.__arrow_c_array__()
    schema = <ArrowSchema *>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    array = <ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
    require_unused(schema.release != NULL and array.release != NULL)
    owner = move_array(array)
    return [text_chunk(owner, schema, &owner.array)]


cdef int require_unused(bint unused) except -1:
    if not unused:
        raise ValueError("the Arrow data was consumed before: its capsule can be used once")
    return 0


cdef ArrowOwner move_array(ArrowArray *array):
    cdef ArrowOwner owner = ArrowOwner()
    owner.array = array[0]
    array.release = NULL
    return owner


cdef list import_stream(capsule):
    cdef ArrowArrayStream *given = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    cdef ArrowArrayStream stream
    cdef ArrowSchema schema
    require_unused(given.release != NULL)
    stream = given[0]
    given.release = NULL
    memset(&schema, 0, sizeof(schema))
    try:
        check_stream(&stream, stream.get_schema(&stream, &schema))
        return stream_chunks(&stream, &schema)
    finally:
        if schema.release != NULL:
            schema.release(&schema)
        stream.release(&stream)


cdef list stream_chunks(ArrowArrayStream *stream, const ArrowSchema *schema):
    cdef ArrowArray array
    cdef ArrowOwner owner
    string_format(schema)  # before the stream begins to work
    chunks = []
    while True:
        memset(&array, 0, sizeof(array))
        check_stream(stream, stream.get_next(stream, &array))
        if array.release == NULL:
            return chunks
        owner = move_array(&array)
        chunks.append(text_chunk(owner, schema, &owner.array))


cdef int check_stream(ArrowArrayStream *stream, int code) except -1:
    if code == 0:
        return 0
    reason = stream.get_last_error(stream)
    raise ValueError(f"the Arrow stream failed: {reason.decode(errors='replace') if reason != NULL else code}")
