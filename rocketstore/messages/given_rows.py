"""Rows that a caller gives to be put: dicts in place of messages, and a store time for each message."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from rocketstore.kernels.columns import require_int64
from rocketstore.kernels.message_columns import MESSAGE_FIELDS
from rocketstore.kernels.message_slots import own_fields
from rocketstore.messages.arguments import text_list
from rocketstore.messages.message import Message, utf8
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.put_rules import GivenTime, StoreTimestamp, put_time, require_message
from rocketstore.messages.to_put import add_property, to_put
from rocketstore.text_values import Time, epoch_ms, find_similar, snake_case

KNOWN = {*MESSAGE_FIELDS, "broker", "delay_time_level"}  # keys of a dict, in snake_case
TIMES = ("born_timestamp", "store_timestamp")
TEXTS = ("topic", "tags")
BODIES = ("body", "raw_body")
INTEGERS = ("queue_id", "flag", "sys_flag", "reconsume_times")


def require_several(messages: object) -> None:
    """Raise TypeError for one message, or one dict, in place of several."""
    if isinstance(messages, Message | Mapping):
        raise TypeError(f"{messages!r:.80}: messages were expected, such as a list; a dict is one message of it")


def with_messages(part: Sequence[Any] | MessageBatch, first_row: int) -> Sequence[Message] | MessageBatch:
    """Return messages to put, with a message in place of each dict. A list that begins with no dict is unchanged.

    Parameters: first_row: the number of the first row, for errors. Raises: as ``message_of_row``, with the number of
    the row.
    """
    # Hot path: a list of messages is not searched for dicts. The put refuses a dict among messages.
    if isinstance(part, MessageBatch) or not part or not isinstance(part[0], Mapping):
        return part
    messages = []
    for number, row in enumerate(part, first_row):
        try:
            messages.append(message_of_row(row) if isinstance(row, Mapping) else row)
        except (ValueError, TypeError) as error:
            raise type(error)(f"row {number}: {error}") from None
    return messages


def message_of_row(row: Mapping[str, Any]) -> Message:
    """Make a message of a dict, whose keys are columns of tables, such as queueId, or fields of Message.

    A value None is a missing value. body may be text, keys one key. Columns that a put decides, such as phyOffset, are
    ignored.
    Raises: TypeError for an unknown key, or without topic or body; ValueError for values that cannot be put.
    """
    given = {name: value for name, value in row.items() if value is not None}
    fields = {snake_case(str(name)): value for name, value in given.items()}
    if len(fields) < len(given):
        require_once(given)
    for name in fields:
        if name not in KNOWN:
            similar = find_similar(name, KNOWN)
            raise TypeError(f"there is no column {name!r}" + (f": did you mean {similar!r}?" if similar else ""))
    if "topic" not in fields or not {"body", "raw_body"} & fields.keys():
        raise TypeError(f"a message needs topic and body, and this one has {', '.join(fields) or 'no column'}")
    if "body" not in fields and "sys_flag" not in fields:
        raise TypeError("raw_body needs sys_flag, which tells how it is compressed; give body if it is not")
    if isinstance(fields.get("body"), str):
        fields["body"] = utf8(fields["body"], "body")
    if isinstance(fields.get("keys"), str):
        fields["keys"] = fields["keys"].split()
    fields["properties"] = dict(fields.get("properties", {}))
    require_types(fields)
    fields |= {name: bytes(fields[name]) for name in BODIES if name in fields}
    fields |= {name: epoch_ms(fields[name], name) for name in TIMES if name in fields}
    level = operator.index(fields.pop("delay_time_level", 0))
    message = to_put(Message.of_fields(fields))
    if level:
        add_property(message.properties, "DELAY", str(level))
    return message


def require_once(row: Mapping[Any, Any]) -> None:
    """Raise TypeError if two keys of a dict are names of the same column, such as queueId and queue_id."""
    names: dict[str, Any] = {}
    for name in row:
        if (first := names.setdefault(snake_case(str(name)), name)) != name:
            raise TypeError(f"{first!r} and {name!r} are the same column: give one of them")


def require_types(fields: Mapping[str, Any]) -> None:
    """Raise TypeError, with the name of the column, for a value of another type than that of a message."""
    texts = {name: fields[name] for name in TEXTS if name in fields}
    texts |= {f"properties[{name!r}]": value for name, value in fields["properties"].items()}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise TypeError(f"{name}={value!r:.80}: a str was expected")
    text_list(fields.get("keys"), "keys")
    require_int64(**{name: fields[name] for name in INTEGERS if name in fields})
    if not isinstance(body := fields.get("body", b""), bytes | bytearray | memoryview):
        raise TypeError(f"body={body!r:.80}: bytes or a str were expected, such as json.dumps(body)")
    if not isinstance(raw_body := fields.get("raw_body", b""), bytes | bytearray | memoryview):
        raise TypeError(f"raw_body={raw_body!r:.80}: bytes were expected")


def put_times(store_timestamp: GivenTime | Iterable[Time]) -> StoreTimestamp | list[int]:
    """Return the store time of a put as ``put_time`` does, or a list of epoch ms for several times."""
    if isinstance(store_timestamp, str | date) or not isinstance(store_timestamp, Iterable):
        return put_time(store_timestamp)
    return [epoch_ms(time, f"store_timestamp[{row}]") for row, time in enumerate(store_timestamp)]


def with_times(messages: Sequence[Message] | MessageBatch, times: Sequence[int]) -> list[Message]:
    """Return copies of messages with these store times, epoch ms, and with the store host of the store that gets them.

    Raises: TypeError for another object than a message.
    """
    given = messages.to_put() if isinstance(messages, MessageBatch) else map(require_message, messages)
    copies = []
    for message, time in zip(given, times, strict=True):
        fields = {name: value for name, value in own_fields(message).items() if name != "store_host"}
        copies.append(Message.of_fields(fields | {"store_timestamp": time}))
    return copies
