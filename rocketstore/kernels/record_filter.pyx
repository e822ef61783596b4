"""Which records a scan wants: decided in the mapped record, before anything is copied."""

cimport cython
from cpython.unicode cimport PyUnicode_FromObject
from libc.stdint cimport INT64_MAX, INT64_MIN
from libc.string cimport memcmp

from rocketstore.kernels.csrc cimport rs_java_hash_utf8_lossy, rs_utf8_repair, rs_utf8_valid
from rocketstore.kernels.record cimport COMPRESSED, INNER_BATCH, MAX_PROPERTIES, is_text, next_word

import numpy as np

from rocketstore.kernels.columns import int64_column
from rocketstore.kernels.text import join_surrogates


__all__ = ["BodyLiterals", "RecordFilter", "find_literal"]


cdef extern from "string.h" nogil:  # of Linux, macOS and the BSDs
    void *memmem(const void *data, size_t size, const void *wanted, size_t wanted_size) noexcept


cdef inline bint contains_bytes(const uint8_t *data, size_t size, const uint8_t *wanted, size_t wanted_size) noexcept nogil:
    return size >= wanted_size and memmem(data, size, wanted, wanted_size) != NULL


cdef class TextSet:
    """A set of strings. Tests whether it has the text that Java decodes from bytes. ``name``: its name in errors."""

    def __cinit__(self, texts, str name):
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"{name}: strings were expected, not {text!r}")
        encoded = sorted({join_surrogates(PyUnicode_FromObject(text)).encode() for text in texts})
        self.data = b"".join(encoded)
        self.start = self.data
        self.offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
        size = 8
        while size < 2 * len(encoded):
            size *= 2
        self.mask = size - 1
        self.slots = np.full(size, -1, np.int32)
        cdef uint32_t at
        for i, text in enumerate(encoded):
            at = rs_java_hash_utf8_lossy(0, text, len(text)) & self.mask
            while self.slots[at] >= 0:
                at = (at + 1) & self.mask
            self.slots[at] = i

    cdef bint contains(self, const Slice *text) noexcept nogil:
        cdef uint32_t at = rs_java_hash_utf8_lossy(0, text.data, <size_t>text.size) & self.mask
        cdef int32_t i, start, size
        while self.slots[at] >= 0:
            i = self.slots[at]
            start = self.offsets[i]
            size = self.offsets[i + 1] - start
            if equals_decoded(text, self.start + start, size):
                return True
            at = (at + 1) & self.mask
        return False


cdef bint equals_decoded(const Slice *text, const uint8_t *wanted, int32_t size) noexcept nogil:
    """Whether Java decodes `text` to the string whose UTF-8 is `wanted`."""
    cdef uint8_t repaired[3 * MAX_PROPERTIES]  # a topic is not longer
    if is_text(text, <const char *>wanted, size):
        return True
    if rs_utf8_valid(text.data, <size_t>text.size):
        return False
    return (
        rs_utf8_repair(text.data, <size_t>text.size, repaired) == <size_t>size
        and memcmp(repaired, wanted, <size_t>size) == 0
    )


cdef class RecordFilter:
    """The conditions of a scan. A record must meet all that are given.

    Parameters: topics, tags, keys: iterables of str; a record's tags must be one of ``tags``, and a word of its KEYS
    or its UNIQ_KEY one of ``keys``. queue_ids: iterable of int. begin_timestamp, end_timestamp: store time, epoch
    ms, inclusive. None: no condition.
    """

    def __cinit__(self, topics=None, queue_ids=None, tags=None, keys=None, begin_timestamp=None, end_timestamp=None):
        topics, ids, tags, keys = (None if given is None else list(given) for given in (topics, queue_ids, tags, keys))
        self.given = topics, ids, tags, keys, begin_timestamp, end_timestamp
        self.topics = None if topics is None else TextSet(topics, "topics")
        self.tags = None if tags is None else TextSet(tags, "tags")
        self.keys = None if keys is None else TextSet(keys, "keys")
        self.queue_ids = None
        if ids is not None:
            wide = int64_column(ids, "queue_ids", len(ids))
            narrow = wide.astype(np.int32)
            self.queue_ids = narrow[narrow == wide]
        self.begin_timestamp = INT64_MIN if begin_timestamp is None else begin_timestamp
        self.end_timestamp = INT64_MAX if end_timestamp is None else end_timestamp
        self.needs_properties = tags is not None or keys is not None

    def __reduce__(self):
        return RecordFilter, self.given

    cdef bint matches_fixed(self, const Record *record) noexcept nogil:
        cdef Py_ssize_t i
        if not self.begin_timestamp <= record.store_timestamp <= self.end_timestamp:
            return False
        if self.queue_ids is not None:
            for i in range(self.queue_ids.shape[0]):
                if self.queue_ids[i] == record.queue_id:
                    break
            else:
                return False
        return self.topics is None or self.topics.contains(&record.topic)

    cdef bint matches_properties(self, const Record *record) noexcept nogil:
        cdef int32_t start = 0
        cdef Slice word
        if self.tags is not None and not (record.tags.data != NULL and self.tags.contains(&record.tags)):
            return False
        if self.keys is None or (record.uniq_key.data != NULL and self.keys.contains(&record.uniq_key)):
            return True
        while next_word(&record.keys, &start, &word):
            if self.keys.contains(&word):
                return True
        return False


cdef class BodyLiterals:
    """Bytes that must be in the body of a record. The scanner searches the mapped body before it copies anything.

    A compressed body, and an inner batch, may have them: whoever decompresses or opens it decides.

    Parameters: literals: 1 to 16 bytes objects, none of which is empty.
    """

    def __cinit__(self, literals):
        self.literals = tuple(literals)
        if not 1 <= len(self.literals) <= MOST_LITERALS:
            raise ValueError(f"{len(self.literals)} literals: 1 to {MOST_LITERALS} are possible")
        for i, literal in enumerate(self.literals):
            if not isinstance(literal, bytes) or not literal:
                raise ValueError(f"{literal!r}: bytes were expected, at least one")
            self.starts[i] = literal
            self.sizes[i] = len(literal)
        self.count = len(self.literals)

    def __reduce__(self):
        return BodyLiterals, (self.literals,)

    cdef bint may_have(self, const Record *record) noexcept nogil:
        cdef Py_ssize_t i
        if record.sys_flag & (COMPRESSED | INNER_BATCH):
            return True
        for i in range(self.count):
            if not contains_bytes(record.body.data, <size_t>record.body.size, self.starts[i], <size_t>self.sizes[i]):
                return False
        return True


@cython.boundscheck(False)
@cython.wraparound(False)
def find_literal(const int32_t[::1] offsets, const uint8_t[::1] data, bytes literal not None):
    """Return which values of a column contain a literal, bool[n].

    Parameters: offsets: int32[n + 1], positions in ``data``. data: uint8[k]. literal: at least one byte.
    Raises: IndexError if the offsets of a value lie outside of the data; ValueError for an empty literal.
    """
    cdef Py_ssize_t i, n = offsets.shape[0] - 1, bad = -1
    cdef const uint8_t *start = NULL
    cdef const uint8_t *wanted = literal
    cdef size_t size = len(literal)
    found = np.zeros(max(n, 0), np.uint8)
    cdef uint8_t[::1] into = found
    if size == 0:
        raise ValueError("an empty literal is in all values")
    if data.shape[0]:
        start = &data[0]
    with nogil:
        for i in range(n):
            if not 0 <= offsets[i] <= offsets[i + 1] <= data.shape[0]:
                bad = i
                break
            if offsets[i] < offsets[i + 1]:
                into[i] = contains_bytes(start + offsets[i], <size_t>(offsets[i + 1] - offsets[i]), wanted, size)
    if bad >= 0:
        raise IndexError(f"the offsets of value {bad} lie outside of the data")
    return found.view(np.bool_)
