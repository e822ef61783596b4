"""Rows of columns as lines of text.

    JSON: {"topic": "T", "queueId": 0, "tags": null, "keys": ["a", "b"], "properties": {"KEYS": "a b"}}
    CSV:  T,0,,"[""a"", ""b""]","{""KEYS"": ""a b""}"

The lines are those of Python's ``json.dumps(row, ensure_ascii=False)``, in which characters that are not printable are
escaped, and of ``csv.writer``. In CSV, lists and maps are written as JSON. Bytes are base64.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from rocketstore.kernels.csrc cimport (
    RS_CSV_PLAIN,
    RS_CSV_QUOTED,
    RS_JSON_ASCII,
    RS_JSON_UNICODE,
    RS_UTF8_MALFORMED,
    rs_base64,
    rs_copy_text,
    rs_decimal,
    rs_utf8_decode,
    rs_utf8_valid,
)

import json

import numpy as np

from rocketstore.kernels.columns import is_masked, masked_rows
from rocketstore.kernels.value_columns import BinaryColumn, ListColumn, MapColumn


__all__ = ["TextLines", "find_utf8"]


cdef extern from "Python.h":
    bint Py_UNICODE_ISPRINTABLE(uint32_t point) nogil


cdef enum:
    STEP = 1 << 18  # bytes of text that are written without the GIL; few enough to stay in the CPU cache
    STRETCH = 1 << 14  # bytes of a value that are escaped before more memory is reserved
    MOST_PER_BYTE = 6  # bytes of text that one byte of a value needs at most: \u0001 in JSON
    MOST_FIXED = 64  # bytes of text that a number needs at most, or the brackets and quotation marks of a value
    WORD = 8  # bytes that one copy writes; later text overwrites those after its end

cdef enum Kind:
    NOTHING
    INT32
    INT64
    BOOLEAN
    STRING
    BINARY
    LIST
    MAP

cdef enum Problem:
    NONE
    NO_MEMORY
    BAD_OFFSETS
    BAD_UTF8

cdef struct Escape:
    uint8_t size
    uint8_t text[WORD]

cdef struct Values:
    const int32_t *offsets
    const uint8_t *data
    const uint8_t *valid  # NULL: every row has a value
    int64_t rows
    int64_t size

cdef struct Slice:
    const uint8_t *data
    Py_ssize_t size

cdef struct Column:
    Kind kind
    Slice head  # the text before a value: a separator, and in JSON the name
    const int32_t *int32s
    const int64_t *int64s
    const int32_t *offsets  # of lists and maps
    Values values  # strings or bytes; of a list its items, of a map its values; of numbers only ``valid``
    Values keys  # of maps

# The escape of each byte below 128 that ends a copy of JSON; its size is 0 for other bytes. The second half has the
# escapes of JSON in a field of CSV, where quotation marks are doubled.
cdef Escape[256] ESCAPES


def fill_escapes():
    cdef Escape *escape
    for byte in (*range(0x20), ord('"'), ord("\\"), 0x7F):
        quoted = '"\\u007f"' if byte == 0x7F else json.dumps(chr(byte))
        text = quoted.encode()[1 : len(quoted) - 1]
        for is_in_csv in (False, True):
            escape = &ESCAPES[128 * is_in_csv + byte]
            used = text.replace(b'"', b'""') if is_in_csv else text
            escape.size = <uint8_t>len(used)
            for i, value in enumerate(used):
                escape.text[i] = value


fill_escapes()


def find_utf8(const int32_t[::1] offsets, const uint8_t[::1] data):
    """Return which values of a column of bytes are well-formed UTF-8, bool[n].

    Parameters: offsets: int32[n + 1]. data: uint8[m]. Raises: ValueError for offsets outside of the data.
    """
    cdef Py_ssize_t i, n = offsets.shape[0] - 1, bad = -1
    cdef const uint8_t *first = &data[0] if data.shape[0] else NULL
    found = np.empty(n, np.bool_)
    cdef uint8_t[::1] into = found.view(np.uint8)
    with nogil:
        for i in range(n):
            if not 0 <= offsets[i] <= offsets[i + 1] <= data.shape[0]:
                bad = i
                break
            into[i] = rs_utf8_valid(first + offsets[i], <size_t>(offsets[i + 1] - offsets[i]))
    if bad >= 0:
        raise ValueError(f"row {bad}: the offsets lie outside of the data")
    return found


@cython.final
cdef class TextLines:
    """Write the rows of columns as lines of JSON or CSV."""

    cdef Column *columns
    cdef Py_ssize_t n_columns
    cdef Py_ssize_t n_rows
    cdef Py_ssize_t fixed  # bytes of text that a row needs at most without its strings, bytes, lists and maps
    cdef bint is_csv, is_safe
    cdef list owners  # of the memory to which the columns point
    cdef uint8_t *text
    cdef Py_ssize_t size, capacity
    cdef Py_ssize_t views  # of the text, which does not change meanwhile
    cdef bint is_writing  # a thread writes the text without the GIL
    cdef Problem problem

    def __init__(self, list names, list columns, Py_ssize_t rows, *, bint is_csv=False, bint is_safe=False):
        """Parameters: columns: int32[n], int64[n] or bool[n], perhaps masked, columns of values, or None for no value in
        any row. rows: n. is_safe: whether CSV has an apostrophe before text that a spreadsheet would evaluate as a formula.
        """
        cdef Py_ssize_t i
        if self.columns != NULL or len(names) != len(columns) or not columns:
            raise ValueError(f"{len(names)} names, {len(columns)} columns: each column has a name")
        self.columns = <Column *>calloc(len(columns), sizeof(Column))
        if self.columns == NULL:
            raise MemoryError
        self.n_columns, self.n_rows, self.is_csv, self.is_safe = len(columns), rows, is_csv, is_safe
        self.owners = []
        for i, (name, column) in enumerate(zip(names, columns, strict=True)):
            before = ("," if is_csv else ", ") if i else ("" if is_csv else "{")
            self.set_head(&self.columns[i], (before if is_csv else f"{before}{json.dumps(name)}: ").encode())
            self.set_column(&self.columns[i], column)

    def __dealloc__(self):
        free(self.columns)
        free(self.text)

    def write(self, Py_ssize_t row):
        """Write the lines of some rows, the first of them ``row``. Return the row after the last one.

        ``memoryview(lines)`` is their text, and must be released before the next call. Strings must be UTF-8: JSON
        checks them, CSV copies them.
        Raises: IndexError; ValueError for a column that contradicts itself; MemoryError; BufferError.
        """
        if self.views:
            raise BufferError("the text of earlier lines is in use: release its memoryview")
        if self.is_writing:
            raise BufferError("another thread writes lines: give each thread a TextLines of its own")
        self.problem = NONE
        if not 0 <= row <= self.n_rows:
            raise IndexError(f"row {row} of {self.n_rows}")
        self.size = 0
        self.is_writing = True
        with nogil:
            while row < self.n_rows and self.size < STEP and self.add_row(row):
                row += 1
        self.is_writing = False
        if self.problem == NO_MEMORY:
            raise MemoryError(f"row {row}: no memory for its text")
        if self.problem != NONE:
            reason = "a text is not UTF-8" if self.problem == BAD_UTF8 else "the offsets lie outside of the data"
            raise ValueError(f"row {row}: {reason}")
        return row

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.is_writing:
            raise BufferError("another thread writes the text: wait until its call of write returns")
        PyBuffer_FillInfo(view, self, self.text if self.size else <void *>b"", self.size, True, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.views -= 1

    # ---- columns -------------------------------------------------------------------------------------------

    cdef int set_head(self, Column *column, bytes head) except -1:
        self.owners.append(head)
        column.head.data, column.head.size = head, len(head)
        self.fixed += len(head) + MOST_FIXED
        return 0

    cdef int set_column(self, Column *into, column) except -1:
        cdef const int64_t[::1] int64s
        if column is None:
            into.kind = NOTHING
            return 0
        if len(column) != self.n_rows:
            raise ValueError(f"a column has {len(column)} rows, where {self.n_rows} were expected")
        if isinstance(column, ListColumn | MapColumn):
            into.kind = MAP if isinstance(column, MapColumn) else LIST
            into.offsets = self.int32s_of(column.offsets)
            self.set_values(&into.values, column.values)
            if into.kind == MAP:
                self.set_values(&into.keys, column.keys)
        elif not isinstance(column, np.ndarray):
            into.kind = BINARY if isinstance(column, BinaryColumn) else STRING
            self.set_values(&into.values, column)
        elif column.dtype == np.int32:
            into.kind, into.int32s = INT32, self.int32s_of(column)
            self.set_valid(&into.values, column)
        else:
            self.set_valid(&into.values, column)
            into.kind = BOOLEAN if column.dtype == np.bool_ else INT64
            int64s = np.ascontiguousarray(column, np.int64)
            self.owners.append(int64s)
            into.int64s = &int64s[0] if int64s.shape[0] else NULL
        return 0

    cdef int set_values(self, Values *into, column) except -1:
        cdef const uint8_t[::1] octets = np.ascontiguousarray(column.data, np.uint8)
        into.offsets, into.rows = self.int32s_of(column.offsets), len(column)
        into.data, into.size = &octets[0] if octets.shape[0] else NULL, octets.shape[0]
        self.owners.append(octets)
        if column.valid is not None:
            if len(column.valid) != len(column):
                raise ValueError(f"a column has {len(column)} rows, but valid has {len(column.valid)}")
            octets = np.ascontiguousarray(column.valid, np.bool_).view(np.uint8)
            into.valid = &octets[0] if octets.shape[0] else NULL
            self.owners.append(octets)
        return 0

    cdef int set_valid(self, Values *into, numbers) except -1:
        """Keep which numbers of a masked array have a value."""
        cdef const uint8_t[::1] octets
        if is_masked(numbers):
            octets = (~masked_rows(numbers)).view(np.uint8)
            into.valid = &octets[0] if octets.shape[0] else NULL
            self.owners.append(octets)
        return 0

    cdef const int32_t *int32s_of(self, array) except? NULL:
        cdef const int32_t[::1] int32s = np.ascontiguousarray(array, np.int32)
        self.owners.append(int32s)
        return &int32s[0] if int32s.shape[0] else NULL

    # ---- rows ----------------------------------------------------------------------------------------------

    cdef bint add_row(self, Py_ssize_t row) noexcept nogil:
        """Write the line of a row. Return False, and set ``problem``, if it cannot be written."""
        cdef Py_ssize_t i, begin = self.size
        if not self.reserve(0):
            return False
        for i in range(self.n_columns):
            self.add(self.columns[i].head.data, self.columns[i].head.size)
            if not self.add_value(&self.columns[i], row):
                return False
        if not self.is_csv:
            self.add(b"}", 1)
        elif self.size == begin:
            self.add(b'""', 2)  # a row of one empty field is not an empty line
        self.add(b"\n", 1)
        return True

    cdef bint add_value(self, const Column *column, Py_ssize_t row) noexcept nogil:
        cdef Slice value
        if column.kind == LIST or column.kind == MAP:
            return self.add_items(column, column.offsets[row], column.offsets[row + 1])
        if column.kind == NOTHING or not (column.values.valid == NULL or column.values.valid[row]):
            if not self.is_csv:
                self.add(b"null", 4)
            return True
        if column.kind == INT32:
            self.size += <Py_ssize_t>rs_decimal(self.text + self.size, column.int32s[row])
            return True
        if column.kind == BOOLEAN:
            self.add(b"true" if column.int64s[row] else b"false", 4 if column.int64s[row] else 5)
            return True
        if column.kind == INT64:
            self.size += <Py_ssize_t>rs_decimal(self.text + self.size, column.int64s[row])
            return True
        if not self.find_value(&column.values, row, &value):
            return False
        if column.kind == BINARY:
            return self.add_base64(&value)
        return self.add_field(&value) if self.is_csv else self.add_json(&value)

    cdef bint add_items(self, const Column *column, int64_t first, int64_t end) noexcept nogil:
        """Write a list or a map as JSON. A field of CSV is quoted if it has a string, which has quotation marks."""
        cdef bint is_map = column.kind == MAP, is_quoted = self.is_csv and first < end
        cdef int64_t i
        cdef Slice value
        if not 0 <= first <= end <= column.values.rows:
            self.problem = BAD_OFFSETS
            return False
        if is_quoted:
            self.add(b'"', 1)
        self.add(b"{" if is_map else b"[", 1)
        for i in range(first, end):
            if i > first:
                self.add(b", ", 2)
            if is_map:
                if not (self.find_value(&column.keys, i, &value) and self.add_json(&value)):
                    return False
                self.add(b": ", 2)
            if not (self.find_value(&column.values, i, &value) and self.add_json(&value)):
                return False
        self.add(b"}" if is_map else b"]", 1)
        if is_quoted:
            self.add(b'"', 1)
        return True

    cdef bint find_value(self, const Values *values, int64_t row, Slice *ret) noexcept nogil:
        cdef int64_t begin, end
        if not 0 <= row < values.rows:
            self.problem = BAD_OFFSETS
            return False
        begin, end = values.offsets[row], values.offsets[row + 1]
        if not 0 <= begin <= end <= values.size:
            self.problem = BAD_OFFSETS
            return False
        ret.data, ret.size = values.data + begin, <Py_ssize_t>(end - begin)
        return True

    # ---- values --------------------------------------------------------------------------------------------

    cdef bint reserve(self, Py_ssize_t more) noexcept nogil:
        """Make room for some bytes, and for the rest of the row except its strings and bytes."""
        cdef Py_ssize_t needed = self.size + more + self.fixed
        cdef void *moved
        if needed <= self.capacity:
            return True
        needed = max(needed + needed // 2, <Py_ssize_t>(2 * STEP))
        moved = realloc(self.text, <size_t>needed)
        if moved == NULL:
            self.problem = NO_MEMORY
            return False
        self.text, self.capacity = <uint8_t *>moved, needed
        return True

    cdef inline void add(self, const void *data, Py_ssize_t size) noexcept nogil:
        """Write a few bytes. ``reserve`` has made room for them, since ``fixed`` counts them."""
        memcpy(self.text + self.size, data, <size_t>size)
        self.size += size

    cdef bint add_json(self, const Slice *value) noexcept nogil:
        """Write a string of JSON. In a field of CSV, its quotation marks are doubled."""
        cdef Py_ssize_t i = 0, quote = 2 if self.is_csv else 1
        self.add(b'""', quote)
        while i < value.size:
            if not self.reserve(MOST_PER_BYTE * min(value.size - i, <Py_ssize_t>STRETCH) + 2 * WORD + MOST_FIXED):
                return False
            i = self.escape_stretch(value, i, min(value.size, i + STRETCH))
            if i < 0:
                return False
        if value.size == 0 and not self.reserve(MOST_FIXED):
            return False
        self.add(b'""', quote)
        return True

    cdef Py_ssize_t escape_stretch(self, const Slice *value, Py_ssize_t i, Py_ssize_t end) noexcept nogil:
        """Write a string from byte ``i`` to ``end``, and the rest of the character at the end.

        Return the byte after them, -1 if a character is not UTF-8.
        """
        cdef uint8_t *p = self.text + self.size
        cdef const Escape *escape
        cdef Py_ssize_t n
        while True:
            if self.is_csv:
                n = <Py_ssize_t>rs_copy_text(p, value.data + i, <size_t>(end - i), RS_JSON_UNICODE)
            else:
                n = <Py_ssize_t>rs_copy_text(p, value.data + i, <size_t>(end - i), RS_JSON_ASCII)
            p, i = p + n, i + n
            while i < end and value.data[i] >= 0x80 and not self.is_csv:
                n = self.add_character(&p, value.data + i, value.size - i)
                if n < 0:
                    return -1
                i += n
            if i >= end:
                break
            if value.data[i] < 0x80:
                escape = &ESCAPES[(128 if self.is_csv else 0) + value.data[i]]
                if escape.size:  # 0 for a byte after add_character that needs no escape
                    memcpy(p, escape.text, WORD)
                    p, i = p + escape.size, i + 1
        self.size = p - self.text
        return i

    cdef Py_ssize_t add_character(self, uint8_t **p, const uint8_t *data, Py_ssize_t n) noexcept nogil:
        """Write a character beyond ASCII, escaped unless it is printable. Return its bytes, -1 if it is malformed."""
        cdef uint32_t point = 0
        cdef Py_ssize_t size = <Py_ssize_t>rs_utf8_decode(data, <size_t>n, &point)
        if point == RS_UTF8_MALFORMED:
            self.problem = BAD_UTF8
            return -1
        if Py_UNICODE_ISPRINTABLE(point):
            memcpy(p[0], data, <size_t>size)
            p[0] += size
        elif point < 0x10000:
            add_unit(p, point)
        else:
            add_unit(p, 0xD800 + ((point - 0x10000) >> 10))
            add_unit(p, 0xDC00 + (point & 0x3FF))
        return size

    cdef bint add_field(self, const Slice *value) noexcept nogil:
        """Write a field of CSV. It is quoted if it has a comma, a quotation mark, CR or LF."""
        cdef Py_ssize_t begin = self.size, i, n
        cdef bint is_marked = self.is_safe and is_formula(value)
        if not self.reserve(2 * value.size + 2 * WORD + MOST_FIXED):
            return False
        if is_marked:
            self.add(b"'", 1)
        i = <Py_ssize_t>rs_copy_text(self.text + self.size, value.data, <size_t>value.size, RS_CSV_PLAIN)
        if i == value.size:
            self.size += i
            return True
        self.size = begin
        self.add(b"\"'", 2 if is_marked else 1)
        i = 0
        while True:
            n = <Py_ssize_t>rs_copy_text(
                self.text + self.size, value.data + i, <size_t>(value.size - i), RS_CSV_QUOTED
            )
            self.size, i = self.size + n, i + n
            if i == value.size:
                break
            self.add(b'""', 2)
            i += 1
        self.add(b'"', 1)
        return True

    cdef bint add_base64(self, const Slice *value) noexcept nogil:
        if not self.reserve(value.size // 3 * 4 + 4 + MOST_FIXED):
            return False
        if not self.is_csv:
            self.add(b'"', 1)
        elif self.is_safe and value.size and (value.data[0] >> 2) == 62:
            self.add(b"'", 1)  # base64 begins with a plus sign
        self.size += <Py_ssize_t>rs_base64(self.text + self.size, value.data, <size_t>value.size)
        if not self.is_csv:
            self.add(b'"', 1)
        return True


cdef inline void add_unit(uint8_t **p, uint32_t unit) noexcept nogil:
    """Write a UTF-16 code unit as JSON escapes it, like \\u00ad."""
    cdef const char *digits = b"0123456789abcdef"
    cdef int i
    memcpy(p[0], b"\\u", 2)
    for i in range(4):
        p[0][2 + i] = <uint8_t>digits[(unit >> (12 - 4 * i)) & 15]
    p[0] += 6


cdef bint is_formula(const Slice *value) noexcept nogil:
    """Whether a spreadsheet evaluates a text as a formula, by its first character: = + - @, also wide ones, TAB CR LF.
    """
    cdef uint8_t last
    if value.size == 0:
        return False
    if value.data[0] in b"=+-@\t\r\n":
        return True
    if value.size < 3 or value.data[0] != 0xEF or not (value.data[1] == 0xBC):
        return False
    last = value.data[2]
    return last == 0x9D or last == 0x8B or last == 0x8D or last == 0xA0  # the wide forms of = + - @
