"""Work that a thread does ahead of the caller."""

import threading

import pytest
from support.waiting import wait_for_no_thread

from rocketstore.disk.ahead import iterate_ahead


def test_items_come_in_order_and_are_made_in_another_thread():
    threads = set()

    def items():
        for number in range(100):
            threads.add(threading.current_thread())
            yield number

    assert list(iterate_ahead(items())) == list(range(100))
    assert threading.current_thread() not in threads
    assert list(iterate_ahead([])) == []
    assert list(iterate_ahead([None, False])) == [None, False]


def test_an_error_comes_after_the_items_before_it():
    def items():
        yield 1
        yield 2
        raise OSError("the disk is gone")

    found = []
    with pytest.raises(OSError, match="the disk is gone"):
        found.extend(iterate_ahead(items()))
    assert found == [1, 2]


def test_a_caller_that_stops_early_ends_the_thread_and_makes_at_most_one_more_item():
    made = []
    ahead = iterate_ahead(made.append(number) or number for number in range(100))
    assert [next(ahead), next(ahead)] == [0, 1]
    ahead.close()
    assert made in ([0, 1], [0, 1, 2])
    wait_for_no_thread("rocketstore-ahead")
