"""Rules that a message must meet before a put, and the errors for a message that breaks them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from rocketstore.errors import PutMessageError
from rocketstore.kernels.csrc import parse_java_number
from rocketstore.kernels.message_slots import has_fields, own_field
from rocketstore.kernels.value_columns import values_of
from rocketstore.messages.message import MAX_BATCH, Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.system_flags import INNER_BATCH
from rocketstore.messages.to_put import to_put
from rocketstore.messages.topics import is_file_name
from rocketstore.text_values import Time, epoch_ms

StoreTimestamp = int | str | None  # epoch ms; "given": the messages' own; None: now
GivenTime = Time | None  # as a caller gives a StoreTimestamp


def check_queue(topic: str, queue_id: int) -> None:
    """Raise PutMessageError if messages cannot be put into a queue."""
    if not is_file_name(topic) or has_surrogate(topic):
        raise illegal(f"topic {topic!r:.80} cannot be the name of a directory, which its queues need")
    if queue_id < 0:
        raise illegal(f"queue_id={queue_id} must not be negative")


def has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def message_num(message: Message) -> int:
    """Return the number of messages in a message: INNER_NUM of an inner batch, 1 of any other.

    Raises: PutMessageError for an invalid INNER_NUM. Source: DefaultMessageStore.getMessageNum.
    """
    text = message.properties.get("INNER_NUM")
    if text is None:  # a property that is None is not stored either
        return 1
    if not message.sys_flag & INNER_BATCH:
        raise illegal("INNER_NUM without the flag of inner batches")
    number = parse_java_number(text, -MAX_BATCH - 1, MAX_BATCH)
    if number is None or number < 1:
        raise illegal(f"INNER_NUM={text!r:.80} must be 1 to {MAX_BATCH}")
    return number


def is_incomplete(message: Message) -> bool:
    """Return whether a put completes the message's properties: an inner batch, or a message for light queues.

    A message with properties of a wrong type is refused when it is encoded.

    Raises: as ``to_put``; TypeError for another object.
    """
    message = with_flags_and_properties(require_message(message))
    properties = message.properties if isinstance(message.properties, dict) else {}
    return (
        bool(message.sys_flag & INNER_BATCH)
        or properties.get("INNER_NUM") is not None
        or properties.get("INNER_MULTI_DISPATCH") is not None
    )


def with_flags_and_properties(message: Message) -> Message:
    """Return the message, or if it was read without system flags or properties, a message that has them."""
    return message if has_fields(message, "sys_flag", "properties") else to_put(message)


def put_time(store_timestamp: GivenTime) -> StoreTimestamp:
    """Return the store time of a put as epoch ms, "given" or None. Raises: TypeError, ValueError for no time."""
    if store_timestamp is None or store_timestamp == "given":
        return None if store_timestamp is None else "given"
    return epoch_ms(store_timestamp, "store_timestamp")


def require_time(messages: Sequence[Message] | MessageBatch, store_timestamp: int | str) -> None:
    """Raise unless a store time is epoch ms, or "given" and every message has a store time."""
    if not isinstance(store_timestamp, str):
        if not -(2**63) <= operator.index(store_timestamp) < 2**63:
            raise ValueError(f"store_timestamp={store_timestamp}: must be epoch ms, a long")
    elif store_timestamp != "given":
        raise ValueError(f"store_timestamp={store_timestamp!r}: must be epoch ms, None or 'given'")
    elif None in field_of_all("store_timestamp", messages):
        raise ValueError("store_timestamp='given': a message has none")


def field_of_all(name: str, messages: Sequence[Message] | MessageBatch) -> list[Any]:
    """Return a field of each message, None for a message without it."""
    if not isinstance(messages, MessageBatch):
        return [own_field(message, name) for message in messages]
    column = messages.stored_columns().get(name)
    return [None] * len(messages) if column is None else values_of(column, 0, len(messages))


def require_message(message: Message) -> Message:
    """Return the message. Raises: TypeError for any other object."""
    if not isinstance(message, Message):
        raise TypeError(f"{message!r:.80}: a Message was expected")
    return message


def illegal(reason: str) -> PutMessageError:
    return PutMessageError("MESSAGE_ILLEGAL", f"the message is refused: {reason}")
