"""A read by queue offset works with any queue that answers its questions, also one without files."""

from pathlib import Path

import numpy as np
import pytest

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.kernels.queue_id import QueueId
from rocketstore.query.get_message import QueueView, get_message
from rocketstore.queue.queue_source import OffsetBounds
from rocketstore.queue.units import ConsumeQueueUnits


class ArrayQueue:
    """A queue whose units are in arrays, from a queue offset on."""

    directory = Path("array/0")
    has_batches = False
    has_gaps = False
    is_compacted = False
    unit_size = 28
    leftover_units = 0

    def __init__(self, first, units):
        self.units, self.min_queue_offset = units, first
        self.max_queue_offset = first + len(units)

    def __len__(self):
        return len(self.units)

    @property
    def bounds(self):
        return OffsetBounds(self.min_queue_offset, self.max_queue_offset, len(self.units))

    def __getitem__(self, key):
        first = self.min_queue_offset
        begin, end = (key.start - first, key.stop - first) if isinstance(key, slice) else (key - first, key - first + 1)
        columns = (column[begin:end] for column in (self.units.phy_offsets, self.units.sizes, self.units.tags_codes))
        units = ConsumeQueueUnits(first + begin, *columns)
        return units if isinstance(key, slice) else units[0]

    def file_range(self, queue_offset):
        return self.min_queue_offset, self.max_queue_offset

    def offset_after_missing_file(self, queue_offset):
        return self.max_queue_offset


@pytest.fixture
def store(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        for n in range(50):
            store.put_message(Message("T", b"%d" % n, tags="AB"[n % 2], queue_id=0))
    with rocketstore.open(tmp_path) as store:
        yield store


@pytest.mark.parametrize("tags", [None, "A"])
def test_a_queue_of_arrays_is_read_as_the_files_are(store, tags):
    queue = store.consume_queue("T", 0)
    arrays = ArrayQueue(0, queue[:])
    for queue_offset, count in ((0, 8), (45, 32), (50, 1), (51, 1)):
        read = QueueId("T", 0), queue_offset, count, tags, None, None, True
        expected, found = (get_message(QueueView.of_queue(store.commit_log, one), *read) for one in (queue, arrays))
        assert (found.status, found.next_begin_offset) == (expected.status, expected.next_begin_offset)
        assert found.messages.body.to_pylist() == expected.messages.body.to_pylist()


def test_a_queue_of_arrays_may_begin_later(store):
    units = store.consume_queue("T", 0)[20:50]
    found = get_message(
        QueueView.of_queue(store.commit_log, ArrayQueue(20, units)), QueueId("T", 0), 5, 32, None, None, None, True
    )
    assert (found.status.name, found.next_begin_offset) == ("OFFSET_TOO_SMALL", 20)
    found = get_message(
        QueueView.of_queue(store.commit_log, ArrayQueue(20, units)), QueueId("T", 0), 20, 2, None, None, None, True
    )
    assert np.array_equal(found.messages.queue_offset, [20, 21])
