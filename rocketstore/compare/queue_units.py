"""Compare the queues of two stores: which queue offsets both have, and the units at these."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from rocketstore.compare.differences import Difference, Differences
from rocketstore.disk.ranges import Range
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message import Message
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.queue_source import StoredQueue, offset_range, read_units_between
from rocketstore.queue.units import ConsumeQueueUnits, CqUnit
from rocketstore.store.message_store import MessageStore
from rocketstore.store.readable_store import log_of
from rocketstore.tier.joined_queue import parts_of

STEP = 1 << 14  # units of each queue that are compared at once
COLUMNS = ("phy_offsets", "sizes", "tags_codes", "batch_nums", "store_timestamps")


class Step(NamedTuple):
    """Some units of a queue, without fillers, and the log into which they lead.

    Attributes: is_of_store: whether the log is the store's, whose messages the index finds.
    """

    units: ConsumeQueueUnits
    log: CommitLog
    is_of_store: bool

    def where(self, wanted: np.ndarray) -> Step:
        """Return some of the units. Parameters: wanted: bool[n]."""
        return self._replace(units=self.units.where(wanted))


class OpenedQueue:
    """A queue with its bounds when it was opened. Of a tiered queue, each part has a log of its own.

    Attributes: begin, end: the first queue offset, and the one behind the last. count: of messages.
    """

    def __init__(self, store: MessageStore, queue: StoredQueue, phy_range: Range | None = None) -> None:
        """Parameters: phy_range: compare only units that lead to these physical offsets; None for all."""
        self._store = store
        self._phy_range = phy_range
        self._parts = [(part, *offset_range(part)) for part in parts_of(queue)]
        self.begin, self.end = self._parts[0][1], self._parts[-1][2]
        self.count = sum(len(part) for part, _, _ in self._parts)

    def steps(self) -> Iterator[Step]:
        """Yield all units that lead into the range, in order."""
        for part, begin, end in self._parts:
            if begin < end:
                log = log_of(self._store, part)
                is_of_store = log is self._store.find_commit_log()
                for units in read_units_between(part, begin, end, STEP):
                    yield Step(self._inside(units), log, is_of_store)

    def _inside(self, units: ConsumeQueueUnits) -> ConsumeQueueUnits:
        """Return the units that lead into the range of physical offsets."""
        if self._phy_range is None:
            return units
        begin, end = self._phy_range
        return units.where((units.phy_offsets >= begin) & (units.phy_offsets < end))

    def has_units(self) -> bool:
        """Return whether a unit leads into the range of physical offsets. True without a range."""
        return self._phy_range is None or any(len(step.units) for step in self.steps())


class StepStream:
    """The units of a queue in steps, cut so that two queues can be read side by side by their queue offsets."""

    def __init__(self, steps: Iterator[Step]) -> None:
        self._steps = steps
        self._rest: Step | None = None

    def last_offset(self) -> int | None:
        """Return the queue offset of the last unit of this step; None at the end of the queue."""
        while self._rest is None or not len(self._rest.units):
            step = next(self._steps, None)
            if step is None:
                self._rest = None
                return None
            self._rest = step._replace(units=in_order(step.units))
        return int(self._rest.units.queue_offsets[-1])

    def take_to(self, queue_offset: int) -> Step | None:
        """Take the units of this step up to a queue offset, inclusive; None at the end of the queue."""
        step = self._rest
        if step is None:
            return None
        count = int(np.searchsorted(step.units.queue_offsets, queue_offset, "right"))
        self._rest = step._replace(units=step.units[count:])
        return step._replace(units=step.units[:count])


def in_order(units: ConsumeQueueUnits) -> ConsumeQueueUnits:
    """Return units in the order of their queue offsets. Units of a damaged batch queue may have another order."""
    offsets = units.queue_offsets
    return units if (offsets[1:] >= offsets[:-1]).all() else units.where(np.argsort(offsets, kind="stable"))


def find_common(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the queue offsets a, int64[n], and b, int64[m], are in both: bool[n] and bool[m].

    Both arrays are ascending. Of an offset that is repeated in one of them, the first counts.
    """
    if np.array_equal(a, b):
        return np.ones(len(a), np.bool_), np.ones(len(b), np.bool_)
    places = np.intersect1d(a, b, return_indices=True)[1:]
    in_both = np.zeros(len(a), np.bool_), np.zeros(len(b), np.bool_)
    for found, common in zip(places, in_both, strict=True):
        common[found] = True
    return in_both


class UnitGroup:
    """The units of one queue that differ in the same way. Only their range, their number and a message are kept.

    Attributes: begin, end: the queue offset of the first unit, and that behind the last unit. count: the number of
    their messages. messages: the message of the first unit in A and in B; None in a store that lacks it.
    """

    def __init__(self) -> None:
        self.begin = self.end = self.count = 0
        self.messages: tuple[Message | None, Message | None] = None, None

    def add(self, a: Step | None, b: Step | None) -> None:
        """Add units that follow those added before. Parameters: a, b: the same units; None in a store without them."""
        step = a or b
        if step is None or not len(step.units):
            return
        units = step.units
        if not self.count:
            self.begin = int(units.queue_offsets[0])
            self.messages = first_message(a), first_message(b)
        counts = np.ones(len(units), np.int32) if units.batch_nums is None else units.batch_nums
        self.end = int(units.queue_offsets[-1]) + int(counts[-1])
        self.count += int(counts.sum(dtype=np.int64))


def first_message(step: Step | None) -> Message | None:
    """Return the message of the first unit; None if it cannot be read."""
    return None if step is None or not len(step.units) else step.log.find_message(int(step.units.phy_offsets[0]))


class PairComparison(Protocol):
    """Compares the units of a queue that both stores have, or the messages to which they lead.

    Attributes: kind: of the differences.
    """

    @property
    def kind(self) -> str: ...

    def find_different(self, queue_id: QueueId, a: Step, b: Step) -> np.ndarray:
        """Return which of n units differ, bool[n]. Both steps have units of the same n queue offsets."""

    def describe(self, a: Step, b: Step) -> tuple[str, str]:
        """Return the first units, or their messages, as texts, if they differ."""


class QueueComparison:
    """Compares the queues of two stores one after the other.

    Attributes: messages: how many messages both stores have in their queues.
    """

    def __init__(self, differences: Differences, pairs: PairComparison) -> None:
        self.differences, self.pairs = differences, pairs
        self.messages = 0

    def compare(self, queue_id: QueueId, name: str, a: OpenedQueue | None, b: OpenedQueue | None) -> None:
        """Compare a queue. Parameters: name: of the queue in the report. a, b: None in a store that lacks it."""
        if a is None or b is None:
            self._add_missing(queue_id, name, a, b)
            return
        only_a, only_b, different = UnitGroup(), UnitGroup(), UnitGroup()
        texts: tuple[str | None, str | None] = None, None
        streams = [StepStream(queue.steps()) for queue in (a, b)]
        while ends := [offset for stream in streams if (offset := stream.last_offset()) is not None]:
            step_a, step_b = (stream.take_to(min(ends)) for stream in streams)
            if step_a is None or step_b is None:
                only_a.add(step_a, None)
                only_b.add(None, step_b)
                continue
            in_both = find_common(step_a.units.queue_offsets, step_b.units.queue_offsets)
            only_a.add(step_a.where(~in_both[0]), None)
            only_b.add(None, step_b.where(~in_both[1]))
            step_a, step_b = step_a.where(in_both[0]), step_b.where(in_both[1])
            self.messages += count_messages(step_a.units)
            is_different = self.pairs.find_different(queue_id, step_a, step_b)
            step_a, step_b = step_a.where(is_different), step_b.where(is_different)
            if is_different.any() and not different.count:
                texts = self.pairs.describe(step_a, step_b)
            different.add(step_a, step_b)
        self._add("units-only-in-a", queue_id, name, only_a)
        self._add("units-only-in-b", queue_id, name, only_b)
        self._add(self.pairs.kind, queue_id, name, different, texts)

    def _add_missing(self, queue_id: QueueId, name: str, a: OpenedQueue | None, b: OpenedQueue | None) -> None:
        """Add a queue that only one store has."""
        queue = a or b
        if queue is None or not queue.has_units():
            return
        kind = "queue-only-in-a" if b is None else "queue-only-in-b"
        message = first_message(next(queue.steps(), None)) if self.differences.is_listed(kind) else None
        found = Difference(kind, name, queue.begin, queue.end, queue.count)
        found = found.with_message(*((message, None) if b is None else (None, message)))
        self.differences.add(found._replace(topic=queue_id.topic, queue_id=queue_id.queue_id))

    def _add(
        self,
        kind: str,
        queue_id: QueueId,
        name: str,
        group: UnitGroup,
        texts: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """Add a difference of a queue, if there is one."""
        if not group.count:
            return
        found = Difference(kind, name, group.begin, group.end, group.count, *texts).with_message(*group.messages)
        # The message of a light queue names another queue: the difference names the queue that was read.
        found = found._replace(topic=queue_id.topic, queue_id=queue_id.queue_id, queue_offset=group.begin)
        self.differences.add(found)


def count_messages(units: ConsumeQueueUnits) -> int:
    """Return the number of messages to which units lead. A batch unit leads to several."""
    return len(units) if units.batch_nums is None else int(units.batch_nums.sum(dtype=np.int64))


class UnitPairs:
    """Compares the units themselves: physical offsets, sizes, tags codes, and the numbers and times of batch units."""

    kind = "units-different"

    def __init__(self, a: MessageStore, b: MessageStore) -> None:
        self._stores = a, b

    def find_different(self, queue_id: QueueId, a: Step, b: Step) -> np.ndarray:
        different = np.zeros(len(a.units), np.bool_)
        for name in COLUMNS:
            column_a, column_b = getattr(a.units, name), getattr(b.units, name)
            if column_a is None or column_b is None:
                different |= column_a is not column_b  # only one of the queues is a batch queue
            elif name == "tags_codes":
                different |= self._are_tags_different(queue_id, column_a, column_b)
            else:
                different |= column_a != column_b
        return different

    def _are_tags_different(self, queue_id: QueueId, codes_a: np.ndarray, codes_b: np.ndarray) -> np.ndarray:
        """Return which tags codes differ, bool[n]. Of two addresses of ext units, the ext units are compared."""
        different: np.ndarray = codes_a != codes_b
        addresses = [
            row
            for row in np.flatnonzero(different).tolist()
            if all(ConsumeQueueExt.is_ext_address(int(codes[row])) for codes in (codes_a, codes_b))
        ]
        if addresses:
            with contextlib.ExitStack() as stack:
                ext = [stack.enter_context(store.consume_queue_ext(*queue_id)) for store in self._stores]
                for row in addresses:
                    different[row] = ext[0].read(int(codes_a[row])) != ext[1].read(int(codes_b[row]))
        return different

    def describe(self, a: Step, b: Step) -> tuple[str, str]:
        return describe_unit(a.units[0]), describe_unit(b.units[0])


def describe_unit(unit: CqUnit) -> str:
    text = f"phyOffset {unit.phy_offset}, size {unit.size}, tagsCode {unit.tags_code}"
    return text if unit.store_timestamp == -1 else f"{text}, {unit.batch_num} messages, time {unit.store_timestamp}"
