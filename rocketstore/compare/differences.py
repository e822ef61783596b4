"""Differences between two stores: their kinds, the rows of a report, and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError, text_of
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.kernels.queue_id import QueueId
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.message import Message
from rocketstore.messages.rows import export_rows
from rocketstore.preview import WIDE_CELL, Preview, Previewed, first_of
from rocketstore.text_values import format_count

LISTED = 1000  # differences of one kind in a report; the others are counted

# The meaning of each kind, in the order of a report.
KINDS = {
    "log-only-in-a": "a range of the log is only in A",
    "log-only-in-b": "a range of the log is only in B",
    "log-different": "records at the same physical offsets differ",
    "log-filler-different": "bytes of the log that are no record differ",
    "queue-only-in-a": "a queue is only in A",
    "queue-only-in-b": "a queue is only in B",
    "units-only-in-a": "queue offsets of a queue are only in A",
    "units-only-in-b": "queue offsets of a queue are only in B",
    "units-different": "units at the same queue offsets differ",
    "message-different": "messages at the same queue offsets differ",
    "index-only-in-a": "only the index of A finds messages by their keys",
    "index-only-in-b": "only the index of B finds messages by their keys",
    "topic-only-in-a": "a topic of the configuration is only in A",
    "topic-only-in-b": "a topic of the configuration is only in B",
    "topic-different": "the configuration of a topic differs",
    "group-only-in-a": "a consumer group of the configuration is only in A",
    "group-only-in-b": "a consumer group of the configuration is only in B",
    "group-different": "the configuration of a consumer group differs",
    "offset-only-in-a": "the offset of a consumer group is only in A",
    "offset-only-in-b": "the offset of a consumer group is only in B",
    "offset-different": "the offsets of a consumer group in a queue differ",
    "delay-only-in-a": "the offset of a delay level is only in A",
    "delay-only-in-b": "the offset of a delay level is only in B",
    "delay-different": "the offsets of a delay level differ",
    "config-different": "another file of the configuration differs",
    "not-compared": "a part cannot be read, and is not compared",
}
LOG, INDEX = "commit log", "index"


class Difference(NamedTuple):
    """One difference between two stores.

    Attributes
    ----------
    kind : a key of ``KINDS``.
    name : the object that differs: "commit log", a queue as "Orders/0", a topic, a group, a file.
    begin, end : the range that differs, half-open: physical offsets, bytes, of a log or an index, otherwise queue
        offsets; None without a range.
    number : of records, units, messages or entries that differ; None if they were not counted.
    a, b : the values in A and in B as text; None where a store has no value.
    topic, queue_id, queue_offset, key : the first message that differs: of A, or of B if A does not have it; ``key`` is
        its first key. None without a message.
    phy_offset_a, phy_offset_b : the physical offsets of this message in A and in B.

    Examples:
    >>> rocketstore.diff("demo", "demo").differences
    ()
    """

    kind: str
    name: str
    begin: int | None = None
    end: int | None = None
    number: int | None = None
    a: str | None = None
    b: str | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    key: str | None = None
    phy_offset_a: int | None = None
    phy_offset_b: int | None = None

    def with_message(self, a: Message | None, b: Message | None) -> Difference:
        """Return the difference with its first message. Parameters: a, b: None in a store that lacks the message."""
        message = b if a is None else a
        if message is None:
            return self
        key = next(iter(message.keys), None) or message.uniq_key
        return self._replace(
            topic=message.topic,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            key=key,
            phy_offset_a=None if a is None else a.phy_offset,
            phy_offset_b=None if b is None else b.phy_offset,
        )


DIFFERENCE_FIELDS = (
    Field("kind", "u"), Field("name", "u"), Field("begin", "l", nullable=True), Field("end", "l", nullable=True),
    Field("number", "l", nullable=True), Field("a", "u", nullable=True), Field("b", "u", nullable=True),
    MESSAGE_FIELDS["topic"]._replace(nullable=True), MESSAGE_FIELDS["queue_id"]._replace(nullable=True),
    MESSAGE_FIELDS["queue_offset"]._replace(nullable=True), Field("key", "u", nullable=True),
    Field("phyOffsetA", "l", nullable=True), Field("phyOffsetB", "l", nullable=True),
)  # fmt: skip


class LogRange(NamedTuple):
    """A range of physical offsets, bytes, half-open, and its state in two logs.

    Attributes: state: "same", "different", "only in a", "only in b".

    Examples:
    >>> rocketstore.diff("demo", "demo").ranges[0].state
    'same'
    """

    state: str
    begin: int
    end: int


@dataclass(frozen=True, repr=False)
class DiffReport(Previewed, ArrowStream):
    """The differences between two stores. ``to_arrow``, ``to_pandas`` and ``to_polars`` make a table of them.

    Attributes
    ----------
    a, b : the paths of the stores.
    differences : at most 1,000 of each kind, in the order of the kinds; the first of a kind is the first in the store.
    counts : the number of differences by kind, also of those that are not listed.
    ranges : the log by physical offset; empty with ``by_content``. At most 1,000 ranges of one state.
    log_bytes : the bytes of all ranges, by state.
    messages : how many messages of queues are in both stores and were compared.
    by_content : whether messages were compared instead of physical offsets.

    Examples:
    >>> report = rocketstore.diff("demo", "demo")
    >>> report.same, report.messages, [part.state for part in report.ranges]
    (True, 101, ['same'])
    """

    a: StorePath
    b: StorePath
    differences: Sequence[Difference]
    counts: dict[str, int]
    ranges: Sequence[LogRange]
    log_bytes: dict[str, int]
    messages: int
    by_content: bool

    @property
    def same(self) -> bool:
        """Whether no difference was found, and every part was compared."""
        return not self.counts

    def first(self, kind: str) -> Difference | None:
        """Return the first difference of a kind, a key of ``KINDS``; None without one."""
        return next((found for found in self.differences if found.kind == kind), None)

    def _preview(self) -> Preview:
        how = "messages" if self.by_content else "bytes"
        found = format_count(sum(self.counts.values()), "difference")
        common = f"{format_count(self.messages, 'message')} of queues in both"
        title = f"DiffReport: {found} of {str(self.a)!r} and {str(self.b)!r}, {how} were compared, {common}"
        return Preview(title, Difference._fields, first_of(self.differences), width=WIDE_CELL)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the differences as an Arrow stream."""
        return export_rows(DIFFERENCE_FIELDS, self.differences)


class Differences:
    """Collects differences: the first ones of each kind, and the number of all."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._listed: dict[str, list[Difference]] = {kind: [] for kind in KINDS}

    def add(self, difference: Difference) -> None:
        """Add a difference. Of one kind they must come in the order of the store."""
        self.counts[difference.kind] += 1
        if self.counts[difference.kind] <= LISTED:
            self._listed[difference.kind].append(difference)

    def is_listed(self, kind: str) -> bool:
        """Return whether the next difference of a kind is listed, so that its message is needed."""
        return self.counts[kind] < LISTED

    @contextmanager
    def noting_errors(self, name: str) -> Iterator[None]:
        """Add a part as not compared if it cannot be read. Parameters: name: of the part."""
        try:
            yield
        except (StoreError, OSError) as error:
            self.add(Difference("not-compared", name, a=text_of(error)))

    def listed(self) -> tuple[Difference, ...]:
        """Return the first differences of each kind, in the order of the kinds."""
        return tuple(difference for found in self._listed.values() for difference in found)

    def counted(self) -> dict[str, int]:
        """Return the number of differences by kind, in the order of the kinds."""
        return {kind: self.counts[kind] for kind in KINDS if self.counts[kind]}


def name_queue(queue_id: QueueId) -> str:
    """Return the name of a queue for a report: topic and queue id."""
    return f"{queue_id.topic}/{queue_id.queue_id}"
