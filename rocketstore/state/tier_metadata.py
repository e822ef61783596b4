"""The metadata that a broker keeps of its tiered storage: the segments, and their sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rocketstore.disk.store_path import StorePath
from rocketstore.java_text import parse_int
from rocketstore.kernels.layout import UNIT
from rocketstore.kernels.queue_id import QueueId
from rocketstore.state.config_json import parse_json

UNIT_SIZE = UNIT.itemsize
MOST_BYTES = 64 << 20  # of the file that are read
DELETED = 2  # the status of a segment that was deleted


class TierSegment(NamedTuple):
    """One segment, as the metadata lists it. Attributes: size: bytes."""

    size: int
    is_deleted: bool


Segments = dict[str, dict[int, TierSegment]]  # by "broker/topic/queue", and by the begin of the segment, bytes


@dataclass(frozen=True)
class TierMetadata:
    """The segments that a broker lists, and its topics by their numbers. Sizes may lag behind the files.

    Attributes: logs, units, of_index: the segments of the logs of queues, of their units, and of the index.
    """

    logs: Segments = field(default_factory=dict)
    units: Segments = field(default_factory=dict)
    of_index: Segments = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)

    @property
    def queues(self) -> dict[QueueId, tuple[int, int]]:
        """The queues with units: by id, the first queue offset and the one after the last."""
        found = {}
        for name, segments in self.units.items():
            topic, _, number = name.partition("/")[2].rpartition("/")
            queue_id = parse_int(number)
            spans = [(begin, begin + each.size) for begin, each in segments.items() if is_present(begin, each)]
            if topic and queue_id is not None and spans:
                first, end = min(spans)[0], max(end for _, end in spans)
                found[QueueId(topic, queue_id)] = -(-first // UNIT_SIZE), end // UNIT_SIZE
        return found

    @property
    def brokers(self) -> frozenset[str]:
        """The names of the brokers whose queues have units."""
        present = (name for name, segments in self.units.items() if any(map(is_present, segments, segments.values())))
        return frozenset(name.partition("/")[0] for name in present)


def is_present(begin: int, segment: TierSegment) -> bool:
    """Return whether a segment has bytes and was not deleted. Parameters: begin: of the segment, bytes."""
    return not segment.is_deleted and begin >= 0 and segment.size > 0


def read_tier_metadata(path: StorePath) -> TierMetadata:
    """Read ``config/tieredStoreMetadata.json``. Raises: OSError; ValueError if the file cannot be understood.

    Source: DefaultMetadataStore.
    """
    with path.open("rb") as file:
        data = file.read(MOST_BYTES)
    try:
        tables = parse_json(data)
        found = (tables.get(f"{kind}FileSegmentTable", {}) for kind in ("commitLog", "consumeQueue", "index"))
        logs, units, index = ({name: _segments_of(each) for name, each in dict(table).items()} for table in found)
        topics = {topic["topicId"]: name for name, topic in dict(tables.get("topicMetadataTable", {})).items()}
        return TierMetadata(logs, units, index, topics)
    except (RecursionError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"is no metadata of tiered storage: {error!r:.200}") from None


def find_tier_metadata(path: StorePath) -> TierMetadata:
    """Read the metadata. Without a file that can be read, it is empty."""
    try:
        return read_tier_metadata(path)
    except (OSError, ValueError):
        return TierMetadata()


def _segments_of(table: Any) -> dict[int, TierSegment]:
    """Return the segments of one directory. Those without numbers are left out."""
    found = {}
    for segment in dict(table).values():
        begin, size = segment.get("baseOffset"), segment.get("size")
        if type(begin) is int and type(size) is int:
            found[begin] = TierSegment(size, segment.get("status") == DELETED)
    return found
