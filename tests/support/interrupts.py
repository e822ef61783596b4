"""Ctrl-C at any moment of some work, so to say: a timer signals, and the handler raises KeyboardInterrupt."""

import signal
from collections.abc import Callable, Iterable

import pytest

__all__ = ["interrupt"]

AGAIN = 0.2  # seconds: Python passes over an exception that comes while it calls a finalizer


def interrupt(work: Callable[[], object], delays: Iterable[float]) -> None:
    """For each delay call the work again and again, until after so many seconds Ctrl-C ends it."""
    before = signal.signal(signal.SIGALRM, raise_in_work)
    try:
        for seconds in delays:
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
            with pytest.raises(KeyboardInterrupt):
                repeat(work)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def repeat(work):
    while True:
        work()


def raise_in_work(_number, frame):
    # Nowhere else: on a busy machine the next signal comes while the last one is still handled, or the test has ended.
    while frame is not None:
        if frame.f_code is repeat.__code__:
            raise KeyboardInterrupt
        frame = frame.f_back
