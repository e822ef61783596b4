"""ReputMessageService: the thread that dispatches records that were appended to the log."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from rocketstore.disk.busy_threads import BusyThreads
from rocketstore.disk.service_thread import ASK_SECONDS, ServiceThread, Wakeup
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.queue_ids import QueueIds
from rocketstore.kernels.waiting_records import WaitingRecords
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_files import LogFileWriter
from rocketstore.log.writer_failure import WriterFailure
from rocketstore.messages.message_batch import MessageBatch

WAIT_SECONDS, MAX_WAIT_SECONDS = 0.001, 0.02  # to wait for more records before a round
PAUSES = 10  # a round waits for this multiple of the last round's time, since small rounds slow the writers down
# Records. A round begins at once when so many wait: its cost hardly depends on their number, and it has the GIL.
ENOUGH_RECORDS = 16_000
OwnDispatcher = Callable[[MessageBatch], object]


class ReputMessageService:
    """Dispatches in its own thread, because a signal must not interrupt between a queue and the index.

    Attributes: lock: locked while queues and index are written. dispatched: records before this physical offset are
    dispatched. waiting: counts appended records. They are dispatched within milliseconds, or at once if many wait.
    Source: DefaultMessageStore.ReputMessageService.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        log: CommitLog,
        log_files: LogFileWriter,
        queue_ids: QueueIds,
        lock: threading.Lock,
        failure: WriterFailure,
        busy: BusyThreads,
    ) -> None:
        """Start where the log ends.

        Parameters: log: reads what is written to log_files. queue_ids: is saved after each round. lock: as attribute.
        failure: notes the exception that ends the thread. busy: of the writer; this thread is busy except while it
        calls the user's own dispatchers.
        """
        self.lock = lock
        self.dispatched = phy_offset = log_files.phy_offset
        self._own_dispatched = phy_offset
        self._own: list[OwnDispatcher] = []
        self._dispatcher = dispatcher
        self._log = log
        self._log_files = log_files
        self._queue_ids = queue_ids
        self._failure = failure
        self._busy = busy
        self._wake, self._is_enough = Wakeup(), Wakeup()
        self.waiting = WaitingRecords(self._wake.set, self._is_enough.set, ENOUGH_RECORDS)
        self._callers: deque[Wakeup] = deque()  # threads that wait for the end of a round
        self._is_stopped = False
        self._thread = ServiceThread("rocketstore-reput", self._run)
        self._thread.start(self.stop)

    def wait(self, *, own: bool = False) -> None:
        """Wait until all present records of the log are dispatched, or the thread has failed.

        Parameters: own: wait for the user's own dispatchers too.
        """
        end = self._log_files.phy_offset
        if self.is_current:
            self._dispatch()
            return
        while self._thread.is_alive and end > (self._own_dispatched if own else self.dispatched):
            is_done = Wakeup()
            self._callers.append(is_done)
            self._is_enough.set()
            self._wake.set()
            is_done.wait(ASK_SECONDS)

    @property
    def is_current(self) -> bool:
        """Return whether the caller runs in this thread."""
        return self._thread.is_current

    def add(self, dispatcher: OwnDispatcher) -> None:
        """Add a function that is called with batches of all columns, from the next appended record on."""
        self.wait(own=True)
        self._own.append(dispatcher)

    def stop(self) -> None:
        """End the thread. Records that were not dispatched stay so."""
        self._is_stopped = True
        self._is_enough.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        pause = WAIT_SECONDS
        try:
            while True:
                # Poll: Ctrl-C may interrupt a caller after it counted its records and before it wakes this thread.
                if self._wake.wait(ASK_SECONDS):
                    self._is_enough.wait(pause)
                if self._is_stopped:
                    return
                self.waiting.clear()
                begin = time.monotonic()
                with self._busy.during("the dispatch of messages"):
                    self._dispatch()
                pause = min(max(WAIT_SECONDS, PAUSES * (time.monotonic() - begin)), MAX_WAIT_SECONDS)
                self._dispatch_to_own()
                with self._busy.during("the dispatch of messages"):
                    self._queue_ids.save()
                while self._callers:
                    self._callers.popleft().set()
        except BaseException as error:  # a user's own dispatcher may raise anything
            self._failure.set_error(error, is_raised=False)

    def _dispatch(self) -> None:
        with self.lock:
            end = self._log_files.phy_offset
            if self.dispatched < end:
                self._dispatcher.dispatch(self.dispatched, end)
                self.dispatched = end

    def _dispatch_to_own(self) -> None:
        """Call the user's own dispatchers. They may put and query too."""
        end = self.dispatched
        if self._own and self._own_dispatched < end:
            for batch in self._log.scan(self._own_dispatched, end):
                for dispatcher in self._own:
                    dispatcher(batch)
        self._own_dispatched = end
