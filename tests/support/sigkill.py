"""Processes that are ended by SIGKILL at a drawn moment of their work."""

import os
import signal
import time

LATEST = 1.1  # times the duration of the work: a few processes end before they are killed


def start(work):
    """Call ``work`` in a process of its own; return the id of the process."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def seconds_of(work):
    """Return how many seconds a process takes for ``work`` that is not killed."""
    begin = time.monotonic()
    status = os.waitstatus_to_exitcode(os.waitpid(start(work), 0)[1])
    assert status == 0
    return time.monotonic() - begin


def killed_in(seconds, work, rng):
    """Call ``work`` in a process that is killed at a drawn moment. Return whether the kill came before its end."""
    pid = start(work)
    time.sleep(rng.random() * seconds * LATEST)
    os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0
