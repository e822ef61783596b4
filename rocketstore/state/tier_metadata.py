"""What a broker notes about its tiered storage: which queue offsets are there, and under which broker's name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
