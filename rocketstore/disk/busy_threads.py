"""Threads that are in a call of a writer. A second call in such a thread could wait for the first one forever.

A second call comes from a signal handler, a finalizer, a callback of the garbage collector, or a method of a value that
is encoded. Python runs these functions in the middle of the first call, which holds locks or blocks other threads.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from rocketstore.errors import NestedCallError

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W", bound=Any)  # an object with ``busy``, its BusyThreads


ALL: weakref.WeakSet[BusyThreads] = weakref.WeakSet()


class BusyThreads:
    """The threads that are in a call of one writer, and the names of these calls.

    Attributes: calls: by thread. A thread changes only its own entry, with one call of a C function. Neither Ctrl-C nor
    another thread can interrupt this call, with or without a GIL.
    """

    def __init__(self, place: object) -> None:
        """Parameters: place: the path that errors name."""
        self.place = place
        self.calls: dict[int, str] = {}
        ALL.add(self)

    def require_idle(self, name: str) -> None:
        """Raise NestedCallError if this thread is in a call of the writer. Parameters: name: of the second call."""
        if get_ident() in self.calls:
            self.refuse(name)

    def refuse(self, name: str) -> NoReturn:
        """Raise the error of ``require_idle``."""
        outer = self.calls.get(get_ident())
        raise NestedCallError(
            f"{self.place}: {name} is refused, because this thread is in {outer} of the same writer, and would wait "
            f"for itself forever. A signal handler, a finalizer, a callback of the garbage collector, or a method of a "
            "value calls it. Let it raise an exception, as sys.exit does, or set a variable that your put loop reads"
        )

    @contextlib.contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Mark a thread of the writer itself as busy for a ``with`` block. Not for threads that Ctrl-C interrupts."""
        thread = get_ident()
        outer = self.calls.get(thread)
        self.calls[thread] = name
        try:
            yield
        finally:
            if outer is None:
                self.calls.pop(thread, None)
            else:
                self.calls[thread] = outer


def marks_thread_busy(
    name: str,
) -> Callable[[Callable[Concatenate[W, P], T]], Callable[Concatenate[W, P], T]]:
    """Have a method of a writer mark its thread as busy while it runs, and raise NestedCallError in a busy thread.

    Ctrl-C may end the call between any two statements. The mark is set inside ``try`` and by one call of a C function,
    so that ``finally`` always removes it. A call that is refused leaves the mark of the other call.

    Parameters: name: of the method, for users.
    """

    def decorate(method: Callable[Concatenate[W, P], T]) -> Callable[Concatenate[W, P], T]:
        @functools.wraps(method)
        def call(self: W, /, *args: P.args, **options: P.kwargs) -> T:
            thread, calls = get_ident(), self.busy.calls
            if thread in calls:
                self.busy.refuse(name)
            try:
                calls[thread] = name
                return method(self, *args, **options)
            finally:
                calls.pop(thread, None)

        return call

    return decorate


def _forget_threads() -> None:
    """Forget all calls after a fork. Only one thread is left, and new threads may get the numbers of the others."""
    for busy in list(ALL):
        busy.calls.clear()


os.register_at_fork(after_in_child=_forget_threads)
