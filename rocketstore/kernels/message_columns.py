"""The columns of a batch of messages, and how tables show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Field(NamedTuple):
    """A column of a table. Its schema says nullable in any case, as Spark's do."""

    name: str
    format: str  # the Arrow C data interface's; +l is of strings, +m from strings to strings
    nullable: bool = False  # whether a row may have no value


# In the order of the tables. A time that Python and Spark cannot represent is null.
# The same time in milliseconds is never null.
# A body that cannot be decoded is null, and body_error says why; raw_body never is.
# body_text is null if the body is no text of the charset, body_json if that text is no JSON.
MESSAGE_FIELDS = {
    "topic": Field("topic", "u"),
    "queue_id": Field("queueId", "i"),
    "queue_offset": Field("queueOffset", "l"),
    "phy_offset": Field("phyOffset", "l"),
    "size": Field("size", "i"),
    "flag": Field("flag", "i"),
    "sys_flag": Field("sysFlag", "i"),
    "born_timestamp": Field("bornTimestamp", "tsm:UTC", nullable=True),
    "born_host": Field("bornHost", "u"),
    "store_timestamp": Field("storeTimestamp", "tsm:UTC", nullable=True),
    "store_host": Field("storeHost", "u"),
    "reconsume_times": Field("reconsumeTimes", "i"),
    "prepared_transaction_offset": Field("preparedTransactionOffset", "l"),
    "body_crc": Field("bodyCrc", "i"),
    "msg_id": Field("msgId", "u"),
    "tags": Field("tags", "u", nullable=True),
    "keys": Field("keys", "+l"),
    "uniq_key": Field("uniqKey", "u", nullable=True),
    "properties": Field("properties", "+m"),
    "body": Field("body", "z", nullable=True),
    "body_text": Field("body_text", "u", nullable=True),
    "body_json": Field("body_json", "u", nullable=True),
    "body_error": Field("bodyError", "u", nullable=True),
    "raw_body": Field("rawBody", "z"),
    "tags_code": Field("tagsCode", "l"),
    "born_timestamp_ms": Field("bornTimestampMs", "l"),
    "store_timestamp_ms": Field("storeTimestampMs", "l"),
    "damaged": Field("damaged", "b"),
}
BATCH_NAMES = {field.name: name for name, field in MESSAGE_FIELDS.items()}
BY_ANY_NAME = {known.lower(): name for name, field in MESSAGE_FIELDS.items() for known in (name, field.name)}
# The column that messages of several stores have too: the name of the store. Its name is the same in batch and table.
BROKER = "broker"
BROKER_FIELD = Field(BROKER, "u")
TEXTS_OF_BODY = ("body_text", "body_json")
ON_REQUEST = {
    *TEXTS_OF_BODY,
    "body_error",
    "raw_body",
    "tags_code",
    "born_timestamp_ms",
    "store_timestamp_ms",
    "damaged",
}


def lazy_fields(columns: str | Iterable[str] | None = None) -> dict[str, Field]:
    """Return the fields of a table whose queries name their columns, so that the others cost nothing.

    Parameters: columns: as for ``message_fields``; None: also the texts of bodies.
    """
    return message_fields([*message_fields(), *TEXTS_OF_BODY] if columns is None else columns)


def message_fields(columns: str | Iterable[str] | None = None) -> dict[str, Field]:
    """Return the fields of a table of messages by their names in a batch, in the requested order.

    Parameters: columns: one name or several, in a batch (``phy_offset``) or in a table (``phyOffset``); None: all but
    those that must be requested.
    Raises: ValueError for an unknown name, or if no column is left.
    """
    if columns is None:
        return {name: field for name, field in MESSAGE_FIELDS.items() if name not in ON_REQUEST}
    fields = {}
    for name in [columns] if isinstance(columns, str) else columns:
        found = BATCH_NAMES.get(name, name)
        if found not in MESSAGE_FIELDS:
            raise ValueError(f"columns: {name!r} is none of {', '.join(MESSAGE_FIELDS)}")
        fields[found] = MESSAGE_FIELDS[found]
    if not fields:
        raise ValueError("columns: a table needs at least one")
    return fields


def message_fields_of_brokers(columns: str | Iterable[str] | None = None) -> dict[str, Field]:
    """Return the fields of a table of messages of several stores. ``broker`` is the first, unless ``columns`` has it.

    Parameters, raises: as ``message_fields``.
    """
    if columns is None:
        return {BROKER: BROKER_FIELD, **message_fields()}
    names = [columns] if isinstance(columns, str) else [*columns]
    others = [name for name in names if name != BROKER]
    fields = message_fields(others) if others or not names else {}
    names = [BATCH_NAMES.get(name, name) for name in names]
    return {
        name: BROKER_FIELD if name == BROKER else fields[name]
        for name in dict.fromkeys([*({BROKER} - {*names}), *names])
    }


def batch_fields(names: Iterable[str]) -> dict[str, Field]:
    """Return the fields of the columns of a batch. Parameters: names: in a batch, which may be of several stores."""
    return {name: BROKER_FIELD if name == BROKER else MESSAGE_FIELDS[name] for name in names}


def find_column(name: str) -> str | None:
    """Return the name in a batch of the column that a name means in a batch or a table, without regard to case."""
    return BY_ANY_NAME.get(name.lower())


def batch_name(name: str) -> str:
    """Return the name in a batch of a column of a table, which may be of messages of several stores."""
    return BATCH_NAMES.get(name, name)
