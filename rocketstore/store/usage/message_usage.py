"""MessageUsage: how many messages and bytes of the log each topic, queue, day, hour or tag has."""

from __future__ import annotations

import functools
import os
from collections import defaultdict, namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

import numpy as np

from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import INT_MAX, INT_MIN
from rocketstore.log.scan import Scan
from rocketstore.made_by import made_by
from rocketstore.messages.rows import Rows
from rocketstore.preview import Preview, first_of
from rocketstore.progress import Progress
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.queue_source import offset_range, read_units_between
from rocketstore.queue.units import ConsumeQueueUnits
from rocketstore.store.overview.summary import collect_error
from rocketstore.store.readable_store import ReadableStore
from rocketstore.store.usage.disk_usage import UNITS_AT_ONCE, find_used_log, is_light, space_of
from rocketstore.store.usage.group_counter import WIDTHS, GroupCounter, Tally
from rocketstore.store.usage.measure_files import measure_files
from rocketstore.store.usage.time_bins import UNKNOWN, find_bins
from rocketstore.store.usage.zone_bins import begins_of
from rocketstore.text_values import datetime_or_none, format_count

GROUPINGS = ("topic", "queue", "day", "hour", "tag")
UNITS_IN_MEMORY = 1 << 22  # whose store times are found together
THREADS = 4


class GroupUsage(NamedTuple):
    """What the messages of a topic, a queue, a day, an hour or a tag take.

    The values of other groupings are None. ``begin_timestamp``: of the day or hour, epoch ms; None for messages
    whose store time cannot be read. ``tag``: of an exact count; None for messages without a tag. ``tags_code``: the
    hash of the tag, of a count from the queues; 0 for messages without a tag, None if the units have no hash.

    ``log_bytes``: of the records. ``queue_bytes``: the disk space that the files of the queues occupy; None without
    files. ``share``: of the records and blanks of the log, from 0 to 1.

    Examples:
    >>> usage = rocketstore.open("demo").du(by="topic")
    >>> [(group.topic, group.messages) for group in usage]
    [('Orders', 100), ('Users', 1)]
    """

    topic: str | None
    queue_id: int | None
    begin_timestamp: int | None
    tag: str | None
    tags_code: int | None
    messages: int
    log_bytes: int
    queue_bytes: int | None
    share: float

    @property
    def begin_time(self) -> datetime | None:
        """``begin_timestamp`` as a datetime in UTC; None if it is unknown."""
        return None if self.begin_timestamp is None else datetime_or_none(self.begin_timestamp)


FIELDS = {
    "topic": MESSAGE_FIELDS["topic"]._replace(nullable=True),
    "queue_id": MESSAGE_FIELDS["queue_id"]._replace(nullable=True),
    "begin_timestamp": Field("beginTimestamp", "tsm:UTC", nullable=True),
    "tag": Field("tag", "u", nullable=True),
    "tags_code": Field("tagsCode", "l", nullable=True),
    "messages": Field("messages", "l"),
    "log_bytes": Field("logBytes", "l"),
    "queue_bytes": Field("queueBytes", "l", nullable=True),
    "share": Field("share", "g"),
}
SIZES = ("messages", "log_bytes", "share")
COLUMNS = {
    "topic": ("topic", "messages", "log_bytes", "queue_bytes", "share"),
    "queue": ("topic", "queue_id", "messages", "log_bytes", "queue_bytes", "share"),
    "day": ("begin_timestamp", *SIZES),
    "hour": ("begin_timestamp", *SIZES),
    "tag": ("tag", "tags_code", *SIZES),
}


@made_by("store.du(by=...)")
class MessageUsage(Rows[GroupUsage]):
    """What the messages of each group take, the largest first. Its table has only the columns of the grouping.

    Attributes: by: the grouping. is_exact: whether the records were counted; else the units of the queues. other_bytes:
    the bytes of the log that are in no group: blanks, and records without a unit; None if only some topics were
    counted. notes: how the numbers were found. reasons: why they may be wrong.

    Examples:
    >>> usage = rocketstore.open("demo").du(by="queue", exact=True)
    >>> usage.by, usage.is_exact, usage.total().messages
    ('queue', True, 101)
    """

    def __init__(
        self,
        rows: Sequence[GroupUsage],
        by: str,
        *,
        is_exact: bool,
        other_bytes: int | None,
        notes: Sequence[str],
        reasons: Sequence[str],
    ) -> None:
        super().__init__(rows, [*FIELDS.values()])
        self.by = by
        self.is_exact = is_exact
        self.other_bytes = other_bytes
        self.notes = list(notes)
        self.reasons = list(reasons)

    def total(self) -> GroupUsage:
        """Return the sums of all groups."""
        queue_bytes = [group.queue_bytes for group in self if group.queue_bytes is not None]
        return GroupUsage(
            *(None,) * 5,
            messages=sum(group.messages for group in self),
            log_bytes=sum(group.log_bytes for group in self),
            queue_bytes=sum(queue_bytes) if queue_bytes else None,
            share=sum(group.share for group in self),
        )

    @property
    def fields(self) -> Sequence[Field]:
        """The columns of the grouping."""
        return [FIELDS[name] for name in COLUMNS[self.by]]

    def cells(self) -> Sequence[tuple[Any, ...]]:
        """Return the values of each group in the columns of the grouping."""
        row = row_type(self.by)
        return [row(*(getattr(group, name) for name in COLUMNS[self.by])) for group in self]

    def _preview(self) -> Preview:
        rows = [None if row is None else self.cells()[row] for row in first_of(range(len(self)))]
        title = (
            f"MessageUsage: {format_count(len(self), 'row')} by {self.by}, {describe_source(is_exact=self.is_exact)}"
        )
        return Preview(title, COLUMNS[self.by], rows, [*self.notes, *self.reasons])


@functools.cache
def row_type(by: str) -> Any:
    """Return the NamedTuple of the columns of a grouping."""
    make_type: Any = namedtuple
    return make_type(GroupUsage.__name__, COLUMNS[by])


def describe_source(*, is_exact: bool) -> str:
    """Return a text that says whether messages were counted in the log or in the queues."""
    return "from a scan of the log" if is_exact else "from the queues"


# ---- counting ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """Tallies by the values of a grouping, and notes and reasons as MessageUsage has them."""

    tallies: dict[tuple[Any, ...], Tally]
    notes: list[str]
    reasons: list[str]


def measure_messages(
    store: ReadableStore,
    by: str,
    topics: frozenset[str] | None,
    *,
    exact: bool,
    zone: tzinfo | None = UTC,
    progress: Progress = False,
) -> MessageUsage:
    """Count messages and bytes. ``MessageStore.du`` has the documentation.

    Parameters: topics: None for all. zone: of hours and days; None for that of this machine.
    """
    reasons: list[str] = []
    counted = count_from_log(store, by, topics, zone, progress) if exact else count_from_queues(store, by, topics, zone)
    whole = None
    with collect_error(reasons):
        whole = sum(find_used_log(store).values())
    tallies, queue_bytes = counted.tallies, {}
    if by in ("topic", "queue"):
        queue_bytes = measure_queues(store, by, topics, reasons)
        tallies = {key: Tally(0, 0) for key in queue_bytes} | tallies
    size = sum(tally.size for tally in tallies.values())
    rows = [
        _group_of(by, key, tally, queue_bytes.get(key), size if whole is None else whole)
        for key, tally in tallies.items()
    ]
    return MessageUsage(
        sorted(rows, key=_largest_first),
        by,
        is_exact=exact,
        other_bytes=None if whole is None or topics is not None else max(whole - size, 0),
        notes=counted.notes,
        reasons=[*reasons, *counted.reasons],
    )


def _group_of(by: str, key: tuple[Any, ...], tally: Tally, queue_bytes: int | None, whole: int) -> GroupUsage:
    names = COLUMNS[by][: len(key)]
    values = dict.fromkeys(GroupUsage._fields) | dict(zip(names, key, strict=True))
    sizes = {
        "messages": tally.messages,
        "log_bytes": tally.size,
        "queue_bytes": queue_bytes,
        "share": tally.size / whole if whole else 0.0,
    }
    return GroupUsage(**values | sizes)  # type: ignore[arg-type]


def _largest_first(row: GroupUsage) -> tuple[Any, ...]:
    names = row.topic or "", row.queue_id or 0, row.begin_timestamp or 0, row.tag or "", row.tags_code or 0
    return -row.log_bytes, -row.messages, -(row.queue_bytes or 0), *names


def measure_queues(
    store: ReadableStore, by: str, topics: frozenset[str] | None, reasons: list[str]
) -> dict[tuple[Any, ...], int]:
    """Return the disk space that the files of each queue, or of the queues of each topic, occupy, bytes."""
    found: dict[tuple[Any, ...], int] = defaultdict(int)
    with collect_error(reasons):
        for queue in chosen_queues(store, topics):
            for path in queue_paths(store, queue):
                key = tuple(queue) if by == "queue" else (queue.topic,)
                with collect_error(reasons):
                    totals = measure_files(path)
                    if totals.files:
                        found[key] += space_of(totals)
    return dict(found)


def queue_paths(store: ReadableStore, queue: QueueId) -> list[StorePath]:
    return [store.places.queue(kind, *queue) for kind in (*QUEUE_KINDS, ConsumeQueueExt)]


def chosen_queues(store: ReadableStore, topics: frozenset[str] | None) -> list[QueueId]:
    return [queue for queue in store.queues() if topics is None or queue.topic in topics]


# ---- from the log ------------------------------------------------------------------------------------------


def count_from_log(
    store: ReadableStore, by: str, topics: frozenset[str] | None, zone: tzinfo | None, progress: Progress
) -> Counted:
    """Count the messages of the log. Damaged ranges of the log are left out, and are among the reasons."""
    counter = GroupCounter([by] if by != "queue" else ["topic", "queue"], zone)
    reasons: list[str] = []
    with collect_error(reasons):
        options = scan_options(counter)
        count_scan(counter, store.commit_log.scan(topic=topics, progress=progress, **options), reasons)
    tallies = {(*values, None) if by == "tag" else values: tally for values, tally in counter.groups().items()}
    return Counted(tallies, [], reasons)


def scan_options(counter: GroupCounter) -> dict[str, Any]:
    """Return the arguments of a scan whose messages will be counted."""
    threads = min(os.cpu_count() or 1, THREADS)
    return {"columns": [*counter.columns], "on_corrupt": "skip", "threads": threads, "containers": False}


def count_scan(counter: GroupCounter, scan: Scan, reasons: list[str]) -> None:
    """Add the messages of a scan to a counter. Damaged ranges are among the reasons.

    Raises: StoreError, OSError, ValueError.
    """
    quiet = scan.adapted(warns=False)
    for batch in quiet:
        counter.add(batch)
    reasons += [
        f"{part.error}: the messages from byte {part.begin} to {part.end} are not counted" for part in quiet.skipped
    ]


# ---- from the queues ---------------------------------------------------------------------------------------


def count_from_queues(store: ReadableStore, by: str, topics: frozenset[str] | None, zone: tzinfo | None) -> Counted:
    """Count the units of the queues, except those of light queues, whose messages are those of other topics."""
    notes: list[str] = []
    reasons: list[str] = []
    tallies: dict[tuple[Any, ...], Tally] = {}
    with collect_error(reasons):
        queues = [queue for queue in chosen_queues(store, topics) if not is_light(queue.topic)]
        if by in ("topic", "queue"):
            tallies = _count_by_queue(store, by, queues, reasons)
        elif by == "tag":
            tallies = _count_by_tag(store, queues, reasons)
            notes.append("tags are shown by their hashes, which are in the queues; exact counts have their names")
        else:
            tallies = _count_by_time(store, WIDTHS[by], zone, queues, reasons)
            notes.append("store times are read from some messages of each queue, and are assumed not to go back in it")
    with collect_error(reasons):
        notes += [*store.describe_missing_units(), *store.describe_built_units()]
    return Counted(tallies, notes, reasons)


def read_queues(
    store: ReadableStore, queues: Sequence[QueueId], reasons: list[str]
) -> Iterator[tuple[QueueId, ConsumeQueueUnits]]:
    """Yield the units of queues, in steps. Queues that cannot be read are among the reasons."""
    for name in queues:
        with collect_error(reasons):
            queue = store.log_queue(*name)
            begin, end = offset_range(queue)
            for units in read_units_between(queue, begin, end, UNITS_AT_ONCE):
                yield name, units


def messages_of_units(units: ConsumeQueueUnits) -> np.ndarray:
    """Return the number of messages of each unit."""
    return np.ones(len(units), np.int64) if units.batch_nums is None else units.batch_nums.astype(np.int64)


def _add(tallies: dict[tuple[Any, ...], Tally], key: tuple[Any, ...], messages: int, size: int) -> None:
    known = tallies.get(key, Tally(0, 0))
    tallies[key] = Tally(known.messages + messages, known.size + size)


def _count_by_queue(
    store: ReadableStore, by: str, queues: Sequence[QueueId], reasons: list[str]
) -> dict[tuple[Any, ...], Tally]:
    tallies: dict[tuple[Any, ...], Tally] = {}
    for name, units in read_queues(store, queues, reasons):
        key = tuple(name) if by == "queue" else (name.topic,)
        _add(tallies, key, int(messages_of_units(units).sum()), int(units.sizes.sum(dtype=np.int64)))
    return tallies


def _add_groups(tallies: dict[tuple[Any, ...], Tally], keys: np.ndarray, counts: np.ndarray, sizes: np.ndarray) -> None:
    """Add messages to tallies by their keys. Parameters: keys, counts, sizes: int64[n]."""
    values, places = np.unique(keys, return_inverse=True)
    sums = (np.bincount(places, column).astype(np.int64).tolist() for column in (counts, sizes))
    for value, messages, size in zip(values.tolist(), *sums, strict=True):
        _add(tallies, (None if value == UNKNOWN else value,), messages, size)


def _count_by_tag(store: ReadableStore, queues: Sequence[QueueId], reasons: list[str]) -> dict[tuple[Any, ...], Tally]:
    """Count units by the hash of their tags: a value in the range of Java's int.

    Other values are due times of delay levels, or addresses in ext files.
    """
    tallies: dict[tuple[Any, ...], Tally] = {}
    for _, units in read_queues(store, queues, reasons):
        is_hash = (units.tags_codes >= INT_MIN) & (units.tags_codes <= INT_MAX)
        keys = np.where(is_hash, units.tags_codes, UNKNOWN)
        _add_groups(tallies, keys, messages_of_units(units), units.sizes.astype(np.int64))
    return {(None, code): tally for (code,), tally in tallies.items()}


def _count_by_time(
    store: ReadableStore, width: int, zone: tzinfo | None, queues: Sequence[QueueId], reasons: list[str]
) -> dict[tuple[Any, ...], Tally]:
    tallies: dict[tuple[Any, ...], Tally] = {}

    def read_bins(phy_offsets: np.ndarray) -> np.ndarray:
        batch, statuses = store.commit_log.find_messages(phy_offsets, columns=["store_timestamp_ms"])
        bins = np.full(len(phy_offsets), UNKNOWN, np.int64)
        bins[statuses == 0] = begins_of(batch.store_timestamp_ms, width, zone)
        return bins

    def count(parts: Sequence[ConsumeQueueUnits]) -> None:
        ends = np.cumsum([len(units) for units in parts])
        bins = find_bins(np.concatenate([units.phy_offsets for units in parts]), ends, read_bins)
        sizes = np.concatenate([units.sizes for units in parts]).astype(np.int64)
        _add_groups(tallies, bins, np.concatenate([messages_of_units(units) for units in parts]), sizes)

    parts: list[ConsumeQueueUnits] = []
    held = 0
    for _, units in read_queues(store, queues, reasons):
        if len(units):
            parts.append(units)
            held += len(units)
        if held >= UNITS_IN_MEMORY:
            count(parts)
            parts, held = [], 0
    if parts:
        count(parts)
    return tallies
