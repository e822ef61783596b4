"""Summarise a store: counts, bounds, times and problems of all its parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rocketstore.disk.storage import names_in
from rocketstore.errors import StoreError, text_of
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.leftovers import count_leftover_bytes, describe_leftovers
from rocketstore.preview import Preview, is_time
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.store.overview.missing import missing_parts
from rocketstore.store.overview.tier import describe_tier
from rocketstore.store.readable_store import ReadableStore
from rocketstore.survey.broker_config import BrokerConfig
from rocketstore.survey.unfinished import describe_unfinished
from rocketstore.text_values import datetime_or_none, format_count, utc

COUNTED_LOG = 256 << 20  # bytes of a log that is read to count messages whose queues are not read
COUNTED_QUEUES = 1000  # a repr counts the messages of at most this many queues


class StoreSummary(NamedTuple):
    """A summary of a store. Times are epoch milliseconds, offsets are bytes. None means unknown.

    ``problems``: parts that cannot be read, or are wrong. ``notes``: topics whose consumers get other messages than the
    counted ones, for example compacted topics; whether records behind the end of the log are not read; and whether the
    index has items that lead there.
    ``leftover_bytes``: the number of bytes from the end of the log to the last byte behind it that is not zero.
    ``leftover_units``: the number of units of all queues behind their ends. A broker cut off these bytes and units and
    did not erase them. Both are None if the store crashed.

    Examples:
    >>> summary = rocketstore.open("demo").summary()
    >>> summary.topics, summary.queues, summary.messages, summary.last_exit_ok
    (2, 2, 101, True)
    """

    topics: int | None
    queues: int | None
    messages: int | None
    min_phy_offset: int | None
    max_phy_offset: int | None
    begin_timestamp: int | None
    end_timestamp: int | None
    index_begin_phy_offset: int | None
    index_end_phy_offset: int | None
    last_exit_ok: bool
    is_locked: bool
    problems: list[str]
    notes: Sequence[str] = ()
    leftover_bytes: int | None = None
    leftover_units: int | None = None

    def _preview(self) -> Preview:
        rows = [(name, getattr(self, name)) for name in self._fields if name not in ("problems", "notes")]
        shown = [(name, utc(value) if is_time(name) and value is not None else value) for name, value in rows]
        return Preview("StoreSummary", ("field", "value"), shown, [*self.problems, *self.notes])

    def __repr__(self) -> str:
        return self._preview().text()

    def _repr_html_(self) -> str:
        return self._preview().html()

    @property
    def begin_time(self) -> datetime | None:
        """``begin_timestamp`` as a datetime in UTC; None if it is unknown."""
        return None if self.begin_timestamp is None else datetime_or_none(self.begin_timestamp)

    @property
    def end_time(self) -> datetime | None:
        """``end_timestamp`` as a datetime in UTC; None if it is unknown."""
        return None if self.end_timestamp is None else datetime_or_none(self.end_timestamp)


class LogSpan(NamedTuple):
    """The bounds of a log, bytes, and the store times of its first and last message, epoch ms."""

    begin: int | None = None
    end: int | None = None
    begin_timestamp: int | None = None
    end_timestamp: int | None = None


class IndexSpan(NamedTuple):
    """The physical offsets of the first and the last message in the index, bytes."""

    begin: int | None = None
    end: int | None = None


@contextlib.contextmanager
def collect_error(problems: list[str]) -> Iterator[None]:
    """Add an error that a damaged or unreadable part raises to ``problems``, and continue after the block."""
    try:
        yield
    except (OSError, StoreError, ValueError, KeyError) as error:
        problems.append(text_of(error))


def summarize(store: ReadableStore, *, count_messages: bool) -> StoreSummary:
    """Summarise all parts of a store. ``MessageStore.summary`` has the documentation."""
    problems: list[str] = []
    notes = [*store.opening_notes]
    queues: list[tuple[str, int]] | None = None
    messages = leftover_bytes = leftover_units = None
    config: BrokerConfig | None = None
    log, index = LogSpan(), IndexSpan()
    uncounted: str | None = None
    with collect_error(problems):
        if (text := describe_unfinished(store.path, names_in(store.path))) is not None:
            problems.append(f"{store.path}: {text}")
    with collect_error(problems):
        config = store.broker_config
        problems += [f"{problem.path}: {problem.what}" for problem in config.problems]
    with collect_error(problems):
        if (uncounted := describe_uncounted(store)) is None:
            queues = list(store.queues())
        else:
            notes.append(uncounted)
    if count_messages and queues is not None:
        messages, units = count_queues(store.consume_queue, queues, problems)
        leftover_units = units if store.is_bounded else None
    with collect_error(problems):
        problems += missing_parts(store, config, queues) if uncounted is None else []
    with collect_error(problems):
        _ = store.checkpoint
    # Queues and index lead to records that are in the log already. So the log is read after them: a store that is being
    # written has no unit and no item behind the end that is found then.
    with collect_error(problems):
        index = find_index_span(store)
    with collect_error(problems):
        log = find_log_span(store.commit_log)
        leftover_bytes = count_leftover_bytes(store.commit_log, store.commit_log.max_phy_offset)
    with collect_error(problems):
        if (text := describe_leftovers(store.commit_log)) is not None:
            notes.append(text)
    with collect_error(problems):
        compare_ends(store, log, index, problems, notes)
    is_locked = False
    with collect_error(problems):
        is_locked = store.is_locked
    with collect_error(problems):
        formats = store.formats
        notes += formats.notes()
        problems += formats.problems()
    with collect_error(problems):
        notes += [*store.describe_missing_units(), *store.describe_built_units()]
    with collect_error(problems):
        if (text := describe_tier(store)) is not None:
            notes.append(text)
    topics = None if queues is None else len({topic for topic, _ in queues})
    parts = topics, None if queues is None else len(queues), messages, *log, *index
    state = store.last_exit_ok, is_locked, problems, notes
    return StoreSummary(*parts, *state, leftover_bytes=leftover_bytes, leftover_units=leftover_units)


def describe_uncounted(store: ReadableStore) -> str | None:
    """Return why queues and messages are not counted: a long log would be read for them. None if they are counted."""
    if not store.formats.must_build_queues:
        return None
    log = store.commit_log
    size = log.max_phy_offset - log.min_phy_offset
    if size <= COUNTED_LOG:
        return None
    why = f"the whole log, {size} bytes, would be read for them"
    return f"{store.path}: topics, queues and messages are not counted: {why}"


def count_queues(
    open_queue: Callable[[str, int], StoredQueue], queues: list[tuple[str, int]], problems: list[str]
) -> tuple[int, int]:
    """Return the number of messages in queues, and of leftover units. Queues that cannot be read are problems."""
    messages = units = 0
    for name in queues:
        with collect_error(problems):
            queue = open_queue(*name)
            messages += len(queue)
            units += queue.leftover_units
    return messages, units


def count_messages(
    open_queue: Callable[[str, int], StoredQueue], queues: Iterable[tuple[str, int]], problems: list[str]
) -> int:
    """Return the number of messages in queues. Queues that cannot be read are problems."""
    messages = 0
    for name in queues:
        with collect_error(problems):
            messages += len(open_queue(*name))
    return messages


def find_log_span(log: CommitLog) -> LogSpan:
    begin, end = log.min_phy_offset, log.max_phy_offset
    starts = (log.reader.record_at(log.reader.begin_in(file)) for file in log.file_run.files)
    first = next((message for message in map(log.find_message, starts) if message is not None), None)
    last = None if log.last_phy_offset is None else log.find_message(log.last_phy_offset)
    return LogSpan(begin, end, *(None if message is None else message.store_timestamp for message in (first, last)))


def find_index_span(store: ReadableStore) -> IndexSpan:
    service = store.index
    if service is None:
        return IndexSpan()
    service.check_file_sizes()
    headers = [file.header for file in service.files if len(file)]
    return IndexSpan(headers[0].begin_phy_offset, headers[-1].end_phy_offset) if headers else IndexSpan()


def compare_ends(store: ReadableStore, log: LogSpan, index: IndexSpan, problems: list[str], notes: list[str]) -> None:
    """Add a problem if the index reaches behind a log whose end was lost, or a note if a broker cut the log off."""
    if index.end is None:
        return
    log_end = store.commit_log.max_phy_offset
    if (
        index.end < log_end or log_end >= store.commit_log.end_finder.find_limit()
    ):  # these items are of an uncommitted write
        return
    reason = f"the index leads to a message at byte {index.end}, but sound messages end at byte {log_end}"
    if index.end == log_end:
        reason = (
            f"the index leads to a message at byte {index.end}, where sound messages end: that message is torn or lost"
        )
    if is_end_lost(store, log_end, log.end_timestamp):
        problems.append(f"{store.path}: {reason}: see verify")
    else:
        notes.append(f"{store.path}: {reason}; a broker keeps items that lead behind the end of the log")


def is_end_lost(store: ReadableStore, log_end: int, end_timestamp: int | None) -> bool:
    """Return whether records behind the end of the log were lost or damaged after they were on the disk.

    Else a broker that started ended the log there: a power failure took the records, or the broker cut them off.

    Parameters: log_end: bytes. end_timestamp: the store time of the last record, epoch ms; None without a record.
    """
    if not store.commit_log.end_finder.is_end_known():
        return True
    point = store.checkpoint
    times = () if end_timestamp is None else (point.physic_msg_timestamp, point.logics_msg_timestamp)
    offsets = point.confirm_phy_offset, point.logics_physical_offset
    return any(time > (end_timestamp or 0) for time in times) or any(offset > log_end for offset in offsets)


def describe(store: ReadableStore) -> str:
    """Return a summary of a store in one line."""
    queues = 0
    with contextlib.suppress(StoreError, OSError):
        queues = sum(1 for _ in store.queues())
    about = summarize(store, count_messages=queues <= COUNTED_QUEUES)
    parts: list[Any] = []
    if about.topics is not None and about.queues is not None:
        parts.append(f"{format_count(about.topics, 'topic')}, {format_count(about.queues, 'queue')}")
    if about.messages is not None:
        parts.append(format_count(about.messages, "message"))
    if about.min_phy_offset is not None and about.max_phy_offset is not None:
        parts.append(f"{about.max_phy_offset - about.min_phy_offset:,} bytes of log")
    if about.begin_timestamp is not None and about.end_timestamp is not None:
        parts.append(f"{utc(about.begin_timestamp)} to {utc(about.end_timestamp)}")
    if about.index_end_phy_offset is None:
        parts.append("no index")
    else:
        parts.append(f"indexed from {about.index_begin_phy_offset:,} to {about.index_end_phy_offset:,}")
    unlocked = "stopped cleanly" if about.last_exit_ok else "crashed"
    parts.append("open for writing" if store.mode != "r" else "a broker runs" if about.is_locked else unlocked)
    return ", ".join(parts + about.problems)
