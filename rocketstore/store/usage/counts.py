"""Counts: the number of messages and their bytes, by the values of some columns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Any

from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.log.scan import Scan
from rocketstore.made_by import made_by
from rocketstore.messages.arguments import text_list
from rocketstore.messages.rows import Rows
from rocketstore.preview import Preview
from rocketstore.store.overview.summary import collect_error
from rocketstore.store.usage.group_counter import WIDTHS, GroupCounter, Tally
from rocketstore.store.usage.message_usage import count_scan
from rocketstore.text_values import find_similar, format_count

FIELDS: Mapping[str, tuple[str, Field]] = {  # attribute of a row, and column of a table, by grouping
    "topic": ("topic", MESSAGE_FIELDS["topic"]),
    "queue": ("queue_id", MESSAGE_FIELDS["queue_id"]),
    "tag": ("tag", Field("tag", "u", nullable=True)),
    "born_host": ("born_host", MESSAGE_FIELDS["born_host"]),
    "store_host": ("store_host", MESSAGE_FIELDS["store_host"]),
    "reconsume_times": ("reconsume_times", MESSAGE_FIELDS["reconsume_times"]),
    **{name: (f"{name}_timestamp", Field(f"{name}Timestamp", "tsm:UTC", nullable=True)) for name in WIDTHS},
}
SIZES = (Field("messages", "l"), Field("logBytes", "l"))


@made_by("store.count()")
class Counts(Rows[Any]):
    """The number of messages and the bytes of their records for each group.

    A row has a value for each grouping, then ``messages`` and ``log_bytes``. Rows are sorted by their values. With a
    single grouping other than a time they are sorted by the number of messages, the largest first.

    Attributes: by: the groupings. reasons: why messages may be missing.

    Examples:
    >>> counts = rocketstore.open("demo").count("topic")
    >>> [(row.topic, row.messages) for row in counts], counts.messages
    ([('Orders', 100), ('Users', 1)], 101)
    """

    def __init__(self, rows: Sequence[Any], by: Sequence[str], reasons: Sequence[str]) -> None:
        super().__init__(rows, fields_of(by))
        self.by = tuple(by)
        self.reasons = list(reasons)

    @property
    def columns(self) -> list[str]:
        """The names of the columns of a table."""
        return [field.name for field in self._fields]

    @property
    def messages(self) -> int:
        """The number of messages of all groups."""
        return sum(row.messages for row in self)

    def _preview(self) -> Preview:
        title = f"Counts: {format_count(len(self), 'row')} by {', '.join(self.by)}"
        return replace(super()._preview(), title=title, notes=self.reasons)


def fields_of(by: Sequence[str]) -> list[Field]:
    """Return the fields of counts by some groupings."""
    return [*(FIELDS[name][1] for name in by), *SIZES]


def columns_of(by: Sequence[str]) -> list[str]:
    """Return the names of the columns of counts by some groupings."""
    return [field.name for field in fields_of(by)]


def parse_groupings(by: str | Iterable[str]) -> list[str]:
    """Return groupings that are given as names, or as texts with commas between them.

    Raises: ValueError for an unknown name, or without a name.
    """
    names = [name.strip() for text in text_list(by, "by") or () for name in text.split(",") if name.strip()]
    for name in names:
        if name not in FIELDS:
            similar = find_similar(name, FIELDS)
            hint = f"did you mean {similar!r}?" if similar else f"give some of {', '.join(FIELDS)}"
            raise ValueError(f"by={name!r:.80}: {hint}")
    if not names:
        raise ValueError(f"by: give some of {', '.join(FIELDS)}")
    return list(dict.fromkeys(names))


def count_messages(by: Sequence[str], scan: Scan, zone: tzinfo | None = UTC) -> Counts:
    """Count the messages of a scan. Damaged ranges of the log are named among the reasons.

    Parameters: scan: made with the arguments that ``scan_options`` returns. zone: of hours and days; None for that of
    this machine.
    """
    counter = GroupCounter(by, zone)
    reasons: list[str] = []
    with collect_error(reasons):
        count_scan(counter, scan, reasons)
    return make_counts(by, counter, reasons)


def make_counts(by: Sequence[str], counter: GroupCounter, reasons: Sequence[str]) -> Counts:
    """Return the counts of a counter as rows. Parameters: by: the groupings of the counter."""
    make_type: Any = namedtuple  # the names are not known before
    row = make_type("Count", [*(FIELDS[name][0] for name in by), "messages", "log_bytes"])
    groups = sorted(counter.groups().items(), key=_by_size if len(by) == 1 and by[0] not in WIDTHS else _by_values)
    return Counts([row(*values, *tally) for values, tally in groups], by, reasons)


def _by_values(group: tuple[tuple[Any, ...], Tally]) -> tuple[Any, ...]:
    return tuple((value is not None, value) for value in group[0])


def _by_size(group: tuple[tuple[Any, ...], Tally]) -> tuple[Any, ...]:
    return -group[1].messages, -group[1].size, _by_values(group)
