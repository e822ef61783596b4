"""AllocateMappedFileService: a thread that creates the next file of a log before it is needed."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable

from rocketstore.disk.busy_threads import BusyThreads
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.disk.service_thread import ASK_SECONDS, ServiceThread, Wakeup


class AllocateMappedFileService:
    """Creates one file at a time in its own thread, while its owner lives. Source: AllocateMappedFileService."""

    def __init__(self, make: Callable[[int], MappedFile], busy: BusyThreads) -> None:
        """Start the thread.

        Parameters: make: the owner's method that opens or creates the file at a log offset. busy: of the owner.
        """
        self._make = weakref.WeakMethod(make, self._end)
        self._asked = self._made = -1
        self._file: MappedFile | None = None  # the last created file; None if that failed
        self._is_stopped = False
        self._wake, self._ready = Wakeup(), Wakeup()
        self._thread = ServiceThread("rocketstore-allocate", self._run, busy)
        with contextlib.suppress(RuntimeError):  # no thread can start: files are created when they are needed
            self._thread.start(self._end)

    def ask(self, start: int) -> None:
        """Request the file that begins at ``start``."""
        self._asked = start
        self._wake.set()

    def take(self, start: int) -> MappedFile | None:
        """Wait for the requested file and return it. Return None if it failed, or if ``start`` was not requested."""
        while self._asked == start != self._made and self._thread.is_alive:
            self._wake.set()
            self._ready.wait(ASK_SECONDS)
        return self._file if self._made == start else None

    def stop(self) -> None:
        self._end()
        self._thread.join()

    def _end(self, _: object = None) -> None:
        self._is_stopped = True
        self._wake.set()

    def _run(self) -> None:
        while not self._is_stopped:
            self._wake.wait()
            start, make = self._asked, self._make()
            if start != self._made and make is not None and not self._is_stopped:
                try:
                    self._file = make(start)
                except Exception:  # the writer tries again when it needs the file, and gets the error
                    self._file = None
                self._made = start
                self._ready.set()
            del make
