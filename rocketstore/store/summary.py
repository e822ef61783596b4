"""A store at a glance, and how far its consumers are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rocketstore.errors import StoreError
from rocketstore.files.commit_log import CommitLog
from rocketstore.message import utc

if TYPE_CHECKING:
    from rocketstore.store.message_store import MessageStore

__all__ = ["ConsumerLag", "StoreSummary", "consumer_lag", "describe", "summary"]

COUNTED_QUEUES = 1000  # more are not opened for a repr
Span = tuple[int | None, int | None, int | None, int | None]


class ConsumerLag(NamedTuple):
    """How far a group is behind in a queue: ``lag`` messages from ``consumer_offset``, the next, to ``max_offset``.

    Of a queue that cannot be read these are None, and ``problem`` says why.
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
    """A store at a glance. Times are epoch milliseconds, offsets bytes; None: not known."""

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


def consumer_lag(store: MessageStore, group: str | None) -> Iterator[ConsumerLag]:
    """The documentation is MessageStore.consumer_lag's."""
    for name, topics in sorted(store.broker_config.consumer_offsets.items()):
        if group not in (None, name):
            continue
        for topic, offsets in sorted(topics.items()):
            for queue_id, offset in sorted(offsets.items()):
                yield ConsumerLag(name, topic, queue_id, offset, *lag_of(store, topic, queue_id, offset))


def lag_of(
    store: MessageStore, topic: str, queue_id: int, offset: int
) -> tuple[int | None, int | None, int | None, str | None]:
    """Minimum, maximum, lag; or none of them and why the queue cannot be read."""
    try:
        queue = store.consume_queue(topic, queue_id)
        least, most = max(queue.min_queue_offset, 0), queue.max_queue_offset
    except KeyError:
        least = most = 0
    except (OSError, StoreError) as error:
        return None, None, None, str(error)
    return least, most, max(most - offset, 0), None


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
    messages = None
    log: Span = (None, None, None, None)
    index: tuple[int | None, int | None] = (None, None)
    with noted():
        problems += [f"{problem.path}: {problem.what}" for problem in store.broker_config.problems]
    with noted():
        queues = list(store.queues())
    if count_messages and queues is not None:
        messages = 0
        for queue in queues:
            with noted():
                messages += len(store.consume_queue(*queue))
    with noted():
        _ = store.checkpoint
    with noted():
        log = log_span(store.commit_log)
    with noted():
        service = store.index
        if service is not None:
            service.check_file_sizes()
            headers = [file.header for file in service.files if len(file)]
            if headers:
                index = headers[0].begin_phy_offset, headers[-1].end_phy_offset
    with noted():
        if index[1] is not None and index[1] >= (end := store.commit_log.max_phy_offset):
            problems.append(f"{store.path}: the index reaches {index[1]}, sound messages end at {end}: see verify")
    topics = None if queues is None else len({topic for topic, _ in queues})
    n_queues = None if queues is None else len(queues)
    is_locked = False
    with noted():
        is_locked = store.is_locked
    return StoreSummary(topics, n_queues, messages, *log, *index, store.last_exit_ok, is_locked, problems)


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
