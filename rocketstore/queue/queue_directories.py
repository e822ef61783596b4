"""The directories of queues, each consumequeue/TOPIC/QUEUE ID, and so those of batch queues and of ext files."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocketstore.disk.storage import scandir
from rocketstore.queue.consume_queue import is_queue_name

__all__ = ["queue_directories", "queue_ids_in", "topics_in"]

NO_DIRECTORY = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def queue_directories(directory: Path) -> Iterator[Path]:
    """Give the directories of all queues, by topic and name. Raises: OSError for one that cannot be listed."""
    for topic in topics_in(directory):
        of_topic = directory / topic
        yield from (of_topic / name for name in _queue_names(of_topic))


def queue_ids_in(topic_directory: Path) -> Iterator[int]:
    return map(int, _queue_names(topic_directory))


def topics_in(directory: Path) -> list[str]:
    return sorted(entry.name for entry in _entries_of(directory))


def _queue_names(topic_directory: Path) -> list[str]:
    return sorted(entry.name for entry in _entries_of(topic_directory) if is_queue_name(entry.name) and _is_dir(entry))


def _entries_of(directory: Path) -> Iterator[Any]:
    """Give what is in a directory, nothing if there is none."""
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
