# One message record of the commit log: where its fields are, and when it is sound. See record.pyx for the picture.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from libc.string cimport memcmp

from rocketstore.kernels.csrc cimport (
    RS_MORE_SEPARATORS,
    RS_PREFETCH_R,
    rs_acquire_fence,
    rs_find_magic,
    rs_find_space,
    rs_keyed_hash,
    rs_load_be32,
    rs_load_be64,
    rs_touch,
)

cdef enum:
    SIZE = 0
    MAGIC = 4
    BODY_CRC = 8
    QUEUE_ID = 12
    FLAG = 16
    QUEUE_OFFSET = 20
    PHY_OFFSET = 28
    SYS_FLAG = 36
    BORN_TIMESTAMP = 40
    BORN_HOST = 48
    HOST_SIZE = 8  # bytes of address and port, IPv4; with IPv6, IPV6_EXTRA more, and all later fields move
    IPV6_EXTRA = 12
    IPV6_HOST_SIZE = 20
    MIN_RECORD = 91  # V1, IPv4 hosts, all three lengths 0
    MAX_PROPERTIES = 32767
    CRC_PROPERTY_SIZE = 20  # "__CRC32#", 0x01, ten digits, 0x02

cdef enum:
    MAGIC_V1 = 0xDAA320A7
    MAGIC_V2 = 0xDAA320AB
    MAGIC_BLANK = 0xCBD43194

# The entry of DLedger's log in which a record is. See record.pyx for the picture.
cdef enum:
    ENTRY_HEAD = 48  # bytes before the record
    ENTRY_SIZE = 4
    ENTRY_INDEX = 8
    ENTRY_TERM = 16
    ENTRY_POS = 24
    ENTRY_BODY_SIZE = 44
    ENTRY_MAGIC = 1
    ENTRY_BLANK_MAGIC = 0xFFFFFFFF

# Of sysFlag.
cdef enum:
    COMPRESSED = 0x1
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    TRANSACTION_TYPE = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEEDS_UNWRAP = 0x40
    INNER_BATCH = 0x80

# The result of parsing a record. The bad ones are in the order of BAD_REASONS in record.pyx.
cdef enum RecordStatus:
    RECORD_OK
    RECORD_BLANK  # the rest of the file is not used
    RECORD_END  # zeros, or too few bytes for any record
    BAD_MAGIC
    BAD_SIZE
    BAD_CUT  # longer than the rest of the file
    BAD_BODY_LENGTH
    BAD_BODY_CRC
    BAD_TOPIC_LENGTH
    BAD_PROPERTIES_LENGTH
    BAD_DUP_INFO
    BAD_DELAY
    BAD_PROPERTY_CRC
    BAD_LENGTH
    BAD_INNER_BATCH
    BAD_PHY_OFFSET
    BAD_HALF  # complete, but a writer may still be writing it
    BAD_ENTRY  # the record's entry does not fit it or its place
    BAD_BATCH_BODY  # the body of an inner batch does not have its messages

# What parse_record does besides finding the fields.
cdef enum:
    CHECK_BODY_CRC = 1
    CHECK_PROPERTY_CRC = 2
    CHECK_DUP_INFO = 4
    FIND_PROPERTIES = 8  # keys, tags, uniq_key
    FIND_DISPATCH = 16  # and what a consume queue needs

cdef enum:
    DISPATCH_MULTI = 1  # INNER_MULTI_DISPATCH names more queues

# Whether the CRC of an inner batch agrees; NO_BATCH for a record.
cdef enum BatchCrc:
    NO_BATCH
    BATCH_CRC_AGREES
    BATCH_CRC_DIFFERS

# Bytes of a record; `data` is NULL for a missing property.
cdef struct Slice:
    const uint8_t *data
    int32_t size

cdef struct Record:
    const uint8_t *data
    int32_t size
    int32_t queue_id
    int64_t phy_offset
    int64_t store_timestamp
    int32_t sys_flag
    int32_t store_host  # where it is in the record; the born host is at BORN_HOST
    int32_t after_hosts  # where reconsumeTimes is
    int32_t batch_crc  # of a message in an inner batch: whether the CRC of the batch agrees, a BatchCrc
    Slice body
    Slice topic
    Slice properties
    Slice keys
    Slice tags
    Slice uniq_key
    # with FIND_DISPATCH
    int64_t tags_code
    int64_t msg_base_offset
    int32_t batch_size
    int32_t dispatches  # DISPATCH_MULTI, or 0

# One "name 0x01 value 0x02" of a property string.
cdef struct Property:
    Slice name
    Slice value

# Iterates over the properties of a string by next_property.
cdef struct PropertyReader:
    const uint8_t *data
    int32_t size
    int32_t start
    size_t next_separator
    size_t n_separators
    uint16_t separators[MAX_PROPERTIES + RS_MORE_SEPARATORS]

# The delay of each level, ms; level L is at L - 1.
cdef struct DelayTable:
    int32_t max_level
    int64_t millis[64]


cdef uint64_t[2] HASH_KEY  # this process's own


cdef int parse_record(const uint8_t *data, int64_t remaining, int todo, PropertyReader *reader,
                      const DelayTable *delays, Record *record) noexcept nogil
cdef int parse_entry(const uint8_t *data, int64_t remaining, int64_t place, int todo, PropertyReader *reader,
                     const DelayTable *delays, Record *record) noexcept nogil
cdef void find_properties(Record *record, PropertyReader *reader) noexcept nogil
cdef void read_properties(PropertyReader *reader, const Slice *properties) noexcept nogil
cdef bint next_property(PropertyReader *reader, Property *ret) noexcept nogil
cdef bint body_crc_agrees(const Record *record) noexcept nogil
cdef bint property_crc_agrees(const Record *record, int64_t end, PropertyReader *reader) noexcept nogil
cdef bint crc_agrees(const Record *record, const uint8_t *digits, int32_t n) noexcept nogil
cdef object java_text(const Slice *text)
cdef object property_dict(const Slice *properties, PropertyReader *reader)
cdef int fill_delays(DelayTable *delays, str levels) except -1


cdef inline int parse_framed(const uint8_t *data, int64_t remaining, int64_t place, int framing, int todo,
                             PropertyReader *reader, const DelayTable *delays, Record *record) noexcept nogil:
    """Find the fields of the record at `data`, or of the entry's record with a framing. A RecordStatus.

    The next record, or its entry, begins `record.size` bytes behind `record.data`. Parameters: place: the physical
    offset of `data`. framing: bytes before each record, 0 or ENTRY_HEAD.
    """
    if framing == 0:
        return parse_record(data, remaining, todo, reader, delays, record)
    return parse_entry(data, remaining, place, todo, reader, delays, record)


cdef inline bint is_entry_head(const uint8_t *data, int64_t place, int64_t record_size) noexcept nogil:
    """Whether the 48 bytes at `data` begin the entry at physical offset `place` with a record of this size."""
    return (rs_load_be32(data) == ENTRY_MAGIC and <int64_t>rs_load_be64(data + ENTRY_POS) == place
            and <int32_t>rs_load_be32(data + ENTRY_BODY_SIZE) == record_size
            and <int32_t>rs_load_be32(data + ENTRY_SIZE) == record_size + ENTRY_HEAD)


cdef inline int64_t head_size(const uint8_t *data, int64_t remaining, int framing) noexcept nogil:
    """Return the bytes before the record at `data`: ENTRY_HEAD if the magic of an entry is there, else 0."""
    return ENTRY_HEAD if framing and remaining >= ENTRY_HEAD and rs_load_be32(data) == ENTRY_MAGIC else 0


# How much of a record is written; a writer may be writing it now.
cdef enum Written:
    WHOLE
    WHOLE_IF_NO_PROPERTIES
    HALF_WRITTEN


cdef inline Written how_written(const uint8_t *data, int64_t remaining) noexcept nogil:
    """Check the end of a record before the rest is read. It is written last, and zeros were there before."""
    cdef int64_t size
    if remaining < MIN_RECORD:
        return WHOLE
    size = <int32_t>rs_load_be32(data)
    if size < MIN_RECORD or size > remaining:
        return HALF_WRITTEN  # or no record, unless the head is written before the next read
    if data[size - 1] != 0 or (remaining - size >= 4 and rs_load_be32(data + size) != 0):
        return WHOLE
    # Without properties the record ends with their length, 0, after the topic.
    return WHOLE_IF_NO_PROPERTIES if data[size - 3] != 0 else HALF_WRITTEN


cdef inline int parse_at(const uint8_t *data, int64_t pos, int64_t size, int64_t from_offset, int framing, int todo,
                         bint at_rest, PropertyReader *reader, const DelayTable *delays,
                         Record *record) noexcept nogil:
    """Find the fields of the record or entry at `pos` in a file of `size` bytes, and check its physical offset."""
    cdef Written written = WHOLE
    cdef int64_t head
    cdef int status
    if not at_rest:
        head = head_size(data + pos, size - pos, framing)
        written = how_written(data + pos + head, size - pos - head)
    rs_acquire_fence()
    status = parse_framed(data + pos, size - pos, from_offset + pos, framing, todo, reader, delays, record)
    if status == RECORD_OK:
        if record.phy_offset != from_offset + (record.data - data):
            return BAD_PHY_OFFSET
        if written == WHOLE or (written == WHOLE_IF_NO_PROPERTIES and record.properties.size == 0):
            return RECORD_OK
        return BAD_HALF
    # A blank fills its file. If the file was cut, the size of the blank may be larger than the rest.
    if status == RECORD_BLANK and (record.size < 8 or record.size < size - pos):
        return BAD_SIZE
    return status


cdef inline bint is_text(const Slice *text, const char *wanted, int32_t size) noexcept nogil:
    return text.size == size and memcmp(text.data, wanted, <size_t>size) == 0


cdef inline bint are_equal(const Slice *one, const Slice *other) noexcept nogil:
    return is_text(one, <const char *>other.data, other.size)


cdef inline uint64_t keyed_hash(const Slice *text, uint32_t number) noexcept nogil:
    return rs_keyed_hash(HASH_KEY, number, text.data, <size_t>text.size)


cdef inline int64_t next_magic(const uint8_t *data, int64_t pos, int64_t stop) noexcept nogil:
    """The first position from `pos` on, before `stop`, that has the magic of a record; `stop` without one.

    The magic of a record that begins before `stop` ends at most 7 bytes after it: they must be there.
    """
    return min(pos + <int64_t>rs_find_magic(data + pos + MAGIC, <size_t>(stop + 3 - pos)), stop)


cdef inline bint next_word(const Slice *text, int32_t *start, Slice *word) noexcept nogil:
    """Find the next word from `start` on, and move `start` behind it: Java's split(" ") without empty words."""
    cdef int32_t end
    while start[0] < text.size:
        end = start[0] + <int32_t>rs_find_space(text.data + start[0], <size_t>(text.size - start[0]))
        word.data, word.size = text.data + start[0], end - start[0]
        start[0] = end + 1
        if word.size > 0:
            return True
    return False


cdef inline void fetch_following(const uint8_t *record, int64_t size, const uint8_t *end) noexcept nogil:
    """Prefetch later records: small ones completely, of large ones the head and the end with the properties."""
    cdef int64_t i
    if size < 4096:
        i = 0
        while i < size:
            RS_PREFETCH_R(record + 4096 + i)
            i += 64
        if end - record > 2048:  # hints alone do not start the hardware prefetcher of an AMD
            rs_touch(record + 2048)
    elif size < 65536:
        RS_PREFETCH_R(record + 2 * size)
        RS_PREFETCH_R(record + 2 * size + 64)
        RS_PREFETCH_R(record + 3 * size - 192)
        RS_PREFETCH_R(record + 3 * size - 128)
        RS_PREFETCH_R(record + 3 * size - 64)
