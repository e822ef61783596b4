"""The kernels of salvage that count messages by queue check their arguments before they write into the columns."""

import numpy as np
import pytest

from rocketstore.kernels.salvage import assign_queue_offsets, count_messages


def int32(*values):
    return np.array(values, np.int32)


def int64(*values):
    return np.array(values, np.int64)


def count(queues, n_queues=2):
    n = len(queues)
    found = [np.zeros(n_queues, np.int64) for _ in range(2)]
    ranges = [np.full(n_queues, 10**9), np.zeros(n_queues, np.int64)]
    offsets = np.full(n, 10**6), np.arange(n)
    count_messages(int32(*queues), *offsets, np.ones(n, np.int32), *found, *ranges, 20)
    return [column.tolist() for column in (*found, *ranges)]


def test_messages_are_counted_by_queue():
    assert count([0, 1, 0]) == [[2, 1], [2, 1], [0, 1], [3, 2]]
    is_batch, sizes = np.zeros(2, np.uint8), int32(1, 3, 1)
    assert assign_queue_offsets(int32(0, 1, 0), sizes, is_batch, int64(5, 9)).tolist() == [5, 9, 6]


@pytest.mark.parametrize("queue", [-1, 2, 2**31 - 1])
def test_a_queue_without_a_row_in_the_columns_is_refused(queue):
    with pytest.raises(ValueError, match=f"queue {queue}, of 2"):
        count([0, queue])
    with pytest.raises(ValueError, match=f"queue {queue}, of 2"):
        assign_queue_offsets(int32(0, queue), int32(1, 1), np.zeros(2, np.uint8), int64(0, 0))


def test_columns_of_other_lengths_are_refused():
    ones, column = np.ones(2, np.int32), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="other lengths"):
        count_messages(int32(0, 1), int64(1), column, ones, column, column, column, column, 20)
    with pytest.raises(ValueError, match="other lengths"):
        count_messages(int32(0, 1), column, column, ones, column, int64(1), column, column, 20)
    for batch_sizes, is_batch in ((int32(1), np.zeros(2, np.uint8)), (ones, np.zeros(1, np.uint8))):
        with pytest.raises(ValueError, match="other lengths"):
            assign_queue_offsets(int32(0, 1), batch_sizes, is_batch, int64(0, 0))
