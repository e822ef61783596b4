"""Show the messages that a repair of the log loses, by topic."""

from collections.abc import Sequence

from rocketstore.cli.columns import LOST_MESSAGES
from rocketstore.cli.formats import RowsView, is_table, write_list, write_rows
from rocketstore.cli.text import note
from rocketstore.lost.lost_message import LostMessage
from rocketstore.messages.text_rows import Row
from rocketstore.recovery.lost import LOST_FIELDS, LostMessages
from rocketstore.text_values import format_count, format_time

COLUMNS = tuple(field.name for field in LOST_FIELDS)


def show_lost_messages(lost: Sequence[LostMessages], view: RowsView, *, is_dry_run: bool) -> None:
    """Write a second table for people. In other formats, write a line for each topic to standard error."""
    if not lost:
        return
    total = format_count(sum(row.messages for row in lost), "message")
    note(f"{'would be lost' if is_dry_run else 'lost'}: {total} of {format_count(len(lost), 'topic')}")
    if is_table(view.output_format):
        write_list(COLUMNS, lost, view._replace(columns=None), _for_people)
        return
    for row in lost:
        note(f"{row.topic}: {format_count(row.messages, 'message')}{_describe_times(row)}")


def show_lost_places(lost: Sequence[LostMessage], view: RowsView) -> None:
    """Write a second table of lost messages for people. In other formats, write their number to standard error."""
    if not lost:
        return
    note(f"lost: {format_count(sum(message.messages for message in lost), 'message')}")
    if is_table(view.output_format):
        rows = [message.to_dict() for message in lost]
        write_rows(rows, view._replace(columns=None), describe_lost_places, columns=LOST_MESSAGES)


def describe_lost_places(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table of lost messages: what each message was, and between which times."""
    return [
        {
            **{name: row[name] for name in ("topic", "queueId", "queueOffset", "phyOffset", "size")},
            "tags": row["tags"],
            "keys": " ".join(row["keys"]) or ", ".join(f"hash {key_hash}" for key_hash in row["keyHashes"]),
            "storedAfter": _time_or_none(row["previousStoreTimestamp"]),
            "storedBefore": _time_or_none(row["nextStoreTimestamp"]),
            "problem": row["problem"],
        }
        for row in rows
    ]


def _describe_times(row: LostMessages) -> str:
    if row.first_store_timestamp is None or row.last_store_timestamp is None:
        return ""
    return f", stored from {format_time(row.first_store_timestamp)} to {format_time(row.last_store_timestamp)}"


def _for_people(rows: Sequence[Row]) -> list[Row]:
    return [
        {
            "topic": row["topic"],
            "messages": row["messages"],
            "firstStoreTime": _time_or_none(row["firstStoreTimestamp"]),
            "lastStoreTime": _time_or_none(row["lastStoreTimestamp"]),
        }
        for row in rows
    ]


def _time_or_none(timestamp: int | None) -> str | None:
    return None if timestamp is None else format_time(timestamp)
