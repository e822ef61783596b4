"""QueueSource: what readers ask of the queues of a store, so that they need not know in which format the queues are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, overload

import numpy as np

from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.queue.units import ConsumeQueueUnits, CqUnit
from rocketstore.text_values import Time

Boundary = Literal["lower", "upper"]


class OffsetBounds(NamedTuple):
    """The queue offsets at which a queue begins and ends, and its number of messages, all of one time.

    A queue in files needs one search for its end to find all three.

    Attributes: least: as ``min_queue_offset``. end: as ``max_queue_offset``. messages: as the length of the queue.
    """

    least: int
    end: int
    messages: int

    @property
    def begin(self) -> int:
        """The first queue offset. 0 stands for the -1 of a batch queue without units."""
        return max(self.least, 0)


class StoredQueue(Protocol):
    """The units of one queue, by queue offset, as ``ConsumeQueue`` describes them."""

    @property
    def directory(self) -> StorePath:
        """Where the queue is, for texts."""

    @property
    def has_batches(self) -> bool:
        """Whether one unit stands for several queue offsets."""

    @property
    def has_gaps(self) -> bool:
        """Whether queue offsets may be missing between units.

        A gap may have 2^62 queue offsets, so read such a queue by ``file_range``, not in steps of equal length.
        """

    @property
    def is_compacted(self) -> bool:
        """Whether older messages of a key are missing. Then a read may begin at any queue offset, also at 0."""

    @property
    def log(self) -> CommitLog | None:
        """The log into which the units lead; None if it is missing."""

    @property
    def min_queue_offset(self) -> int: ...

    @property
    def max_queue_offset(self) -> int: ...

    @property
    def bounds(self) -> OffsetBounds:
        """The queue offsets at which the queue begins and ends, and its number of messages."""

    @property
    def leftover_units(self) -> int: ...

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, key: int, /) -> CqUnit: ...
    @overload
    def __getitem__(self, key: slice, /) -> ConsumeQueueUnits: ...
    def __getitem__(self, key: Any, /) -> CqUnit | ConsumeQueueUnits:
        """Return the unit of a queue offset, or the units of a range. Raises: IndexError; CorruptFileError."""

    def __iter__(self) -> Iterator[CqUnit]: ...

    def count_bytes(self, begin: int, end: int) -> int:
        """Return the bytes of the records between two queue offsets."""

    def get_offset_by_time(self, timestamp: Time, boundary: Boundary = ..., *, exact_times: bool = ...) -> int:
        """Return the queue offset of a store time."""

    def close(self) -> None: ...

    # ---- the parts in which a broker reads -----------------------------------------------------------------

    @property
    def unit_size(self) -> int:
        """Bytes of a unit, by which a broker limits a read."""

    def file_range(self, queue_offset: int, /) -> tuple[int, int] | None:
        """Return the bounds, as queue offsets, of the part that a broker reads at once; None if the part is missing."""

    def offset_after_missing_file(self, queue_offset: int, /) -> int:
        """Return the queue offset that a broker gives to a consumer whose part is missing."""


Queue = TypeVar("Queue", bound=StoredQueue, covariant=True)


class QueueSource(Protocol[Queue]):
    """All queues of a store."""

    def queues(self) -> Iterator[QueueId]:
        """Return the ids of all queues, sorted. Raises: OSError."""

    def queue_ids(self, topic: str, /) -> list[int]:
        """Return the sorted queue ids of a topic, none for an unknown topic. Raises: OSError."""

    def open(self, topic: str, queue_id: int, /) -> Queue | None:
        """Open a queue. Return None if it is missing."""


def offset_range(queue: StoredQueue) -> tuple[int, int]:
    """Return the first queue offset of a queue, and the end. 0 stands for the -1 of a batch queue without units."""
    bounds = queue.bounds
    return bounds.begin, bounds.end


def ranges_to_read(queue: StoredQueue, begin: int, end: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of queue offsets, in order, whose units are read at once.

    A range has ``step`` queue offsets. Of a queue with gaps it is a part with units, for example a file of a batch
    queue.
    """
    if not queue.has_gaps:
        yield from ((at, min(at + step, end)) for at in range(begin, end, step))
        return
    while begin < end:
        span = queue.file_range(begin)
        stop = end if span is None or span[1] <= begin else min(span[1], end)
        yield begin, stop
        begin = stop


def read_units_between(queue: StoredQueue, begin: int, end: int, step: int) -> Iterator[ConsumeQueueUnits]:
    """Yield the units of a range of queue offsets, in steps, without filler units.

    A batch unit belongs to its first queue offset. Parameters: begin, end: queue offsets, 0 or more.
    Raises: CorruptFileError if a file is missing or was cut.
    """
    for first, stop in ranges_to_read(queue, begin, end, step):
        units = queue[first:stop]
        own = ~units.is_filler & (units.queue_offsets >= first)  # else the range before this one had the batch unit
        yield units if own.all() else units.where(own)


def count_bytes_between(queue: StoredQueue, begin: int, end: int, step: int) -> int:
    """Return the bytes of the records of a range of queue offsets. Parameters, raises: as ``read_units_between``."""
    return sum(int(units.sizes.sum(dtype=np.int64)) for units in read_units_between(queue, begin, end, step))
