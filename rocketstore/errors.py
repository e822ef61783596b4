"""What goes wrong with a store. Misuse is TypeError or ValueError; what the system refuses is OSError."""

from __future__ import annotations

__all__ = [
    "CorruptFileError",
    "PutMessageError",
    "StoreClosedError",
    "StoreError",
    "StoreLockedError",
    "UnsupportedFormatError",
]


class StoreError(Exception):
    """The base of all errors that a store itself is the reason for."""


class CorruptFileError(StoreError):
    """Bytes that RocketMQ cannot have left like this.

    Attributes: ``path`` of the file, ``offset`` in it in bytes, ``field`` in RocketMQ's name, ``reason``.
    """

    def __init__(self, path: object, offset: int, field: str, reason: str) -> None:
        super().__init__(path, offset, field, reason)
        self.path = path
        self.offset = offset
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.field} at byte {self.offset}: {self.reason}"


class UnsupportedFormatError(StoreError):
    """A store, or a part of one, in a form that rocketstore does not read."""


class StoreClosedError(StoreError):
    """The object was closed before this call."""


class StoreLockedError(StoreError):
    """Another process writes to this store."""


class PutMessageError(ValueError):
    """A message that is not stored, for what it is. Attributes: ``status``, of RocketMQ's PutMessageStatus."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status

    def __str__(self) -> str:
        return f"{self.args[1]} ({self.status})"
