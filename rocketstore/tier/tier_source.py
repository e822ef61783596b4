"""Where the queries by key find the messages of a tier: StoredTier lists its files, TierPlan has the lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from rocketstore.config import StoreConfig
from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.tier.open_index import list_open_files
from rocketstore.tier.places import TierPlaces
from rocketstore.tier.segments import SegmentChunk, list_segments, open_segments, open_tier_log, plan_tier_log
from rocketstore.tier.tier_index import TierIndex


class TierSource(Protocol):
    """The index of a tier, and the logs of its queues. The caller closes what it opens."""

    def open_index(self) -> TierIndex: ...

    def queue_ids(self, topic: str) -> Collection[int]:
        """Return the queue ids of a topic."""
        ...

    def open_log(self, queue: QueueId) -> CommitLog: ...


class TierPlan(NamedTuple):
    """A tier as the driver of a distributed job listed it, for tasks, which list no directory.

    Attributes: index_directory, segments: of the index. open_files: index files in the store that
    were not copied to the tier. slots: of each of these files; None if the files must show it. logs: of the queues.
    """

    index_directory: StorePath
    segments: list[RunFile]
    open_files: list[StorePath]
    slots: int | None
    logs: dict[QueueId, SegmentChunk]

    def open_index(self) -> TierIndex:
        return TierIndex(open_segments(self.index_directory, self.segments), self.open_files, self.slots)

    def queue_ids(self, topic: str) -> list[int]:
        return [queue.queue_id for queue in self.logs if queue.topic == topic]

    def open_log(self, queue: QueueId) -> CommitLog:
        return self.logs[queue].open()


class StoredTier(NamedTuple):
    """A tier, whose directories are listed for each query.

    Attributes: config: of the store. open_index_files: the directory of index files in the store that were not copied
    to the tier. slots: as of ``TierPlan``.
    """

    places: TierPlaces
    config: StoreConfig
    open_index_files: StorePath
    slots: int | None

    def open_index(self) -> TierIndex:
        files = list_open_files(self.open_index_files)
        return TierIndex(open_segments(self.places.index), files, self.slots)

    def queue_ids(self, topic: str) -> list[int]:
        return self.places.queue_ids(topic)

    def open_log(self, queue: QueueId) -> CommitLog:
        return open_tier_log(self.places.log(queue), self.config)

    def plan(self, topics: Iterable[str] | None) -> TierPlan:
        """Plan queries of some topics; None for all. Raises: OSError."""
        queues = [queue for queue in self.places.queues() if topics is None or queue.topic in topics]
        logs = {queue: plan_tier_log(self.places.log(queue), self.config) for queue in queues}
        files = list_open_files(self.open_index_files)
        return TierPlan(self.places.index, list_segments(self.places.index), files, self.slots, logs)
