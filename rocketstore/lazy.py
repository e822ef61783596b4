"""lazy_property: a value that is computed at its first use, without a lock that a forked process could inherit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, cast, overload

T = TypeVar("T")


class lazy_property(Generic[T]):
    """Compute a value once and keep it in the object, without the lock of Python 3.11's ``functools.cached_property``.

    Two threads may compute the value at the same time. Both get the value that is kept first.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | Self:
        if instance is None:
            return self
        return cast("T", instance.__dict__.setdefault(self._name, self._function(instance)))
