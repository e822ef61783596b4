"""ReputMessageService: the thread that dispatches what is appended to the log."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from rocketstore.disk.service_thread import ASK_SECONDS, ServiceThread, Wakeup
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.message_batch import MessageBatch

__all__ = ["OwnDispatcher", "ReputMessageService"]

WAIT_SECONDS, MAX_WAIT_SECONDS = 0.001, 0.02  # for more, before what there is is dispatched
PAUSES = 10  # as long as the last round took: a round of few takes the writers' time for nothing
ENOUGH_RECORDS = 1000  # that are not waited with
SAID = -(1 << 62)  # records: that they are enough
OwnDispatcher = Callable[[MessageBatch], object]


class ReputMessageService:
    """Dispatches in a thread of its own, which no signal interrupts between a queue and the index.

    Attributes: lock: held while queues and index are written; dispatched: up to where they have the log, bytes.
    Source: DefaultMessageStore.ReputMessageService.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        log: CommitLog,
        phy_offset: int,
        find_end: Callable[[], int],
        after: Callable[[], object],
        fail: Callable[[BaseException], object],
    ) -> None:
        """Begin at a physical offset. Parameters: find_end: gives where the log ends. after: called after each round.

        fail: called with what ended the thread.
        """
        self.lock = threading.Lock()
        self.dispatched = phy_offset
        self._own_dispatched = phy_offset
        self._own: list[OwnDispatcher] = []
        self._dispatcher = dispatcher
        self._log = log
        self._find_end = find_end
        self._after = after
        self._fail = fail
        self._waiting = 0  # records; an estimate, since several threads count
        self._is_woken = False
        self._wake, self._is_enough = Wakeup(), Wakeup()
        self._callers: deque[Wakeup] = deque()  # who waits for a round to end
        self._is_stopped = False
        self._thread = ServiceThread("rocketstore-reput", self._run)
        self._thread.start(self.stop)

    def note(self, count: int) -> None:
        """So many records were appended: they are dispatched in some milliseconds, or at once if they are many."""
        self._waiting += count
        if not self._is_woken:
            self._is_woken = True
            self._wake.set()
        if self._waiting >= ENOUGH_RECORDS:
            self._waiting = SAID
            self._is_enough.set()

    def wait(self, *, own: bool = False) -> None:
        """Return when all that is in the log now was dispatched, or the thread has failed.

        Parameters: own: also to own dispatchers.
        """
        end = self._find_end()
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
        """Whether this is the thread."""
        return self._thread.is_current

    def add(self, dispatcher: OwnDispatcher) -> None:
        """Have a function called with batches of all columns, from what is appended next on."""
        self.wait(own=True)
        self._own.append(dispatcher)

    def stop(self) -> None:
        """End the thread; what is not dispatched is left."""
        self._is_stopped = True
        self._is_enough.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        pause = WAIT_SECONDS
        try:
            while True:
                # Asked for now and then: Ctrl-C may come between what a caller notes and its call for a round.
                if self._wake.wait(ASK_SECONDS):
                    self._is_enough.wait(pause)
                if self._is_stopped:
                    return
                self._is_woken = False
                self._waiting = 0
                begin = time.monotonic()
                self._dispatch()
                pause = min(max(WAIT_SECONDS, PAUSES * (time.monotonic() - begin)), MAX_WAIT_SECONDS)
                self._dispatch_to_own()
                self._after()
                while self._callers:
                    self._callers.popleft().set()
        except BaseException as error:  # whatever an own dispatcher raises
            self._fail(error)

    def _dispatch(self) -> None:
        with self.lock:
            end = self._find_end()
            if self.dispatched < end:
                self._dispatcher.dispatch(self.dispatched, end)
                self.dispatched = end

    def _dispatch_to_own(self) -> None:
        """Call own dispatchers, which may put and query themselves."""
        end = self.dispatched
        if self._own and self._own_dispatched < end:
            for batch in self._log.scan(self._own_dispatched, end):
                for dispatcher in self._own:
                    dispatcher(batch)
        self._own_dispatched = end
