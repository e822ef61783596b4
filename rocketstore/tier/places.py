"""TierPlaces: where the files of one broker are in tiered storage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rocketstore.disk.storage import scandir
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.kernels.queue_id import QueueId
from rocketstore.messages.topics import is_file_name
from rocketstore.queue.queue_directories import queue_directories, queue_ids_in

HASH_DIGITS = 8
INDEX_TOPIC = "rmq_sys_INDEX"
INDEX_QUEUE = f"{INDEX_TOPIC}/0"


def hash_prefix(text: str) -> str:
    """Return the digits that stand before a name in a tier. Source: MessageStoreUtil.getHash."""
    import hashlib  # takes milliseconds, and most stores have no tier

    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:HASH_DIGITS]


@dataclass(frozen=True)
class TierPlaces:
    """The paths of one broker in a tier.

    Attributes: root: the directory of the broker. Source: PosixFileSegment.
    """

    root: StorePath

    @property
    def index(self) -> StorePath:
        """The directory of the segments of the index."""
        return self.root / INDEX_TOPIC / "0" / "INDEX"

    def log(self, queue: QueueId) -> StorePath:
        """Return the directory of the log of one queue."""
        return self.root / queue.topic / str(queue.queue_id) / "COMMIT_LOG"

    def units(self, queue: QueueId) -> StorePath:
        """Return the directory of the units of one queue."""
        return self.root / queue.topic / str(queue.queue_id) / "CONSUME_QUEUE"

    def queues(self) -> list[QueueId]:
        """Return the ids of all queues, sorted. Raises: OSError."""
        paths = (path for path in queue_directories(self.root) if path.parent.name != INDEX_TOPIC)
        return sorted(QueueId(path.parent.name, int(path.name)) for path in paths)

    def queue_ids(self, topic: str) -> list[int]:
        """Return the sorted queue ids of a topic. Raises: OSError."""
        return sorted(queue_ids_in(self.root / topic)) if is_file_name(topic) and topic != INDEX_TOPIC else []


def find_tier(path: StorePath, cluster: str | None, brokers: Iterable[str]) -> TierPlaces:
    """Find the directory of a broker in a tier.

    Parameters: path: tieredStoreFilePath, or a directory below it. cluster: the broker's cluster; None if it is
    unknown. brokers: names that the broker may have; none if they are unknown.
    Raises: FileNotFoundError; StoreError if the tier has several brokers and none, or more than one, of these names.
    """
    names = set(brokers)
    found = [
        broker
        for directory in _directories(path)
        if _is_cluster(directory.name, cluster)
        for broker in _directories(directory)
    ]
    if not found and _is_cluster(path.name, cluster):
        found = _directories(path)
    if not found and _is_cluster(path.parent.name, cluster):
        return TierPlaces(path)
    chosen = [broker for broker in found if broker.name in names] if names else found
    if len(chosen) == 1:
        return TierPlaces(chosen[0])
    has = ", ".join(sorted(f"{broker.parent.name}/{broker.name}" for broker in found)) or "none"
    wanted = f"of broker {' or '.join(sorted(names))}" if names else "of one broker"
    raise StoreError(f"{path}: no tiered storage {wanted}; brokers here: {has}. Pass the directory of the broker")


def _is_cluster(name: str, cluster: str | None) -> bool:
    prefix, _, rest = name.partition("_")
    return bool(rest) and prefix == hash_prefix(rest) and cluster in (None, rest)


def _directories(path: StorePath) -> list[StorePath]:
    with scandir(path) as entries:
        return sorted((path / entry.name for entry in entries if entry.is_dir()), key=str)
