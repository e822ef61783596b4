"""Threads that work through tasks. Ctrl-C may end the wait for a task at any statement.

``concurrent.futures`` uses threading.Condition and Semaphore, which are Python code. Ctrl-C in the middle of them
leaves a lock held. A thread of the pool then waits forever for the lock, and the process waits for the thread.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from rocketstore.disk.service_thread import ASK_SECONDS, ServiceThread, Wakeup

Part = TypeVar("Part")
Result = TypeVar("Result")


class Task(Generic[Result]):
    """Work that a thread does once, and its result."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._is_cancelled = self._has_ended = False
        self._ended = Wakeup()

    def cancel(self) -> None:
        """Let ``result`` raise CancelledError if the work has not begun."""
        self._is_cancelled = True

    def run(self) -> None:
        """Do the work. Never call this in the main thread, where Ctrl-C could interrupt it."""
        try:
            if self._is_cancelled:
                raise CancelledError
            self._result = self._work()
        except BaseException as error:
            # Leave out this frame: it refers to the task, and the task to the error. Only the garbage collector would
            # free this cycle.
            self._error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        finally:
            del self._work
            self._has_ended = True
            self._ended.set()

    @property
    def has_ended(self) -> bool:
        """Whether the work has ended, with a result or with an error."""
        return self._has_ended

    def wait(self) -> None:
        """Wait for the end of the work. An error of the work is not raised.

        Raises: CancelledError if Python's exit ended the thread.
        """
        while not self._has_ended:
            if sys.is_finalizing():
                raise CancelledError
            if self._ended.wait(ASK_SECONDS):
                self._ended.set()  # the end wakes only one of several threads, and each of them wakes the next

    def result(self) -> Result:
        """Wait for the end of the work. Return its result, or raise its error.

        Raises: CancelledError if the work did not begin, or if Python's exit ended the thread.
        """
        self.wait()
        if self._error is None:
            return self._result  # type: ignore[return-value]
        try:
            raise self._error
        finally:
            del self  # the error refers to this frame, which must not refer to the error


class WorkThreads:
    """Threads that do tasks in the order in which one thread submits them."""

    def __init__(self, count: int, name: str) -> None:
        """Parameters: count: of the threads, which start with the first tasks. name: of the threads."""
        self._count, self._name = count, name
        self._tasks: SimpleQueue[Task[Any] | None] = SimpleQueue()
        self._threads: list[ServiceThread] = []
        self._is_cancelled = False

    def submit(self, work: Callable[..., Result], *arguments: Any) -> Task[Result]:
        """Let a thread call ``work(*arguments)``. Return the task.

        If this call raises an error, the work is left out, unless it has begun.
        Raises: RuntimeError if the system has no more threads, or if Python is ending.
        """
        task = Task(partial(work, *arguments))
        try:
            self._tasks.put(task)
            if sum(thread.is_alive for thread in self._threads) < self._count:  # some may have failed to start
                thread = ServiceThread(f"{self._name}_{len(self._threads)}", self._work)
                self._threads.append(thread)
                thread.start()
            return task
        except BaseException:
            task.cancel()
            raise

    @property
    def are_cancelled(self) -> bool:
        """Whether the threads must end soon, after an error or Ctrl-C. Long work asks regularly, and returns early."""
        return self._is_cancelled

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            if self._is_cancelled:
                task.cancel()
            task.run()
            del task  # while this thread waits, it must not keep the result in memory

    def end(self, *, cancels: bool) -> None:
        """End the threads, and return when they have ended. Parameters: cancels: leave out work that has not begun."""
        self._is_cancelled = self._is_cancelled or cancels
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            # Python's garbage collector may close an iterator in a thread of this very iterator.
            if not thread.is_current:
                thread.join()


@contextlib.contextmanager
def work_threads(count: int, name: str) -> Iterator[WorkThreads]:
    """Yield threads, and wait for their work at the end.

    After an error or Ctrl-C, work that has not begun is cancelled, so that the threads end soon.
    """
    threads = WorkThreads(count, name)
    try:
        yield threads
        threads.end(cancels=False)
    except BaseException:
        threads.end(cancels=True)
        raise


def run_in_threads(work: Callable[[Part, WorkThreads | None], Result], parts: Sequence[Part]) -> list[Result]:
    """Call ``work(part, threads)`` for each part, each call in a thread of its own. Return the results in order.

    The error of a part is raised when the parts before it have ended, and cancels the others. Ctrl-C cancels all parts.
    Long work asks ``threads.are_cancelled``. A single part is done in the caller's thread, and ``threads`` is None.
    """
    if len(parts) == 1:
        return [work(parts[0], None)]
    with work_threads(len(parts), "rocketstore-part") as threads:
        tasks = [threads.submit(work, part, threads) for part in parts]
        return [task.result() for task in tasks]
