"""RocksUnits: the units of a store's queues in RocksDB."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rocketstore.disk.closable import Closable
from rocketstore.disk.rocksdb.rocks_database import KeyRange, RocksDatabase
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.layout import ROCKSDB_UNIT
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX

UNITS, OFFSETS = "default", "offset"  # column families
LENGTH, QUEUE_ID, QUEUE_OFFSET = struct.Struct(">i"), struct.Struct(">i"), struct.Struct(">q")
PLACE = struct.Struct(">qq")  # physical offset, queue offset
SEPARATOR, MIN, MAX = b"\x01", b"min", b"max"
CHECKPOINT = QueueId("CHECKPOINT_TOPIC", 0)  # its "max" is where the dispatched records end in the log


class UnitPlace(NamedTuple):
    """A unit: the physical offset of its record, bytes, and its queue offset."""

    phy_offset: int
    queue_offset: int


class QueueEnds(NamedTuple):
    """What the RocksDB notes of a queue. ``first``: its record may have expired. ``last``: None for an empty queue."""

    first: UnitPlace | None
    last: UnitPlace | None


class RocksUnits(Closable):
    """The units of all queues in one RocksDB. Units of light queues are ordinary rows; batch queues cannot be there.

    Row of a unit: topic length int32, 01, topic, 01, queue id int32, 01, queue offset int64; value ROCKSDB_UNIT. Row of
    a queue's end: topic length int32, 01, topic, 01, "min" or "max", 01, queue id int32; value physical offset and
    queue offset, int64 each, of the first or the last unit.

    Attributes: database. Source: RocksDBConsumeQueueStore, RocksDBConsumeQueueTable, RocksDBConsumeQueueOffsetTable.
    """

    def __init__(self, database: RocksDatabase) -> None:
        self.database = database

    def queues(self) -> Iterator[QueueId]:
        """Return the ids of all queues that have had units, sorted. Raises: as RocksDatabase."""
        self.database.refresh()
        found = {queue for queue, mark, _ in self._read_ends(KeyRange()) if mark == MAX}
        return iter(sorted(found - {CHECKPOINT}))

    def queue_ids(self, topic: str) -> list[int]:
        """Return the sorted queue ids of a topic, none for an unknown topic. Raises: as RocksDatabase."""
        self.database.refresh()
        ends = self._read_ends(KeyRange.of_prefix(_topic_key(topic) + MAX + SEPARATOR))
        return sorted(queue.queue_id for queue, _, _ in ends if queue != CHECKPOINT)

    def read_checkpoint(self) -> int | None:
        """Return where the records that have units end in the log, bytes; None if the RocksDB does not note it."""
        found = self.database.find_first(OFFSETS, KeyRange.of_prefix(_end_key(CHECKPOINT, MAX)))
        if found is None:
            return None
        if len(found[1]) != QUEUE_OFFSET.size:
            raise self._damage(f"the value of {CHECKPOINT.topic} has {len(found[1])} bytes")
        return int(QUEUE_OFFSET.unpack(found[1])[0])

    def find_ends(self, queue: QueueId) -> QueueEnds:
        """Return what is noted of the ends of a queue."""
        ranges = (KeyRange.of_prefix(_end_key(queue, mark)) for mark in (MAX, MIN))
        places = {mark: place for found, mark, place in self._read_ends(*ranges) if found == queue}
        return QueueEnds(places.get(MIN), places.get(MAX))

    def read_units(
        self, queue: QueueId, begin: int, end: int, limit: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the queue offsets, int64[n], and the units, ROCKSDB_UNIT[n], of a range of queue offsets.

        Parameters: begin, end: 0 or more. limit: the maximum number of units.
        """
        return _join(self._read_rows(queue, [_unit_keys(queue, begin, max(end, begin))], limit))

    def read_some_units(self, queue: QueueId, queue_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of some queue offsets have a unit, int64[n], and these units, ROCKSDB_UNIT[n].

        Parameters: queue_offsets: 0 to before LONG_MAX, int64[n], sorted, each once.
        """
        if len(queue_offsets) == 0:
            return _join(())
        is_break = np.diff(queue_offsets) != 1
        begins = queue_offsets[np.append(True, is_break)].tolist()
        ends = (queue_offsets[np.append(is_break, True)] + 1).tolist()
        ranges = [_unit_keys(queue, begin, end) for begin, end in zip(begins, ends, strict=True)]
        return _join(self._read_rows(queue, ranges))

    def read_every_unit(self, queue: QueueId) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the queue offsets, int64[n], and the units, ROCKSDB_UNIT[n], of all rows of a queue, in blocks.

        Rows with a negative queue offset are the last ones.
        """
        return self._read_rows(queue, [KeyRange.of_prefix(_unit_prefix(queue))])

    def find_stored_queues(self) -> Iterator[QueueId]:
        """Yield the queues that have rows of units, in the order of their keys."""
        keys = KeyRange()
        while (row := self.database.find_first(UNITS, keys)) is not None:
            queue = self._parse_unit_key(row[0])
            if not keys.has(row[0]):
                raise self._damage(f"the key {row[0]!r:.200} is not in the order of the keys")
            yield queue
            keys = KeyRange(KeyRange.of_prefix(_unit_prefix(queue)).end or b"")

    def _read_rows(
        self, queue: QueueId, ranges: Sequence[KeyRange], limit: int | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the queue offsets and the units of ascending ranges of keys of one queue, in blocks."""
        prefix = _unit_prefix(queue)
        key_layout = np.dtype([("prefix", f"V{len(prefix)}"), ("queue_offset", ">i8")])
        bounds = KeyRange(ranges[0].begin, ranges[-1].end)
        for rows in self.database.read(UNITS, *ranges, limit=limit):
            sizes = np.diff(rows.key_ends, prepend=0), np.diff(rows.value_ends, prepend=0)
            if (sizes[0] != key_layout.itemsize).any() or (sizes[1] != ROCKSDB_UNIT.itemsize).any():
                raise self._damage(f"a unit of queue {queue.queue_id} of {queue.topic!r} has another length")
            key_rows = np.frombuffer(rows.keys, key_layout)
            offsets = key_rows["queue_offset"].astype(np.int64)
            unsigned = offsets.view(np.uint64)  # as the keys are sorted
            is_ordered = (unsigned[1:] > unsigned[:-1]).all() and bounds.has(rows.first_key)
            is_of_queue = key_rows["prefix"].tobytes() == prefix * len(key_rows)
            if not (is_ordered and is_of_queue and bounds.has(rows.last_key)):
                where = f"queue {queue.queue_id} of {queue.topic!r} at {offsets[0]}"
                raise self._damage(
                    f"{where}: the units from there on are not those of the queue, in the order of their queue offsets"
                )
            yield offsets, np.frombuffer(rows.values, ROCKSDB_UNIT)
            bounds = KeyRange(rows.last_key + b"\0", bounds.end)

    def close(self) -> None:
        """Close the RocksDB."""
        self.database.close()

    def _read_ends(self, *ranges: KeyRange) -> Iterator[tuple[QueueId, bytes, UnitPlace]]:
        """Yield the noted ends of queues: the queue, MIN or MAX, and the place."""
        for rows in self.database.read(OFFSETS, *ranges):
            for key, value in rows:
                queue, mark = self._parse_end_key(key)
                if queue == CHECKPOINT:
                    yield queue, mark, UnitPlace(-1, -1)
                    continue
                if len(value) != PLACE.size:
                    raise self._damage(f"the end of queue {queue.queue_id} of {queue.topic!r} has {len(value)} bytes")
                place = UnitPlace(*PLACE.unpack(value))
                if not 0 <= place.queue_offset < LONG_MAX:
                    name = f"queue {queue.queue_id} of {queue.topic!r}"
                    raise self._damage(f"the end of {name} is at queue offset {place.queue_offset}")
                yield queue, mark, place

    def _parse_end_key(self, key: bytes) -> tuple[QueueId, bytes]:
        topic, rest = _split_topic(key)
        mark, number = rest[:3], rest[4:]
        try:
            queue = QueueId(topic.decode(), QUEUE_ID.unpack(number)[0])
        except (struct.error, UnicodeDecodeError):
            raise self._damage(f"the key {key!r:.200} is not the key of a queue's end") from None
        if mark not in (MIN, MAX) or _end_key(queue, mark) != key:
            raise self._damage(f"the key {key!r:.200} is not the key of a queue's end")
        return queue, mark

    def _parse_unit_key(self, key: bytes) -> QueueId:
        topic, rest = _split_topic(key)
        try:
            queue = QueueId(topic.decode(), QUEUE_ID.unpack_from(rest)[0])
        except (struct.error, UnicodeDecodeError):
            raise self._damage(f"the key {key!r:.200} is not the key of a unit") from None
        if len(rest) != QUEUE_ID.size + 1 + QUEUE_OFFSET.size or not key.startswith(_unit_prefix(queue)):
            raise self._damage(f"the key {key!r:.200} is not the key of a unit")
        return queue

    def _damage(self, reason: str) -> CorruptFileError:
        return CorruptFileError(self.database.path, 0, "RocksDB", reason)


def _topic_key(topic: str) -> bytes:
    name = topic.encode("utf-8", "surrogatepass")
    return LENGTH.pack(len(name)) + SEPARATOR + name + SEPARATOR


def _split_topic(key: bytes) -> tuple[bytes, bytes]:
    """Return the topic at the begin of a key, and the bytes after its separator. The caller checks the separators."""
    size = LENGTH.unpack_from(key)[0] if len(key) >= LENGTH.size else -1
    begin = LENGTH.size + len(SEPARATOR)
    topic = key[begin : begin + max(size, 0)]
    return topic, key[begin + len(topic) + len(SEPARATOR) :]


def _unit_prefix(queue: QueueId) -> bytes:
    return _topic_key(queue.topic) + QUEUE_ID.pack(queue.queue_id) + SEPARATOR


def _unit_keys(queue: QueueId, begin: int, end: int) -> KeyRange:
    prefix = _unit_prefix(queue)
    return KeyRange(prefix + QUEUE_OFFSET.pack(begin), prefix + QUEUE_OFFSET.pack(end))


def _join(blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return all queue offsets, and all units."""
    offsets, units = [np.empty(0, np.int64)], [np.empty(0, ROCKSDB_UNIT)]
    for block in blocks:
        offsets.append(block[0])
        units.append(block[1])
    return np.concatenate(offsets), np.concatenate(units)


def _end_key(queue: QueueId, mark: bytes) -> bytes:
    return _topic_key(queue.topic) + mark + SEPARATOR + QUEUE_ID.pack(queue.queue_id)
