"""The paths of a store, with the directories that its configuration names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocketstore.config import StoreConfig
from rocketstore.disk.store_path import AnyPath, StorePath
from rocketstore.queue.batch_consume_queue import BatchConsumeQueue
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.root_places import RootPlaces

QueueKind = type[ConsumeQueue] | type[ConsumeQueueExt]


@dataclass(frozen=True)
class StorePlaces(RootPlaces[AnyPath]):
    """The paths of a store, as ``RootPlaces``, and the directories of its commit log.

    Attributes: log_directories: read-only ones last.
    """

    log_directories: tuple[StorePath, ...]

    @classmethod
    def of(cls, root: AnyPath, config: StoreConfig | None = None) -> StorePlaces[AnyPath]:
        """Parameters: config: names the directories of the commit log; None for the directory in the root alone."""
        if config is None:
            return cls(root, (RootPlaces(root).default_log,))
        return cls(root, tuple(config.commit_log_paths(root)))

    def queues(self, kind: QueueKind) -> AnyPath:
        """Return the directory of all queues of a kind, or of their ext files."""
        if kind is ConsumeQueue:
            return self.plain_queues
        return self.batch_queues if kind is BatchConsumeQueue else self.ext_files

    def topic(self, kind: QueueKind, topic: str) -> AnyPath:
        """Return the directory of the queues of a topic, or of their ext files."""
        return self.queues(kind) / topic

    def queue(self, kind: QueueKind, topic: str, queue_id: int | str) -> AnyPath:
        """Return the directory of a queue, or of its ext files."""
        return self.queues(kind) / topic / str(queue_id)


LocalPlaces = StorePlaces[Path]  # of a function that changes the store
AnyPlaces = StorePlaces[Path] | StorePlaces[StorePath]  # of a function that only reads
