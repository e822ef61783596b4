"""Waiting for another thread, and replacing the sleep of one module."""

import threading
import time
from types import SimpleNamespace

WAIT = 20.0


def wait_for(condition, what="it never came"):
    """Wait until a function returns something true, for at most 20 seconds."""
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.001)


def wait_for_no_thread(name):
    """Wait until no thread has a name that begins with ``name``. A thread that was joined needs a moment to end."""
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith(name)], "it still runs")


def replace_sleep(monkeypatch, module, sleep):
    """Replace ``time.sleep`` in one module only: other threads of the process, for example Spark's, sleep as before."""
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
