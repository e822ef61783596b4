"""RecordEncoder: encodes messages as records of a commit log.

Four fields are set later, when the records are appended: queue offset, physical offset, store time, and CRC property.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError, PyDict_Next
from cpython.long cimport PyLong_CheckExact
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact, PyUnicode_FromObject
from libc.stdint cimport INT32_MAX, INT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset

from rocketstore.kernels.csrc cimport rs_crc32, rs_load_be32, rs_load_be64, rs_store_be32, rs_store_be64
from rocketstore.kernels.message_slots cimport Fields, hold_fields, release_fields
from rocketstore.kernels.record cimport (
    BODY_CRC,
    BORN_HOST,
    BORN_HOST_V6,
    BORN_TIMESTAMP,
    COMPRESSED,
    CRC_PROPERTY_SIZE,
    FIND_DISPATCH,
    FLAG,
    HOST_SIZE,
    INNER_BATCH,
    IPV6_HOST_SIZE,
    MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MAX_PROPERTIES,
    MIN_RECORD,
    PHY_OFFSET,
    QUEUE_ID,
    QUEUE_OFFSET,
    RECORD_OK,
    STORE_HOST_V6,
    SYS_FLAG,
    TRANSACTION_COMMIT,
    TRANSACTION_TYPE,
    DelayTable,
    PropertyReader,
    Record,
    is_text,
    parse_record,
)

from operator import index

import numpy as np

from rocketstore.errors import PutMessageError
from rocketstore.kernels.text import java_bytes
from rocketstore.kernels.hosts import parse_host

cdef extern from *:
    """
    /* The UTF-8 of a str. NULL, without an error, for half of a surrogate pair, or without memory. */
    static const uint8_t *rs_utf8(PyObject *text, Py_ssize_t *size)
    {
        const char *found;
        if (PyUnicode_IS_COMPACT_ASCII(text)) {
            *size = PyUnicode_GET_LENGTH(text);
            return (const uint8_t *)PyUnicode_DATA(text);
        }
        found = PyUnicode_AsUTF8AndSize(text, size);
        if (found == NULL)
            PyErr_Clear();
        return (const uint8_t *)found;
    }
    """
    const uint8_t *rs_utf8(PyObject *text, Py_ssize_t *size) noexcept

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(value, int *overflow) noexcept

cdef enum:
    MAX_V1_TOPIC = 127
    MAX_TOPIC = 32767
    CRC_DIGITS = 9  # positions in the property
    BEYOND_BODY = 65536  # bytes that a record may have besides the largest body
    COMPRESSION_SHIFT = 8  # of the compression type, in sysFlag
    LZ4 = 1
    ZSTD = 2

ILLEGAL, TOO_MANY_PROPERTIES = "MESSAGE_ILLEGAL", "PROPERTIES_SIZE_EXCEEDED"
MAX_HOSTS = 4096
# The dtype of Encoded.
ENCODED = np.dtype([("start", np.int64), ("size", np.int32), ("store_timestamp", np.int32), ("queue_id", np.int32),
                    ("queue", np.int32), ("message_num", np.int32)], align=True)


cdef class RecordEncoder:
    """Encodes messages as records that will be appended together. ``clear`` removes the records.

    Parameters: store_host: "address:port", for messages without a store host. find_queue_id: returns the queue of a
    topic for a message without one. append_prop_crc: add a last property for the CRC of the record. trailing_separator,
    has_v2, has_ipv6, has_compression_types, has_inner_batches, batch_properties: see Compat. max_message_size: of a
    body, bytes. mapped_file_size: of the log's files, bytes; each must have room for a record and a blank.
    Source: MessageExtEncoder.
    """

    def __init__(self, store_host, find_queue_id, *, bint append_prop_crc=False, bint trailing_separator=True,
                 bint has_v2=True, bint has_ipv6=True, bint has_compression_types=True, bint has_inner_batches=True,
                 str batch_properties="none", int64_t max_message_size=4 << 20, int64_t mapped_file_size=INT64_MAX):
        self.data, self.encoded, self.properties = Growing(), Growing(), Growing()
        self.queues, self.kept, self.numbers = [], [], {}
        self.hosts = {}
        self.store_host = PyUnicode_FromObject(store_host)  # as in ``host_bytes``
        self.find_queue_id = find_queue_id
        self.append_prop_crc = append_prop_crc
        self.trailing_separator = trailing_separator
        self.has_v2 = has_v2
        self.has_ipv6 = has_ipv6
        self.has_compression_types = has_compression_types
        self.has_inner_batches = has_inner_batches
        self.batch_properties = batch_properties
        self.max_message_size = max_message_size
        self.mapped_file_size = mapped_file_size

    def __len__(self):
        return self.encoded.size // sizeof(Encoded)

    @property
    def size(self):
        """Bytes of all records."""
        return self.data.size

    @property
    def largest(self):
        """Bytes of the largest record."""
        cdef Py_ssize_t i
        cdef int32_t most = 0
        for i in range(len(self)):
            most = max(most, self.at(i).size)
        return most

    def columns(self):
        """Return sizes int32[n], queue ids int32[n] and store times int64[n] of the records."""
        cdef Py_ssize_t i, n = len(self)
        cdef int32_t[::1] size_view, queue_view
        cdef int64_t[::1] time_view
        sizes, queue_ids, times = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int64)
        size_view, queue_view, time_view = sizes, queue_ids, times
        for i in range(n):
            size_view[i], queue_view[i] = self.at(i).size, self.at(i).queue_id
            time_view[i] = <int64_t>rs_load_be64(self.data.data + self.at(i).start + self.at(i).store_timestamp)
        return sizes, queue_ids, times

    def clear(self):
        """Forget all records."""
        self.clear_all()

    def dump(self):
        """Return the bytes of all records, and an array of ENCODED. ``load`` needs them and ``queues``."""
        return bytes(self.data), np.frombuffer(bytes(self.encoded), ENCODED)

    def load(self, const uint8_t[::1] data, encoded not None, list queues):
        """Replace the records by those that another encoder has dumped. ``encoded`` has the queue of each record.

        Raises: ValueError if the arguments contradict each other.
        """
        cdef const uint8_t[::1] table = np.ascontiguousarray(encoded, ENCODED).view(np.uint8)
        cdef const Encoded *record
        cdef int64_t i, at = 0, n = len(encoded)
        self.clear_all()
        if not (self.data.reserve(data.shape[0]) and self.encoded.reserve(table.shape[0])):
            raise MemoryError("the messages of one call are more than 2 GiB")
        for i in range(n):
            record = <const Encoded *>&table[0] + i
            if not (record.start == at and MIN_RECORD <= record.size <= data.shape[0] - at and record.message_num >= 0
                    and record.size == <int64_t>rs_load_be32(&data[at]) and 0 <= record.queue < len(queues)
                    and record.store_timestamp in (BORN_HOST + HOST_SIZE, BORN_HOST + IPV6_HOST_SIZE)):
                raise ValueError(f"record {i} of {n} at byte {at} is not a record of an encoder")
            at += record.size
        if at != data.shape[0]:
            raise ValueError(f"data has {data.shape[0]} bytes, but its {n} records have {at} bytes")
        if n:
            self.data.add(&data[0], data.shape[0])
            self.encoded.add(&table[0], table.shape[0])
        for i in range(n):
            rs_store_be32(self.data.data + self.at(i).start + QUEUE_ID, <uint32_t>self.at(i).queue_id)
        self.queues.extend(queues)

    cdef int clear_all(self) except -1:
        self.is_special = False
        self.data.size = self.encoded.size = 0
        self.queues.clear()
        self.numbers.clear()
        self.topic = None
        self.kept.clear()

    cdef const Encoded *at(self, Py_ssize_t i) noexcept nogil:
        return <const Encoded *>self.encoded.data + i

    # ---- one message -----------------------------------------------------------------------------------------

    def add(self, message not None, *, int32_t message_num=1, batch=None, bint keeps_store=False):
        """Encode a message.

        Parameters: message_num: how many queue offsets it occupies. batch: the message with its topic, queue, hosts,
        times and system flags. keeps_store: keep its own store time and host, if it has them.
        Raises: PutMessageError for a message that RocketMQ refuses, or would store in an unreadable form; TypeError,
        ValueError.
        """
        self.add_message(message, message_num, batch, keeps_store)

    def add_all(self, messages not None, Py_ssize_t first, Py_ssize_t stop, *, batch=None, bint keeps_store=False):
        """Encode messages from ``first`` on up to ``stop``, as ``add`` does.

        Returns: the number of the first message that was not encoded, or ``stop``. ``add`` of that message raises why.
        """
        cdef Py_ssize_t i = first
        try:
            while i < stop and i < len(messages):  # encoding may change the list
                self.add_message(messages[i], 1, batch, keeps_store)
                i += 1
        except (AttributeError, KeyError, MemoryError, OverflowError, TypeError, ValueError):
            pass  # the caller gets the error from ``add``
        return i

    cdef int add_message(self, message, int32_t message_num, batch, bint keeps_store) except -1:
        cdef Fields own, of_batch
        cdef Parts parts
        try:
            hold_fields(message, &own)
            if batch is None and not keeps_store and self.find_plain_parts(&own, &parts):
                self.last_store_host = self.store_host
                if own.queue_id == <PyObject *>None:  # Python code, during which nobody else may use this encoder
                    parts.queue_id = self.find_queue_id(<object>own.topic)
                return self.add_record(&parts, <str>own.topic, message_num)
            if batch is None:
                return self.add_fields(message, &own, &own, message_num, False, keeps_store)
            try:
                hold_fields(batch, &of_batch)
                return self.add_fields(message, &own, &of_batch, message_num, True, keeps_store)
            finally:
                release_fields(&of_batch)
        finally:
            release_fields(&own)

    cdef int add_fields(self, message, const Fields *own, const Fields *head, int32_t message_num, bint is_in_batch,
                        bint keeps_store) except -1:
        """Encode a message. head: has the fields that all messages of a batch share; ``own`` outside of a batch."""
        cdef Parts parts
        cdef str topic
        cdef bytes body
        cdef dict properties, batch_properties = None
        if is_in_batch and self.batch_properties != "none":
            batch_properties = given(head.properties, "properties")
        name, born_host = given(head.topic, "topic"), given(head.born_host, "born_host")
        body = given(own.stored, "_stored")[0] if own.raw_body == NULL else <object>own.raw_body
        properties = given(own.properties, "properties")
        queue_id = given(head.queue_id, "queue_id")
        store_host = <object>head.store_host if keeps_store and head.store_host != NULL else None
        flag, sys_flag = given(own.flag, "flag"), given(head.sys_flag, "sys_flag")
        born_timestamp = given(head.born_timestamp, "born_timestamp")
        topic = <str>name if type(name) is str else PyUnicode_FromObject(name)
        parts.flag, parts.sys_flag = integer(flag), integer(sys_flag)
        parts.reconsume_times = integer(given_or_0(head.reconsume_times))
        parts.born_timestamp = integer(born_timestamp)
        parts.store_timestamp = integer(given_or_0(head.store_timestamp)) if keeps_store else 0
        parts.prepared_transaction_offset = 0 if is_in_batch else integer(given_or_0(head.prepared_transaction_offset))
        # The flags of the record say that its body is not compressed. A body that was decompressed before may have been
        # changed since. In a batch, only the message's own flags say whether its raw body is compressed.
        if not parts.sys_flag & COMPRESSED and (own.body != NULL or given_or_0(own.sys_flag) & COMPRESSED):
            body = message.body
        cdef bytes born = self.host_bytes(born_host)
        self.last_store_host = self.store_host if store_host is None else store_host
        cdef bytes store = self.host_bytes(self.last_store_host)
        parts.queue_id = self.find_queue_id(topic) if queue_id is None else integer(queue_id)
        parts.topic = self.utf8_of(topic)
        parts.body.data, parts.body.size = body, <int32_t>min(len(body), INT32_MAX)
        parts.born_host.data, parts.born_host.size = born, <int32_t>len(born)
        parts.store_host.data, parts.store_host.size = store, <int32_t>len(store)
        self.properties.size, self.needs_check, self.has_separator = 0, False, False
        self.add_properties(properties)
        if batch_properties:
            if self.batch_properties == "joined" and not self.trailing_separator and self.properties.size:
                self.properties.size -= 1
            self.add_properties(batch_properties)
        if parts.sys_flag & INNER_BATCH:
            self.is_special = True
        return self.add_record(&parts, topic, message_num)

    cdef bint find_plain_parts(self, const Fields *own, Parts *parts) except -1:
        """Find the parts of a plain message. Return False for any other message, which ``add_fields`` encodes.

        A plain message has only the fields of a new message, all of built-in types. Its hosts were encoded before. Its
        body is not compressed, it is no inner batch and of no transaction, and no property needs a check. So this
        method runs neither Python code nor the garbage collector, and nothing changes meanwhile. If the message has no
        queue id, the caller chooses the queue.
        """
        if not are_plain(own) or not self.find_plain_hosts(own.born_host):
            return False
        parts.queue_id = 0
        if not (own.queue_id == <PyObject *>None or find_int32(own.queue_id, &parts.queue_id)):
            return False
        if not (find_int32(own.flag, &parts.flag) and find_int32(own.sys_flag, &parts.sys_flag)
                and find_int64(own.born_timestamp, &parts.born_timestamp) and find_utf8(own.topic, &parts.topic)):
            return False
        if parts.sys_flag & (COMPRESSED | TRANSACTION_TYPE | INNER_BATCH):
            return False
        parts.reconsume_times = 0
        parts.store_timestamp = parts.prepared_transaction_offset = 0
        parts.born_host = bytes_of(<PyObject *>self.plain_born_bytes)
        parts.store_host = bytes_of(<PyObject *>self.plain_store_bytes)
        parts.body = bytes_of(own.raw_body)
        return self.add_plain_properties(<dict>own.properties)

    cdef bint find_plain_hosts(self, PyObject *born_host) except -1:
        """Find the hosts of a plain message in stored form. Return False if one of them was not encoded before.

        They are in ``plain_born_bytes`` and ``plain_store_bytes`` then. Most messages have the same host object as the
        message before them, which needs no look-up.
        """
        cdef PyObject *found
        if self.plain_store_bytes is None:
            self.plain_store_bytes = self.hosts.get(self.store_host)
        if born_host != <PyObject *>self.plain_born_host:
            found = PyDict_GetItemWithError(self.hosts, <object>born_host)
            if found == NULL:
                return False
            self.plain_born_host, self.plain_born_bytes = <str>born_host, <bytes>found
        return self.plain_store_bytes is not None

    cdef bint add_plain_properties(self, dict properties) except -1:
        """Add properties. Return False if one of them is not a str, has no UTF-8, or needs a check."""
        cdef Py_ssize_t at = 0
        cdef PyObject *name
        cdef PyObject *value
        cdef Slice name_utf8, value_utf8
        self.properties.size, self.needs_check, self.has_separator = 0, False, False
        with cython.critical_section(properties):
            while PyDict_Next(properties, &at, &name, &value):
                if value == <PyObject *>None:
                    continue
                if not (find_utf8(name, &name_utf8) and find_utf8(value, &value_utf8)):
                    return False
                self.add_property(&name_utf8, &value_utf8)
        return not self.needs_check

    cdef Slice utf8_of(self, text) except *:
        """Return the UTF-8 of a str, in memory of the str, or in memory that this encoder keeps until ``clear``."""
        cdef Slice found
        cdef Py_ssize_t n
        if not isinstance(text, str):
            raise TypeError(f"a str was expected, not {text!r}")
        try:
            found.data = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &n)
        except UnicodeEncodeError:
            data = java_bytes(PyUnicode_FromObject(text))
            self.kept.append(data)
            found.data, n = <const uint8_t *><bytes>data, len(data)
        found.size = <int32_t>min(n, INT32_MAX)
        return found

    cdef bytes host_bytes(self, host):
        """Return a host, "address:port", in stored form. Encoded hosts are cached, since most messages repeat them."""
        if type(host) is not str:
            if not isinstance(host, str):
                raise TypeError("a host must be a str: address and port")
            host = PyUnicode_FromObject(host)  # ``find_plain_parts`` must not call the ``__eq__`` of a subclass
        found = self.hosts.get(host)
        if found is None:
            if host.startswith("[") and not self.has_ipv6:
                raise PutMessageError(ILLEGAL, f"host {host}: releases before 4.6.0 have no IPv6 addresses")
            if len(self.hosts) >= MAX_HOSTS:
                self.hosts.clear()
            found = self.hosts[host] = parse_host(host)
        return found

    cdef int add_properties(self, dict properties) except -1:
        """Add properties in the order of the dict. Source: MessageDecoder.messageProperties2String."""
        cdef Py_ssize_t at = 0
        cdef PyObject *name
        cdef PyObject *value
        cdef Slice name_utf8, value_utf8
        if properties is None:
            raise TypeError("properties must be a dict")
        with cython.critical_section(properties):  # without a GIL, another thread may change the dict meanwhile
            while PyDict_Next(properties, &at, &name, &value):
                if <object>value is not None:
                    name_utf8, value_utf8 = self.utf8_of(<object>name), self.utf8_of(<object>value)
                    self.add_property(&name_utf8, &value_utf8)
        return 0

    cdef int add_property(self, const Slice *name, const Slice *value) except -1:
        """Add a property, and find out whether the properties need a check or must be completed."""
        cdef Growing into = self.properties
        cdef uint8_t *text
        if memchr(name.data, 2, name.size) != NULL or memchr(value.data, 2, value.size) != NULL:
            self.needs_check = self.has_separator = True
        if name.size == 0 or name.data[0] == c"D" or name.data[0] == c"I":
            self.needs_check = True
            if is_text(name, b"INNER_NUM", 9) or is_text(name, b"INNER_MULTI_DISPATCH", 20):
                self.is_special = True
        if is_text(name, b"__CRC32#", 8):
            return 0  # the CRC of another record; the CRC of this record, if any, comes last
        if into.size > MAX_PROPERTIES + 1:
            return 0  # refused in any case, also without the last separator
        if not into.reserve(<Py_ssize_t>name.size + value.size + 2):
            raise MemoryError
        text = into.data + into.size
        memcpy(text, name.data, name.size)
        text[name.size] = 1
        memcpy(text + name.size + 1, value.data, value.size)
        text[name.size + 1 + value.size] = 2
        into.size += name.size + value.size + 2
        return 0

    # ---- the record ------------------------------------------------------------------------------------------

    cdef object lay_out(self, Parts *parts):
        """Compute the size of a record, and the parts that follow from others.

        Returns: None; (status, reason) if the message must be refused.
        """
        cdef Py_ssize_t properties = self.properties.size
        cdef int64_t size
        parts.is_v2 = parts.topic.size > MAX_V1_TOPIC and self.has_v2 and utf16_length(&parts.topic) > MAX_V1_TOPIC
        if properties and not self.trailing_separator:
            properties -= 1
        if self.append_prop_crc:
            properties += CRC_PROPERTY_SIZE
        size = <int64_t>MIN_RECORD + parts.is_v2 + parts.topic.size + parts.body.size + properties
        size += parts.born_host.size + parts.store_host.size - 2 * HOST_SIZE
        if properties > MAX_PROPERTIES:
            return TOO_MANY_PROPERTIES, f"properties of {properties} bytes: {MAX_PROPERTIES} is the most"
        if parts.body.size > self.max_message_size:
            return ILLEGAL, f"a body of {parts.body.size} bytes: {self.max_message_size} is the most"
        if size > min(self.max_message_size + BEYOND_BODY, <int64_t>INT32_MAX):
            return ILLEGAL, f"a record of {size} bytes: max_message_size and 64 KiB is the most"
        if parts.topic.size > (MAX_TOPIC if parts.is_v2 else MAX_V1_TOPIC):
            return ILLEGAL, f"a topic of {parts.topic.size} bytes cannot be read back"
        if size > self.mapped_file_size - END_FILE_MIN_BLANK_LENGTH:
            return ILLEGAL, say_too_large(size, self.mapped_file_size)
        parts.properties.data, parts.properties.size = self.properties.data, <int32_t>self.properties.size
        parts.properties_size, parts.size = <int32_t>properties, <int32_t>size
        parts.sys_flag &= ~(BORN_HOST_V6 | STORE_HOST_V6)
        parts.sys_flag |= BORN_HOST_V6 if parts.born_host.size == IPV6_HOST_SIZE else 0
        parts.sys_flag |= STORE_HOST_V6 if parts.store_host.size == IPV6_HOST_SIZE else 0
        return None

    cdef int add_record(self, Parts *parts, str topic, int32_t message_num) except -1:
        """Encode a record behind the others. The properties are in ``properties`` already."""
        cdef Encoded *made
        if parts.sys_flag & (COMPRESSED | INNER_BATCH):
            self.require_known(parts.sys_flag, topic)
        refusal = self.lay_out(parts)
        if refusal is not None:
            raise refused(refusal[0], topic, refusal[1])
        if not self.data.reserve(parts.size) or not self.encoded.reserve(sizeof(Encoded)):
            raise MemoryError("the messages of one call are more than 2 GiB")
        made = <Encoded *>(self.encoded.data + self.encoded.size)
        memset(made, 0, sizeof(Encoded))  # padding between the fields too: it may be dumped
        made.start, made.size, made.queue_id = self.data.size, parts.size, parts.queue_id
        made.queue = self.number_of(topic, parts.queue_id)
        made.store_timestamp = BORN_HOST + parts.born_host.size
        is_counted = parts.sys_flag & TRANSACTION_TYPE in (0, TRANSACTION_COMMIT)
        made.message_num = message_num if is_counted else 0
        encode(self.data.data + made.start, parts)
        encode_head(self.data.data + made.start, parts)
        if self.needs_check:
            self.require_readable(made.start, parts.size, topic)
        self.data.size += parts.size
        self.encoded.size += sizeof(Encoded)
        return 0

    cdef int require_known(self, int32_t sys_flag, str topic) except -1:
        """Refuse a message that the release of ``Compat`` cannot read."""
        if sys_flag & INNER_BATCH and not self.has_inner_batches:
            raise refused(ILLEGAL, topic, "releases before 5.0.0 have no inner batches")
        if (sys_flag & COMPRESSED and not self.has_compression_types
                and sys_flag >> COMPRESSION_SHIFT & 7 in (LZ4, ZSTD)):
            raise refused(ILLEGAL, topic, "a body of lz4 or zstd: releases before 4.9.4 read zlib alone")
        return 0

    cdef int32_t number_of(self, str topic, int32_t queue_id) except -1:
        """Return the number of a queue among ``queues``. A new queue is added."""
        cdef bint is_small = 0 <= queue_id < MAX_RECENT
        if self.topic is not topic:
            self.topic, self.numbers_of_topic = topic, self.numbers.setdefault(topic, {})
            memset(self.recent, 0xFF, sizeof(self.recent))
        if is_small and self.recent[queue_id] >= 0:
            return self.recent[queue_id]
        found = self.numbers_of_topic.get(queue_id)
        if found is None:
            found = self.numbers_of_topic[queue_id] = len(self.queues)
            self.queues.append((topic, queue_id))
        if is_small:
            self.recent[queue_id] = found
        return found

    cdef int require_readable(self, int64_t start, int32_t size, str topic) except -1:
        """Refuse a message that a broker would store but could not dispatch: DELAY or INNER_NUM is no number."""
        cdef Record record
        cdef PropertyReader reader
        cdef DelayTable delays
        delays.max_level = 0
        status = parse_record(self.data.data + start, size, FIND_DISPATCH, &reader, &delays, &record)
        is_one = record.batch_size == 1 and record.msg_base_offset == 0
        if status != RECORD_OK or (self.has_separator if record.sys_flag & INNER_BATCH else not is_one):
            raise refused(ILLEGAL, topic, "DELAY, INNER_NUM or INNER_BASE is no number that a broker can read")
        return 0


cdef inline object given(PyObject *value, str name):
    """Return a field that the message must have. Raises: KeyError."""
    if value == NULL:
        raise KeyError(name)
    return <object>value


cdef inline object given_or_0(PyObject *value):
    return 0 if value == NULL else <object>value


cdef inline object integer(value):
    """Convert an integer of Python or NumPy. Raises TypeError for a float, which a plain conversion would cut."""
    return value if isinstance(value, int) else index(value)


cdef bint are_plain(const Fields *own) noexcept:
    """Return whether a message has the fields of a new message alone, with values of built-in types."""
    return (own.topic != NULL and PyUnicode_CheckExact(<object>own.topic)
            and own.raw_body != NULL and PyBytes_CheckExact(<object>own.raw_body)
            and own.properties != NULL and PyDict_CheckExact(<object>own.properties)
            and own.born_host != NULL and PyUnicode_CheckExact(<object>own.born_host)
            and own.body == NULL and own.stored == NULL
            and own.reconsume_times == NULL and own.prepared_transaction_offset == NULL)


cdef bint find_int64(PyObject *value, int64_t *found) noexcept:
    """Find the value of an int. Return False if it has another type, or is too large."""
    cdef int overflow = 0
    if value == NULL or not PyLong_CheckExact(<object>value):
        return False
    found[0] = PyLong_AsLongLongAndOverflow(<object>value, &overflow)
    return not overflow


cdef bint find_int32(PyObject *value, int32_t *found) noexcept:
    cdef int64_t number
    if not find_int64(value, &number):
        return False
    found[0] = <int32_t>number
    return found[0] == number


cdef bint find_utf8(PyObject *text, Slice *found) noexcept:
    """Find the UTF-8 of a str. Return False if it has another type, no UTF-8, or more than 2 GiB."""
    cdef Py_ssize_t n = 0
    if not PyUnicode_CheckExact(<object>text):
        return False
    found.data = rs_utf8(text, &n)
    found.size = <int32_t>n
    return found.data != NULL and n <= INT32_MAX


cdef inline Slice bytes_of(PyObject *data) noexcept:
    cdef Slice found
    found.data = <const uint8_t *>PyBytes_AS_STRING(<object>data)
    found.size = <int32_t>min(PyBytes_GET_SIZE(<object>data), INT32_MAX)
    return found


cdef void encode_head(uint8_t *into, const Parts *parts) noexcept nogil:
    """Write the size and the magic, without which there is no record."""
    rs_store_be32(into, <uint32_t>parts.size)
    rs_store_be32(into + MAGIC, MAGIC_V2 if parts.is_v2 else MAGIC_V1)


cdef void encode(uint8_t *into, const Parts *parts) noexcept nogil:
    """Write all fields but the head. If there is room for more than the given properties, the rest is for the CRC."""
    cdef uint8_t *p
    cdef int32_t n = min(parts.properties.size, parts.properties_size)
    rs_store_be32(into + BODY_CRC, rs_crc32(0, parts.body.data, <size_t>parts.body.size) & INT32_MAX)
    rs_store_be32(into + QUEUE_ID, <uint32_t>parts.queue_id)
    rs_store_be32(into + FLAG, <uint32_t>parts.flag)
    rs_store_be64(into + QUEUE_OFFSET, 0)
    rs_store_be64(into + PHY_OFFSET, 0)
    rs_store_be32(into + SYS_FLAG, <uint32_t>parts.sys_flag)
    rs_store_be64(into + BORN_TIMESTAMP, <uint64_t>parts.born_timestamp)
    p = put_bytes(into + BORN_HOST, &parts.born_host)
    rs_store_be64(p, <uint64_t>parts.store_timestamp)
    p = put_bytes(p + 8, &parts.store_host)
    rs_store_be32(p, <uint32_t>parts.reconsume_times)
    rs_store_be64(p + 4, <uint64_t>parts.prepared_transaction_offset)
    rs_store_be32(p + 12, <uint32_t>parts.body.size)
    p = put_bytes(p + 16, &parts.body)
    if parts.is_v2:
        p[0] = <uint8_t>(parts.topic.size >> 8)
        p += 1
    p[0] = <uint8_t>parts.topic.size
    p = put_bytes(p + 1, &parts.topic)
    p[0] = <uint8_t>(parts.properties_size >> 8)
    p[1] = <uint8_t>parts.properties_size
    if n:
        memcpy(p + 2, parts.properties.data, n)
    if parts.properties_size > n:
        memset(p + 2 + n, 0, parts.properties_size - n)


cdef inline uint8_t *put_bytes(uint8_t *into, const Slice *text) noexcept nogil:
    memcpy(into, text.data, text.size)
    return into + text.size


cdef int32_t utf16_length(const Slice *text) noexcept nogil:
    """Return Java's length of a text: characters beyond U+FFFF, which have four bytes, count twice."""
    cdef int32_t i, n = 0
    for i in range(text.size):
        n += (text.data[i] & 0xC0) != 0x80
        n += text.data[i] >= 0xF0
    return n


cdef void write_crc(uint8_t *record, int32_t size) noexcept nogil:
    """Write the last property: the CRC of all bytes before it, in ten decimal digits, the lowest first."""
    cdef uint8_t *text = record + size - CRC_PROPERTY_SIZE
    cdef uint32_t crc = rs_crc32(0, record, <size_t>size - CRC_PROPERTY_SIZE) & INT32_MAX
    cdef int i
    memcpy(text, b"__CRC32#\x01", CRC_DIGITS)
    for i in range(CRC_DIGITS, CRC_PROPERTY_SIZE - 1):
        text[i] = <uint8_t>(c"0" + crc % 10)
        crc //= 10
    text[CRC_PROPERTY_SIZE - 1] = 2


def refused(str status, topic, str reason):
    return PutMessageError(status, f"a message of topic {topic!r:.80} is refused: {reason}")


def say_too_large(int64_t size, int64_t file_size):
    """Return why a record is refused that no file of the log can hold. Parameters: in bytes."""
    advice = "a store whose mapped_file_size_commit_log is larger can hold it"
    return f"{size} bytes do not fit a file of {file_size}: {advice}"
