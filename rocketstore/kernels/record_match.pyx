"""Compare candidates that an index found by hash with topic, key and time in their records."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t

from rocketstore.kernels.keys cimport TextColumn, text_column
from rocketstore.kernels.record cimport (
    BAD_HALF,
    FIND_PROPERTIES,
    RECORD_OK,
    PropertyReader,
    Record,
    Slice,
    next_word,
    parse_at,
)
from rocketstore.kernels.record_columns cimport VarValues
from rocketstore.kernels.record_filter cimport equals_decoded
from rocketstore.kernels.record_windows cimport Windows
from rocketstore.kernels.text cimport TEXT_LATIN1, TEXT_NULL, TEXT_UTF8, Text

import numpy as np

from rocketstore.kernels.text import java_bytes


cdef extern from "Python.h":
    object PyUnicode_FromKindAndData(int kind, const void *data, Py_ssize_t size)


cdef enum:
    PIECE = 4096  # records between two checks for signals

# Whether a candidate is a hit. The record of a half hit would be one, but its writer may still be writing it. A miss is
# the sound record of another message. NO_RECORD: the candidate leads to no sound record.
cpdef enum:
    NO_RECORD
    HIT
    HALF_HIT
    MISS

# The fields of a record that a key is compared with.
cpdef enum:
    ANY_KEY
    UNIQ_KEY
    TAGS


cdef class Utf8Texts:
    """A column of strings as UTF-8, one after the other, in the form that records have.

    Raises: ValueError, TypeError that name the row that is no string.
    """

    cdef readonly Py_ssize_t length
    cdef VarValues values

    def __cinit__(self, column, str name):
        cdef TextColumn texts = text_column(column, name)
        cdef Text text
        cdef Py_ssize_t row
        self.length, self.values = texts.length, VarValues()
        for row in range(texts.length):
            if row % 65536 == 0:
                PyErr_CheckSignals()
            texts.get(row, &text)
            if text.form == TEXT_NULL:
                raise ValueError(f"{name}[{row}] is null")
            self.add(&text)

    cdef int add(self, const Text *text) except -1:
        cdef bytes encoded
        if text.form == TEXT_UTF8 or (text.form == TEXT_LATIN1 and is_ascii(<const uint8_t *>text.data, text.length)):
            room = self.values.add_bytes(text.data, text.length)
        else:
            encoded = java_bytes(PyUnicode_FromKindAndData(<int>text.form, text.data, text.length))
            room = self.values.add_bytes(<const char *>encoded, len(encoded))
        if not room:
            raise MemoryError("the keys are more than 2 GiB: look up fewer at once")
        return 0

    def to_list(self):
        """Return the strings as bytes."""
        cdef Slice text
        cdef Py_ssize_t row
        texts = []
        for row in range(self.length):
            self.get(row, &text)
            texts.append((<const char *>text.data)[:text.size])
        return texts

    cdef inline void get(self, Py_ssize_t row, Slice *text) noexcept nogil:
        cdef const int32_t *ends = <const int32_t *>self.values.offsets.data
        text.data, text.size = self.values.data.data + ends[row], ends[row + 1] - ends[row]


cdef bint is_ascii(const uint8_t *data, Py_ssize_t n) noexcept nogil:
    cdef uint8_t bits = 0
    cdef Py_ssize_t i
    for i in range(n):
        bits |= data[i]
    return bits < 0x80


def match_records(windows, const int32_t[::1] window_of, const int64_t[::1] offsets,
                  const int64_t[::1] rows, Utf8Texts topics, Utf8Texts keys, int kind,
                  int64_t begin_timestamp, int64_t end_timestamp, uint8_t[::1] matched):
    """Find the candidates whose records have the wanted topic, key and time.

    Parameters: windows, window_of, offsets: as for ``RecordScanner.gather``. rows: int64[n], the row of each
    candidate's key, and of its topic unless one topic is given for all. kind: ANY_KEY compares with the words of KEYS
    and with UNIQ_KEY. begin_timestamp, end_timestamp: store time, epoch ms, inclusive. matched: uint8[n], filled with
    NO_RECORD, HIT, HALF_HIT and MISS.
    Raises: IndexError for a row out of range; StoreClosedError; CorruptFileError if the file was cut.
    """
    cdef Py_ssize_t i, first = 0, n = offsets.shape[0], stop
    cdef PropertyReader reader
    cdef Windows held = Windows(windows, window_of)
    if rows.shape[0] != n or matched.shape[0] != n or window_of.shape[0] != n:
        raise ValueError("window_of, offsets, rows and matched differ in length")
    if n and (np.min(rows) < 0 or np.max(rows) >= keys.length or topics.length not in (1, keys.length)):
        raise IndexError(f"rows: there are {keys.length} keys and {topics.length} topics")
    while first < n:
        PyErr_CheckSignals()
        stop = min(first + PIECE, n)
        held.enter()
        try:
            with nogil:
                for i in range(first, stop):
                    held.prefetch(offsets, i, False)
                    matched[i] = matches(held, offsets, i, rows[i], topics, keys, kind, begin_timestamp,
                                         end_timestamp, &reader)
        finally:
            held.leave()
        first = stop


cdef int matches(Windows windows, const int64_t[::1] offsets, Py_ssize_t i, int64_t row, Utf8Texts topics,
                 Utf8Texts keys, int kind, int64_t begin_timestamp, int64_t end_timestamp,
                 PropertyReader *reader) noexcept nogil:
    cdef Record record
    cdef int64_t remaining
    cdef int status
    cdef const uint8_t *data = windows.place_of(offsets, i, &remaining)
    if data == NULL:
        return NO_RECORD
    status = parse_at(data, 0, remaining, offsets[i], 0, FIND_PROPERTIES, False, reader, NULL, &record)
    if status not in (RECORD_OK, BAD_HALF):
        return NO_RECORD
    if not is_wanted(&record, row, topics, keys, kind, begin_timestamp, end_timestamp):
        return MISS if status == RECORD_OK else NO_RECORD
    return HIT if status == RECORD_OK else HALF_HIT


cdef bint is_wanted(const Record *record, int64_t row, Utf8Texts topics, Utf8Texts keys, int kind,
                    int64_t begin_timestamp, int64_t end_timestamp) noexcept nogil:
    """Return whether a record has the time, the topic and the key of a query."""
    cdef Slice wanted
    if not begin_timestamp <= record.store_timestamp <= end_timestamp:
        return False
    topics.get(row if topics.length > 1 else 0, &wanted)
    if not equals_decoded(&record.topic, wanted.data, wanted.size):
        return False
    keys.get(row, &wanted)
    return has_key(record, &wanted, kind)


cdef bint has_key(const Record *record, const Slice *wanted, int kind) noexcept nogil:
    if kind == TAGS:
        return record.tags.data != NULL and equals_decoded(&record.tags, wanted.data, wanted.size)
    if record.uniq_key.data != NULL and equals_decoded(&record.uniq_key, wanted.data, wanted.size):
        return True
    return kind == ANY_KEY and has_word(&record.keys, wanted)


cdef bint has_word(const Slice *text, const Slice *wanted) noexcept nogil:
    """Whether one of the words between spaces is the wanted word. Empty words do not count."""
    cdef int32_t start = 0
    cdef Slice word
    while next_word(text, &start, &word):
        if equals_decoded(&word, wanted.data, wanted.size):
            return True
    return False
