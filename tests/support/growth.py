"""Counted work: how many Python functions and C functions an operation calls, in all its threads."""

import sys
import threading
import time

__all__ = ["assert_grows_at_most_linearly", "assert_time_grows_at_most_linearly", "count_calls"]

FACTOR = 6  # for four times the size: n log n is below 5
FLOOR = 500  # calls that do not depend on the size
TIME_FACTOR, TIME_FLOOR = 8, 0.3  # seconds of the processor


def count_calls(operation, *arguments):
    """Return the number of calls that an operation makes, those of the system among them."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        operation(*arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count


def assert_grows_at_most_linearly(operation, few, many):
    """Compare the calls for an input with those for one of four times the size.

    Parameters: operation: is called with each of the inputs. few, many: the inputs.
    """
    n_few, n_many = count_calls(operation, few), count_calls(operation, many)
    assert n_few > 0
    assert n_many <= FACTOR * n_few + FLOOR, f"{n_few} calls became {n_many}"


def assert_time_grows_at_most_linearly(operation, few, many):
    """Compare the processor's time, where a kernel does the work: the least of three, as other work disturbs it."""
    times = []
    for argument in (few, many):
        least = min(processor_time(operation, argument) for _ in range(3))
        times.append(least)
    assert times[1] <= TIME_FACTOR * times[0] + TIME_FLOOR, f"{times[0]:.2f} s became {times[1]:.2f} s"


def processor_time(operation, argument):
    begin = time.process_time()
    operation(argument)
    return time.process_time() - begin
