"""Find parts of a store that existed, judged by the other parts. Only the ends of files are read.

Also explain names of topics and queues that are unknown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np

from rocketstore.kernels.commit_log import END
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.system_flags import TRANSACTION_PREPARED
from rocketstore.messages.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX
from rocketstore.store.readable_store import ReadableStore
from rocketstore.survey.broker_config import BrokerConfig
from rocketstore.survey.formats import find_dledger, has_file_queues
from rocketstore.text_values import find_similar

MAX_FIRST_MESSAGES = 64  # files of the log whose first message is read


def missing_parts(
    store: ReadableStore, config: BrokerConfig | None, queues: list[tuple[str, int]] | None
) -> Iterator[str]:
    """Describe each missing part. config, queues: None if they cannot be read."""
    places = store.places
    for path in (*places.queue_parts, places.index):
        if path.exists() and not path.is_dir():
            yield f"{path}: a directory was expected"
    log = store.find_commit_log()
    if log is None:
        return
    yield from missing_log_files(log)
    yield from missing_log_directories(store, log)
    if queues and config is not None:
        yield from missing_queues(store, config, log, set(queues))
    elif queues == [] and (lost := describe_lost_queues(store)):
        yield lost


def missing_log_files(log: CommitLog) -> Iterator[str]:
    """Describe the gaps between files. A file that was truncated is noticed when it is read."""
    for file, later in pairwise(log.file_run.files):
        if log.reader.end_of(file) < later.file_from_offset:
            yield str(log.error(log.reader.end_of(file), END))


def missing_log_directories(store: ReadableStore, log: CommitLog) -> Iterator[str]:
    """Describe missing directories of the log. A broker makes each directory for its first file, in turn."""
    dledger = find_dledger(store.places, store.config)
    # The older log of plain files below DLedger's is deleted at last.
    paths = store.places.log_directories if dledger is None else dledger.data
    files = log.file_run.files
    if files and files[-1].end_offset >= len(paths) * log.mapped_file_size:
        yield from (f"{path}: this directory of the commit log is missing" for path in paths if not path.is_dir())


def missing_queues(
    store: ReadableStore, config: BrokerConfig, log: CommitLog, queues: set[tuple[str, int]]
) -> Iterator[str]:
    """Describe missing queues: consumers got messages of them, or a file of the log begins with their message.

    A deleted topic leaves consumer offsets and messages too, but topics.json does not have it any more.
    """
    had = queues_at_file_starts(log)
    if log.min_phy_offset == 0:  # else all consumed messages may have expired, and the queue with them
        had |= {(topic, queue_id) for _, topic, queue_id, offset in config.next_offsets() if offset > 0}
    if had <= queues:
        return
    for topic, queue_id in sorted(had.difference(store.queues())):  # the broker may have made new queues since
        if topic in config.topics:
            text = f"{store.path}: queue {queue_id} of topic {topic!r} is missing, although it had messages"
            yield f"{text}: {rebuild_command(store)} builds it"


def queues_at_file_starts(log: CommitLog) -> set[tuple[str, int]]:
    """Return the queues of the first messages of the log's files. Messages that go into no queue are left out."""
    files = islice(log.file_run.files, MAX_FIRST_MESSAGES)
    begins = np.fromiter((log.reader.record_at(log.reader.begin_in(file)) for file in files), np.int64)
    messages, _ = log.find_messages(begins, columns=["topic", "queue_id", "sys_flag"])
    # The bit of prepared messages is set in rolled-back messages too. Neither are in a queue.
    messages = messages.take(np.flatnonzero(messages.sys_flag & TRANSACTION_PREPARED == 0))
    return set(zip((message.topic for message in messages), messages.queue_id.tolist(), strict=True))


def describe_lost_queues(store: ReadableStore) -> str | None:
    """Return a problem if the log has messages and the store has no queues at all, else None."""
    log = store.find_commit_log()
    if log is None or log.max_phy_offset == log.min_phy_offset or has_file_queues(store.places):
        return None
    return f"{store.path}: the log has messages, but there are no queues: {rebuild_command(store)} builds them"


def rebuild_command(store: ReadableStore) -> str:
    return f"rocketstore rebuild {shlex.quote(str(store.path))} --consume-queue"


def describe_unknown_topic(store: ReadableStore, topic: str) -> str | None:
    """Return a problem if a topic has no queue; None if it has a queue.

    The problem names a similar topic, or says that all queues of the store are lost.

    Raises: UnsupportedFormatError if the queues cannot be read; OSError.
    """
    topics = {name for name, _ in store.queues()}
    if topic in topics:
        return None
    if not topics and (lost := describe_lost_queues(store)) is not None:
        return lost
    parts = [part for part in re.split(r"[\s,;]+", topic) if part]
    if len(parts) > 1 and topics.issuperset(parts):
        return f"{store.path}: there is no queue of topic {topic!r}: give several topics one by one: {parts}"
    similar = find_similar(topic, topics)
    hints = [] if similar is None else [f"did you mean {similar!r}?"]
    if similar is None or is_of_group(topic):
        hints.append(topics_command(store.path, topic))
    hint = " ".join(hints)
    return f"{store.path}: there is no queue of topic {topic!r}: {hint}"


def is_of_group(topic: str) -> bool:
    """Return whether a topic is one of a consumer group, or is meant as one: of its dead letters or its retries."""
    return is_of_dead_letters(topic) or is_of_retries(topic)


def is_of_dead_letters(topic: str) -> bool:
    return topic.casefold().startswith(DEAD_LETTER_PREFIX.casefold()) or topic.casefold() == "dlq"


def is_of_retries(topic: str) -> bool:
    return topic.casefold().startswith(RETRY_PREFIX.casefold()) or topic.casefold() == "retry"


def topics_command(path: object, topic: str) -> str:
    """Return the command that shows the topics among which an unknown one may be, and what it shows."""
    quoted = shlex.quote(str(path))
    if is_of_dead_letters(topic):
        return f"rocketstore dlq {quoted} shows the dead letters of all groups"
    if is_of_retries(topic):
        return f"rocketstore dlq {quoted} --retry shows the retried messages of all groups"
    return f"rocketstore ls {quoted} shows all"


def describe_unknown_queue(store: ReadableStore, topic: str, queue_id: int) -> str | None:
    """Return a problem that names the queue ids of a topic if a queue is missing. Return None if it exists.

    Raises: as ``describe_unknown_topic``.
    """
    ids = sorted(number for name, number in store.queues() if name == topic)
    if not ids:
        return describe_unknown_topic(store, topic)
    if queue_id in ids:
        return None
    is_range = len(ids) > 2 and ids[-1] - ids[0] == len(ids) - 1
    shown = f"{ids[0]} to {ids[-1]}" if is_range else ", ".join(map(str, ids))
    return f"{store.path}: there is no queue {queue_id} of topic {topic!r}: its queue ids are {shown}"
