"""Units that a broker has only in its memory, and that follow from the log: they are read as if RocksDB had them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from rocketstore.disk.closable import Closable
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.kernels.queue_id import QueueId
from rocketstore.queue.rocks_units import QueueEnds, RocksUnits, UnitPlace


class BuiltUnits(NamedTuple):
    """The last units of a queue, which RocksDB lacks.

    Attributes: offsets: queue offsets, int64[n], sorted. units: ROCKSDB_UNIT[n]. begins_again: whether the topic was
    created again, so that the units in RocksDB are of an earlier life.
    """

    offsets: np.ndarray
    units: np.ndarray
    begins_again: bool

    @property
    def first(self) -> UnitPlace:
        return UnitPlace(int(self.units["phy_offset"][0]), int(self.offsets[0]))

    @property
    def last(self) -> UnitPlace:
        return UnitPlace(int(self.units["phy_offset"][-1]), int(self.offsets[-1]))

    def between(self, begin: int, end: int, limit: int | None = None) -> BuiltUnits:
        """Return the units of a range of queue offsets. Parameters: limit: their maximum number."""
        first, stop = np.searchsorted(self.offsets, [begin, max(begin, end)]).tolist()
        stop = stop if limit is None else min(stop, first + limit)
        return BuiltUnits(self.offsets[first:stop], self.units[first:stop], self.begins_again)


class BuiltUnitSource(Protocol):
    """The last units of all queues. They are those of the log behind the checkpoint of RocksDB."""

    def update(self, units: RocksUnits) -> None:
        """Add the units of new records, and drop those that RocksDB has now."""

    def queues(self) -> Collection[QueueId]:
        """Return the queues that have units here."""

    def find(self, queue: QueueId, units: RocksUnits) -> BuiltUnits | None:
        """Return the units of a queue; None without any. Parameters: units: those in RocksDB."""


@dataclass(frozen=True)
class PlannedUnits:
    """The units of queues that a driver found; a task has no others."""

    units: Mapping[QueueId, BuiltUnits]

    def update(self, units: RocksUnits) -> None:
        """Change nothing."""

    def queues(self) -> Collection[QueueId]:
        return self.units.keys()

    def find(self, queue: QueueId, units: RocksUnits) -> BuiltUnits | None:
        return self.units.get(queue)


class CompletedUnits(Closable):
    """The units of all queues, in RocksDB and built from the log. A built unit replaces that of its queue offset."""

    def __init__(self, stored: RocksUnits, source: BuiltUnitSource) -> None:
        self._stored = stored
        self._source = source

    @property
    def database(self) -> RocksDatabase:
        """The RocksDB."""
        return self._stored.database

    def refresh(self) -> None:
        """Look whether a broker has written into the RocksDB or the log."""
        self._stored.database.refresh()
        self._source.update(self._stored)

    def queues(self) -> Iterator[QueueId]:
        """Return the ids of all queues that have had units, sorted. Raises: as RocksDatabase."""
        self._source.update(self._stored)
        return iter(sorted({*self._stored.queues(), *self._source.queues()}))

    def queue_ids(self, topic: str) -> list[int]:
        """Return the sorted queue ids of a topic, none for an unknown topic. Raises: as RocksDatabase."""
        self._source.update(self._stored)
        added = (queue.queue_id for queue in self._source.queues() if queue.topic == topic)
        return sorted({*self._stored.queue_ids(topic), *added})

    def find_ends(self, queue: QueueId) -> QueueEnds:
        """Return what is known of the ends of a queue."""
        stored = self._stored.find_ends(queue)
        built = self.find_built_units(queue)
        if built is None:
            return stored
        if built.begins_again or stored.last is None:
            return QueueEnds(built.first, built.last)
        firsts = [place for place in (stored.first, built.first) if place is not None]
        return QueueEnds(min(firsts, key=_queue_offset), max(stored.last, built.last, key=_queue_offset))

    def find_built_units(self, queue: QueueId) -> BuiltUnits | None:
        """Return the units of a queue that RocksDB lacks; None without any."""
        return self._source.find(queue, self._stored)

    def read_units(
        self, queue: QueueId, begin: int, end: int, limit: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return queue offsets and units of a range of queue offsets. Parameters, returns: as of ``RocksUnits``."""
        built = self.find_built_units(queue)
        if built is None:
            return self._stored.read_units(queue, begin, end, limit)
        added = built.between(begin, end, limit)
        if built.begins_again:
            return added.offsets, added.units
        offsets, units = self._stored.read_units(queue, begin, end, limit)
        is_left = ~np.isin(offsets, added.offsets)
        joined = np.concatenate([offsets[is_left], added.offsets])
        order = np.argsort(joined, kind="stable")[:limit]
        return joined[order], np.concatenate([units[is_left], added.units])[order]

    def close(self) -> None:
        """Close the RocksDB."""
        self._stored.close()


def _queue_offset(place: UnitPlace) -> int:
    return place.queue_offset
