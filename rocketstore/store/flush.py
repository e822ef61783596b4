"""FlushService: the thread that brings the log, and now and then queues and index, to the disk."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rocketstore.disk.service_thread import ASK_SECONDS, ServiceThread, Wakeup
from rocketstore.log.log_writer import LogWriter

__all__ = ["FlushService"]

QUEUE_FLUSH_SECONDS = 10.0
PAGE = 4096


class FlushService:
    """Flushes the log at once where messages wait for it, all of them together, else when there is enough.

    Source: GroupCommitService, FlushRealTimeService, FlushConsumeQueueService.
    """

    def __init__(
        self,
        log: LogWriter,
        config: Any,
        save: Callable[[bool], object],
        flush_dispatched: Callable[[], object],
        fail: Callable[[BaseException], object],
    ) -> None:
        """Parameters: save: called after the log was flushed, to note it; whether messages wait for that.

        flush_dispatched: flushes queues and index too. fail: called with what ended the thread.
        """
        self._log = log
        self._interval = config.flush_interval_commit_log / 1000
        self._least = config.flush_commit_log_least_pages * PAGE
        self._thorough = config.flush_commit_log_thorough_interval / 1000
        self._save = save
        self._flush_dispatched = flush_dispatched
        self._fail = fail
        self._wake = Wakeup()
        self._callers: deque[Wakeup] = deque()  # whose messages are in the log, and wait for the disk
        self._flushed: deque[Wakeup] = deque()  # whose messages are on the disk, and are woken one after the other
        self._is_busy = False  # until the last of them was
        self.error: Exception | None = None  # what ended the thread
        self._is_stopped = False
        self._thread = ServiceThread("rocketstore-flush", self._run)
        self._thread.start(self.stop)

    @property
    def is_current(self) -> bool:
        """Whether this is the thread."""
        return self._thread.is_current

    def wait(self, end: int) -> None:
        """Return when the log is on the disk up to a physical offset, or the thread has failed."""
        is_done = None
        while self._log.flushed_where < end and self._thread.is_alive:
            if is_done is None:
                is_done = Wakeup()
                self._callers.append(is_done)
                if not self._is_busy:
                    self._wake.set()
            if is_done.wait(ASK_SECONDS):
                is_done = None
                self._wake_next()
            else:
                self._wake.set()
        if is_done is not None:  # who wakes it wakes nobody else
            self._wake_next()

    def _wake_next(self) -> None:
        """Wake one caller, who wakes the next: all at once, they would only wait for each other again.

        Who comes meanwhile is flushed together with the last of them.
        """
        try:
            self._flushed.popleft().set()
        except IndexError:
            self._is_busy = False
            if self._callers:
                self._wake.set()

    def stop(self) -> None:
        self._is_stopped = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        last_log = last_queues = time.monotonic()
        try:
            while not self._is_stopped:
                self._wake.wait(self._interval)
                self._log.check_file()
                now = time.monotonic()
                self._is_busy = True
                with contextlib.suppress(IndexError):  # they take each other from it, too
                    while True:  # Ctrl-C ended the one who was to wake them
                        self._flushed.popleft().set()
                callers = [self._callers.popleft() for _ in range(len(self._callers))]
                least = self._least if now - last_log < self._thorough else 1
                if callers or self._log.phy_offset - self._log.flushed_where >= least:
                    self._log.flush(self._log.phy_offset)  # unless the flush of the queues did
                    self._save(bool(callers))
                    last_log = now
                self._flushed.extend(callers)
                self._wake_next()
                if now - last_queues >= QUEUE_FLUSH_SECONDS:
                    self._flush_dispatched()
                    last_queues = now
        except Exception as error:  # who waits raises it, or the next put
            self.error = error
            self._fail(error)
