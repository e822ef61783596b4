"""RecordMaker: encodes the records that stand in place of lost ones, each with a size that is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from rocketstore.config import StoreConfig
from rocketstore.errors import PutMessageError
from rocketstore.kernels.appender import Appender
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.layout import BLANK_HEAD
from rocketstore.limits import INT_MAX
from rocketstore.log.encoding import encoder_of
from rocketstore.messages.damaged import DAMAGED_FLAG
from rocketstore.messages.message import Message, encode_message
from rocketstore.messages.system_flags import INNER_BATCH, NEEDS_UNWRAP, TRANSACTION_ROLLBACK

BLANK_BYTE = b" "
NO_HOST = "0.0.0.0:0"  # nobody knows the producer


class Neighbour(NamedTuple):
    """What a new record has from the sound record before it: store time, epoch ms, and store host, "address:port"."""

    store_timestamp: int
    store_host: str

    @classmethod
    def of(cls, message: Message) -> Neighbour:
        return cls(message.store_timestamp, message.store_host)


@dataclass(frozen=True)
class NewRecord:
    """A record that stands in place of a lost one, or of bytes of which nothing is known.

    Attributes: phy_offset, size: its place, bytes. body_size: the number of blanks in its body. is_filler: no queue
    gets a unit of it: it is marked as the end of a transaction that was rolled back.
    """

    phy_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    properties: Mapping[str, str]
    body_size: int
    neighbour: Neighbour
    is_filler: bool
    messages: int = 0

    @property
    def end(self) -> int:
        return self.phy_offset + self.size


class RecordMaker:
    """Encodes new records as a store's writer does."""

    def __init__(
        self,
        config: StoreConfig,
        file_size: int,
        *,
        append_prop_crc: bool,
        body_byte: bytes = BLANK_BYTE,
        flag: int = DAMAGED_FLAG,
    ) -> None:
        """Make the encoder.

        Parameters: file_size: of the log's files, bytes. append_prop_crc: end each record in the property of its CRC,
        as the records of the store do. body_byte: of which bodies consist. flag: of the records.
        """
        self._body_byte, self._flag = body_byte, flag
        any_size = replace(
            config,
            max_message_size=INT_MAX,
            enabled_append_prop_crc=append_prop_crc,
            mapped_file_size_commit_log=file_size,
        )
        self._encoder = encoder_of(any_size, lambda topic: 0)

    def measure(
        self, topic: str, properties: Mapping[str, str], neighbour: Neighbour, *, messages: int = 0
    ) -> int | None:
        """Return the size of a record with the smallest body, bytes; None if no record can have these values.

        Parameters: messages: how many an inner batch has; 0 for an ordinary record.
        """
        new = NewRecord(0, 0, topic, 0, 0, properties, 0, neighbour, is_filler=False, messages=messages)
        try:
            self._encoder.clear()
            self._encoder.add(self._message_of(new), keeps_store=True)
        except PutMessageError:
            return None
        return self._encoder.size

    def make(self, new: NewRecord) -> bytes:
        """Return the bytes of a new record."""
        data = bytearray(new.size + BLANK_HEAD.itemsize)  # an appender leaves room for a blank
        with Buffer(data, writable=True) as buffer:
            appender = Appender()
            appender.set_queue_offset(new.topic, new.queue_id, new.queue_offset)
            appender.set_file(buffer, new.phy_offset, 0)
            appender.append_message(self._encoder, self._message_of(new), None, None, is_completed=True)
        if int.from_bytes(data[:4], "big") != new.size:
            raise AssertionError(f"{new}: was encoded with {int.from_bytes(data[:4], 'big')} bytes")
        return bytes(data[: new.size])

    def _message_of(self, new: NewRecord) -> Message:
        flags = TRANSACTION_ROLLBACK if new.is_filler else INNER_BATCH | NEEDS_UNWRAP if new.messages else 0
        message = Message(
            new.topic,
            self._inner_bodies(new) if new.messages else self._body_byte * new.body_size,
            queue_id=new.queue_id,
            properties=new.properties,
            flag=self._flag,
            sys_flag=flags,
            born_timestamp=new.neighbour.store_timestamp,
            born_host=NO_HOST,
        )
        message.store_timestamp = new.neighbour.store_timestamp
        message.store_host = new.neighbour.store_host
        return message

    def _inner_bodies(self, new: NewRecord) -> bytes:
        """Return the messages of an inner batch. All but the last one have empty bodies."""
        empty = Message(new.topic, b"", flag=self._flag)
        last = Message(new.topic, self._body_byte * new.body_size, flag=self._flag)
        return encode_message(empty) * (new.messages - 1) + encode_message(last)
