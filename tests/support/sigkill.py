"""Processes that are ended by SIGKILL at a drawn moment of their work."""

import os
import signal
import time

MORE = 1.1  # of the time that the work takes: a few processes end by themselves


def start(work):
    """Do something in a process of its own; return its id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def seconds_of(work):
    """Return how long a process takes that does something and ends by itself."""
    begin = time.monotonic()
    status = os.waitstatus_to_exitcode(os.waitpid(start(work), 0)[1])
    assert status == 0
    return time.monotonic() - begin


def killed_in(seconds, work, rng):
    """Do something in a process that is killed at a drawn moment. Return whether the kill came before its end."""
    pid = start(work)
    time.sleep(rng.random() * seconds * MORE)
    os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0
