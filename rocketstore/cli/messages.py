"""The columns of messages that a table shows to people."""

from collections.abc import Sequence

from rocketstore.messages.text_rows import BODY_ERROR, Row

__all__ = ["BODY_RULE", "for_people", "result_for_people"]

BODY_RULE = (
    'The body is in "body" if it is UTF-8 text, else in "bodyBase64". The other column is null. '
    'If the body cannot be decoded, both are null, and "bodyError" has the reason.'
)
SHOWN = ("storeTimestamp", "topic", "queueId", "queueOffset", "phyOffset", "tags", "keys")
SHOWN_BODY = 60  # characters of the body that a table shows


def for_people(rows: Sequence[Row]) -> list[Row]:
    """Return the columns that a table of messages shows, with the beginning of each body."""
    return [{name: row[name] for name in SHOWN} | {"body": body_start(row)} for row in rows]


def result_for_people(rows: Sequence[Row]) -> Sequence[Row]:
    """Return all columns of a single message, or the columns of a table if there are more messages."""
    return rows if len(rows) == 1 else for_people(rows)


def body_start(row: Row) -> str:
    shown = (row[name] for name in ("body", "bodyBase64") if row[name] is not None)
    text: str = next(shown, f"({row[BODY_ERROR]})")
    return text if len(text) <= SHOWN_BODY else text[: SHOWN_BODY - 1] + "…"
