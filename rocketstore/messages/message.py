"""Message: one message, to be put or as it was read."""

from __future__ import annotations

import operator
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self

from rocketstore.errors import CorruptFileError, PutMessageError
from rocketstore.kernels.csrc import parse_java_number
from rocketstore.kernels.layout import DAMAGED_FLAG, INNER_MESSAGE_HEAD, PROPERTIES_LENGTH, struct_of
from rocketstore.kernels.message_columns import BATCH_NAMES, BROKER, MESSAGE_FIELDS, TEXTS_OF_BODY, message_fields
from rocketstore.kernels.message_slots import SLOTS, MessageSlots, has_fields, own_field, own_fields, set_fields
from rocketstore.kernels.new_message import make_properties, take_calls
from rocketstore.kernels.record import decode_properties
from rocketstore.kernels.text import java_bytes
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.messages.body_text import UTF8, decode_body, json_or_none
from rocketstore.messages.compression import (
    BODY_ERRORS,
    COMPRESSED,
    COMPRESSION,
    BodyError,
    body_error_text,
    decompress,
)
from rocketstore.messages.compression import compress as compress_body
from rocketstore.messages.message_id import make_msg_id
from rocketstore.messages.message_keys import MessageKeys
from rocketstore.messages.system_flags import INNER_BATCH, NEEDS_UNWRAP
from rocketstore.names_of_other_tools import describe_line
from rocketstore.preview import Preview
from rocketstore.text_values import Time, datetime_or_none, epoch_ms, utc

MAX_PROPERTIES = MAX_BATCH = 32767
INNER_MESSAGE = struct_of(INNER_MESSAGE_HEAD)
PROPERTIES_HEAD = struct_of(PROPERTIES_LENGTH)
SHOWN_BYTES = 200
SHOWN_TEXT = 4 * SHOWN_BYTES + 1  # characters: those of bytes as \xff, and an ellipsis
BODY_SOURCES = {"raw_body", "_stored", "_body_error"}  # each of these gives the body, or why it cannot be decoded
MADE_OF_PROPERTIES = ("keys", "tags", "uniq_key", "tags_code")
NOT_OF_INNER = {*MADE_OF_PROPERTIES, *TEXTS_OF_BODY}  # fields that an inner message makes of its own ones


class Message(MessageSlots):
    """A message, to be put or as it was read. A message that was read has the fields that were requested.

    Attributes: topic; queue_id; queue_offset, its ordinal in the queue; phy_offset, bytes; size of its record, bytes;
    flag; sys_flag; born_timestamp, store_timestamp, epoch ms; born_host, store_host, "address:port"; reconsume_times;
    prepared_transaction_offset; body_crc; raw_body, as stored; body, decompressed; body_text, the body as text, None if
    it is not UTF-8; body_json, that text, None if it is no JSON; body_error, why the body cannot be decoded, or None;
    properties, a dict in the order of the record; keys, a list; tags; uniq_key; msg_id; damaged, whether ``patch`` put
    the record in place of a lost one. broker, the name of the store, if it was read from several stores.
    Source: MessageExt, MessageDecoder.decode.

    Examples:
    >>> message = Message("Orders", b"first", keys=["order-1"], tags="paid")
    >>> message.topic, message.keys, message.tags, message.body
    ('Orders', ['order-1'], 'paid', b'first')
    """

    broker: str
    topic: str
    raw_body: bytes
    properties: dict[str, str]
    queue_id: int
    queue_offset: int
    phy_offset: int
    size: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    body_crc: int
    msg_id: str
    tags: str | None
    uniq_key: str | None
    body: bytes
    body_text: str | None
    body_json: str | None
    body_error: str | None
    tags_code: int
    damaged: bool
    born_timestamp_ms: int
    store_timestamp_ms: int
    delay_time_level: int
    _stored: tuple[bytes, int, int]  # the body as it was stored, system flags, physical offset
    _body_error: BodyError

    def __init__(
        self,
        topic: str,
        body: bytes | str,
        *,
        keys: str | Iterable[str] = (),
        tags: str | None = None,
        uniq_key: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp: Time | None = None,
        born_host: str = "127.0.0.1:0",
        store_timestamp: Time | None = None,
        delay_time_level: int = 0,
        compress: Literal["zlib", "lz4", "zstd"] | None = None,
    ) -> None:
        """Make a message to be put.

        Parameters: body: bytes, or text, which becomes UTF-8. keys: one key or several; a key has no spaces, which
        separate the keys in a record. keys, tags, uniq_key, delay_time_level: become properties. queue_id: None takes
        the topic's queues in turn; for one beyond these see ``MessageStore.put_message``. born_timestamp: epoch ms, a
        datetime, a date or an ISO 8601 text; None for now. store_timestamp: the same, for a put with
        store_timestamp="given"; other puts set their own time. compress: "zlib", "lz4" or "zstd" compresses the body.
        Raises: ValueError for another compression, a key with a space, or a text that has no UTF-8; TypeError for a
        delay time level that is no integer; ModuleNotFoundError naming a compression's package. Other wrong values are
        refused when the message is put. Source: Message.
        """
        # A call with arguments that need no conversion does not come here: see ``kernels.new_message``.
        if isinstance(body, str):
            body = utf8(body, "body")
        words = [keys] if isinstance(keys, str) else list(keys)
        delay = str(int(operator.index(delay_time_level))) if delay_time_level else None
        self.topic = topic
        self.raw_body = body
        self.properties = make_properties(dict(properties or {}), words, tags, uniq_key, delay)
        self.queue_id = queue_id  # type: ignore[assignment]  # None until a put
        self.flag = flag
        self.sys_flag = sys_flag
        if compress is not None:
            self.raw_body, how = compress_body(body, compress)
            self.sys_flag = sys_flag & ~COMPRESSION | how
        if born_timestamp is None:
            self.born_timestamp = time.time_ns() // 1_000_000
        else:
            self.born_timestamp = epoch_ms(born_timestamp, "born_timestamp")
        self.born_host = born_host
        if store_timestamp is not None:
            self.store_timestamp = epoch_ms(store_timestamp, "store_timestamp")

    @classmethod
    def batch(cls, topic: str, messages: Iterable[Message], **fields: Any) -> Self:
        """Make an inner batch: one message that contains several, for a topic whose queue.type is BatchCQ.

        Parameters: fields: as for a message. Raises: ValueError, TypeError for a message that cannot be in a batch.
        Source: MessageBatch.encode, SendMessageProcessor.sendBatchMessage.
        """
        items = list(messages)
        if not 1 <= len(items) <= MAX_BATCH:
            raise ValueError(f"a batch of {len(items)} messages: 1 to {MAX_BATCH} are possible")
        made = cls(topic, b"".join(map(encode_message, items)), **fields)
        made.sys_flag |= INNER_BATCH | NEEDS_UNWRAP
        made.properties["INNER_NUM"] = str(len(items))
        return made

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> Self:
        """Make a message that was read. Parameters: fields: values by the names of fields."""
        self = cls.__new__(cls)
        set_fields(self, fields)
        return self

    def _find_field(self, name: str) -> Any:
        """Return a field that is computed from other fields. Raises: AttributeError without these; CorruptFileError."""
        if name in ("keys", "tags", "uniq_key") and has_fields(self, "properties"):
            value = self.properties.get(name.upper())
            return [word for word in (value or "").split(" ") if word] if name == "keys" else value
        if name == "damaged" and has_fields(self, "flag"):
            return bool(self.flag == DAMAGED_FLAG)
        if name == "delay_time_level":
            return number_property(self, "DELAY", INT_MAX) if "DELAY" in self.properties else 0
        if name in SLOTS and has_fields(self, name):
            return own_field(self, name)  # ``__dict__`` has moved it out of its slot
        if name == "body" and not BODY_SOURCES.isdisjoint(own_fields(self)):
            self.body = self._decompressed()
            return self.body
        if name in TEXTS_OF_BODY and (has_fields(self, "body") or not BODY_SOURCES.isdisjoint(own_fields(self))):
            text = decode_body(self.body, UTF8) if self.find_body_error() is None else None
            return text if name == "body_text" else json_or_none(text)
        if name == "body_error" and (has_fields(self, "body") or not BODY_SOURCES.isdisjoint(own_fields(self))):
            error = self.find_body_error()
            return None if error is None else body_error_text(error)
        if name == "raw_body" and has_fields(self, "_stored"):
            return self._stored[0]
        if name == "msg_id" and has_fields(self, "store_host", "phy_offset"):
            return make_msg_id(self.store_host, self.phy_offset)
        why = "it is not among the columns that were read"
        if name not in MESSAGE_FIELDS:
            hint = "" if name.startswith("_") else describe_line("message", name, [*MESSAGE_FIELDS])
            why = f"there is no such field{hint}"
        raise AttributeError(f"message.{name}: {why}", name=name, obj=self)

    if not TYPE_CHECKING:  # a type checker knows the declared fields alone
        __getattr__ = _find_field

    def _decompressed(self) -> bytes:
        fields = own_fields(self)
        if "_body_error" in fields:
            raise fields["_body_error"].with_traceback(None)
        return decompress(*fields.get("_stored") or (self.raw_body, self.sys_flag, fields.get("phy_offset", 0)))

    def find_body_error(self) -> BodyError | None:
        """Return why the body cannot be decoded, None if it can. Raises: AttributeError if it was not read."""
        try:
            _ = self.body
        except BODY_ERRORS as error:
            return error
        return None

    def decode_batch(self) -> list[Message]:
        """Return the messages in the body of an inner batch, each with its own queue offset.

        Raises: CorruptFileError if the body is no batch. Source: MessageDecoder.decodeMessages.
        """
        base, _ = find_inner_batch(self)
        messages: list[Message] = []
        for flag, body, properties in inner_messages(self.body, self.phy_offset):
            fields = {name: value for name, value in own_fields(self).items() if name not in NOT_OF_INNER}
            fields |= {"flag": flag, "raw_body": body, "body": body, "properties": properties}
            fields |= {"queue_offset": base + len(messages), "sys_flag": self.sys_flag & ~COMPRESSED}
            messages.append(Message.of_fields(fields))
        return messages

    @property
    def keys(self) -> list[str]:
        """The keys: the words of the property KEYS. None if a redaction removed them."""
        keys: Any = own_field(self, "keys") if has_fields(self, "keys") else self._find_field("keys")
        if keys is not None:
            keys = MessageKeys(keys, self.to_dict)
        shown: list[str] = keys
        return shown

    @keys.setter
    def keys(self, keys: list[str]) -> None:
        set_fields(self, {"keys": keys})

    def __getitem__(self, name: str) -> Any:
        """Return a field by its name in tables, such as queueId, or in Python. Raises: KeyError if it was not read.

        A body that cannot be decoded is None, as in ``to_dict``.
        """
        try:
            return getattr(self, BATCH_NAMES.get(name, name))
        except BODY_ERRORS as error:
            return body_error_text(error) if name == MESSAGE_FIELDS["body_error"].name else None
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields that were read, as ``to_dict``, by name."""
        return iter(self.to_dict().items())

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that were read as a dict, with the names and the order of tables.

        ``dict(message)`` is the same. A body that cannot be decoded is None, and "bodyError" has the reason. ``broker``
        is the first, if it is known.
        """
        broker = own_field(self, BROKER)
        return self._read_fields() if broker is None else {BROKER: broker, **self._read_fields()}

    def _read_fields(self) -> dict[str, Any]:
        present: dict[str, Any] = {}
        for name, field in message_fields().items():
            try:
                present[field.name] = getattr(self, name)
            except AttributeError:
                continue
            except BODY_ERRORS as error:
                present |= {field.name: None, MESSAGE_FIELDS["body_error"].name: body_error_text(error)}
        return present

    @property
    def store_time(self) -> datetime | None:
        """``store_timestamp`` as a datetime in UTC; None for a time beyond the years 1 to 9999."""
        return datetime_or_none(self.store_timestamp)

    @property
    def born_time(self) -> datetime | None:
        """``born_timestamp`` as a datetime in UTC; None for a time beyond the years 1 to 9999."""
        return datetime_or_none(self.born_timestamp)

    def __eq__(self, other: object) -> bool:
        """Return whether all fields of the record are equal. A new message has its own born_timestamp."""
        return self._read_fields() == other._read_fields() if isinstance(other, Message) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # the fields of a message may change

    def __repr__(self) -> str:
        place = f", queue {self.queue_id} at {self.queue_offset}" if has_fields(self, "queue_offset") else ""
        raw_body = own_field(self, "raw_body")
        body = f", {len(raw_body):,} bytes" if isinstance(raw_body, bytes) else ""
        return f"<Message {own_field(self, 'topic')!r}{place}{body}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, str]] = []
        for name, field in message_fields().items():
            try:
                value = getattr(self, name)
            except AttributeError:
                continue
            except BODY_ERRORS as error:
                value = str(error)
            if name.endswith("_timestamp"):
                value = utc(value)
            elif isinstance(value, bytes):
                value = repr(value[:SHOWN_BYTES])[2:-1] + ("…" if len(value) > SHOWN_BYTES else "")
            rows.append((field.name, str(value)))
        return Preview(repr(self)[1:-1], ("field", "value"), rows, width=SHOWN_TEXT).html()


take_calls(Message)


def utf8(text: str, field: str) -> bytes:
    """Return a text as UTF-8. Raises: ValueError that names the field, for half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{field}={text!r:.80}: the character at {error.start} has no UTF-8: give bytes") from None


def number_property(message: Message, name: str, most: int) -> int:
    """Return a property as a number, by the rules of Java.

    Parameters: most: the largest value. Raises: CorruptFileError if the property is no such number; ValueError instead
    if the message was not read from a log.
    """
    text = message.properties[name]
    number = parse_java_number(text, -most - 1, most)
    if number is None:
        why = f"{text!r:.80} is no number"
        if not has_fields(message, "phy_offset"):
            raise ValueError(f"{message!r}: {name}: {why}")
        raise CorruptFileError("commit log", message.phy_offset, name, why)
    return number


def find_inner_batch(message: Message) -> tuple[int, int]:
    """Return the queue offset of the first message in an inner batch, and the number of messages in it.

    A message without INNER_BASE or without INNER_NUM counts as one message at its own queue offset.
    Raises: CorruptFileError, ValueError as ``number_property``. Source: CommitLog.checkMessageAndReturnSize.
    """
    if "INNER_BASE" not in message.properties or "INNER_NUM" not in message.properties:
        return message.queue_offset, 1
    return number_property(message, "INNER_BASE", LONG_MAX), number_property(message, "INNER_NUM", MAX_BATCH)


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message in the body of a batch. They have no system flags, so no body is compressed.

    Raises: ValueError, TypeError. Source: MessageDecoder.encodeMessage.
    """
    if not isinstance(message, Message):
        raise TypeError(f"{message!r:.80}: a Message was expected")
    text = "".join(f"{name}\x01{value}\x02" for name, value in message.properties.items() if value is not None)
    properties = java_bytes(text)
    try:
        body = own_field(message, "body") if has_fields(message, "body") else message._decompressed()
    except BODY_ERRORS as error:
        raise PutMessageError("MESSAGE_ILLEGAL", f"{message!r}: its body: {body_error_text(error)}") from None
    size = INNER_MESSAGE.size + len(body) + PROPERTIES_HEAD.size + len(properties)
    if len(properties) > MAX_PROPERTIES:
        raise ValueError(f"{len(properties)} bytes of properties: {MAX_PROPERTIES} are the most")
    try:
        head = INNER_MESSAGE.pack(size, 0, 0, message.flag, len(body))
    except struct.error as error:
        raise ValueError(f"{message!r}: flag={message.flag!r} or its {len(body)} bytes: {error}") from None
    return head + body + PROPERTIES_HEAD.pack(len(properties)) + properties


def inner_messages(body: bytes, phy_offset: int) -> Iterator[tuple[int, bytes, dict[str, str]]]:
    """Yield (flag, body, properties) of each message in a batch. Source: MessageDecoder.decodeMessage."""
    pos = 0
    while pos < len(body):
        reason = f"no message of a batch is at byte {pos}"
        if len(body) - pos < INNER_MESSAGE.size + PROPERTIES_HEAD.size:
            raise CorruptFileError("commit log", phy_offset, "body", reason)
        size, _, _, flag, length = INNER_MESSAGE.unpack_from(body, pos)
        start = pos + INNER_MESSAGE.size
        if length < 0 or length > len(body) - start - PROPERTIES_HEAD.size:
            raise CorruptFileError("commit log", phy_offset, "body", reason)
        (properties_length,) = PROPERTIES_HEAD.unpack_from(body, start + length)
        end = start + length + PROPERTIES_HEAD.size + properties_length
        if properties_length < 0 or end > len(body) or size != end - pos:
            raise CorruptFileError("commit log", phy_offset, "body", reason)
        yield flag, body[start : start + length], decode_properties(body[end - properties_length : end])
        pos = end
