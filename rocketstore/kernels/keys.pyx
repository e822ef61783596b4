"""Hashes of columns of keys: list[str], NumPy, pandas and Arrow; the topic is hashed in front of each key."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rocketstore.kernels.arrow_c cimport (
    DictionaryChunk,
    NullChunk,
    Utf8Chunk,
    import_text_chunks,
)
from rocketstore.kernels.csrc cimport rs_java_hash_column32, rs_java_hash_column64
from rocketstore.kernels.text cimport (
    TEXT_NULL,
    FixedWidthChunk,
    ObjectChunk,
    Text,
    TextChunk,
    hash_text,
    text_of_str,
)

import numpy as np

from rocketstore.kernels.columns import require_sound_buffers, require_unmasked
from rocketstore.kernels.text import RowError

cdef enum:
    PIECE = 65536  # rows hashed between two checks for signals: a few milliseconds at the slowest


cdef class TextColumn:
    """A column of strings in any form, as chunks. `name`: the name of the column in errors."""

    def __cinit__(self, column, str name):
        self.name = name
        self.chunks = [chunk for chunk in chunks_of(column, name) if (<TextChunk>chunk).length]
        self.length = 0
        for chunk in self.chunks:
            self.length += (<TextChunk>chunk).length

    cdef TextChunk chunk_of(self, Py_ssize_t row):
        """Return the chunk with `row`; `chunk_start` is then its first row. Fast for ascending rows."""
        if row < self.chunk_start:
            self.chunk_index, self.chunk_start = 0, 0
        chunk = <TextChunk>self.chunks[self.chunk_index]
        while row - self.chunk_start >= chunk.length:
            self.chunk_start += chunk.length
            self.chunk_index += 1
            chunk = <TextChunk>self.chunks[self.chunk_index]
        return chunk

    cdef int require_no_null_chunk(self) except -1:
        """Raise ValueError for a chunk of nulls before memory is allocated by its length, which no buffer proves."""
        cdef Py_ssize_t row = 0
        for chunk in self.chunks:
            if isinstance(chunk, NullChunk):
                raise ValueError(f"{self.name}[{row}] is null: each must be a string")
            row += (<TextChunk>chunk).length
        return 0

    cdef int get(self, Py_ssize_t row, Text *text) except -1:
        chunk = self.chunk_of(row)
        try:
            return chunk.get(row - self.chunk_start, text)
        except RowError as error:
            raise error.error(f"{self.name}[{row}] {error.reason}") from None


cdef list chunks_of(column, str name):
    if isinstance(column, (str, bytes)):
        raise TypeError(f"{name}: a column of str was expected, not a single {type(column).__name__}")
    if isinstance(column, (list, tuple)):
        return [ObjectChunk(column if type(column) is list else list(column))]
    if isinstance(column, np.ndarray):
        return [numpy_chunk(column, name)]
    require_sound_buffers(column, name)
    if hasattr(column, "to_numpy") and hasattr(column, "dtype") and hasattr(column, "iloc"):
        return pandas_chunks(column, name)
    if hasattr(column, "__arrow_c_stream__") or hasattr(column, "__arrow_c_array__"):
        return import_text_chunks(column)
    raise TypeError(
        f"{name}: a list of str, a NumPy array, a pandas Series or an Arrow array was expected, "
        f"not {type(column).__name__}"
    )


cdef list pandas_chunks(series, str name):
    """A Series in Arrow memory stays there; any other goes through NumPy."""
    if hasattr(series.array, "__arrow_array__") and "pyarrow" in str(getattr(series.dtype, "storage", series.dtype)):
        return import_text_chunks(series.array.__arrow_array__())
    return [numpy_chunk(series.to_numpy(dtype=object), name)]


cdef TextChunk numpy_chunk(array, str name):
    if array.ndim != 1:
        raise ValueError(f"{name}: one dimension was expected, not shape {array.shape}")
    require_unmasked(array, name)
    if array.dtype.kind in "US":
        return FixedWidthChunk(array)
    if array.dtype.kind in "OT":
        return ObjectChunk(array.astype(object, copy=False).tolist())
    raise TypeError(f"{name}: an array of str was expected, not of {array.dtype}")


# ---- hashing -----------------------------------------------------------------------------------------------


cdef TextColumn text_column(column, str name):
    """Return the TextColumn of a column. A TextColumn is returned unchanged: a stream can be read only once."""
    return column if isinstance(column, TextColumn) else TextColumn(column, name)


def hash_keys(keys, *, topic=None):
    """Hash index keys as an index item stores them.

    Parameters
    ----------
    keys : list of str, NumPy str or object array, pandas Series, or anything with ``__arrow_c_array__`` or
        ``__arrow_c_stream__``; n strings. Arrow data is not copied.
    topic : str, or a column of n str, optional. ``topic#`` is hashed in front of each key.

    Returns
    -------
    int32[n], none negative.

    Raises
    ------
    ValueError : a key is null or not well-formed UTF-8 (the row is named), or the lengths differ.
    TypeError : not strings.

    Source: IndexFile.indexKeyHashMethod, IndexService.buildKey.

    Examples:
    >>> hash_keys(["order-0", "order-1"], topic="Orders")
    array([122581517, 122581516], dtype=int32)
    """
    codes = java_hash_codes(keys, topic=topic)
    cdef int32_t[::1] hashes = codes
    cdef Py_ssize_t i
    with nogil:
        for i in range(hashes.shape[0]):
            hashes[i] = key_hash_of(<uint32_t>hashes[i])
    return codes


def java_hash_codes(keys, *, topic=None):
    """Return Java's ``String.hashCode`` of each key, int32[n]; parameters and errors as ``hash_keys``.

    Source: java.lang.String.hashCode.
    """
    cdef TextColumn column = text_column(keys, "keys"), topics = None
    cdef Py_ssize_t n = column.length, start, size
    cdef uint32_t[::1] seeds = np.zeros(1, np.uint32)
    column.require_no_null_chunk()
    if isinstance(topic, str):
        java_hash_str(0, topic + "#", &seeds[0])
    elif topic is not None:
        topics = text_column(topic, "topic")
        topics.require_no_null_chunk()
        if topics.length != n:
            raise ValueError(f"topic has {topics.length} rows, keys has {n}")
        seeds = np.empty(min(n, <Py_ssize_t>PIECE), np.uint32)
    codes = np.empty(n, np.int32)
    cdef uint32_t[::1] out = codes.view(np.uint32)
    for start in range(0, n, PIECE):
        size = min(n - start, <Py_ssize_t>PIECE)
        if topics is not None:
            hash_topics(topics, start, size, seeds)
        hash_rows(column, start, size, &seeds[0], topics is not None, &out[start])
        PyErr_CheckSignals()
    return codes


cdef int java_hash_str(uint32_t seed, value, uint32_t *hash_ret) except -1:
    cdef Text text
    if not isinstance(value, str):
        raise TypeError(f"a key must be a str, not {type(value).__name__}")
    text_of_str(<str>value, &text)
    hash_text(seed, &text, hash_ret)
    return 0


cdef int hash_topics(TextColumn topics, Py_ssize_t start, Py_ssize_t n, uint32_t[::1] seeds) except -1:
    """The hash of "topic#" of n rows."""
    cdef uint32_t nothing = 0
    cdef Py_ssize_t i
    hash_rows(topics, start, n, &nothing, 0, &seeds[0])
    for i in range(n):
        seeds[i] = seeds[i] * 31 + <uint32_t>c'#'
    return 0


cdef int hash_rows(TextColumn column, Py_ssize_t start, Py_ssize_t n, const uint32_t *seeds, Py_ssize_t seed_step,
                   uint32_t *out) except -1:
    """String.hashCode of n rows, each continuing from its own seed (step 1), or all from one seed (step 0)."""
    cdef Py_ssize_t done = 0, first, size
    cdef TextChunk chunk
    while done < n:
        chunk = column.chunk_of(start + done)
        first = start + done - column.chunk_start
        size = min(n - done, chunk.length - first)
        try:
            hash_chunk(chunk, first, size, seeds + done * seed_step, seed_step, out + done)
        except RowError as error:
            raise error.error(f"{column.name}[{column.chunk_start + error.row}] {error.reason}") from None
        done += size
    return 0


cdef int hash_chunk(TextChunk chunk, Py_ssize_t first, Py_ssize_t n, const uint32_t *seeds, Py_ssize_t seed_step,
                    uint32_t *out) except -1:
    cdef Text text
    cdef Py_ssize_t i
    if isinstance(chunk, Utf8Chunk):
        return hash_utf8_chunk(<Utf8Chunk>chunk, first, n, seeds, seed_step, out)
    if isinstance(chunk, DictionaryChunk) and seed_step == 0:
        return hash_dictionary(<DictionaryChunk>chunk, first, n, seeds[0], out)
    for i in range(n):
        chunk.get(first + i, &text)
        if not hash_text(seeds[i * seed_step], &text, &out[i]):
            raise row_error(chunk, first + i)
    return 0


cdef int hash_utf8_chunk(Utf8Chunk chunk, Py_ssize_t first, Py_ssize_t n, const uint32_t *seeds,
                         Py_ssize_t seed_step, uint32_t *out) except -1:
    cdef size_t done
    cdef Py_ssize_t row
    if chunk.validity != NULL:
        for row in range(first, first + n):
            if chunk.is_null(row):
                raise row_error(chunk, row)
    # The loop compares offsets with the end of the last of these rows. That end may itself be wrong.
    if not 0 <= chunk.offset_of(first + n) <= chunk.total:
        raise row_error(chunk, first_bad_row(chunk, first, n))
    with nogil:
        if chunk.offsets32 != NULL:
            done = rs_java_hash_column32(chunk.data, chunk.offsets32 + first, n, seeds, seed_step, out)
        else:
            done = rs_java_hash_column64(chunk.data, chunk.offsets64 + first, n, seeds, seed_step, out)
    if done != <size_t>n:
        raise row_error(chunk, first + <Py_ssize_t>done)
    return 0


cdef Py_ssize_t first_bad_row(Utf8Chunk chunk, Py_ssize_t first, Py_ssize_t n) noexcept:
    """Find the first row that ends outside the data; the last of the rows does."""
    cdef Py_ssize_t row
    for row in range(first, first + n):
        if not 0 <= chunk.offset_of(row + 1) <= chunk.total:
            return row
    return first + n - 1


cdef int hash_dictionary(DictionaryChunk chunk, Py_ssize_t first, Py_ssize_t n, uint32_t seed, uint32_t *out) except -1:
    """Hash each value of the dictionary once. Values that no row uses are not checked."""
    cdef Text text
    cdef Py_ssize_t i
    cdef int64_t index
    if chunk.known is None:
        chunk.known = np.zeros(max(chunk.values.length, 1), np.uint8)
        chunk.codes = np.empty(max(chunk.values.length, 1), np.uint32)
    cdef uint8_t[::1] known = chunk.known
    cdef uint32_t[::1] codes = chunk.codes
    for i in range(n):
        if chunk.is_null(first + i):
            raise row_error(chunk, first + i)
        index = chunk.index(first + i)
        if not known[index]:
            chunk.values.get(index, &text)
            if not hash_text(seed, &text, &codes[index]):
                raise row_error(chunk, first + i)
            known[index] = 1
        out[i] = codes[index]
    return 0


cdef row_error(TextChunk chunk, Py_ssize_t row):
    cdef Text text
    chunk.get(row, &text)
    return RowError(row, "is null: each must be a string" if text.form == TEXT_NULL else "is not well-formed UTF-8")
