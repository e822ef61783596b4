"""What a broker notes about its tiered storage: which queue offsets are there, and under which broker's name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.layout import UNIT
from rocketstore.kernels.queue_id import QueueId
from rocketstore.state.config_json import parse_json

UNIT_SIZE = UNIT.itemsize
MOST_BYTES = 64 << 20  # of the file that are read
DELETED = 2  # the status of a segment that was deleted


@dataclass(frozen=True)
class TierMetadata:
    """The queues of a tier: by id, the first queue offset and the one after the last. ``brokers``: their names."""

    queues: dict[QueueId, tuple[int, int]] = field(default_factory=dict)
    brokers: frozenset[str] = frozenset()


def read_tier_metadata(path: StorePath) -> TierMetadata:
    """Read ``config/tieredStoreMetadata.json``. What cannot be read counts as missing.

    The sizes may lag behind the files. Source: DefaultMetadataStore.
    """
    try:
        with path.open("rb") as file:
            tables = parse_json(file.read(MOST_BYTES))
        segments = tables["consumeQueueFileSegmentTable"]
        return _of_segments(segments) if isinstance(segments, dict) else TierMetadata()
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return TierMetadata()


class SegmentNote(NamedTuple):
    """What the metadata says about one segment. Attributes: size: bytes."""

    size: int
    is_deleted: bool


class TierNotes(NamedTuple):
    """The segments that a broker notes, by "broker/topic/queue" and begin, bytes; and its topics by their numbers.

    Attributes: logs, units, of_index: of queues, of their units, and of the index.
    """

    logs: dict[str, dict[int, SegmentNote]]
    units: dict[str, dict[int, SegmentNote]]
    of_index: dict[str, dict[int, SegmentNote]]
    topics: dict[int, str]


def read_tier_notes(path: StorePath) -> TierNotes:
    """Read all that is noted about segments. Raises: OSError; ValueError if the file cannot be understood."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES)
    try:
        tables = parse_json(data)
        found = (tables.get(f"{kind}FileSegmentTable", {}) for kind in ("commitLog", "consumeQueue", "index"))
        logs, units, index = ({name: _notes_of(segments) for name, segments in dict(table).items()} for table in found)
        topics = {topic["topicId"]: name for name, topic in dict(tables.get("topicMetadataTable", {})).items()}
        return TierNotes(logs, units, index, topics)
    except (RecursionError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"is no metadata of tiered storage: {error!r:.200}") from None


def _notes_of(segments: Any) -> dict[int, SegmentNote]:
    """Return the segments of one directory. Those without numbers are left out."""
    found = {}
    for segment in dict(segments).values():
        base, size = segment.get("baseOffset"), segment.get("size")
        if type(base) is int and type(size) is int:
            found[base] = SegmentNote(size, segment.get("status") == DELETED)
    return found


def _of_segments(table: dict[str, Any]) -> TierMetadata:
    queues, brokers = {}, set()
    for name, segments in table.items():
        broker, _, rest = name.partition("/")
        topic, _, number = rest.rpartition("/")
        spans = sorted(span for segment in dict(segments).values() if (span := _span_of(segment)) is not None)
        if topic and number.isdecimal() and spans:
            first, end = spans[0][0], max(end for _, end in spans)
            queues[QueueId(topic, int(number))] = -(-first // UNIT_SIZE), end // UNIT_SIZE
            brokers.add(broker)
    return TierMetadata(queues, frozenset(brokers))


def _span_of(segment: Any) -> tuple[int, int] | None:
    """Return where a segment begins and ends, bytes; None if it is deleted (status 2) or has no numbers."""
    values = segment if isinstance(segment, dict) else {}
    base, size, status = (values.get(name) for name in ("baseOffset", "size", "status"))
    if type(base) is not int or type(size) is not int or status == DELETED or base < 0 or size <= 0:
        return None
    return base, base + size
