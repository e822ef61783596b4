"""The directories of queues: ``consumequeue/TOPIC/QUEUE ID``, and the same for batch queues and ext files."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator
from typing import Any

from rocketstore.disk.storage import scandir
from rocketstore.disk.store_path import AnyPath, StorePath
from rocketstore.limits import INT_MAX, INT_MIN

NO_DIRECTORY = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
QUEUE_NAME = re.compile("0|-?[1-9][0-9]{0,9}")


def is_queue_name(name: str) -> bool:
    """Return whether a name is that of a queue's directory: an int as Java writes one.

    For other spellings of a number, like 007, RocketMQ loads the directory of the usual spelling.
    Source: ConsumeQueueStore.loadConsumeQueues.
    """
    return QUEUE_NAME.fullmatch(name) is not None and INT_MIN <= int(name) <= INT_MAX


def queue_directories(directory: AnyPath) -> Iterator[AnyPath]:
    """Yield the directories of all queues, by topic and name. Raises: OSError if a directory cannot be listed."""
    for topic in topics_in(directory):
        of_topic = directory / topic
        yield from (of_topic / name for name in _queue_names(of_topic))


def queue_ids_in(topic_directory: StorePath) -> Iterator[int]:
    return map(int, _queue_names(topic_directory))


def topics_in(directory: StorePath) -> list[str]:
    return sorted(entry.name for entry in _entries_of(directory))


def _queue_names(topic_directory: StorePath) -> list[str]:
    return sorted(entry.name for entry in _entries_of(topic_directory) if is_queue_name(entry.name) and _is_dir(entry))


def _entries_of(directory: StorePath) -> Iterator[Any]:
    """Yield the entries of a directory, none if it is missing."""
    try:
        with scandir(directory) as entries:
            yield from entries
    except OSError as error:
        if error.errno not in NO_DIRECTORY:
            raise


def _is_dir(entry: Any) -> bool:
    with contextlib.suppress(OSError):  # a link that leads to itself
        return bool(entry.is_dir())
    return False
