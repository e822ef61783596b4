"""Fields of records as columns. A scan collects them, a block of records at a time."""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.ref cimport Py_REFCNT
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

from rocketstore.kernels.csrc cimport (
    rs_acquire_fence,
    rs_copy_short,
    rs_load_be32,
    rs_load_be64,
    rs_utf8_repair,
    rs_utf8_valid,
)
from rocketstore.kernels.record cimport (
    BATCH_CRC_AGREES,
    BODY_CRC,
    BORN_HOST,
    BORN_HOST_V6,
    BORN_TIMESTAMP,
    FLAG,
    HOST_SIZE,
    IPV6_HOST_SIZE,
    MAX_PROPERTIES,
    NO_BATCH,
    PHY_OFFSET,
    QUEUE_ID,
    QUEUE_OFFSET,
    SIZE,
    STORE_HOST_V6,
    SYS_FLAG,
    Property,
    PropertyReader,
    Record,
    Slice,
    are_equal,
    body_crc_agrees,
    keyed_hash,
    next_property,
    next_word,
    property_crc_agrees,
    read_properties,
)

import numpy as np

from rocketstore.kernels.layout import DAMAGED_FLAG
from rocketstore.kernels.value_columns import BinaryColumn, ListColumn, MapColumn, StringColumn


__all__ = ["RecordColumns"]


cdef extern from "<arpa/inet.h>" nogil:
    enum:
        AF_INET6
        INET6_ADDRSTRLEN
    const char *inet_ntop(int family, const void *address, char *ret, unsigned int size)


cdef extern from "<string.h>" nogil:
    size_t strlen(const char *text)


cdef extern from *:
    """
    #include <sys/mman.h>
    /* Large memory in huge pages, where the system has them: a page fault for 2 MiB, not for each 4 KiB. */
    static void rs_advise_huge(void *data, size_t size)
    {
    #ifdef MADV_HUGEPAGE
        const uintptr_t huge = 2u << 20, start = ((uintptr_t)data + huge - 1) & ~(huge - 1);
        const uintptr_t end = ((uintptr_t)data + size) & ~(huge - 1);
        if (size >= 2 * huge && start < end)
            madvise((void *)start, end - start, MADV_HUGEPAGE);
    #else
        (void)data, (void)size;
    #endif
    }
    """
    void rs_advise_huge(void *data, size_t size) noexcept nogil


cdef class Growing:
    """Bytes that grow outside Python's memory. In the end a NumPy array owns them."""

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, False, flags)

    cdef bint reserve(self, Py_ssize_t more) noexcept nogil:
        """Make room. Return False without memory, or if the column would be too large for its offsets."""
        if more <= self.capacity - self.size:
            return True
        if more > INT32_MAX - self.size:
            return False
        return self.allocate(min(self.size + more + self.size // 2 + 1024, <Py_ssize_t>INT32_MAX))

    cdef bint allocate(self, Py_ssize_t capacity) noexcept nogil:
        cdef void *data = realloc(self.data, capacity)
        if data == NULL:
            return False
        # Memory that grows in small steps is moved often, and moving huge pages is expensive.
        if capacity > 4 * self.capacity:
            rs_advise_huge(data, <size_t>capacity)
        self.data, self.capacity = <uint8_t *>data, capacity
        return True

    cdef bint add(self, const void *data, Py_ssize_t size) noexcept nogil:
        if not self.reserve(size):
            return False
        if size:
            memcpy(self.data + self.size, data, size)
        self.size += size
        return True

    cdef bint add_int32(self, Py_ssize_t value) noexcept nogil:
        cdef int32_t number = <int32_t>value
        return self.add(&number, 4)


cdef array_of(Growing bytes, dtype):
    return np.frombuffer(bytes, dtype) if bytes.size else np.empty(0, dtype)


cdef Growing next_of(Growing previous):
    """Make the memory of the next batch, about as large. Reuse that of two batches ago if its array is gone.

    The previous batch is still being read. New memory costs a page fault for each 4 KiB, as much as the records do.
    """
    cdef Growing bytes = previous.previous_but_one, one_before = previous.previous
    previous.previous = previous.previous_but_one = None
    if bytes is None or Py_REFCNT(bytes) > 1 or bytes.capacity < previous.size:
        bytes = Growing()
        if previous.size and not bytes.allocate(min(previous.size + previous.size // 16, <Py_ssize_t>INT32_MAX)):
            raise MemoryError
    rs_acquire_fence()  # another thread may have dropped the last reference
    bytes.size, bytes.previous, bytes.previous_but_one = 0, previous, one_before
    return bytes


cdef Growing offsets_of(Growing previous):
    cdef Growing offsets = next_of(previous)
    if not offsets.add_int32(0):
        raise MemoryError
    return offsets


cdef class Column:
    """One field of every record. ``append`` returns False without room. Columns form a chain, for use without GIL."""

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        return True

    cdef bint append_all(self, const Record *records, Py_ssize_t n) noexcept nogil:
        return self.append(records, n) and (self.following is None or self.following.append_all(records, n))

    cdef bint expect(self, double factor) noexcept nogil:
        """Make room for this many times the present content."""
        return self.following is None or self.following.expect(factor)

    cdef object take(self):
        """Return the appended values, and begin with none."""
        raise NotImplementedError


# ---- numbers -----------------------------------------------------------------------------------------------

# Where a number is: at a fixed position, or relative to the end of the hosts.
cdef enum:
    AFTER_HOSTS = 1 << 20
    STORE_TIMESTAMP = 1 << 21
    TAGS_CODE = 1 << 22

INT32_FIELDS = {
    "body_crc": BODY_CRC, "queue_id": QUEUE_ID, "flag": FLAG, "size": SIZE, "sys_flag": SYS_FLAG,
    "reconsume_times": AFTER_HOSTS,
}
INT64_FIELDS = {
    "queue_offset": QUEUE_OFFSET, "phy_offset": PHY_OFFSET, "born_timestamp": BORN_TIMESTAMP,
    "store_timestamp": STORE_TIMESTAMP, "prepared_transaction_offset": AFTER_HOSTS + 4, "tags_code": TAGS_CODE,
}


cdef class Int32Column(Column):
    cdef Growing values
    cdef int place

    def __cinit__(self, int place):
        self.values, self.place = Growing(), place

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        cdef int32_t *into
        cdef Py_ssize_t i
        cdef int32_t pos
        if not self.values.reserve(4 * n):
            return False
        into = <int32_t *>(self.values.data + self.values.size)
        for i in range(n):
            pos = self.place if self.place < AFTER_HOSTS else records[i].after_hosts
            into[i] = <int32_t>rs_load_be32(records[i].data + pos)
        self.values.size += 4 * n
        return True

    cdef object take(self):
        values, self.values = self.values, next_of(self.values)
        return array_of(values, np.int32)


cdef class DamagedColumn(Int32Column):
    """Whether a record stands in place of a lost one, by its field flag."""

    cdef object take(self):
        return Int32Column.take(self) == DAMAGED_FLAG


cdef class Int64Column(Column):
    cdef Growing values
    cdef int place

    def __cinit__(self, int place):
        self.values, self.place = Growing(), place

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        cdef int64_t *into
        cdef Py_ssize_t i
        if not self.values.reserve(8 * n):
            return False
        into = <int64_t *>(self.values.data + self.values.size)
        for i in range(n):
            if self.place < AFTER_HOSTS:
                into[i] = <int64_t>rs_load_be64(records[i].data + self.place)
            elif self.place == STORE_TIMESTAMP:
                into[i] = records[i].store_timestamp
            elif self.place == TAGS_CODE:
                into[i] = records[i].tags_code
            else:
                into[i] = <int64_t>rs_load_be64(records[i].data + records[i].after_hosts + self.place - AFTER_HOSTS)
        self.values.size += 8 * n
        return True

    cdef object take(self):
        values, self.values = self.values, next_of(self.values)
        return array_of(values, np.int64)


cdef class CrcAgreesColumn(Column):
    """Whether the CRC of the body agrees; or, with ``of_record``, the CRC of the record in its properties."""

    cdef Growing values
    cdef bint of_record
    cdef PropertyReader reader

    def __cinit__(self, bint of_record):
        self.values, self.of_record = Growing(), of_record

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        cdef uint8_t agrees[MOST_RECORDS]
        cdef Py_ssize_t i
        cdef int64_t end
        for i in range(n):
            if records[i].batch_crc != NO_BATCH:
                agrees[i] = records[i].batch_crc == BATCH_CRC_AGREES
            elif self.of_record:
                end = records[i].properties.data + records[i].properties.size - records[i].data
                agrees[i] = property_crc_agrees(&records[i], end, &self.reader)
            else:
                agrees[i] = body_crc_agrees(&records[i])
        return self.values.add(agrees, n)

    cdef object take(self):
        values, self.values = self.values, next_of(self.values)
        return array_of(values, np.bool_)


# ---- text and bytes ----------------------------------------------------------------------------------------


cdef class VarValues:
    """Values of any length, one after the other."""

    def __cinit__(self):
        self.offsets, self.data = offsets_of(Growing()), Growing()

    cdef bint add_bytes(self, const void *data, Py_ssize_t size) noexcept nogil:
        return self.data.add(data, size) and self.offsets.add_int32(self.data.size)

    cdef bint add_text(self, const Slice *text) noexcept nogil:
        """Add text that Java decodes from these bytes, as UTF-8 that is well-formed."""
        if rs_utf8_valid(text.data, <size_t>text.size):
            return self.add_bytes(text.data, text.size)
        if not self.data.reserve(3 * <Py_ssize_t>text.size):
            return False
        self.data.size += rs_utf8_repair(text.data, <size_t>text.size, self.data.data + self.data.size)
        return self.offsets.add_int32(self.data.size)

    cdef bint add_texts(self, const Slice *texts, Py_ssize_t n) noexcept nogil:
        """Add many texts. The copy also checks whether all are ASCII, which they usually are."""
        cdef Py_ssize_t i, total = 0
        cdef uint8_t *into
        cdef int32_t *ends
        cdef uint64_t not_ascii = 0
        for i in range(n):
            total += texts[i].size
        if not (self.data.reserve(total) and self.offsets.reserve(4 * n)):
            return False
        into = self.data.data + self.data.size
        ends = <int32_t *>(self.offsets.data + self.offsets.size)
        for i in range(n):
            not_ascii |= rs_copy_short(into, texts[i].data, <size_t>texts[i].size)
            into += texts[i].size
            ends[i] = <int32_t>(into - self.data.data)
        if not_ascii == 0:
            self.data.size += total
            self.offsets.size += 4 * n
            return True
        for i in range(n):
            if not self.add_text(&texts[i]):
                return False
        return True

    cdef take(self, valid=None, column_type=StringColumn):
        column = column_type(array_of(self.offsets, np.int32), array_of(self.data, np.uint8), valid)
        self.offsets, self.data = offsets_of(self.offsets), next_of(self.data)
        return column


cdef class BytesColumn(Column):
    cdef VarValues values

    def __cinit__(self):
        self.values = VarValues()

    cdef object take(self):
        return self.values.take()


cdef class RawBodyColumn(BytesColumn):
    cdef bint expect(self, double factor) noexcept nogil:
        cdef double size = factor * self.values.data.size
        # If this much cannot be reserved, the actual content may still fit.
        if size < INT32_MAX and not self.values.data.reserve(<Py_ssize_t>size - self.values.data.size):
            return False
        return BytesColumn.expect(self, factor)

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(n):
            if not self.values.add_bytes(records[i].body.data, records[i].body.size):
                return False
        return True

    cdef object take(self):
        return self.values.take(None, BinaryColumn)


cdef class TopicColumn(BytesColumn):
    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i
        cdef Slice topics[MOST_RECORDS]
        for i in range(n):
            topics[i] = records[i].topic
        return self.values.add_texts(topics, n)


cdef class PropertyColumn(Column):
    """The value of one property, null where a record has none."""

    cdef VarValues values
    cdef Growing valid
    cdef bint is_tags

    def __cinit__(self, bint is_tags):
        self.values, self.valid, self.is_tags = VarValues(), Growing(), is_tags

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i
        cdef Slice found[MOST_RECORDS]
        cdef uint8_t there[MOST_RECORDS]
        for i in range(n):
            found[i] = records[i].tags if self.is_tags else records[i].uniq_key
            there[i] = found[i].data != NULL
        return self.values.add_texts(found, n) and self.valid.add(there, n)

    cdef object take(self):
        valid, self.valid = self.valid, next_of(self.valid)
        return self.values.take(array_of(valid, np.bool_))


cdef class KeysColumn(Column):
    """The words of KEYS. Source: Java's split(" "), without empty words."""

    cdef Growing offsets
    cdef VarValues words
    cdef int32_t count

    def __cinit__(self):
        self.offsets, self.words, self.count = offsets_of(Growing()), VarValues(), 0

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        """Add the words in blocks. Most records have one word."""
        cdef Slice words[MOST_RECORDS]
        cdef Py_ssize_t i, n_words = 0
        cdef int32_t start
        cdef int32_t *ends
        if not self.offsets.reserve(4 * n):
            return False
        ends = <int32_t *>(self.offsets.data + self.offsets.size)
        for i in range(n):
            start = 0
            while next_word(&records[i].keys, &start, &words[n_words]):
                n_words += 1
                self.count += 1
                if n_words == MOST_RECORDS:
                    if not self.words.add_texts(words, n_words):
                        return False
                    n_words = 0
            ends[i] = self.count
        self.offsets.size += 4 * n
        return self.words.add_texts(words, n_words)

    cdef object take(self):
        offsets, self.offsets, self.count = self.offsets, offsets_of(self.offsets), 0
        return ListColumn(array_of(offsets, np.int32), self.words.take())


cdef enum:
    MOST_PROPERTIES = MAX_PROPERTIES // 4 + 1
    HEADS = 256
    FEW = 32  # names; few enough to compare one by one


cdef class PropertiesColumn(Column):
    """All properties. If a name is repeated, the first place and the last value count, as in a Python dict."""

    cdef Growing offsets
    cdef VarValues names
    cdef VarValues values
    cdef int32_t count
    cdef PropertyReader reader
    cdef Slice item_names[MOST_PROPERTIES]
    cdef Slice item_values[MOST_PROPERTIES]
    cdef int32_t following[MOST_PROPERTIES]
    cdef int32_t heads[HEADS]
    cdef bint are_many  # names of this record
    cdef uint8_t repaired[3 * MAX_PROPERTIES]
    cdef size_t n_repaired

    def __cinit__(self):
        self.offsets, self.names, self.values, self.count = offsets_of(Growing()), VarValues(), VarValues(), 0

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(n):
            if not (self.add_items(&records[i].properties) and self.offsets.add_int32(self.count)):
                return False
        return True

    cdef bint add_items(self, const Slice *properties) noexcept nogil:
        cdef int32_t n = 0
        cdef Property item
        cdef bint well_formed = rs_utf8_valid(properties.data, <size_t>properties.size)
        memset(self.heads, 0xFF, sizeof(self.heads))
        self.are_many = False
        self.n_repaired = 0
        read_properties(&self.reader, properties)
        while next_property(&self.reader, &item):
            # Names that are not valid UTF-8 may be equal after Java has decoded them.
            if not well_formed:
                self.repair(&item.name)
            n = self.put(&item, n)
        self.count += n
        return self.names.add_texts(self.item_names, n) and self.values.add_texts(self.item_values, n)

    cdef void repair(self, Slice *name) noexcept nogil:
        cdef uint8_t *into = self.repaired + self.n_repaired
        cdef size_t n = rs_utf8_repair(name.data, <size_t>name.size, into)
        self.n_repaired += n
        name.data, name.size = into, <int32_t>n

    cdef int32_t put(self, const Property *item, int32_t n) noexcept nogil:
        """Put an item among n items, in the place of an item with its name. Return the new number of items."""
        cdef uint32_t head
        cdef int32_t at
        if n == FEW and not self.are_many:
            self.are_many = True
            self.link_again(n)
        head = self.head_of(&item.name)
        at = self.heads[head]
        while at >= 0:
            if are_equal(&self.item_names[at], &item.name):
                self.item_values[at] = item.value
                return n
            at = self.following[at]
        self.item_names[n], self.item_values[n] = item.name, item.value
        self.link(n, head)
        return n + 1

    cdef inline uint32_t head_of(self, const Slice *name) noexcept nogil:
        if self.are_many:  # an attacker may have chosen names with equal hashes
            return <uint32_t>keyed_hash(name, 0) % HEADS
        return (name.data[0] * 31 + name.data[name.size - 1] + <uint32_t>name.size) % HEADS

    cdef inline void link(self, int32_t at, uint32_t head) noexcept nogil:
        self.following[at] = self.heads[head]
        self.heads[head] = at

    cdef void link_again(self, int32_t n) noexcept nogil:
        cdef int32_t at
        memset(self.heads, 0xFF, sizeof(self.heads))
        for at in range(n):
            self.link(at, self.head_of(&self.item_names[at]))

    cdef object take(self):
        offsets, self.offsets, self.count = self.offsets, offsets_of(self.offsets), 0
        return MapColumn(array_of(offsets, np.int32), self.names.take(), self.values.take())


# ---- hosts -------------------------------------------------------------------------------------------------


cdef class HostColumn(BytesColumn):
    """A host as text. Consecutive records usually have the same host, so its text is kept."""

    cdef bint is_born
    cdef char text[INET6_ADDRSTRLEN + 16]
    cdef Py_ssize_t length
    cdef const uint8_t *last
    cdef int last_size

    def __cinit__(self, bint is_born):
        self.is_born = is_born

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i
        cdef const uint8_t *host
        cdef bint is_v6
        cdef int size
        self.last = NULL  # of an earlier block, whose memory may be gone
        for i in range(n):
            host = records[i].data + (BORN_HOST if self.is_born else records[i].store_host)
            is_v6 = records[i].sys_flag & (BORN_HOST_V6 if self.is_born else STORE_HOST_V6) != 0
            size = IPV6_HOST_SIZE if is_v6 else HOST_SIZE
            if self.last == NULL or size != self.last_size or memcmp(host, self.last, <size_t>size) != 0:
                self.length = host_text(host, is_v6, self.text)
                self.last, self.last_size = host, size
            if not self.values.add_bytes(self.text, self.length):
                return False
        return True


cdef Py_ssize_t host_text(const uint8_t *host, bint is_v6, char *ret) noexcept nogil:
    """Write "address:port", an IPv6 address in brackets; its length."""
    cdef Py_ssize_t n = 0
    cdef int i
    if is_v6:
        ret[0] = c"["
        inet_ntop(AF_INET6, host, ret + 1, INET6_ADDRSTRLEN)
        n = 1 + <Py_ssize_t>strlen(ret + 1)
        ret[n] = c"]"
        n += 1
    else:
        for i in range(4):
            if i:
                ret[n] = c"."
                n += 1
            n += decimal_text(host[i], ret + n)
    ret[n] = c":"
    return n + 1 + decimal_text(<int32_t>rs_load_be32(host + (16 if is_v6 else 4)), ret + n + 1)


cdef Py_ssize_t decimal_text(int64_t value, char *ret) noexcept nogil:
    cdef char digits[20]
    cdef Py_ssize_t i = 0, n = 0
    if value < 0:
        ret[0] = c"-"
        n, value = 1, -value
    while True:
        digits[i] = c"0" + <char>(value % 10)
        value //= 10
        i += 1
        if value == 0:
            break
    while i:
        i -= 1
        ret[n] = digits[i]
        n += 1
    return n


cdef class MsgIdColumn(BytesColumn):
    """The message id: address, port and physical offset in hexadecimal. Source: MessageDecoder.createMessageId."""

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i
        cdef char text[56]
        cdef int size
        for i in range(n):
            size = IPV6_HOST_SIZE if records[i].sys_flag & STORE_HOST_V6 else HOST_SIZE
            write_hex(records[i].data + records[i].store_host, size, text)
            write_hex(records[i].data + PHY_OFFSET, 8, text + 2 * size)
            if not self.values.add_bytes(text, 2 * size + 16):
                return False
        return True


cdef bytes ALL_HEX = bytes(range(256)).hex().upper().encode()
cdef const char *HEX = ALL_HEX  # two digits for each byte


cdef void write_hex(const uint8_t *data, int size, char *ret) noexcept nogil:
    cdef int i
    for i in range(size):
        memcpy(ret + 2 * i, &HEX[2 * data[i]], 2)


# ---- together ----------------------------------------------------------------------------------------------


cdef Column new_column(str name):
    if name in INT32_FIELDS:
        return Int32Column(INT32_FIELDS[name])
    if name in INT64_FIELDS:
        return Int64Column(INT64_FIELDS[name])
    makers = {
        "topic": TopicColumn, "raw_body": RawBodyColumn, "keys": KeysColumn, "properties": PropertiesColumn,
        "msg_id": MsgIdColumn, "tags": lambda: PropertyColumn(True), "uniq_key": lambda: PropertyColumn(False),
        "born_host": lambda: HostColumn(True), "store_host": lambda: HostColumn(False),
        "damaged": lambda: DamagedColumn(FLAG),
        "body_crc_agrees": lambda: CrcAgreesColumn(False), "record_crc_agrees": lambda: CrcAgreesColumn(True),
    }
    if name not in makers:
        raise ValueError(f"column {name!r}: must be one of {', '.join([*INT32_FIELDS, *INT64_FIELDS, *makers])}")
    return makers[name]()


cdef class RecordColumns:
    """Columns of records by name, which a scanner fills. ``rows``: the number of records since the last ``take``."""

    def __cinit__(self, names):
        self.names = tuple(names)
        self.columns = [new_column(name) for name in self.names]
        self.first = Column()
        last = self.first
        for column in self.columns:
            (<Column>last).following = column
            last = column
        self.needs_properties = not {"keys", "tags", "uniq_key"}.isdisjoint(self.names)

    cdef bint append(self, const Record *records, Py_ssize_t n) noexcept nogil:
        self.rows += n
        return self.first.append_all(records, n)

    cdef bint expect(self, double factor) noexcept nogil:
        return self.first.expect(factor)

    def take(self):
        """Return the collected columns as a dict, and begin with empty ones."""
        self.rows = 0
        return {name: (<Column>column).take() for name, column in zip(self.names, self.columns)}
