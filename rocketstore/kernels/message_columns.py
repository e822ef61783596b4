"""The columns of a batch of messages, and how tables show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MESSAGE_FIELDS", "Field", "ListColumn", "MapColumn", "VarColumn", "message_fields"]


class VarColumn(NamedTuple):
    """Strings (valid UTF-8) or bytes: row ``i`` is ``data[offsets[i]:offsets[i + 1]]`` if ``valid[i]``."""

    offsets: NDArray[np.int32]  # int32[n + 1], positions in data
    data: NDArray[np.uint8]
    valid: NDArray[np.bool_] | None = None  # bool[n]; None: every row has a value


class ListColumn(NamedTuple):
    """Lists of strings: row ``i`` is the rows ``offsets[i]`` to ``offsets[i + 1]`` of ``values``."""

    offsets: NDArray[np.int32]
    values: VarColumn


class MapColumn(NamedTuple):
    """Maps of strings: row ``i`` is the rows ``offsets[i]`` to ``offsets[i + 1]`` of ``keys`` and ``values``."""

    offsets: NDArray[np.int32]
    keys: VarColumn
    values: VarColumn


class Field(NamedTuple):
    """A column of a table. Its schema says nullable in any case, as Spark's do."""

    name: str
    format: str  # the Arrow C data interface's; +l is of strings, +m from strings to strings
    nullable: bool = False  # whether a row may have no value


# In the order of the tables. A time that Python and Spark cannot represent is null.
# The same time in milliseconds is never null.
# A body that cannot be decoded is null, and body_error says why; raw_body never is.
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
    "offset_msg_id": Field("msgId", "u"),
    "tags": Field("tags", "u", nullable=True),
    "keys": Field("keys", "+l"),
    "uniq_key": Field("uniqKey", "u", nullable=True),
    "properties": Field("properties", "+m"),
    "body": Field("body", "z", nullable=True),
    "body_error": Field("bodyError", "u", nullable=True),
    "raw_body": Field("rawBody", "z"),
    "tags_code": Field("tagsCode", "l"),
    "born_timestamp_ms": Field("bornTimestampMs", "l"),
    "store_timestamp_ms": Field("storeTimestampMs", "l"),
}
ON_REQUEST = {"body_error", "raw_body", "tags_code", "born_timestamp_ms", "store_timestamp_ms"}


def message_fields(columns: Iterable[str] | None = None) -> dict[str, Field]:
    """Return the fields of a table of messages by their names in a batch, in the requested order.

    Parameters: columns: names as in ``MESSAGE_FIELDS``; None: all but those that must be requested.
    Raises: ValueError for an unknown name, or if no column is left; TypeError for a single str.
    """
    if columns is None:
        return {name: field for name, field in MESSAGE_FIELDS.items() if name not in ON_REQUEST}
    if isinstance(columns, str):
        raise TypeError(f"columns={columns!r}: a list of str was expected")
    fields = {}
    for name in columns:
        if name not in MESSAGE_FIELDS:
            raise ValueError(f"columns: {name!r} is none of {', '.join(MESSAGE_FIELDS)}")
        fields[name] = MESSAGE_FIELDS[name]
    if not fields:
        raise ValueError("columns: a table needs at least one")
    return fields
