"""MessageKeys: the keys of a message, in a list that can be called, so that ``dict(message)`` works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator


class MessageKeys(list[str]):
    """The keys of a message. A call yields the names of the message's fields.

    ``dict(message)`` calls ``message.keys()``, as it does for each object that has this attribute.
    """

    __slots__ = ("_field_names",)

    def __init__(self, keys: Iterable[str], field_names: Callable[[], Iterable[str]]) -> None:
        """Parameters: field_names: returns the names."""
        super().__init__(keys)
        self._field_names = field_names

    def __call__(self) -> Iterator[str]:
        return iter(self._field_names())

    def __reduce__(self) -> tuple[type[list[str]], tuple[list[str]]]:
        return list, ([*self],)
