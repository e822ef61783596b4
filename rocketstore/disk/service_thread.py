"""Threads that work for others, and how they wait for each other.

Ctrl-C may end any statement of the main thread. threading.Event, Condition and Thread.join are Python code. Ctrl-C in
the middle of them leaves a lock held, or makes a living thread look dead. One call of a lock cannot be interrupted.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable

from rocketstore.disk.busy_threads import BusyThreads

ASK_SECONDS = 0.1  # between two checks whether a thread still lives
END_SECONDS = 0.0001  # between two checks whether a thread without work has ended
MAX_END_SECONDS = 5.0  # that ``join`` waits for the end of a thread without work


class Wakeup:
    """One thread waits, others wake it. Several calls of ``set`` wake it once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    @property
    def is_set(self) -> bool:
        return not self._lock.locked()

    def set(self) -> None:
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError as error:
                # The lock's own error, without frames below this one, means that another thread was faster. Any other
                # error is that of a signal handler, which runs here.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise

    def wait(self, seconds: float = -1) -> bool:
        """Wait for ``set``, at most some seconds. Return whether ``set`` was called."""
        return self._lock.acquire(timeout=seconds)


class ServiceThread:
    """A daemon thread that runs a function once. Source: org.apache.rocketmq.common.ServiceThread."""

    def __init__(self, name: str, run: Callable[[], object], busy: BusyThreads | None = None) -> None:
        """Parameters: busy: of the writer that waits for the thread. The thread cannot call this writer."""
        self._name = name
        self._run = run
        self._busy = busy
        self._pid = 0  # the process that started the thread
        self._has_ended = False
        self._ended = Wakeup()
        self._thread = threading.Thread(target=self._run_to_end, name=name, daemon=True)

    def start(self, stop: Callable[[], object] = lambda: None) -> None:
        """Start the thread.

        Parameters: stop: makes the thread end. It is called if an error, for example Ctrl-C, leaves it unknown whether
        the thread runs. Raises: RuntimeError if the system has no more threads, or if Python is ending.
        """
        try:
            if sys.is_finalizing():  # Python 3.11 would wait forever for the thread to begin
                raise RuntimeError(f"the thread {self._name} cannot start: Python is ending")
            self._thread.start()
            self._pid = os.getpid()
        except BaseException as error:
            stop()
            # Thread.start waits for a Condition. If Ctrl-C ends this wait, the Condition may raise RuntimeError.
            if isinstance(error, RuntimeError) and isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise

    def _run_to_end(self) -> None:
        self._pid = os.getpid()  # Ctrl-C may end ``start`` before it sets this
        try:
            with contextlib.nullcontext() if self._busy is None else self._busy.during(f"the thread {self._name}"):
                self._run()
        finally:
            self._has_ended = True
            self._ended.set()

    @property
    def is_alive(self) -> bool:
        """Whether the thread was started in this process and has not ended. Python ends daemon threads at its exit."""
        return not self._has_ended and self._pid == os.getpid() and not sys.is_finalizing()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def join(self) -> None:
        """Return when the function has returned and the thread has ended.

        At its end, a thread deletes its values of ``threading.local``. If Python exited in the destructor of such a
        value, for example of a connection of DuckDB, the process would abort. This second wait has a limit: an ending
        thread needs a lock of ``threading``, and the garbage collector may call ``join`` in a thread that holds it.
        """
        while self.is_alive:
            self._ended.wait(ASK_SECONDS)
        deadline = time.monotonic() + MAX_END_SECONDS
        while self._thread.is_alive() and not sys.is_finalizing() and time.monotonic() < deadline:
            time.sleep(END_SECONDS)
