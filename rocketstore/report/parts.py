"""Numbers of queues, index files, consumers and expiry for a report. Each is read by public names of the package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import NamedTuple

import numpy as np

from rocketstore.errors import StoreError, text_of
from rocketstore.index.index_file import IndexFile
from rocketstore.kernels.queue_id import QueueId
from rocketstore.queue.queue_source import offset_range
from rocketstore.store.expiry import older_files
from rocketstore.store.message_store import MessageStore
from rocketstore.store.usage.expiry_plan import ExpiryPlan, modified_ms
from rocketstore.store.usage.zone_bins import HOUR

MAX_QUEUES = 2000
MAX_INDEX_FILES = 8
LONGEST = 30  # items: longer chains are counted as chains of this length
PART = 1 << 22  # items of an index file that are read at a time


class QueueBounds(NamedTuple):
    """The bounds of a queue: queue offsets, and the physical offsets of its first and last record, bytes.

    The physical offsets are None for an empty queue. ``problem`` says why a queue cannot be read; its bounds are None.
    """

    topic: str
    queue_id: int
    min_offset: int | None = None
    max_offset: int | None = None
    begin: int | None = None
    end: int | None = None
    problem: str | None = None

    @property
    def messages(self) -> int | None:
        return None if self.min_offset is None or self.max_offset is None else self.max_offset - self.min_offset


def read_queues(store: MessageStore) -> tuple[list[QueueBounds], int]:
    """Read the bounds of the queues of a store, of at most ``MAX_QUEUES``. Return them and the number of all queues.

    Raises: StoreError, OSError.
    """
    names = list(store.queues())
    step = max(math.ceil(len(names) / MAX_QUEUES), 1)
    return [read_queue(store, name) for name in names[::step]], len(names)


def read_queue(store: MessageStore, name: QueueId) -> QueueBounds:
    try:
        queue = store.log_queue(*name)
        begin, end = offset_range(queue)
        if begin >= end:
            return QueueBounds(*name, end, end)
        first, last = (queue[at : at + 1].phy_offsets for at in (begin, end - 1))
        return QueueBounds(*name, begin, end, int(first[0]), int(last[0]))
    except (StoreError, OSError, ValueError, KeyError, IndexError) as error:
        return QueueBounds(*name, problem=text_of(error))


@dataclass
class IndexNumbers:
    """The slots and chains of one index file.

    Attributes
    ----------
    name : of the file.
    items, capacity : the number of items in the file, and the largest number for which it has room.
    slots : the number of its hash slots.
    used : slots with at least one item.
    longest : items in the longest chain.
    chains : slots by the number of their items, int64[LONGEST + 1]; the last one counts longer chains too.
    """

    name: str
    items: int
    capacity: int
    slots: int
    used: int
    longest: int
    chains: np.ndarray

    @property
    def expected_used(self) -> float:
        """The slots in use if each item chose its slot at random."""
        return self.slots * -math.expm1(-self.items / self.slots)

    def expected_chains(self) -> np.ndarray:
        """Return ``chains`` if each item chose its slot at random: the Poisson distribution, float64[LONGEST + 1]."""
        mean = self.items / self.slots
        shares = [math.exp(-mean)]
        for length in range(1, LONGEST):
            shares.append(shares[-1] * mean / length)
        return self.slots * np.array([*shares, max(1 - sum(shares), 0)])


def read_index(store: MessageStore) -> tuple[list[IndexNumbers], int]:
    """Read the chains of index files, of at most ``MAX_INDEX_FILES`` from the oldest to the newest.

    Returns: their numbers, and the number of all files with items. Raises: StoreError, OSError, ValueError.
    """
    index = store.index
    if index is None:
        return [], 0
    files = [file for file in index.files if len(file) > 0]
    if len(files) > MAX_INDEX_FILES:
        places = np.linspace(0, len(files) - 1, MAX_INDEX_FILES).astype(int)
        return [read_index_file(files[place]) for place in places], len(files)
    return [read_index_file(file) for file in files], len(files)


def read_index_file(file: IndexFile) -> IndexNumbers:
    count, slots = len(file), file.hash_slot_num
    lengths = np.zeros(slots, np.int64)
    for begin in range(1, count + 1, PART):
        hashes = file.items(begin, min(begin + PART, count + 1))["key_hash"].astype(np.int64)
        lengths += np.bincount(hashes % slots, minlength=slots)
    chains = np.bincount(np.minimum(lengths, LONGEST), minlength=LONGEST + 1)
    return IndexNumbers(
        file.path.name, count, file.index_num - 1, slots, slots - int(chains[0]), int(lengths.max()), chains
    )


class ExpiringFile(NamedTuple):
    """A file of the log, its size in bytes, and the time from which a broker may delete it, epoch ms; None: never."""

    name: str
    size: int
    timestamp: int | None


def find_expiring_files(store: MessageStore, plan: ExpiryPlan, zone: tzinfo | None, now: int) -> Sequence[ExpiringFile]:
    """Find when each file of the log may be deleted, oldest first. The last file never expires.

    Parameters: zone: of the broker; None for that of this machine. now: epoch ms. Raises: StoreError, OSError.
    """
    log = store.commit_log
    given = {file.path: file.delete_timestamp for file in plan}
    expiring: list[ExpiringFile] = []
    latest = now
    for file in older_files(log.file_run.files, log.look(again=True).records_end):
        # A broker deletes the oldest file first, so a file waits until the older files have expired.
        latest = max(latest, modified_ms(file.path) + round(plan.rules.file_reserved_hours * HOUR))
        when = given.get(str(file.path)) or plan.rules.next_deletion(latest, zone)
        expiring.append(ExpiringFile(file.path.name, file.size, when))
    return expiring
