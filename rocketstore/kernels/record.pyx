"""One message record of the commit log: its fields found and checked, and read as Python objects.

    0 size i32 | 4 magic i32 | 8 bodyCrc i32 | 12 queueId i32 | 16 flag i32 | 20 queueOffset i64 | 28 phyOffset i64
    36 sysFlag i32 | 40 bornTimestamp i64 | 48 bornHost: 4 or 16 bytes of address, port i32
    storeTimestamp i64 | storeHost as bornHost | reconsumeTimes i32 | preparedTransactionOffset i64
    body length i32, body | topic length i8 (V1) or i16 (V2), topic | properties length i16, properties

Each record of DLedger's log is the body of an entry, whose head is before it:

    0 magic i32 = 1 | 4 size i32, with the head | 8 index i64 | 16 term i64 | 24 pos i64, of the entry
    32 channel i32 | 36 chainCrc i32 | 40 bodyCrc i32 | 44 bodySize i32

A blank at the end of such a file has the magic -1 and then its size, where RocketMQ's has the size and then the magic.
"""

import os
import re

from libc.stdint cimport INT16_MAX, INT16_MIN, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, uint64_t

from rocketstore.kernels.csrc cimport (
    rs_crc32,
    rs_java_hash_utf8_lossy,
    rs_java_number,
    rs_load_be32,
    rs_load_be64,
    rs_separators,
    rs_utf8_repair,
    rs_utf8_valid,
)

cdef enum:
    KEYS = 0x4B455953  # "KEYS", "TAGS" as they are loaded
    TAGS = 0x54414753

HASH_KEY[0], HASH_KEY[1] = (int.from_bytes(os.urandom(8), "little") for _ in range(2))

# For each bad status from BAD_MAGIC on: the field and the reason.
BAD_REASONS = (
    ("magic", "no message begins here"),
    ("size", "is not positive, or too small for a message"),
    ("size", "leads beyond the end of the file"),
    ("body length", "is negative, or leads beyond the end of the file"),
    ("bodyCrc", "is not the CRC of the body"),
    ("topic length", "is negative, or leads beyond the end of the file"),
    ("properties length", "is negative, or leads beyond the end of the file"),
    ("DUP_INFO", "is not two parts joined by _"),
    ("DELAY", "is not a number"),
    ("__CRC32#", "is missing, or is not the CRC of the record"),
    ("size", "is not the sum of the lengths in the record"),
    ("INNER_NUM, INNER_BASE", "are not numbers"),
    ("physicalOffset", "is not the place where the record is"),
    ("properties", "end in zeros: the record is being written, or was not to its end"),
    ("entry", "its head does not fit the record in it, or the place where it is"),
    ("body", "does not have the messages of an inner batch"),
)

# ---- fields ------------------------------------------------------------------------------------------------


cdef int parse_record(const uint8_t *data, int64_t remaining, int todo, PropertyReader *reader,
                      const DelayTable *delays, Record *record) noexcept nogil:
    """Find the fields of the record at `data`, of which `remaining` bytes of the file are left. A RecordStatus.

    Source: CommitLog.checkMessageAndReturnSize, in its order; negative lengths, which it lets through, are bad here.
    """
    cdef int64_t pos, length
    cdef uint32_t magic
    if remaining < 8:
        return RECORD_END
    record.data = data
    record.size = <int32_t>rs_load_be32(data + SIZE)
    magic = rs_load_be32(data + MAGIC)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return RECORD_BLANK if magic == MAGIC_BLANK else RECORD_END if magic == 0 and record.size == 0 else BAD_MAGIC
    if record.size <= 0:
        return BAD_SIZE
    if record.size > remaining:
        return BAD_CUT
    if remaining < MIN_RECORD:
        return BAD_SIZE
    read_fixed(data, record)
    # Java reads hosts and texts through an array that is as long as the size field says.
    if record.size < (IPV6_HOST_SIZE if record.sys_flag & (BORN_HOST_V6 | STORE_HOST_V6) else HOST_SIZE):
        return BAD_SIZE
    pos = record.after_hosts + 12
    if remaining - pos < 4:
        return BAD_BODY_LENGTH
    length = <int32_t>rs_load_be32(data + pos)
    pos += 4
    if length < 0 or length > remaining - pos or length > record.size:
        return BAD_BODY_LENGTH
    record.body.data, record.body.size = data + pos, <int32_t>length
    pos += length
    if todo & CHECK_BODY_CRC and not todo & CHECK_PROPERTY_CRC and not body_crc_agrees(record):
        return BAD_BODY_CRC
    if remaining - pos < 2:
        return BAD_TOPIC_LENGTH
    if magic == MAGIC_V1:
        length = <signed char>data[pos]
        pos += 1
    else:
        length = load_be16(data + pos)
        pos += 2
    if length < 0 or length > remaining - pos or length > record.size:
        return BAD_TOPIC_LENGTH
    record.topic.data, record.topic.size = data + pos, <int32_t>length
    pos += length
    if remaining - pos < 2:
        return BAD_PROPERTIES_LENGTH
    length = load_be16(data + pos)
    pos += 2
    if length < 0:  # of no properties, in Java
        if todo & CHECK_PROPERTY_CRC:
            return BAD_PROPERTY_CRC
        return BAD_LENGTH if pos != record.size else BAD_PROPERTIES_LENGTH
    if length > remaining - pos or length > record.size:
        return BAD_PROPERTIES_LENGTH
    record.properties.data, record.properties.size = data + pos, <int32_t>length
    pos += length
    if todo & FIND_DISPATCH:
        return dispatch_fields(record, pos, todo, reader, delays)
    if todo & CHECK_PROPERTY_CRC and not property_crc_agrees(record, pos, reader):
        return BAD_PROPERTY_CRC
    if pos != record.size:
        return BAD_LENGTH
    if todo & FIND_PROPERTIES:
        find_properties(record, reader)
    return RECORD_OK


cdef int parse_entry(const uint8_t *data, int64_t remaining, int64_t place, int todo, PropertyReader *reader,
                     const DelayTable *delays, Record *record) noexcept nogil:
    """Find the fields of the record in the entry at `data`, or of a record whose head is not before it.

    The second is a record that a search found behind a damaged head, or one of an older log of plain files. If the
    status is BAD_ENTRY and `record.data` is behind `data`, the record is sound, and only the head is not.
    Source: DLedgerMmapFileStore.recover, MmapFileList.preAppend.
    """
    cdef uint32_t magic
    cdef int status
    if remaining < 8:
        return RECORD_END
    magic = rs_load_be32(data)
    if magic == ENTRY_BLANK_MAGIC:
        record.data, record.size = data, <int32_t>rs_load_be32(data + ENTRY_SIZE)
        return RECORD_BLANK
    if magic != ENTRY_MAGIC:
        return parse_record(data, remaining, todo, reader, delays, record)
    record.data = data
    record.size = <int32_t>rs_load_be32(data + ENTRY_SIZE)
    if record.size > remaining:
        return BAD_CUT
    if remaining < ENTRY_HEAD:
        return BAD_ENTRY
    status = parse_record(data + ENTRY_HEAD, remaining - ENTRY_HEAD, todo, reader, delays, record)
    if status == RECORD_BLANK:
        record.data = data
        return BAD_ENTRY
    return BAD_ENTRY if status == RECORD_OK and not is_entry_head(data, place, record.size) else status


cdef inline int32_t load_be16(const uint8_t *p) noexcept nogil:
    """A signed 16-bit number."""
    return (<signed char>p[0]) * 256 + p[1]


cdef inline void read_fixed(const uint8_t *data, Record *record) noexcept nogil:
    record.queue_id = <int32_t>rs_load_be32(data + QUEUE_ID)
    record.phy_offset = <int64_t>rs_load_be64(data + PHY_OFFSET)
    record.sys_flag = <int32_t>rs_load_be32(data + SYS_FLAG)
    record.batch_crc = NO_BATCH
    cdef int32_t pos = BORN_HOST + HOST_SIZE + (IPV6_EXTRA if record.sys_flag & BORN_HOST_V6 else 0)
    record.store_timestamp = <int64_t>rs_load_be64(data + pos)
    record.store_host = pos + 8
    record.after_hosts = pos + 8 + HOST_SIZE + (IPV6_EXTRA if record.sys_flag & STORE_HOST_V6 else 0)


cdef bint body_crc_agrees(const Record *record) noexcept nogil:
    """Whether the record has the CRC of its body. That of an empty body is not compared, as in RocketMQ."""
    if record.body.size == 0:
        return True
    cdef uint32_t crc = rs_crc32(0, record.body.data, <size_t>record.body.size)
    return crc & INT32_MAX == rs_load_be32(record.data + BODY_CRC)


# ---- properties --------------------------------------------------------------------------------------------


cdef void read_properties(PropertyReader *reader, const Slice *properties) noexcept nogil:
    reader.data, reader.size = properties.data, properties.size
    reader.start = 0
    reader.next_separator = 0
    reader.n_separators = rs_separators(properties.data, <size_t>properties.size, reader.separators)


cdef bint next_property(PropertyReader *reader, Property *ret) noexcept nogil:
    """Find the next property that has a name and a value. Source: MessageDecoder.string2messageProperties."""
    cdef int32_t start, equals, end
    while reader.start < reader.size:
        start, equals, end = reader.start, -1, reader.size
        while reader.next_separator < reader.n_separators:
            at = reader.separators[reader.next_separator]
            reader.next_separator += 1
            if reader.data[at] == 2:
                end = at
                break
            if equals < 0:
                equals = at
        reader.start = end + 1
        # If the name is empty, the value may have the 0x01 that Java finds next.
        if equals > start and equals < end - 1:
            ret.name.data, ret.name.size = reader.data + start, equals - start
            ret.value.data, ret.value.size = reader.data + equals + 1, end - equals - 1
            return True
    return False


cdef void find_properties(Record *record, PropertyReader *reader) noexcept nogil:
    """Find KEYS, TAGS and UNIQ_KEY. If a name is repeated, the last value counts."""
    cdef Property item
    cdef uint32_t name
    record.keys.data = record.tags.data = record.uniq_key.data = NULL
    record.keys.size = record.tags.size = record.uniq_key.size = 0
    read_properties(reader, &record.properties)
    while next_property(reader, &item):
        if item.name.size == 4:
            name = rs_load_be32(item.name.data)
            if name == KEYS:
                record.keys = item.value
            elif name == TAGS:
                record.tags = item.value
        elif is_text(&item.name, "UNIQ_KEY", 8):
            record.uniq_key = item.value


cdef Slice find_property(const Record *record, PropertyReader *reader, const char *name, int32_t size) noexcept nogil:
    cdef Property item
    cdef Slice found
    found.data, found.size = NULL, 0
    read_properties(reader, &record.properties)
    while next_property(reader, &item):
        if is_text(&item.name, name, size):
            found = item.value
    return found


cdef bint property_crc_agrees(const Record *record, int64_t end, PropertyReader *reader) noexcept nogil:
    cdef Slice digits = find_property(record, reader, "__CRC32#", 8)
    return digits.data != NULL and end == record.size and crc_agrees(record, digits.data, digits.size)


cdef bint crc_agrees(const Record *record, const uint8_t *digits, int32_t n) noexcept nogil:
    """Whether these are the decimal digits, the lowest first, of the CRC of all bytes before the CRC property."""
    cdef uint32_t crc = rs_crc32(0, record.data, <size_t>record.size - CRC_PROPERTY_SIZE) & INT32_MAX, expected = 0
    cdef int32_t i
    for i in range(n - 1, -1, -1):
        if digits[i] > 0x7F:
            return False
        expected = expected * 10 + <uint32_t>(<int32_t>digits[i] - c"0")
    return crc == expected


# ---- what a queue is dispatched by -------------------------------------------------------------------------


cdef int dispatch_fields(Record *record, int64_t end, int todo, PropertyReader *reader,
                         const DelayTable *delays) noexcept nogil:
    """Find the tags code, and the first offset and size of an inner batch. Check them as RocketMQ does."""
    cdef Property item
    cdef Slice delay, dup, inner_num, inner_base
    delay.data = dup.data = inner_num.data = inner_base.data = NULL
    delay.size = dup.size = inner_num.size = inner_base.size = 0
    record.dispatches = 0
    find_properties(record, reader)
    read_properties(reader, &record.properties)
    while next_property(reader, &item):
        if is_text(&item.name, "INNER_MULTI_DISPATCH", 20):
            record.dispatches = DISPATCH_MULTI
        elif is_text(&item.name, "DELAY", 5):
            delay = item.value
        elif is_text(&item.name, "DUP_INFO", 8):
            dup = item.value
        elif is_text(&item.name, "INNER_NUM", 9):
            inner_num = item.value
        elif is_text(&item.name, "INNER_BASE", 10):
            inner_base = item.value
    if todo & CHECK_DUP_INFO and record.properties.size > 0 and not is_dup_info(&dup):
        return BAD_DUP_INFO
    if not find_tags_code(record, &delay, delays):
        return BAD_DELAY
    if todo & CHECK_PROPERTY_CRC and not property_crc_agrees(record, end, reader):
        return BAD_PROPERTY_CRC
    if end != record.size:
        return BAD_LENGTH
    record.msg_base_offset, record.batch_size = <int64_t>rs_load_be64(record.data + QUEUE_OFFSET), 1
    cdef int64_t count
    if inner_num.data != NULL and inner_base.data != NULL:
        if not parse_number(&inner_num, INT16_MIN, INT16_MAX, &count):
            return BAD_INNER_BATCH
        if not parse_number(&inner_base, INT64_MIN, INT64_MAX, &record.msg_base_offset):
            return BAD_INNER_BATCH
        record.batch_size = <int32_t>count
    return RECORD_OK


cdef bint find_tags_code(Record *record, const Slice *delay, const DelayTable *delays) noexcept nogil:
    """Find the hash of the tags; of a delayed message, the time of delivery. Return False for a bad DELAY."""
    cdef int64_t level
    record.tags_code = 0
    if record.tags.size > 0:
        record.tags_code = <int32_t>rs_java_hash_utf8_lossy(0, record.tags.data, <size_t>record.tags.size)
    if delay.data == NULL or not is_text(&record.topic, "SCHEDULE_TOPIC_XXXX", 19):
        return True
    if not parse_number(delay, INT32_MIN, INT32_MAX, &level):
        return False
    if level > delays.max_level:
        level = delays.max_level
    if level > 0:
        # Java's long addition wraps.
        record.tags_code = <int64_t>(<uint64_t>record.store_timestamp + <uint64_t>delays.millis[level - 1])
    return True


cdef bint is_dup_info(const Slice *text) noexcept nogil:
    """Whether split("_"), which drops empty parts at the end, gives two parts."""
    cdef int32_t i, n = text.size, separators = 0
    if text.data == NULL:
        return False
    while n > 0 and text.data[n - 1] == c"_":
        n -= 1
    for i in range(n):
        separators += text.data[i] == c"_"
    return separators == 1


cdef inline bint parse_number(const Slice *text, int64_t least, int64_t most, int64_t *ret) noexcept nogil:
    return rs_java_number(text.data, <size_t>text.size, least, most, ret)


cdef int fill_delays(DelayTable *delays, str levels) except -1:
    """Read "1s 5s 1m 2h 1d". Source: ScheduleMessageService.parseDelayLevel."""
    units = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    found = [match.groups() for match in map(re.compile("([0-9]{1,9})([smhd])").fullmatch, levels.split()) if match]
    if len(found) != len(levels.split()) or len(found) > 64:
        raise ValueError(f"message_delay_level={levels!r}: up to 64 numbers, each with s, m, h or d, were expected")
    delays.max_level = <int32_t>len(found)
    for i, (number, unit) in enumerate(found):
        delays.millis[i] = units[unit] * int(number)
    return 0


# ---- as Python objects -------------------------------------------------------------------------------------


cdef object java_text(const Slice *text):
    """The str that Java decodes from UTF-8."""
    if rs_utf8_valid(text.data, <size_t>text.size):
        return (text.data[:text.size]).decode()
    repaired = bytearray(3 * text.size)
    cdef uint8_t *into = repaired
    cdef size_t n = rs_utf8_repair(text.data, <size_t>text.size, into)
    return repaired[:n].decode()


cdef object property_dict(const Slice *properties, PropertyReader *reader):
    cdef Property item
    found = {}
    read_properties(reader, properties)
    while next_property(reader, &item):
        found[java_text(&item.name)] = java_text(&item.value)
    return found


def decode_properties(bytes data):
    """Return the properties in a property string as a dict, in its order; of one name the last value counts.

    Raises: ValueError if it is longer than 32,767 bytes. Source: MessageDecoder.string2messageProperties.
    """
    cdef Slice properties
    cdef PropertyReader reader
    if len(data) > MAX_PROPERTIES:
        raise ValueError(f"{len(data)} bytes of properties: {MAX_PROPERTIES} are the most")
    properties.data, properties.size = data, <int32_t>len(data)
    return property_dict(&properties, &reader)


def check_message_and_return_size(const uint8_t[::1] data, bint check_crc=True, bint check_dup=False, *,
                                  bint force_verify_prop_crc=False, bint negative_blank=False,
                                  str message_delay_level="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"):
    """Check the record at the start of ``data`` as a broker does before it dispatches it.

    Parameters: data: the bytes from the record to the end of the written part of its file. check_crc: compare the
    CRC of the body, or with ``force_verify_prop_crc`` that of the property. check_dup: DUP_INFO is required.
    negative_blank: accept a blank whose size is negative, as RocketMQ did before 5.5.1.
    Returns: (success, size, fields): size is 0 for a blank, -1 if it is unknown; fields are those of the
    DispatchRequest, a dict, None without success.
    Source: CommitLog.checkMessageAndReturnSize, but negative lengths are never a success.
    """
    cdef Record record
    cdef PropertyReader reader
    cdef DelayTable delays
    cdef int todo = FIND_DISPATCH | (CHECK_BODY_CRC if check_crc else 0) | (CHECK_DUP_INFO if check_dup else 0)
    cdef Py_ssize_t n = data.shape[0]
    cdef int64_t least
    if check_crc and force_verify_prop_crc:
        todo |= CHECK_PROPERTY_CRC
    fill_delays(&delays, message_delay_level)
    cdef int status = parse_record(&data[0], n, todo, &reader, &delays, &record) if n else RECORD_END
    if status == RECORD_BLANK:
        # Java compares the size minus 4, which overflows next to INT_MIN.
        least = -0x7FFFFFFC if negative_blank else 0
        return (True, 0, None) if least <= record.size <= n else (False, -1, None)
    if status != RECORD_OK:
        return False, (record.size if status == BAD_LENGTH else -1), None
    fields = {
        "topic": java_text(&record.topic),
        "queue_id": record.queue_id,
        "phy_offset": record.phy_offset,
        "size": record.size,
        "tags_code": record.tags_code,
        "store_timestamp": record.store_timestamp,
        "queue_offset": <int64_t>rs_load_be64(record.data + QUEUE_OFFSET),
        "keys": java_text(&record.keys) if record.keys.data != NULL else None,
        "uniq_key": java_text(&record.uniq_key) if record.uniq_key.data != NULL else None,
        "sys_flag": record.sys_flag,
        "prepared_transaction_offset": <int64_t>rs_load_be64(record.data + record.after_hosts + 4),
        "properties": property_dict(&record.properties, &reader),
        "msg_base_offset": record.msg_base_offset,
        "batch_size": record.batch_size,
    }
    return True, record.size, fields
