"""How messages are shown: every column to programs, the most useful ones to people."""

import base64
from collections.abc import Iterable, Sequence

from rocketstore.cli.formats import Row, error_text, note
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, message_fields
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.message import Message

__all__ = ["BODY_RULE", "for_people", "message_rows", "note_bad_bodies", "result_for_people", "row_names"]

BODY_RULE = (
    'The body is in "body" if it is UTF-8 text, else in "bodyBase64"; the other of the two is null. '
    'If the body cannot be decoded, both are null, and "bodyError" says why.'
)
BODY_ERROR = MESSAGE_FIELDS["body_error"].name
SHOWN = ("storeTimestamp", "topic", "queueId", "queueOffset", "phyOffset", "tags", "keys")
SHOWN_BODY = 60  # characters of it in a table


def message_rows(messages: Iterable[Message], *, raw_body: bool = False) -> list[Row]:
    """Make the rows of messages, with the columns that tables have; raw_body: and with the bodies as stored."""
    rows: list[Row] = []
    for message in messages:
        row = message.to_dict()
        body, body_error = row["body"], row.pop(BODY_ERROR, None)
        try:
            row["body"], row["bodyBase64"] = None if body is None else body.decode(), None
        except UnicodeDecodeError:
            row["body"], row["bodyBase64"] = None, base64.b64encode(body).decode()
        row[BODY_ERROR] = body_error
        if raw_body:
            row["rawBodyBase64"] = base64.b64encode(message.raw_body).decode()
        rows.append(row)
    return rows


def row_names(*, raw_body: bool = False) -> list[str]:
    """Name the columns of such rows."""
    names = [field.name for field in message_fields().values()]
    return [*names, "bodyBase64", BODY_ERROR, *(["rawBodyBase64"] if raw_body else [])]


def note_bad_bodies(bad_bodies: BadBodies) -> None:
    """Write a warning to standard error with the number of bodies that cannot be decoded, if there are any."""
    if bad_bodies.count:
        noun = "message has a body" if bad_bodies.count == 1 else "messages have bodies"
        first = error_text(bad_bodies.first)
        note(f"Warning: {bad_bodies.count:,} {noun} that cannot be decoded: {BODY_ERROR} says why. The first: {first}")


def for_people(rows: Sequence[Row]) -> list[Row]:
    """Choose what a table of messages has, with the beginning of each body."""
    return [{name: row[name] for name in SHOWN} | {"body": body_start(row)} for row in rows]


def result_for_people(rows: Sequence[Row]) -> Sequence[Row]:
    """Choose what an answer that is a single batch has: all that there is of one message, a table of more."""
    return rows if len(rows) == 1 else for_people(rows)


def body_start(row: Row) -> str:
    shown = (row[name] for name in ("body", "bodyBase64") if row[name] is not None)
    text: str = next(shown, f"({row[BODY_ERROR]})")
    return text if len(text) <= SHOWN_BODY else text[: SHOWN_BODY - 1] + "…"
