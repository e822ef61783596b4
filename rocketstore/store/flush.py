"""FlushService: the thread that writes the log to the disk, and every ten seconds queues and index too."""

from __future__ import annotations

import contextlib
import time
from collections import deque

from rocketstore.config import SizedConfig
from rocketstore.disk.busy_threads import BusyThreads
from rocketstore.disk.service_thread import ASK_SECONDS, ServiceThread, Wakeup
from rocketstore.log.log_files import LogFileWriter
from rocketstore.log.writer_failure import WriterFailure
from rocketstore.store.parts_flush import PartsFlush

QUEUE_FLUSH_SECONDS = 10.0
PAGE = 4096


class FlushService:
    """Flushes the log at once if callers wait for it, for all of them together; otherwise when enough was appended.

    Source: GroupCommitService, FlushRealTimeService, FlushConsumeQueueService.
    """

    def __init__(
        self,
        log_files: LogFileWriter,
        config: SizedConfig,
        parts: PartsFlush,
        failure: WriterFailure,
        busy: BusyThreads,
    ) -> None:
        """Start the thread.

        Parameters: parts: flushes the log, and queues and index with it. failure: notes the error that ends the thread.
        busy: of the writer.
        """
        self._log_files = log_files
        self._interval = config.flush_interval_commit_log / 1000
        self._least = max(config.flush_commit_log_least_pages * PAGE, 1)  # bytes
        self._thorough = config.flush_commit_log_thorough_interval / 1000
        self._parts = parts
        self._failure = failure
        self._wake = Wakeup()
        self._callers: deque[Wakeup] = deque()  # callers that wait until their messages are on the disk
        self._flushed: deque[Wakeup] = deque()  # callers whose messages are on the disk; each wakes the next
        self._is_busy = False  # from the start of a flush until the last of these callers is awake
        self.error: Exception | None = None  # that ended the thread
        self._is_stopped = False
        self._thread = ServiceThread("rocketstore-flush", self._run, busy)
        self._thread.start(self.stop)

    @property
    def is_current(self) -> bool:
        """Whether this is the thread."""
        return self._thread.is_current

    def wait(self, end: int) -> None:
        """Return when the log is on the disk up to a physical offset, or the thread has failed."""
        is_done = None
        while self._log_files.flushed_where < end and self._thread.is_alive:
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
        if is_done is not None:  # this caller did not wait for its turn, so it wakes the next one now
            self._wake_next()

    def _wake_next(self) -> None:
        """Wake one caller; it wakes the next. If all were awake at once, they would wait for the GIL.

        Callers that come meanwhile are flushed together with the last of them.
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
                now = time.monotonic()
                self._is_busy = True
                with contextlib.suppress(IndexError):  # the callers take each other from it too
                    while True:  # Ctrl-C may have ended the caller that had to wake the next
                        self._flushed.popleft().set()
                callers = [self._callers.popleft() for _ in range(len(self._callers))]
                least = self._least if now - last_log < self._thorough else 1
                if callers or self._log_files.phy_offset - self._log_files.flushed_where >= least:
                    self._parts.flush_log(has_waiting_puts=bool(callers))
                    last_log = now
                else:
                    self._log_files.check_file()  # a flush checks the file too
                self._flushed.extend(callers)
                self._wake_next()
                if now - last_queues >= QUEUE_FLUSH_SECONDS:
                    self._parts.flush_dispatched()
                    last_queues = now
        except Exception as error:  # callers that wait raise it, and so does the next put
            self.error = error
            self._failure.set_error(error, is_raised=False)
