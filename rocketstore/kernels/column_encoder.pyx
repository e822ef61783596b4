"""Columns of messages to the records that a commit log stores, as record_encoder makes them of messages."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcpy

from rocketstore.kernels.record cimport INNER_BATCH, Slice, are_equal
from rocketstore.kernels.record_columns cimport Growing
from rocketstore.kernels.record_encoder cimport Parts, RecordEncoder

import time

import numpy as np

from rocketstore.kernels.columns import aligned

cdef enum:
    MOST_PROPERTIES = 64  # properties of a row that are compared with each other
    ROWS = 1024  # rows between two checks for Ctrl-C

DEFAULT_BORN_HOST = "127.0.0.1:0"

cdef uint8_t NOTHING = 0


cdef class Texts:
    """Strings or bytes in the memory of a VarColumn."""

    cdef const int32_t[::1] offsets
    cdef const uint8_t[::1] data
    cdef const uint8_t[::1] valid
    cdef Py_ssize_t length
    cdef bint may_be_null

    def __init__(self, column):
        self.offsets, self.data = column.offsets, column.data
        self.length = len(column.offsets) - 1
        self.may_be_null = column.valid is not None
        if self.may_be_null:
            self.valid = column.valid.view(np.uint8)
            require_length(self.valid.shape[0], self.length)

    cdef bint get(self, Py_ssize_t row, Slice *text) except -1:
        """Find a row. Return whether it has a value."""
        cdef int32_t start, end
        if not 0 <= row < self.length:
            raise ValueError(f"row {row} of a column of {self.length}")
        start, end = self.offsets[row], self.offsets[row + 1]
        if not 0 <= start <= end <= self.data.shape[0]:
            raise ValueError(f"row {row}: is at {start} to {end} of {self.data.shape[0]} bytes")
        text.data, text.size = &NOTHING, end - start
        if text.size:
            text.data = &self.data[start]
        return not self.may_be_null or self.valid[row] != 0


cdef class Lists:
    """Where the rows of a ListColumn or MapColumn begin among their values."""

    cdef const int32_t[::1] offsets
    cdef Texts values

    def __init__(self, column):
        self.offsets = column.offsets
        self.values = Texts(column.values)


cdef class Maps(Lists):
    """A MapColumn, with its names too."""

    cdef Texts names

    def __init__(self, column):
        Lists.__init__(self, column)
        self.names = Texts(column.keys)


cdef class ColumnEncoder:
    """Messages in columns, to be encoded.

    Parameters: columns: by their names in a MessageBatch. Required are topic, and body or raw_body; raw_body requires
    sys_flag, which tells the compression. n: rows. Raises: ValueError if a required column is missing.
    """

    cdef Py_ssize_t n
    cdef Texts topics
    cdef Texts bodies
    cdef Texts born_hosts
    cdef Texts store_hosts
    cdef Texts tags
    cdef Texts uniq_keys
    cdef Maps properties
    cdef Lists keys
    cdef const int32_t[::1] queue_ids
    cdef const int32_t[::1] flags
    cdef const int32_t[::1] sys_flags
    cdef const int32_t[::1] reconsume_times
    cdef const int64_t[::1] born_timestamps
    cdef const int64_t[::1] store_timestamps
    cdef const int64_t[::1] prepared_transaction_offsets
    cdef Growing joined
    cdef dict texts  # the str of topics and hosts by their UTF-8: few of them, often repeated
    cdef str topic
    cdef Slice topic_utf8

    def __init__(self, dict columns, Py_ssize_t n):
        self.n, self.joined, self.texts = n, Growing(), {}
        self.topics = self.column(columns, "topic", Texts)
        self.bodies = self.column(columns, "raw_body" if "raw_body" in columns else "body", Texts)
        if self.topics is None or self.bodies is None:
            raise ValueError("columns topic, and body or raw_body with sys_flag, are needed to put messages")
        self.born_hosts = self.column(columns, "born_host", Texts)
        self.store_hosts = self.column(columns, "store_host", Texts)
        self.tags = self.column(columns, "tags", Texts)
        self.uniq_keys = self.column(columns, "uniq_key", Texts)
        self.properties = self.column(columns, "properties", Maps)
        self.keys = self.column(columns, "keys", Lists)
        self.queue_ids = self.numbers(columns, "queue_id", np.int32, None)
        self.flags = self.numbers(columns, "flag", np.int32, 0)
        self.sys_flags = self.numbers(columns, "sys_flag", np.int32, 0)
        self.reconsume_times = self.numbers(columns, "reconsume_times", np.int32, 0)
        self.born_timestamps = self.numbers(columns, "born_timestamp", np.int64, time.time_ns() // 1_000_000)
        self.store_timestamps = self.numbers(columns, "store_timestamp", np.int64, 0)
        self.prepared_transaction_offsets = self.numbers(columns, "prepared_transaction_offset", np.int64, 0)

    def column(self, columns, name, kind):
        column = columns.get(name)
        if column is None:
            return None
        require_length(len(column.offsets) - 1, self.n)
        return kind(column)

    def numbers(self, columns, name, dtype, default):
        column = columns.get(name)
        if column is None:
            return None if default is None else np.full(self.n, default, dtype)
        require_length(len(column), self.n)
        return aligned(column, dtype)

    def add(self, RecordEncoder records, Py_ssize_t first, bint keeps_store):
        """Encode rows from ``first`` on.

        Parameters: keeps_store: the rows keep their own store times and hosts, if they have any.
        Returns: the number of the first row that was not encoded, because its columns contradict each other or a value
        is missing; n if all rows were. Raises: as ``RecordEncoder.add``.
        """
        cdef Py_ssize_t row
        for row in range(first, self.n):
            if row % ROWS == 0:
                PyErr_CheckSignals()
            if not self.add_row(records, row, keeps_store):
                return row
        return self.n

    cdef bint add_row(self, RecordEncoder records, Py_ssize_t row, bint keeps_store) except -1:
        cdef Parts parts
        cdef bytes born, store
        if not (self.topics.get(row, &parts.topic) and self.bodies.get(row, &parts.body)):
            return False
        host = self.host_of(self.born_hosts, row, DEFAULT_BORN_HOST)
        store_host = self.host_of(self.store_hosts, row, records.store_host) if keeps_store else records.store_host
        if host is None or store_host is None:
            return False
        born, store = records.host_bytes(host), records.host_bytes(store_host)
        parts.born_host.data, parts.born_host.size = born, <int32_t>len(born)
        parts.store_host.data, parts.store_host.size = store, <int32_t>len(store)
        parts.flag, parts.sys_flag = self.flags[row], self.sys_flags[row]
        parts.reconsume_times, parts.born_timestamp = self.reconsume_times[row], self.born_timestamps[row]
        parts.store_timestamp = self.store_timestamps[row] if keeps_store else 0
        parts.prepared_transaction_offset = self.prepared_transaction_offsets[row]
        if not self.add_properties(records, row):
            return False
        topic = self.topic_of(&parts.topic)
        parts.queue_id = records.find_queue_id(topic) if self.queue_ids is None else self.queue_ids[row]
        if parts.sys_flag & INNER_BATCH:
            records.is_special = True
        records.add_record(&parts, topic, 1)
        return True

    cdef str topic_of(self, const Slice *text):
        """The name of a topic, the same object while rows have the same topic."""
        if self.topic is None or not are_equal(text, &self.topic_utf8):
            self.topic, self.topic_utf8 = self.text_of(text), text[0]
        return self.topic

    cdef str text_of(self, const Slice *text):
        data = text.data[:text.size]
        found = self.texts.get(data)
        if found is None:
            found = self.texts[data] = data.decode()
        return found

    cdef str host_of(self, Texts column, Py_ssize_t row, str default):
        """Return None for a row without a value."""
        cdef Slice text
        if column is None:
            return default
        return self.text_of(&text) if column.get(row, &text) else None

    # ---- properties ------------------------------------------------------------------------------------------

    cdef bint add_properties(self, RecordEncoder records, Py_ssize_t row) except -1:
        """Add the row's map, and KEYS, TAGS and UNIQ_KEY if the map lacks them. Return False for rare cases."""
        cdef Slice names[MOST_PROPERTIES]
        cdef Slice values[MOST_PROPERTIES]
        cdef Slice text
        cdef Py_ssize_t i, n = 0
        if self.properties is not None:
            n = self.read_map(row, names, values)
            if n < 0:
                return False
        records.properties.size, records.needs_check, records.has_separator = 0, False, False
        for i in range(n):
            records.add_property(&names[i], &values[i])
        if self.keys is not None:
            if not self.join_keys(row):
                return False
            text.data, text.size = self.joined.data, <int32_t>self.joined.size
            if text.size and not add_missing(records, b"KEYS", &text, names, values, n):
                return False
        if self.tags is not None and self.tags.get(row, &text) and text.size:
            if not add_missing(records, b"TAGS", &text, names, values, n):
                return False
        if self.uniq_keys is not None and self.uniq_keys.get(row, &text) and text.size:
            return add_missing(records, b"UNIQ_KEY", &text, names, values, n)
        return True

    cdef Py_ssize_t read_map(self, Py_ssize_t row, Slice *names, Slice *values) except -2:
        """Return the number of properties with a value; -1 if there are too many, or a name is repeated."""
        cdef Py_ssize_t place, i, n = 0
        cdef Slice value
        for place in range(self.properties.offsets[row], self.properties.offsets[row + 1]):
            if n == MOST_PROPERTIES or not self.properties.names.get(place, &names[n]):
                return -1
            if self.properties.values.get(place, &value):
                values[n] = value
                for i in range(n):
                    if are_equal(&names[i], &names[n]):
                        return -1
                n += 1
        return n

    cdef bint join_keys(self, Py_ssize_t row) except -1:
        """Join the keys of a row with spaces. Return False if a key is empty or has a space."""
        cdef Py_ssize_t place, start = self.keys.offsets[row], end = self.keys.offsets[row + 1]
        cdef Slice key
        self.joined.size = 0
        for place in range(start, end):
            if not self.keys.values.get(place, &key) or not key.size or memchr(key.data, c" ", key.size) != NULL:
                return False
            if not self.joined.reserve(<Py_ssize_t>key.size + 1):
                return False
            if place > start:
                self.joined.data[self.joined.size] = c" "
                self.joined.size += 1
            memcpy(self.joined.data + self.joined.size, key.data, key.size)
            self.joined.size += key.size
        return True


cdef bint add_missing(RecordEncoder records, const char *name, const Slice *value, const Slice *names,
                      const Slice *values, Py_ssize_t n) except -1:
    """Add a property, if it is missing. Return False if it exists with another value."""
    cdef Slice text
    cdef Py_ssize_t i
    text.data, text.size = <const uint8_t *>name, <int32_t>len(name)
    for i in range(n):
        if are_equal(&names[i], &text):
            return are_equal(&values[i], value)
    records.add_property(&text, value)
    return True


def require_length(Py_ssize_t length, Py_ssize_t n):
    if length != n:
        raise ValueError(f"a column of {length} rows among those of {n}")
