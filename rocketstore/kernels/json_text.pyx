"""Find the texts of a column that are JSON by RFC 8259."""

from libc.stdint cimport int32_t, uint8_t, uint32_t

import numpy as np

__all__ = ["MOST_LEVELS", "find_json"]

MOST_LEVELS = LEVELS  # of nested lists and objects; a deeper text is not accepted

cdef enum:
    LEVELS = 1000
    NO_VALUE = -1


def find_json(const int32_t[::1] offsets, const uint8_t[::1] data):
    """Return which texts of a column are JSON by RFC 8259, bool[n].

    NaN, Infinity, comments and a comma before a bracket are no JSON. Neither is an escaped half of a surrogate pair,
    which has no UTF-8, nor a text with more than MOST_LEVELS nested lists and objects.

    Parameters: offsets: int32[n + 1]. data: uint8[m], well-formed UTF-8. Raises: ValueError for offsets outside of the
    data.
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
            into[i] = is_json(first + offsets[i], offsets[i + 1] - offsets[i])
    if bad >= 0:
        raise ValueError(f"row {bad}: the offsets lie outside of the data")
    return found


cdef bint is_json(const uint8_t *p, Py_ssize_t n) noexcept nogil:
    """Return whether bytes of UTF-8 are one value of JSON, perhaps with blanks around it."""
    cdef uint8_t[LEVELS] closing  # the bracket that closes each open list or object
    cdef Py_ssize_t depth = 0, i = 0
    while True:
        i = skip_blanks(p, n, i)
        if i == n:
            return False
        if p[i] == b"[" or p[i] == b"{":
            if depth == LEVELS:
                return False
            closing[depth] = b"]" if p[i] == b"[" else b"}"
            depth += 1
            i = skip_blanks(p, n, i + 1)
            if i == n:
                return False
            if p[i] != closing[depth - 1]:
                if closing[depth - 1] == b"}":
                    i = skip_name(p, n, i)
                    if i == NO_VALUE:
                        return False
                continue
            depth -= 1
            i += 1
        else:
            i = skip_scalar(p, n, i)
            if i == NO_VALUE:
                return False
        i = skip_blanks(p, n, i)
        while depth and i < n and p[i] == closing[depth - 1]:
            depth -= 1
            i = skip_blanks(p, n, i + 1)
        if depth == 0:
            return i == n
        if i == n or p[i] != b",":
            return False
        i += 1
        if closing[depth - 1] == b"}":
            i = skip_name(p, n, i)
            if i == NO_VALUE:
                return False


cdef inline Py_ssize_t skip_blanks(const uint8_t *p, Py_ssize_t n, Py_ssize_t i) noexcept nogil:
    while i < n and (p[i] == b" " or p[i] == b"\n" or p[i] == b"\r" or p[i] == b"\t"):
        i += 1
    return i


cdef Py_ssize_t skip_name(const uint8_t *p, Py_ssize_t n, Py_ssize_t i) noexcept nogil:
    """Return the place behind the name of a member and its colon; NO_VALUE without these."""
    i = skip_blanks(p, n, i)
    if i == n or p[i] != b'"':
        return NO_VALUE
    i = skip_string(p, n, i + 1)
    if i == NO_VALUE:
        return NO_VALUE
    i = skip_blanks(p, n, i)
    return i + 1 if i < n and p[i] == b":" else NO_VALUE


cdef Py_ssize_t skip_scalar(const uint8_t *p, Py_ssize_t n, Py_ssize_t i) noexcept nogil:
    """Return the place behind a string, a number, true, false or null; NO_VALUE for anything else."""
    if p[i] == b'"':
        return skip_string(p, n, i + 1)
    if p[i] == b"t":
        return skip_word(p, n, i, b"true", 4)
    if p[i] == b"f":
        return skip_word(p, n, i, b"false", 5)
    if p[i] == b"n":
        return skip_word(p, n, i, b"null", 4)
    return skip_number(p, n, i)


cdef Py_ssize_t skip_word(
    const uint8_t *p, Py_ssize_t n, Py_ssize_t i, const char *word, Py_ssize_t size
) noexcept nogil:
    cdef Py_ssize_t j
    if n - i < size:
        return NO_VALUE
    for j in range(size):
        if p[i + j] != <uint8_t>word[j]:
            return NO_VALUE
    return i + size


cdef Py_ssize_t skip_number(const uint8_t *p, Py_ssize_t n, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t first
    if p[i] == b"-":
        i += 1
    first = i
    i = skip_digits(p, n, i)
    if i == first or (p[first] == b"0" and i > first + 1):
        return NO_VALUE
    if i < n and p[i] == b".":
        first = i + 1
        i = skip_digits(p, n, first)
        if i == first:
            return NO_VALUE
    if i < n and (p[i] == b"e" or p[i] == b"E"):
        i += 1
        if i < n and (p[i] == b"+" or p[i] == b"-"):
            i += 1
        first = i
        i = skip_digits(p, n, first)
        if i == first:
            return NO_VALUE
    return i


cdef inline Py_ssize_t skip_digits(const uint8_t *p, Py_ssize_t n, Py_ssize_t i) noexcept nogil:
    while i < n and b"0" <= p[i] <= b"9":
        i += 1
    return i


cdef Py_ssize_t skip_string(const uint8_t *p, Py_ssize_t n, Py_ssize_t i) noexcept nogil:
    """Return the place behind the quotation mark that ends a string; NO_VALUE if the string is wrong."""
    cdef uint32_t unit = 0, low = 0
    while i < n:
        if p[i] == b'"':
            return i + 1
        if p[i] < 0x20:
            return NO_VALUE
        if p[i] != b"\\":
            i += 1
            continue
        if n - i < 2:
            return NO_VALUE
        if p[i + 1] != b"u":
            if not is_escape(p[i + 1]):
                return NO_VALUE
            i += 2
            continue
        if not read_unit(p, n, i, &unit) or 0xDC00 <= unit < 0xE000:
            return NO_VALUE
        i += 6
        if 0xD800 <= unit < 0xDC00:
            if not read_unit(p, n, i, &low) or not 0xDC00 <= low < 0xE000:
                return NO_VALUE
            i += 6
    return NO_VALUE


cdef inline bint is_escape(uint8_t c) noexcept nogil:
    return c in b'"\\/bfnrt'


cdef bint read_unit(const uint8_t *p, Py_ssize_t n, Py_ssize_t i, uint32_t *unit) noexcept nogil:
    """Read a UTF-16 code unit that is written like \\u00ad. Return False if none is at ``i``."""
    cdef Py_ssize_t j
    cdef uint8_t c
    if n - i < 6 or p[i] != b"\\" or p[i + 1] != b"u":
        return False
    unit[0] = 0
    for j in range(i + 2, i + 6):
        c = p[j]
        if b"0" <= c <= b"9":
            unit[0] = 16 * unit[0] + (c - <uint8_t>b"0")
        elif b"a" <= (c | 0x20) <= b"f":
            unit[0] = 16 * unit[0] + ((c | 0x20) - <uint8_t>b"a" + 10)
        else:
            return False
    return True
