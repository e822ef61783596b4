"""Show the messages that a repair of the log loses, by topic."""

from collections.abc import Sequence

from rocketstore.cli.formats import RowsView, is_table, write_list
from rocketstore.cli.text import note
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
