"""Columns of strings without a copy: a chunk gives the place of each string."""

cimport cython
from libc.stdint cimport uint8_t, uint16_t, uint32_t

from rocketstore.kernels.csrc cimport (
    rs_java_hash_latin1,
    rs_java_hash_ucs2,
    rs_java_hash_ucs4,
    rs_java_hash_utf8,
)

from rocketstore.kernels.columns import aligned


cdef extern from "Python.h":
    int PyUnicode_KIND(object text)
    void *PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)


class RowError(Exception):
    """A row is no string. ``error``: the class of the exception to raise; only the caller knows the column's name."""

    def __init__(self, row, reason, error=ValueError):
        self.row = row
        self.reason = reason
        self.error = error


cdef class TextChunk:
    """Strings of one form. ``get`` finds string ``row``, counted from 0 in the chunk."""

    cdef int get(self, Py_ssize_t row, Text *text) except -1:
        raise NotImplementedError


cdef class ObjectChunk(TextChunk):
    """Python objects: str, or None (also NaN, pandas' NA and NaT) for null."""

    def __cinit__(self, list values):
        self.values = values
        self.length = len(values)

    @cython.boundscheck(True)
    cdef int get(self, Py_ssize_t row, Text *text) except -1:
        value = self.values[row]
        if isinstance(value, str):
            # Without a GIL, another thread may remove it from the list meanwhile.
            self.held = value
            return text_of_str(<str>value, text)
        if not is_null(value):
            raise RowError(row, f"is not a str but {type(value).__name__}", TypeError)
        text.form = TEXT_NULL
        return 0


cdef class FixedWidthChunk(TextChunk):
    """A one-dimensional NumPy array of dtype U or S; S is taken as UTF-8."""

    def __cinit__(self, array):
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if array.strides[0] < 0 or not array.flags.aligned:
            array = aligned(array, array.dtype)
        self.array = array
        self.length = array.shape[0]
        self.data = <const unsigned char *><size_t>array.ctypes.data
        self.stride = array.strides[0]
        self.form = TEXT_UCS4 if array.dtype.kind == "U" else TEXT_UTF8
        self.width = array.dtype.itemsize // (4 if self.form == TEXT_UCS4 else 1)

    cdef int get(self, Py_ssize_t row, Text *text) except -1:
        text.form = self.form
        text.data = self.data + row * self.stride
        text.length = self.width
        if self.form == TEXT_UCS4:
            while text.length and (<const uint32_t *>text.data)[text.length - 1] == 0:
                text.length -= 1
        else:
            while text.length and (<const uint8_t *>text.data)[text.length - 1] == 0:
                text.length -= 1
        return 0


cdef bint is_null(value):
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


cdef int text_of_str(str value, Text *text) except -1:
    text.form = <TextForm>PyUnicode_KIND(value)
    text.data = PyUnicode_DATA(value)
    text.length = PyUnicode_GET_LENGTH(value)
    return 0


cdef bint hash_text(uint32_t seed, const Text *text, uint32_t *hash_ret) noexcept nogil:
    """Continue a String.hashCode from `seed`. Return False if the string is null or not well-formed."""
    cdef size_t n = <size_t>text.length
    if text.form == TEXT_LATIN1:
        hash_ret[0] = rs_java_hash_latin1(seed, <const uint8_t *>text.data, n)
    elif text.form == TEXT_UTF8:
        return rs_java_hash_utf8(seed, <const uint8_t *>text.data, n, hash_ret)
    elif text.form == TEXT_UCS2:
        hash_ret[0] = rs_java_hash_ucs2(seed, <const uint16_t *>text.data, n)
    elif text.form == TEXT_UCS4:
        return rs_java_hash_ucs4(seed, <const uint32_t *>text.data, n, hash_ret)
    else:
        return False
    return True


def join_surrogates(str text):
    """Return a str in which each pair of surrogates is one character, as in Java."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def java_bytes(str text):
    """Return the UTF-8 of a str as Java encodes it: a surrogate without a partner becomes "?"."""
    return join_surrogates(text).encode("utf-8", "replace")
