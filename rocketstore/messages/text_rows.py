"""Messages as rows of JSON and CSV. Bytes are base64, except for a body that is text of its charset.

A row is a dict from the names of columns to values of JSON. In CSV, lists and maps are written as JSON.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rocketstore.kernels.message_columns import BATCH_NAMES, MESSAGE_FIELDS, TEXTS_OF_BODY, message_fields
from rocketstore.messages.arrow_import import check_names
from rocketstore.messages.body_text import UTF8, decode_body, json_or_none
from rocketstore.messages.message import Message
from rocketstore.text_values import epoch_ms, parse_integer

Row = dict[str, Any]
BASE64 = {"bodyBase64": "body", "rawBodyBase64": "rawBody"}  # columns of text, and the columns that they stand for
BODY_ERROR = MESSAGE_FIELDS["body_error"].name
# Keys are the formats of the Arrow C data interface, and "base64".
RANGES = {"i": 2**31, "l": 2**63, "tsm:UTC": 2**63}
EXPECTED = {"b": "true or false", "+l": "a list of strings", "+m": "an object of strings"} | dict.fromkeys(
    ("u", "z", "base64"), "a string"
)
EXAMPLES = {"+l": '["a", "b"]', "+m": '{"a": "b"}'}


# ---- writing ---------------------------------------------------------------------------------------------


def message_rows(messages: Iterable[Message], names: Iterable[str] = (), *, charset: str = UTF8) -> list[Row]:
    """Return messages as rows. A body that was not read is null.

    Parameters: names: columns that the caller needs; body_text, body_json, damaged and rawBodyBase64 are only in rows
    if they are among them. charset: of the bodies, as ``find_charset`` returns it.
    """
    names = {*names}
    texts = [name for name in TEXTS_OF_BODY if name in names]
    rows: list[Row] = []
    for message in messages:
        row = message.to_dict()
        body: Any = row.get("body")
        body_error = row.pop(BODY_ERROR, None) if "body" in row else getattr(message, "body_error", None)
        text = None if body is None else decode_body(body, charset)
        is_binary = body is not None and text is None
        row["body"], row["bodyBase64"] = text, base64.b64encode(body).decode() if is_binary else None
        for name in texts:
            if body is None:  # the message has the text if it was read
                row[name] = getattr(message, name, None)
            else:
                row[name] = text if name == "body_text" else json_or_none(text)
        row[BODY_ERROR] = body_error
        if "damaged" in names:
            row["damaged"] = message.damaged
        if "rawBodyBase64" in names:
            row["rawBodyBase64"] = base64.b64encode(message.raw_body).decode()
        rows.append(row)
    return rows


def row_names(*, raw_body: bool = False) -> list[str]:
    """Return the columns of ``message_rows``. Parameters: raw_body: also the bodies as they are stored."""
    names = [field.name for field in message_fields().values()]
    return [*names, "bodyBase64", BODY_ERROR, *(["rawBodyBase64"] if raw_body else [])]


# ---- reading ---------------------------------------------------------------------------------------------


def parse_json_row(line: bytes) -> Row:
    """Return the row of a line of JSON. Raises: ValueError, RecursionError."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("is not a JSON object")
    return row


def parse_csv_row(names: Sequence[str], texts: Sequence[str]) -> Row:
    """Return the row of a line of CSV. An empty field is a missing value, but an empty body is a body.

    Parameters: names: the columns of the first line. texts: the fields of this line. Raises: ValueError.
    """
    if len(texts) != len(names):
        raise ValueError(f"has {len(texts)} fields, where the first line has {len(names)}")
    row = {name: _csv_value(name, text) for name, text in zip(names, texts, strict=True) if text}
    if not {"body", BODY_ERROR, *BASE64} & row.keys():
        row["body"] = ""
    return row


def _csv_value(name: str, text: str) -> Any:
    form = "u" if name in BASE64 else MESSAGE_FIELDS[BATCH_NAMES[name]].format
    try:
        if form == "tsm:UTC":
            return _parse_timestamp(text.strip(" \t"))
        if form == "b":
            return {"true": True, "false": False}[text.strip(" \t")]
        if form in RANGES:
            return parse_integer(text.strip(" \t"))
        return json.loads(text) if form in EXAMPLES else text
    except (ValueError, RecursionError, KeyError):
        expected = f"{EXPECTED[form]} as JSON, like {EXAMPLES[form]}" if form in EXAMPLES else "an integer"
        expected = EXPECTED[form] if form == "b" else expected
        raise ValueError(f"column {name}: must be {expected}, not {text!r:.60}") from None


@functools.lru_cache(64)
def check_row_names(names: tuple[str, ...]) -> None:
    """Raise ValueError unless a row of text can have these columns."""
    if "rawBody" in names:
        raise ValueError("column rawBody: must be rawBodyBase64 in JSON and CSV")
    repeated = [name for name in names if names.count(name) > 1]
    check_names(list({BASE64.get(name, name): None for name in names}) + repeated)


def message_fields_of(row: Row) -> dict[str, Any]:
    """Return the fields of a message, for ``Message.of_fields``. Raises: ValueError for a wrong column or value."""
    row = {name: value for name, value in row.items() if value is not None}
    if BODY_ERROR in row and not {"body", *BASE64} & row.keys():
        reason = "the body could not be decoded, so the row has none: export the message with --raw-body"
        raise ValueError(f"column {BODY_ERROR}: {reason}")
    check_row_names(tuple(row))
    if "body" in row and "bodyBase64" in row:
        raise ValueError("columns body, bodyBase64: give only one of them in a row")
    fields = {}
    for name, value in row.items():
        batch_name = BATCH_NAMES[BASE64.get(name, name)]
        try:
            fields[batch_name] = _field_value("base64" if name in BASE64 else MESSAGE_FIELDS[batch_name].format, value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"column {name}: {error}") from None
    return fields


def _parse_timestamp(text: str) -> int:
    """Return the epoch milliseconds of a time in text: that number, or ISO 8601 with a zone. Raises: ValueError."""
    if not re.fullmatch("[+-]?[0-9]+", text):
        with contextlib.suppress(ValueError):
            when = datetime.fromisoformat(text)
            if when.tzinfo is not None:
                return epoch_ms(when, text)
        raise ValueError(f"must be an integer, or an ISO 8601 time with a zone, not {text!r:.60}")
    return parse_integer(text)


def _field_value(form: str, value: Any) -> Any:
    """Return the field of a message for a value of JSON. Parameters: form: a key of ``EXPECTED`` or ``RANGES``."""
    if form == "+l" and isinstance(value, list):
        return [_field_value("u", item) for item in value]
    if form == "+m" and isinstance(value, dict):
        return {_field_value("u", name): _field_value("u", item) for name, item in value.items()}
    if form == "tsm:UTC" and isinstance(value, str):
        return _parse_timestamp(value)
    if form in RANGES and type(value) is int:
        if not -RANGES[form] <= value < RANGES[form]:
            raise ValueError(f"{value} does not fit {RANGES[form].bit_length()} bits")
        return value
    if form == "b" and isinstance(value, bool):
        return value
    if form in ("u", "z", "base64") and isinstance(value, str):
        if form == "base64":
            return base64.b64decode(value, validate=True)
        data = value.encode()  # raises UnicodeEncodeError for half of a surrogate pair
        return data if form == "z" else value
    raise TypeError(f"must be {EXPECTED.get(form, 'an integer')}, not {value!r:.60}")
