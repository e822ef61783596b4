"""FileQueues: the queues of a store whose units are in files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rocketstore.disk.file_run_reader import Mappings
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.queue_id import QueueId
from rocketstore.messages.topics import is_file_name
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.queue_directories import queue_ids_in, topics_in
from rocketstore.queue.unit_run import UnitRun


@dataclass(frozen=True)
class FileQueues:
    """The queues below one directory for each kind. Nothing is kept open.

    Attributes: directories: by kind, in the order in which a queue is looked for. sizes: by kind, the length of a
    complete file, bytes; None: what the files show. find_log: returns the log into which units lead, None without one.
    mappings: those that all queues share.
    """

    directories: Mapping[type[ConsumeQueue], StorePath]
    sizes: Mapping[type[ConsumeQueue], int | None]
    find_log: Callable[[], Any]
    mappings: Mappings

    def queues(self) -> Iterator[QueueId]:
        """Return the ids of all queues, sorted. Raises: OSError."""
        found: set[QueueId] = set()
        for directory in self.directories.values():
            for topic in topics_in(directory):
                found.update(QueueId(topic, number) for number in queue_ids_in(directory / topic))
        return iter(sorted(found))

    def queue_ids(self, topic: str) -> list[int]:
        """Return the sorted queue ids of a topic, none for an unknown topic. Raises: OSError."""
        directories = self.directories.values() if is_file_name(topic) else ()
        return sorted({number for directory in directories for number in queue_ids_in(directory / topic)})

    def open(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Open a queue. Return None if it is missing. Raises: OSError; as ``ConsumeQueue.open``."""
        for kind, directory in self.directories.items() if is_file_name(topic) else ():
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return kind.open(
                    directory / topic / str(queue_id),
                    mapped_file_size=self.sizes[kind],
                    commit_log=self.find_log(),
                    _mappings=self.mappings,
                )
        return None

    def list_files(self, topic: str, queue_id: int) -> tuple[type[ConsumeQueue], UnitRun] | None:
        """List the files of a queue, which is not opened. Return its kind and its units; None if it is missing.

        Raises: OSError; CorruptFileError for a file of a wrong size.
        """
        for kind, directory in self.directories.items() if is_file_name(topic) else ():
            run = kind.run_type(directory / topic / str(queue_id), self.sizes[kind], self.mappings)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                run.list_files()
                return kind, run
        return None
