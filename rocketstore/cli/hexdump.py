"""``rocketstore hexdump``: the bytes of one record, field by field."""

from collections.abc import Sequence
from ipaddress import ip_address

import click

from rocketstore.cli.formats import Row, finish, format_option, write_rows
from rocketstore.cli.options import store_argument, utc_text
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.commit_log import END
from rocketstore.kernels.layout import (
    BLANK_HEAD,
    BORN_HOST_V6,
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
from rocketstore.store.message_store import MessageStore

__all__ = ["hexdump"]

MAGICS = {MAGIC_V1: "a message, V1", MAGIC_V2: "a message, V2", MAGIC_BLANK: "blank to the end of the file"}
MAX_RECORD = 64 << 20  # bytes; of a record with a larger size only the first bytes are shown
FLAGS = {0x1: "compressed", BORN_HOST_V6: "born host V6", STORE_HOST_V6: "store host V6", 0x80: "inner batch"}
TRANSACTIONS = {TRANSACTION_PREPARED: "prepared", TRANSACTION_COMMIT: "commit", TRANSACTION_ROLLBACK: "rollback"}
TEXTS = ("body", "topic", "property", "rest")
FILE_NAME = 20  # digits of an offset, at most
SHOWN = 256  # bytes of a field in a table


@click.command()
@store_argument
@click.argument("where", metavar="OFFSET|ID")
@format_option
def hexdump(store: MessageStore, where: str, output_format: str | None) -> None:
    """Show the record of STORE at a physical offset, or with an offset message id, field by field.

    A damaged record is shown as far as it goes; the exit status is then 1. A table has the first 256 bytes of a field.
    """
    try:
        offset = int(where) if where.isdecimal() and len(where) <= FILE_NAME else phy_offset_of(where)
    except ValueError as error:
        raise click.UsageError(f"{error}, or a physical offset") from error
    log = store.commit_log
    log.ending.rule = None  # show bytes behind the end of the log too
    record = Record(record_bytes(log, offset), offset)
    try:
        record.take_all()
    except EOFError:
        record.take("rest", len(record.data) - record.pos)
    write_rows([record.rows], output_format, for_people)
    if record.magic != MAGIC_BLANK:
        try:
            log.get_messages([offset], columns=["phy_offset"], verify_crc=True)
        except (CorruptFileError, IndexError) as error:
            finish([error])


def record_bytes(log: CommitLog, offset: int) -> bytes:
    """Read a record by its own size, or a little where that cannot be."""
    size = read_field(log.queue.pread(offset, 4), RECORD_HEAD, "size")
    data = log.queue.pread(offset, size if MIN_RECORD <= size <= MAX_RECORD else MIN_RECORD)
    if not data:
        raise click.ClickException(str(log.error(offset, END)))
    return data


class Record:
    """The fields of a record, one after the other, as rows."""

    def __init__(self, data: bytes, offset: int) -> None:
        self.data, self.offset, self.pos = data, offset, 0
        self.magic = read_field(data, RECORD_HEAD, "magic")
        self.rows: list[Row] = []

    def take(self, field: str, size: int) -> int:
        """Take a field; give it as a number. Raises EOFError where the bytes end before it does."""
        if size < 0 or size > len(self.data) - self.pos:
            raise EOFError
        data = self.data[self.pos : self.pos + size]
        row = {"phyOffset": self.offset + self.pos, "field": field, "value": value_of(field, data), "hex": data.hex()}
        self.rows.append(row)
        self.pos += size
        return int.from_bytes(data, "big", signed=True)

    def take_all(self) -> None:
        is_record = self.magic in RECORD_MAGICS
        head = record_head(read_field(self.data, RECORD_HEAD, "sys_flag")) if is_record else BLANK_HEAD
        for name in head.names or ():
            number = self.take(field_name(name), head[name].itemsize)
        if not is_record:
            return
        self.take("body", number)  # the head ends with the length of the body
        self.take("topic", self.take("topicLength", topic_length_size(self.magic)))
        end = self.take("propertiesLength", 2) + self.pos
        while self.pos < end:
            stop = self.data.find(b"\2", self.pos, end)
            self.take("property", (end if stop < 0 else stop + 1) - self.pos)


def field_name(name: str) -> str:
    """Return RocketMQ's name of a field of a record."""
    first, *words = name.split("_")
    return first + "".join(word.title() for word in words)


def value_of(field: str, data: bytes) -> str:
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
        words += filter(None, [utc_text(number)])
    return ", ".join(words)


def for_people(rows: Sequence[Row]) -> list[Row]:
    return [row | {"value": row["value"][:SHOWN], "hex": hex_text(row["hex"])} for row in rows]


def hex_text(digits: str) -> str:
    more = len(digits) // 2 - SHOWN
    return bytes.fromhex(digits[: 2 * SHOWN]).hex(" ") + (f" and {more} more" if more > 0 else "")
