"""Waiting for another thread, and replacing the sleep of one module."""

import time
from types import SimpleNamespace

WAIT = 20.0


def wait_for(condition, what="it never came"):
    """Wait until a function returns something true, for at most 20 seconds."""
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.001)


def replace_sleep(monkeypatch, module, sleep):
    """Replace ``time.sleep`` in one module only: other threads of the process, for example Spark's, sleep as before."""
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
