"""Threads that are in a call of a writer: a signal handler that runs there cannot close the writer."""

from __future__ import annotations

import functools
from _thread import get_ident
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["marks_thread_busy", "require_uninterrupted"]

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W", bound=Any)  # an object with ``busy_threads``


def marks_thread_busy(method: Callable[Concatenate[W, P], T]) -> Callable[Concatenate[W, P], T]:
    """Have a method of a writer keep its thread in ``busy_threads`` while it runs. Such methods may call each other.

    Ctrl-C ends the call between any two statements. The mark is set inside ``try`` and by one call of C, so that
    ``finally`` always removes it.
    """

    @functools.wraps(method)
    def call(self: W, /, *args: P.args, **options: P.kwargs) -> T:
        thread = get_ident()
        if thread in self.busy_threads:
            return method(self, *args, **options)
        try:
            self.busy_threads.add(thread)
            return method(self, *args, **options)
        finally:
            self.busy_threads.discard(thread)

    return call


def require_uninterrupted(busy_threads: set[int], place: Path) -> None:
    """Raise RuntimeError if this thread is in a call of the writer: closing would wait for that call forever."""
    if get_ident() in busy_threads:
        raise RuntimeError(
            f"{place}: cannot be closed by a signal's handler while this thread puts or flushes: "
            "have it raise, as sys.exit does, or set what the loop that puts looks at"
        )
