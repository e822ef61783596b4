"""made_by: hide the constructor of a class that only this package calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

C = TypeVar("C", bound=type)


def made_by(call: str) -> Callable[[C], C]:
    """Return a decorator of a class whose objects users get from a function and do not make themselves.

    ``help`` and ``inspect.signature`` show no parameters of its constructor, and its docstring names the function.
    Parameters: call: the call that makes an object, as a user writes it, such as ``CommitLog.open(path)``.
    """

    def hide(cls: C) -> C:
        name = "__init__" if "__init__" in vars(cls) else "__new__"
        constructor = getattr(vars(cls)[name], "__func__", vars(cls)[name])
        constructor.__signature__ = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)])
        constructor.__doc__ = f"Not for users: {call} makes the object."
        cls.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return cls

    return hide
