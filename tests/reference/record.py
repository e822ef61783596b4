"""One record of a commit log: reading it as RocketMQ does, and making it, right or wrong."""

import ipaddress
import struct
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

from .java import java_decode, java_encode, java_hash, java_split, parse_number, to_int, to_long, utf16_length

MAGIC_V1 = 0xDAA320A7 - 2**32
MAGIC_V2 = 0xDAA320AB - 2**32
MAGIC_BLANK = 0xCBD43194 - 2**32
MULTI_TAGS, PREPARED, COMMIT, ROLLBACK, BORN_V6, STORE_V6 = 0x2, 0x4, 0x8, 0xC, 0x10, 0x20
NEED_UNWRAP, INNER_BATCH = 0x40, 0x80
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
DELAY_SECONDS = [1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200]
CRC_PROPERTY = "__CRC32#"
CRC_RESERVED = 20  # name, 0x01, ten digits, 0x02


class Parsed(NamedTuple):
    """checkMessageAndReturnSize: (True, size > 0) is a record, (True, 0) a blank, all else is neither."""

    success: bool
    size: int
    record: "Record | None" = None


@dataclass
class Record:
    """The fields of a record in their order, then what follows from them."""

    total_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    phy_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: tuple  # (address bytes, port)
    store_timestamp: int
    store_host: tuple
    reconsume_times: int
    prepared_transaction_offset: int
    body_length: int
    body: bytes | None  # None: not read
    topic_length: int
    topic: str
    properties_length: int
    properties: dict = field(default_factory=dict)
    tags_code: int = 0
    msg_base_offset: int = 0
    batch_size: int = 1

    @property
    def keys(self):
        return self.properties.get("KEYS") if self.properties_length > 0 else ""

    @property
    def uniq_key(self):
        return self.properties.get("UNIQ_KEY")

    @property
    def tags(self):
        return self.properties.get("TAGS")

    @property
    def msg_id(self):
        return message_id(self.store_host, self.phy_offset)


NUMBERS = {code: struct.Struct(">" + code) for code in "bhiq"}


class Cursor:
    """ByteBuffer: relative reads that fail beyond the end; every failure is a ValueError."""

    def __init__(self, data, position):
        self.data = data
        self.position = position

    @property
    def remaining(self):
        return len(self.data) - self.position

    def advance(self, size, at_most=None):
        """Go over so many bytes; where they begin."""
        if size < 0 or size > self.remaining or (at_most is not None and size > at_most):
            raise ValueError(f"no {size} bytes at {self.position}")
        begin = self.position
        self.position += size
        return begin

    def take(self, size, at_most=None):
        begin = self.advance(size, at_most)
        return bytes(self.data[begin : self.position])

    def number(self, code):
        number = NUMBERS[code]
        return number.unpack_from(self.data, self.advance(number.size))[0]

    def host(self, is_v6, at_most):
        data = self.take(20 if is_v6 else 8, at_most)
        return data[:-4], int.from_bytes(data[-4:], "big", signed=True)


def parse_record(
    data, pos=0, *, check_crc=True, check_dup=False, read_body=True, force_verify_prop_crc=False, negative_blank=False
):
    """CommitLog.checkMessageAndReturnSize on what follows pos; data ends where the file may be read to.

    negative_blank: before 5.5.1 the size of a blank may be negative.
    """
    try:
        cursor = Cursor(data, pos)
        return parse_checked(cursor, check_crc, check_dup, read_body, force_verify_prop_crc, negative_blank)
    except ValueError:
        return Parsed(False, -1)


def parse_checked(cursor, check_crc, check_dup, read_body, force_verify_prop_crc, negative_blank):
    if cursor.remaining <= 4:
        return Parsed(False, -1)
    total_size = cursor.number("i")
    if (total_size < 0 and not negative_blank) or cursor.remaining < total_size - 4:
        return Parsed(False, -1)
    magic = cursor.number("i")
    if magic == MAGIC_BLANK:
        return Parsed(True, 0)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return Parsed(False, -1)
    if total_size < 0:
        raise ValueError("a buffer of a negative size")
    record = read_fields(cursor, total_size, magic, read_body)
    if record.body and check_crc and not force_verify_prop_crc and crc_of(record.body) != record.body_crc:
        return Parsed(False, -1)
    if record.properties_length > 0:
        if check_dup and len(java_split(record.properties.get("DUP_INFO", ""), "_")) != 2:
            return Parsed(False, -1)
        record.tags_code = tags_code(record.topic, record.properties, record.store_timestamp)
    if check_crc and force_verify_prop_crc and not property_crc_fits(cursor, record):
        return Parsed(False, -1)
    if total_size != length_of(record):
        return Parsed(False, total_size)
    record.msg_base_offset = record.queue_offset
    if "INNER_NUM" in record.properties and "INNER_BASE" in record.properties:
        record.msg_base_offset = parse_number(record.properties["INNER_BASE"], 64)
        record.batch_size = parse_number(record.properties["INNER_NUM"], 16)
    return Parsed(True, total_size, record)


def read_fields(cursor, total_size, magic, read_body):
    """Hosts, body, topic and properties go through an array of total_size bytes, and must fit in it."""
    record = Record(
        total_size=total_size,
        magic=magic,
        body_crc=cursor.number("i"),
        queue_id=cursor.number("i"),
        flag=cursor.number("i"),
        queue_offset=cursor.number("q"),
        phy_offset=cursor.number("q"),
        sys_flag=(sys_flag := cursor.number("i")),
        born_timestamp=cursor.number("q"),
        born_host=cursor.host(sys_flag & BORN_V6, total_size),
        store_timestamp=cursor.number("q"),
        store_host=cursor.host(sys_flag & STORE_V6, total_size),
        reconsume_times=cursor.number("i"),
        prepared_transaction_offset=cursor.number("q"),
        body_length=(body_length := cursor.number("i")),
        body=read_or_skip(cursor, body_length, total_size, read_body),
        topic_length=(topic_length := cursor.number("b" if magic == MAGIC_V1 else "h")),
        topic=java_decode(cursor.take(topic_length, total_size)),
        properties_length=(properties_length := cursor.number("h")),
    )
    if properties_length > 0:
        record.properties = parse_properties(java_decode(cursor.take(properties_length, total_size)))
    return record


def read_or_skip(cursor, body_length, total_size, read_body):
    if body_length <= 0:
        return b""
    if read_body:
        return cursor.take(body_length, total_size)
    cursor.take(body_length)
    return None


def length_of(record):
    """MessageExtEncoder.calMsgLength."""
    fixed = 91 + (record.magic == MAGIC_V2)
    hosts = 12 * bool(record.sys_flag & BORN_V6) + 12 * bool(record.sys_flag & STORE_V6)
    return fixed + hosts + max(record.body_length, 0) + record.topic_length + max(record.properties_length, 0)


def parse_properties(text):
    """MessageDecoder.string2messageProperties: items of a name, 0x01 and a value, neither of them empty."""
    properties = {}
    for item in text.split("\x02"):
        name, separator, value = item.partition("\x01")
        if name and separator and value:
            properties[name] = value
    return properties


def encode_properties(properties):
    """MessageDecoder.messageProperties2String of 5.2.0 and later; bytes are taken as they are."""
    if isinstance(properties, bytes):
        return properties
    return java_encode("".join(f"{name}\x01{value}\x02" for name, value in properties.items()))


def tags_code(topic, properties, store_timestamp):
    """What the unit of the consume queue stores: the hash of TAGS, or when a delayed message is due."""
    if topic == SCHEDULE_TOPIC and "DELAY" in properties:
        level = min(parse_number(properties["DELAY"], 32), len(DELAY_SECONDS))
        if level > 0:
            return to_long(store_timestamp + 1000 * DELAY_SECONDS[level - 1])
    return java_hash(properties.get("TAGS", ""))


def crc_of(body):
    return zlib.crc32(body) & 0x7FFFFFFF


def crc_property(data):
    """The 20 bytes that end a record of a store with enabledAppendPropCRC; digits run from the least significant."""
    digits = str(crc_of(data))[::-1].ljust(10, "0")
    return f"{CRC_PROPERTY}\x01{digits}\x02".encode()


def property_crc_fits(cursor, record):
    """Whether the CRC property is there and right. The bytes summed end at the cursor, wherever parsing led it."""
    if CRC_PROPERTY not in record.properties:
        return False
    expected = 0
    for unit in reversed(utf16_units(record.properties[CRC_PROPERTY])):
        expected = to_int(10 * expected + unit - ord("0"))
    begin = cursor.position - record.total_size
    end = begin + record.total_size - CRC_RESERVED
    if begin < 0 or end < 0:
        raise ValueError("a position before the buffer")
    return crc_of(bytes(cursor.data[begin : max(begin, end)])) == expected


def utf16_units(text):
    return [unit for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass"))]


def message_id(store_host, phy_offset):
    """MessageDecoder.createMessageId: address, port and physical offset in upper-case hexadecimal."""
    address, port = store_host
    return (address + struct.pack(">iq", port, phy_offset)).hex().upper()


def parse_message_id(text):
    """MessageDecoder.decodeMessageId: (address bytes, port), physical offset."""
    data = bytes.fromhex(text)
    split = 4 if len(text) == 32 else 16
    port, phy_offset = struct.unpack(">iq", data[split:])
    return (data[:split], port), phy_offset


def host(text):
    """("1.2.3.4:80" or "[::1]:80") -> (address bytes, port)."""
    address, _, port = text.rpartition(":")
    return ipaddress.ip_address(address.strip("[]")).packed, int(port)


def host_text(pair):
    """(address bytes, port) -> "1.2.3.4:80" or "[::1]:80"."""
    address = ipaddress.ip_address(pair[0])
    return f"[{address}]:{pair[1]}" if address.version == 6 else f"{address}:{pair[1]}"


def build_record(
    topic="TopicTest",
    body=b"body",
    *,
    properties=(),
    queue_id=0,
    flag=0,
    queue_offset=0,
    phy_offset=0,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    born_host="127.0.0.1:1234",
    store_timestamp=1_700_000_000_001,
    store_host="127.0.0.1:10911",
    reconsume_times=0,
    prepared_transaction_offset=0,
    append_prop_crc=False,
    host_flags=True,
    magic=None,
    body_crc=None,
    body_length=None,
    topic_length=None,
    properties_length=None,
    total_size=None,
):
    """Make the bytes of a record.

    topic and properties may be bytes, properties also a dict. sys_flag gets the bits of IPv6 hosts, unless host_flags
    is off. What is None follows from the rest; a value that is given is written, right or wrong, cut to the width of
    its field.
    """
    name = topic if isinstance(topic, bytes) else java_encode(topic)
    properties = encode_properties(properties or {})
    if append_prop_crc:
        properties += b"\x02" if properties and not properties.endswith(b"\x02") else b""
        properties += b"\0" * CRC_RESERVED
    if magic is None:
        magic = MAGIC_V2 if utf16_length(java_decode(name)) > 127 else MAGIC_V1
    born, store = host(born_host), host(store_host)
    if host_flags:
        sys_flag |= (BORN_V6 if len(born[0]) == 16 else 0) | (STORE_V6 if len(store[0]) == 16 else 0)
    after_size = b"".join(
        [
            wrapped(magic, 4),
            wrapped(crc_of(body) if body_crc is None else body_crc, 4),
            wrapped(queue_id, 4),
            wrapped(flag, 4),
            wrapped(queue_offset, 8),
            wrapped(phy_offset, 8),
            wrapped(sys_flag, 4),
            wrapped(born_timestamp, 8),
            born[0] + wrapped(born[1], 4),
            wrapped(store_timestamp, 8),
            store[0] + wrapped(store[1], 4),
            wrapped(reconsume_times, 4),
            wrapped(prepared_transaction_offset, 8),
            wrapped(len(body) if body_length is None else body_length, 4) + body,
            wrapped(len(name) if topic_length is None else topic_length, 1 if magic == MAGIC_V1 else 2) + name,
            wrapped(len(properties) if properties_length is None else properties_length, 2) + properties,
        ]
    )
    data = wrapped(4 + len(after_size) if total_size is None else total_size, 4) + after_size
    return data[:-CRC_RESERVED] + crc_property(data[:-CRC_RESERVED]) if append_prop_crc else data


def wrapped(value, size):
    return (value % 2 ** (8 * size)).to_bytes(size, "big")


def blank(size):
    """The eight bytes that close a file with `size` bytes left, and zeros up to its end."""
    return struct.pack(">ii", size, MAGIC_BLANK).ljust(size, b"\0")
