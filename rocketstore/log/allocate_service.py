"""AllocateMappedFileService: the thread that makes the next file of a log before it is needed."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable

from rocketstore.disk.mapped_file import MappedFile
from rocketstore.disk.service_thread import ASK_SECONDS, ServiceThread, Wakeup

__all__ = ["AllocateMappedFileService"]


class AllocateMappedFileService:
    """Makes one file at a time in a thread of its own, while its owner lives. Source: AllocateMappedFileService."""

    def __init__(self, make: Callable[[int], MappedFile]) -> None:
        """Parameters: make: the owner's method that opens or makes the file that begins at an offset of the log."""
        self._make = weakref.WeakMethod(make, self._end)
        self._asked = self._made = -1
        self._file: MappedFile | None = None  # the one that was made last, None if it could not be
        self._is_stopped = False
        self._wake, self._ready = Wakeup(), Wakeup()
        self._thread = ServiceThread("rocketstore-allocate", self._run)
        with contextlib.suppress(RuntimeError):  # no more threads: files are made when they are needed
            self._thread.start(self._end)

    def ask(self, start: int) -> None:
        """Have a file made."""
        self._asked = start
        self._wake.set()

    def take(self, start: int) -> MappedFile | None:
        """Give the file that was asked for last, when it is there; None if it could not be made, or for another."""
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
                except Exception:  # made again when it is needed, by who then gets the error
                    self._file = None
                self._made = start
                self._ready.set()
            del make
