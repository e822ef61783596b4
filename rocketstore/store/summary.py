"""A store at a glance, and how far its consumers are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rocketstore.errors import StoreError
from rocketstore.kernels.commit_log import END
from rocketstore.layout.layout import has_file_queues
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.end_rule import StoreState
from rocketstore.messages.message import utc
from rocketstore.messages.system_flags import TRANSACTION_PREPARED
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.recovery.leftovers import count_leftover_bytes
from rocketstore.state.broker_config import BrokerConfig

if TYPE_CHECKING:
    from rocketstore.store.message_store import MessageStore

__all__ = ["ConsumerLag", "StoreSummary", "consumer_lag", "describe", "summary"]

DIRECTORIES = *(kind.directory_name for kind in QUEUE_KINDS), ConsumeQueueExt.directory_name, "index"
LOOKED_AT_FILES = 64  # of the log, for their first message
COUNTED_QUEUES = 1000  # more are not opened for a repr
Span = tuple[int | None, int | None, int | None, int | None]


class ConsumerLag(NamedTuple):
    """How far a group is behind in a queue: ``lag`` messages from ``consumer_offset``, the next, to ``max_offset``.

    Of a queue that cannot be read, or is lost, these are None, and ``problem`` says why; and if the next to be consumed
    is beyond the queue's end.
    """

    group: str
    topic: str
    queue_id: int
    consumer_offset: int
    min_offset: int | None
    max_offset: int | None
    lag: int | None
    problem: str | None = None


class StoreSummary(NamedTuple):
    """A store at a glance. Times are epoch milliseconds, offsets bytes; None: not known.

    ``problems``: what cannot be read, or is wrong. ``notes``: topics whose consumers get other messages than those that
    are counted here, such as compacted topics, and whether the index has items that lead behind the end of the log.
    ``leftover_bytes``: the number of bytes from the end of the log to the last byte behind it that is not zero.
    ``leftover_units``: the number of units of all queues behind their ends. A broker cut off these bytes and units and
    did not erase them. Both are None if the store crashed.
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


def consumer_lag(store: MessageStore, group: str | None) -> Iterator[ConsumerLag]:
    """The documentation is MessageStore.consumer_lag's."""
    store.layout.require_config_files("read")
    config = store.broker_config
    for name, topic, queue_id, offset in config.next_offsets():
        if group in (None, name):
            lag = lag_of(store, topic, queue_id, offset, topic in config.topics)
            yield ConsumerLag(name, topic, queue_id, offset, *lag)


def lag_of(
    store: MessageStore, topic: str, queue_id: int, offset: int, is_known: bool
) -> tuple[int | None, int | None, int | None, str | None]:
    """Minimum, maximum, lag; or none of them and why the queue cannot be read; and why an offset cannot be.

    Parameters: is_known: whether the topic is in topics.json: of one that was deleted, consumers' offsets stay.
    """
    try:
        bounds = bounds_of(store, topic, queue_id, is_known and offset > 0)
    except (OSError, StoreError) as error:
        return None, None, None, str(error)
    if bounds is None:
        return 0, 0, 0, None
    problem = None
    if offset > bounds[1]:
        problem = f"{store.path}: {topic}/{queue_id}: consumer offset {offset} is beyond the queue's end, {bounds[1]}"
    return *bounds, max(bounds[1] - offset, 0), problem


def bounds_of(store: MessageStore, topic: str, queue_id: int, had_messages: bool) -> tuple[int, int] | None:
    """Give a queue's minimum and maximum, None where there is none yet. Raises: StoreError if it is lost; OSError."""
    try:
        queue = store.consume_queue(topic, queue_id)
    except KeyError as error:
        if lost := lost_queues(store):
            raise StoreError(lost) from None
        if had_messages:
            raise StoreError(f"{error.args[0]}: it is lost, or all that was in it has expired") from None
        return None
    return max(queue.min_queue_offset, 0), queue.max_queue_offset


def summary(store: MessageStore, count_messages: bool) -> StoreSummary:
    """The documentation is MessageStore.summary's."""
    problems: list[str] = []

    @contextlib.contextmanager
    def noted() -> Iterator[None]:
        try:
            yield
        except (OSError, StoreError, ValueError, KeyError) as error:
            problems.append(str(error))

    queues: list[tuple[str, int]] | None = None
    messages = leftover_bytes = leftover_units = None
    config: BrokerConfig | None = None
    log: Span = (None, None, None, None)
    index: tuple[int | None, int | None] = (None, None)
    with noted():
        config = store.broker_config
        problems += [f"{problem.path}: {problem.what}" for problem in config.problems]
    with noted():
        queues = list(store.queues())
    if count_messages and queues is not None:
        messages = units = 0
        for name in queues:
            with noted():
                queue = store.consume_queue(*name)
                messages += len(queue)
                units += queue.leftover_units
        leftover_units = units if store.is_bounded else None
    with noted():
        problems += missing_parts(store, config, queues)
    with noted():
        _ = store.checkpoint
    with noted():
        log = log_span(store.commit_log)
        leftover_bytes = count_leftover_bytes(store.commit_log, store.commit_log.max_phy_offset)
    with noted():
        service = store.index
        if service is not None:
            service.check_file_sizes()
            headers = [file.header for file in service.files if len(file)]
            if headers:
                index = headers[0].begin_phy_offset, headers[-1].end_phy_offset
    notes: list[str] = []
    with noted():
        log_end = 0 if index[1] is None else store.commit_log.max_phy_offset
        is_ahead = index[1] is not None and index[1] >= log_end
        if is_ahead and log_end < store.commit_log.find_limit():  # else the items are of a write that is not committed
            reason = f"the index reaches {index[1]}, sound messages end at {log_end}"
            if is_end_lost(store, log_end, log[3]):
                problems.append(f"{store.path}: {reason}: see verify")
            else:
                notes.append(f"{store.path}: {reason}; a broker keeps items that lead behind the end of the log")
    topics = None if queues is None else len({topic for topic, _ in queues})
    n_queues = None if queues is None else len(queues)
    is_locked = False
    with noted():
        is_locked = store.is_locked
    with noted():
        layout = store.layout
        notes += layout.notes()
        problems += layout.problems()
    parts = topics, n_queues, messages, *log, *index
    state = store.last_exit_ok, is_locked, problems, notes
    return StoreSummary(*parts, *state, leftover_bytes=leftover_bytes, leftover_units=leftover_units)


def is_end_lost(store: MessageStore, log_end: int, end_timestamp: int | None) -> bool:
    """Return whether records behind the end of the log were lost or damaged after they were on the disk.

    Else a broker that started ended the log there: a power failure took the records, or the broker cut them off.

    Parameters: log_end: bytes. end_timestamp: the store time of the last record, epoch ms; None without a record.
    """
    if store.commit_log.ending.state == StoreState.CRASHED:
        return True
    point = store.checkpoint
    times = () if end_timestamp is None else (point.physic_msg_timestamp, point.logics_msg_timestamp)
    offsets = point.confirm_phy_offset, point.logics_physical_offset
    return any(time > (end_timestamp or 0) for time in times) or any(offset > log_end for offset in offsets)


# ---- what is missing ---------------------------------------------------------------------------------------


def missing_parts(
    store: MessageStore, config: BrokerConfig | None, queues: list[tuple[str, int]] | None
) -> Iterator[str]:
    """Say which parts must have been there, by what the others have; nothing is read for that but their ends."""
    for name in DIRECTORIES:
        path = store.path / name
        if path.exists() and not path.is_dir():
            yield f"{path}: a directory was expected"
    log = store._log_or_none
    if log is None:
        return
    yield from missing_log_files(log)
    yield from missing_log_directories(store, log)
    if queues and config is not None:
        yield from missing_queues(store, config, log, set(queues))
    elif queues == [] and (lost := lost_queues(store)):
        yield lost


def missing_log_files(log: CommitLog) -> Iterator[str]:
    """Name the gaps between files; one that was cut is seen when it is read."""
    for file, later in pairwise(log.queue.files):
        if log.end_of(file) < later.file_from_offset:
            yield str(log.error(log.end_of(file), END))


def missing_log_directories(store: MessageStore, log: CommitLog) -> Iterator[str]:
    """Name directories of the log that there are not. A broker makes each for its first file, one after the other."""
    paths = store.config.commit_log_paths(store.path)
    files = log.queue.files
    if files and files[-1].end_offset >= len(paths) * log.mapped_file_size:
        yield from (f"{path}: this directory of the commit log is missing" for path in paths if not path.is_dir())


def missing_queues(
    store: MessageStore, config: BrokerConfig, log: CommitLog, queues: set[tuple[str, int]]
) -> Iterator[str]:
    """Name queues that are not there, but consumers got messages of them, or a file of the log begins with one.

    Of a topic that was deleted those stay, too; it is not in topics.json any more.
    """
    had = queues_at_starts(log)
    if log.min_phy_offset == 0:  # else all that was consumed may have expired, and the queue with it
        had |= {(topic, queue_id) for _, topic, queue_id, offset in config.next_offsets() if offset > 0}
    if had <= queues:
        return
    for topic, queue_id in sorted(had.difference(store.queues())):  # some may have come since
        if topic in config.topics:
            yield f"{store.path}: queue {queue_id} of topic {topic!r} is missing, and had messages: rebuild makes it"


def queues_at_starts(log: CommitLog) -> set[tuple[str, int]]:
    """Give the queues of the messages with which files of the log begin, but of those that are in none."""
    begins = np.fromiter(islice(starts(log), LOOKED_AT_FILES), np.int64)
    messages, _ = log.find_messages(begins, columns=["topic", "queue_id", "sys_flag"])
    # The bit of prepared messages is set in rolled-back ones too. Neither are in a queue.
    messages = messages.take(np.flatnonzero(messages.sys_flag & TRANSACTION_PREPARED == 0))
    return set(zip((message.topic for message in messages), messages.queue_id.tolist(), strict=True))


def lost_queues(store: MessageStore) -> str | None:
    """Say so if there are no queues at all, but a log that has messages."""
    log = store._log_or_none
    if log is None or log.max_phy_offset == log.min_phy_offset or has_file_queues(store.path):
        return None
    return f"{store.path}: there are no queues, but messages in the log: rebuild makes them"


def log_span(log: CommitLog) -> Span:
    """Where a log begins and ends, and the store times of its first and last message."""
    begin, end = log.min_phy_offset, log.max_phy_offset
    first = next((message for message in map(log.find_message, starts(log)) if message is not None), None)
    last = None if log.last_phy_offset is None else log.find_message(log.last_phy_offset)
    times = [None if message is None else message.store_timestamp for message in (first, last)]
    return begin, end, times[0], times[1]


def starts(log: CommitLog) -> Iterator[int]:
    return (file.file_from_offset for file in log.queue.files)


def describe(store: MessageStore) -> str:
    """Say in one line what is in a store."""
    queues = 0
    with contextlib.suppress(StoreError, OSError):
        queues = sum(1 for _ in store.queues())
    about = summary(store, queues <= COUNTED_QUEUES)
    parts: list[Any] = []
    if about.topics is not None and about.queues is not None:
        parts.append(f"{about.topics:,} topics, {about.queues:,} queues")
    if about.messages is not None:
        parts.append(f"{about.messages:,} messages")
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
