"""Convert messages that were read, or are rows of a table, into messages that can be put."""

from __future__ import annotations

from rocketstore.errors import PutMessageError
from rocketstore.kernels.message_slots import own_fields, set_fields
from rocketstore.messages.compression import BODY_ERRORS, COMPRESSED, body_error_text
from rocketstore.messages.message import Message

PUT_FIELDS = [
    "queue_id",
    "queue_offset",
    "flag",
    "sys_flag",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
]
PUT_FIELDS += ["reconsume_times", "prepared_transaction_offset", "born_timestamp_ms", "store_timestamp_ms"]


def to_put(message: Message) -> Message:
    """Return a message that can be put, from a message that has only some fields.

    The body keeps its stored form if this form is known. Otherwise it is not compressed. If ``properties`` lacks KEYS,
    TAGS or UNIQ_KEY, they are made from keys, tags and uniq_key. Missing fields are as in a new message.
    Raises: ValueError if fields contradict each other; AttributeError without topic or body; PutMessageError for a body
    that cannot be decoded.
    """
    given = own_fields(message)
    made = Message(message.topic, b"", properties=given.get("properties"))
    set_fields(made, {name.removesuffix("_ms"): given[name] for name in PUT_FIELDS if name in given})
    if "_stored" in given:
        made.raw_body, made.sys_flag, _ = given["_stored"]
    elif {"raw_body", "sys_flag"} <= given.keys():
        made.raw_body = given["raw_body"]
    else:
        made.raw_body = body_to_put(message)
        made.sys_flag &= ~COMPRESSED
    if keys := given.get("keys"):
        add_property(made.properties, "KEYS", " ".join(keys))
        if split_words(" ".join(keys)) != keys:
            raise ValueError(f"keys={keys!r}: a key must have no spaces")
    for name in ("tags", "uniq_key"):
        if value := given.get(name):
            add_property(made.properties, name.upper(), value)
    return made


def body_to_put(message: Message) -> bytes:
    """Return the body. Raises: PutMessageError if it cannot be decoded, since its stored form is unknown."""
    try:
        return message.body
    except BODY_ERRORS as error:
        hint = "read the columns raw_body and sys_flag too, to put its stored form"
        text = f"{message!r}: its body cannot be decoded: {body_error_text(error)}: {hint}"
        raise PutMessageError("MESSAGE_ILLEGAL", text) from None


def add_property(properties: dict[str, str], name: str, value: str) -> None:
    """Add a property if it is missing. Raises: ValueError if it has another value, apart from spaces."""
    there = properties.setdefault(name, value)
    if there != value and split_words(there) != split_words(value):
        raise ValueError(f"{name} is {there!r} in properties, but {value!r} in the column {name.lower()}")


def split_words(text: str) -> list[str]:
    return [word for word in text.split(" ") if word]
