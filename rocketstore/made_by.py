"""made_by: hide the parameters of a constructor that only this package calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["made_by"]

C = TypeVar("C", bound=type)


def made_by(maker: str) -> Callable[[C], C]:
    """Return a decorator of a class whose objects users get from a function and do not make themselves.

    ``help`` and ``inspect.signature`` show no parameters of its constructor. Parameters: maker: the function to call.
    """

    def hide(cls: C) -> C:
        signature = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)])
        constructor: Any = vars(cls).get("__init__") or vars(cls)["__new__"].__func__
        constructor.__signature__ = signature
        constructor.__doc__ = f"Not for users: {maker} makes the object."
        cls.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return cls

    return hide
