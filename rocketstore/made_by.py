"""made_by: hide the constructor of a class that only this package calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["made_by"]

C = TypeVar("C", bound=type)


def made_by(call: str) -> Callable[[C], C]:
    """Return a decorator of a class whose objects users get from a function and do not make themselves.

    ``help`` and ``inspect.signature`` show no parameters of its constructor. The error of a user's call names the
    function. Parameters: call: the call that makes an object, as a user writes it, such as ``CommitLog.open(path)``.
    """

    def hide(cls: C) -> C:
        name = "__init__" if "__init__" in vars(cls) else "__new__"
        constructor = with_hint(cls, getattr(vars(cls)[name], "__func__", vars(cls)[name]), call)
        constructor.__signature__ = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)])
        constructor.__doc__ = f"Not for users: {call} makes the object."
        setattr(cls, name, constructor)
        cls.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return cls

    return hide


def with_hint(cls: type, constructor: Any, call: str) -> Any:
    """Return a constructor of a class that raises a TypeError with the call to use if its arguments do not fit.

    A class that is opened by a path never gets a text as its first argument, except from a user.
    """
    is_opened = call.endswith("(path)")

    @functools.wraps(constructor)
    def checked(*arguments: Any, **settings: Any) -> Any:
        try:
            if not (is_opened and len(arguments) > 1 and isinstance(arguments[1], str)):
                return constructor(*arguments, **settings)
        except TypeError:
            if is_bound(constructor, arguments, settings):
                raise
        made = arguments[0] if isinstance(arguments[0], type) else type(arguments[0])
        first, _, rest = call.partition(".")
        own_call = f"{made.__name__}.{rest}" if first == cls.__name__ else call  # of a class that inherits the function
        raise TypeError(f"{made.__name__}() is not for users: {own_call} makes the object")

    return checked


def is_bound(function: Any, arguments: tuple[Any, ...], settings: dict[str, Any]) -> bool:
    """Return whether arguments have the number and the names that a function needs."""
    try:
        inspect.signature(function).bind(*arguments, **settings)
    except TypeError:
        return False
    return True
