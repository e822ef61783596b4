"""``rocketstore hexdump``: show the bytes of one record, field by field."""

from collections.abc import Sequence
from ipaddress import ip_address

import click

from rocketstore.cli.columns import FIELDS
from rocketstore.cli.formats import RowsView, finish, write_rows
from rocketstore.cli.settings import offset_from_end
from rocketstore.cli.text import note
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.commit_log import END
from rocketstore.kernels.layout import (
    BLANK_HEAD,
    BORN_HOST_V6,
    ENTRY_BLANK_MAGIC,
    ENTRY_HEAD,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD,
    RECORD_HEAD,
    RECORD_MAGICS,
    STORE_HOST_V6,
    read_field,
    record_head,
    topic_length_size,
)
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message_id import phy_offset_of
from rocketstore.messages.system_flags import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
)
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.missing import describe_unknown_queue
from rocketstore.text_values import format_time, parse_integer

BLANK = "blank to the end of the file"
MAGICS = {MAGIC_V1: "a message, V1", MAGIC_V2: "a message, V2", MAGIC_BLANK: BLANK, ENTRY_BLANK_MAGIC: BLANK}
NEAR = 8 << 20  # bytes before an offset in which the record of the offset is searched first
MAX_RECORD = 64 << 20  # bytes; a record with a larger size is read only up to the end of its fixed fields
FLAGS = {0x1: "compressed", BORN_HOST_V6: "born host V6", STORE_HOST_V6: "store host V6", 0x80: "inner batch"}
TRANSACTIONS = {TRANSACTION_PREPARED: "prepared", TRANSACTION_COMMIT: "commit", TRANSACTION_ROLLBACK: "rollback"}
TEXTS = ("body", "topic", "property", "rest")
FILE_NAME = 20  # the largest number of digits of an offset
SHOWN = 256  # bytes of a field that a table shows


def run(store: MessageStore, where: tuple[str, ...], view: RowsView) -> None:
    """Run the command with the values of its options."""
    offset = offset_of_queue(store, *where) if len(where) == 3 else phy_offset_in(where)
    log = store.commit_log.with_leftovers()
    begin = find_begin(log, offset)
    record = Record(record_bytes(log, begin), begin, entry_head(log, begin))
    if begin < offset:
        kind = "filler at the end of the file, which begins" if record.is_blank else "record"
        note(f"{store.path}: byte {offset} is byte {offset - begin} of the {kind} at {begin}")
    elif begin > offset:
        note(f"{store.path}: byte {offset} is in the head of the entry whose record is at {begin}")
    try:
        record.read_fields()
    except EOFError:
        record.read("rest", len(record.data) - record.pos)
    most = len(record.data) if view.is_full else SHOWN
    write_rows(record.rows, view, lambda rows: for_people(rows, most))
    if not record.is_blank:
        try:
            log.get_messages([begin], columns=["phy_offset"], verify_crc=True)
        except (CorruptFileError, IndexError) as error:
            finish([error])


def phy_offset_in(where: tuple[str, ...]) -> int:
    """Return the physical offset that one word gives. Raises: UsageError."""
    if len(where) != 1:
        raise click.UsageError("give a physical offset, an offset message id, or TOPIC QUEUE OFFSET")
    try:
        return int(where[0]) if where[0].isdecimal() and len(where[0]) <= FILE_NAME else phy_offset_of(where[0])
    except ValueError as error:
        raise click.UsageError(f"{error}, or a physical offset") from error


def offset_of_queue(store: MessageStore, topic: str, queue_id: str, queue_offset: str) -> int:
    """Return the physical offset of the record at a queue offset. Raises: ClickException, UsageError."""
    try:
        number, at = parse_integer(queue_id), parse_integer(queue_offset)
    except ValueError as error:
        raise click.UsageError(f"QUEUE and OFFSET: {error}") from None
    if problem := describe_unknown_queue(store, topic, number):
        raise click.ClickException(problem)
    queue = store.log_queue(topic, number)
    try:
        return int(queue[offset_from_end(queue, at)].phy_offset)
    except IndexError as error:
        raise click.ClickException(str(error)) from None


def find_begin(log: CommitLog, offset: int) -> int:
    """Return where the record or the filler begins that has a byte at a physical offset; the offset without either.

    A byte in the head of an entry belongs to the record in it.
    """
    file, framing = log.file_run.find(offset), log.reader.framing_at(offset)
    if file is None:
        return offset
    if log.reader.begins_record(offset):
        return log.reader.record_at(offset)
    first = log.reader.begin_in(file)
    for begin in dict.fromkeys((max(first, offset - NEAR), first)):
        end = begin  # of the last record before the offset
        for batch in log.scan(begin, offset + framing + 1, columns=["phy_offset", "size"], on_corrupt="skip"):
            inside = (batch.phy_offset - framing < offset) & (offset < batch.phy_offset + batch.size)
            if inside.any():
                return int(batch.phy_offset[inside][0])
            end = int(batch.phy_offset[-1] + batch.size[-1])
        if end < offset and is_blank(log.file_run.pread(end, BLANK_HEAD.itemsize), framing):
            return end
    return offset


def is_blank(data: bytes, framing: int) -> bool:
    """Return whether bytes begin a filler. Parameters: framing: bytes before each record of their file."""
    if framing:
        return read_field(data, ENTRY_HEAD, "magic") == ENTRY_BLANK_MAGIC
    return read_field(data, BLANK_HEAD, "magic") == MAGIC_BLANK


def entry_head(log: CommitLog, offset: int) -> bytes:
    """Return the head of the entry whose record is at a physical offset; no bytes without an entry."""
    begin = offset - log.reader.framing_at(offset)
    return log.file_run.pread(begin, offset - begin) if begin >= 0 and log.reader.record_at(begin) == offset else b""


def record_bytes(log: CommitLog, offset: int) -> bytes:
    """Return the bytes of a record. If its size field cannot be right, return the bytes of the smallest record."""
    head = log.file_run.pread(offset, BLANK_HEAD.itemsize)
    if is_blank(head, log.reader.framing_at(offset)):
        return head
    size = read_field(head, RECORD_HEAD, "size")
    data = log.file_run.pread(offset, size if MIN_RECORD <= size <= MAX_RECORD else MIN_RECORD)
    if not data:
        raise click.ClickException(str(log.error(offset, END)))
    return data


class Record:
    """Split a record and the head of its entry into fields. ``rows`` has one row for each field that was read."""

    def __init__(self, data: bytes, offset: int, head: bytes) -> None:
        self.data, self.offset, self.pos = head + data, offset - len(head), 0
        self.head_size = len(head)
        self.magic = read_field(data, RECORD_HEAD, "magic")
        self.is_entry_blank = len(data) == BLANK_HEAD.itemsize and self.magic != MAGIC_BLANK
        self.is_blank = self.is_entry_blank or self.magic == MAGIC_BLANK
        self.rows: list[Row] = []

    def read(self, field: str, size: int) -> int:
        """Add a row for the next ``size`` bytes, and return them as a number. Raises EOFError if fewer are left."""
        if size < 0 or size > len(self.data) - self.pos:
            raise EOFError
        data = self.data[self.pos : self.pos + size]
        values = self.offset + self.pos, field, value_of(field, data), data.hex()
        self.rows.append(dict(zip(FIELDS, values, strict=True)))
        self.pos += size
        return int.from_bytes(data, "big", signed=True)

    def read_fields(self) -> None:
        """Add a row for each field. Raises EOFError if the record ends within a field."""
        if self.head_size:
            for name in ENTRY_HEAD.names or ():
                self.read(field_name(f"entry_{name}"), ENTRY_HEAD[name].itemsize)
        if self.is_entry_blank:
            self.read("magic", 4)
            self.read("size", 4)
            return
        is_record = self.magic in RECORD_MAGICS
        sys_flag = read_field(self.data, RECORD_HEAD, "sys_flag", self.head_size)
        head = record_head(sys_flag) if is_record else BLANK_HEAD
        for name in head.names or ():
            number = self.read(field_name(name), head[name].itemsize)
        if not is_record:
            return
        self.read("body", number)  # the head ends with the length of the body
        self.read("topic", self.read("topicLength", topic_length_size(self.magic)))
        end = self.read("propertiesLength", 2) + self.pos
        while self.pos < end:
            stop = self.data.find(b"\2", self.pos, end)
            self.read("property", (end if stop < 0 else stop + 1) - self.pos)


def field_name(name: str) -> str:
    """Return RocketMQ's name of a field of a record."""
    first, *words = name.split("_")
    return first + "".join(word.title() for word in words)


def value_of(field: str, data: bytes) -> str:
    """Return the value of a field as text."""
    if field in TEXTS:
        return data.removesuffix(b"\2").replace(b"\1", b"=", field == "property").decode(errors="replace")
    if field.endswith("Host"):
        address, port = ip_address(data[:-4]), int.from_bytes(data[-4:], "big")
        return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"
    number = int.from_bytes(data, "big", signed=True)
    if field == "magic":
        return MAGICS.get(number & 0xFFFFFFFF, "no record begins here")
    words = [str(number)]
    if field == "sysFlag":
        words += [name for bit, name in FLAGS.items() if number & bit]
        words += filter(None, [TRANSACTIONS.get(number & TRANSACTION_TYPE)])
    if field.endswith("Timestamp"):
        words += filter(None, [format_time(number)])
    return ", ".join(words)


def for_people(rows: Sequence[Row], most: int) -> list[Row]:
    """Return the rows of a table. Parameters: most: bytes of a field to show."""
    return [row | {"value": short_value(row, most), "hex": hex_text(row["hex"], most)} for row in rows]


def short_value(row: Row, most: int) -> str:
    """Return the begin of a value, and a time without its number of milliseconds."""
    number, _, time = row["value"].partition(", ")
    return str(time or number if row["field"].endswith("Timestamp") else row["value"][:most])


def hex_text(digits: str, most: int) -> str:
    more = len(digits) // 2 - most
    return bytes.fromhex(digits[: 2 * most]).hex(" ") + (f" and {more} more" if more > 0 else "")
