"""From messages in columns to the items of index files: which texts of a message are indexed."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t

from rocketstore.kernels.csrc cimport rs_java_hash_latin1
from rocketstore.kernels.keys cimport TextColumn, key_hash_of
from rocketstore.kernels.record cimport TRANSACTION_ROLLBACK
from rocketstore.kernels.text cimport (
    TEXT_NULL,
    TEXT_UCS2,
    TEXT_UCS4,
    TEXT_UTF8,
    Text,
    hash_text,
)

import numpy as np


cdef enum:
    PIECE = 16384  # messages between two checks for signals: some 15 ms


cdef class IndexItems:
    """The items of consecutive messages, in order.

    ``key_hashes`` int32[m]; ``rows`` int64[m], the message of each item, counted from 0.
    """

    cdef readonly object key_hashes
    cdef readonly object rows
    cdef int32_t[::1] hash_view
    cdef int64_t[::1] row_view
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t n):
        self.reserve(2 * n + 16)

    cdef int reserve(self, Py_ssize_t capacity) except -1:
        hashes, rows = np.empty(capacity, np.int32), np.empty(capacity, np.int64)
        if self.size:
            hashes[:self.size] = self.key_hashes[:self.size]
            rows[:self.size] = self.rows[:self.size]
        self.key_hashes, self.rows = hashes, rows
        self.hash_view, self.row_view = hashes, rows
        return 0

    cdef int add(self, Py_ssize_t row, uint32_t code) except -1:
        if self.size == self.hash_view.shape[0]:
            self.reserve(2 * self.size)
        self.hash_view[self.size] = key_hash_of(code)
        self.row_view[self.size] = row
        self.size += 1
        return 0

    cdef trim(self):
        self.key_hashes, self.rows = self.key_hashes[:self.size], self.rows[:self.size]


def index_items(topic, uniq_key, keys, tags, const int64_t[::1] phy_offsets, const int32_t[::1] sys_flags,
                int64_t end_phy_offset, bint indexes_tags, const int32_t[::1] key_bounds=None):
    """Return the IndexItems of n messages, as RocketMQ dispatches them to an index that ends at ``end_phy_offset``.

    Parameters: topic: column of n str. uniq_key, keys, tags: columns of n str or null, or None for all null; ``keys``
    is the KEYS property, separated by spaces. phy_offsets: int64[n]. sys_flags: int32[n]. indexes_tags: one more item
    for the tags. key_bounds: int32[n + 1], ascending. If given, a message has several rows of ``keys``, those from
    ``key_bounds[i]`` to before ``key_bounds[i + 1]``. Raises: ValueError, TypeError for a bad row, named.
    Source: IndexService.buildIndex: messages before ``end_phy_offset`` and rolled-back messages have no items.
    """
    cdef Py_ssize_t n = phy_offsets.shape[0], row, at
    cdef bint has_lists = key_bounds is not None
    cdef TextColumn topics = TextColumn(topic, "topic")
    cdef TextColumn uniq_keys = optional_column(uniq_key, "uniq_key", n)
    cdef TextColumn key_lists = optional_column(keys, "keys", len(keys) if has_lists else n)
    cdef TextColumn tag_lists = optional_column(tags, "tags", n)
    cdef IndexItems items = IndexItems(n)
    cdef Py_ssize_t before
    cdef uint32_t prefix
    if topics.length != n or sys_flags.shape[0] != n:
        raise ValueError(f"topic has {topics.length} rows, sys_flag {sys_flags.shape[0]}, phy_offset {n}")
    if has_lists and key_bounds.shape[0] != n + 1:
        raise ValueError(f"key_bounds has {key_bounds.shape[0]} rows for {n} messages")
    for row in range(n):
        if row % PIECE == 0:
            PyErr_CheckSignals()
        if phy_offsets[row] < end_phy_offset or sys_flags[row] & TRANSACTION_ROLLBACK == TRANSACTION_ROLLBACK:
            continue
        before = items.size
        prefix = topic_prefix(topics, row)
        add_whole(items, uniq_keys, row, prefix, True)
        if has_lists:
            if not 0 <= key_bounds[row] <= key_bounds[row + 1] <= key_lists.length:
                raise ValueError(f"key_bounds[{row}] to [{row + 1}] are no rows of {key_lists.length} keys")
            for at in range(key_bounds[row], key_bounds[row + 1]):
                add_words(items, key_lists, at, row, prefix)
        else:
            add_words(items, key_lists, row, row, prefix)
        if indexes_tags:
            add_whole(items, tag_lists, row, rs_java_hash_latin1(prefix, b"T#", 2), False)
        if items.size > before:
            end_phy_offset = phy_offsets[row]
    items.trim()
    return items


cdef TextColumn optional_column(column, str name, Py_ssize_t n):
    if column is None:
        return None
    text = TextColumn(column, name)
    if text.length != n:
        raise ValueError(f"{name} has {text.length} rows, phy_offset has {n}")
    return text


cdef uint32_t topic_prefix(TextColumn topics, Py_ssize_t row) except? 0:
    """The hash of "topic#"."""
    cdef Text text
    cdef uint32_t code
    topics.get(row, &text)
    if text.form == TEXT_NULL:
        raise ValueError(f"topic[{row}] is null: each message has a topic")
    code = add_hash(topics, row, 0, &text)
    return rs_java_hash_latin1(code, b"#", 1)


cdef uint32_t add_hash(TextColumn column, Py_ssize_t row, uint32_t seed, const Text *text) except? 0:
    cdef uint32_t code
    if not hash_text(seed, text, &code):
        raise ValueError(f"{column.name}[{row}] is not well-formed UTF-8")
    return code


cdef int add_whole(IndexItems items, TextColumn column, Py_ssize_t row, uint32_t prefix, bint empty_counts) except -1:
    """Add one item for the whole text, unless it is null. An empty unique key has an item, empty tags have none."""
    cdef Text text
    if column is None:
        return 0
    column.get(row, &text)
    if text.form != TEXT_NULL and (text.length or empty_counts):
        items.add(row, add_hash(column, row, prefix, &text))
    return 0


cdef int add_words(IndexItems items, TextColumn column, Py_ssize_t at, Py_ssize_t row, uint32_t prefix) except -1:
    """Add one item of message ``row`` for each word of text ``at`` between single spaces. Empty words have none."""
    cdef Text text, word
    cdef Py_ssize_t start = 0, end
    cdef int width
    if column is None:
        return 0
    column.get(at, &text)
    if text.form == TEXT_NULL:
        return 0
    width = 1 if text.form == TEXT_UTF8 else <int>text.form
    word.form = text.form
    while start < text.length:
        end = start
        while end < text.length and element(&text, end) != c' ':
            end += 1
        if end > start:
            word.data = <const uint8_t *>text.data + start * width
            word.length = end - start
            items.add(row, add_hash(column, at, prefix, &word))
        start = end + 1
    return 0


cdef inline uint32_t element(const Text *text, Py_ssize_t i) noexcept:
    if text.form == TEXT_UCS2:
        return (<const uint16_t *>text.data)[i]
    if text.form == TEXT_UCS4:
        return (<const uint32_t *>text.data)[i]
    return (<const uint8_t *>text.data)[i]
