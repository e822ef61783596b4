"""Errors of a store. Misuse raises TypeError or ValueError. A request that the system refuses raises OSError."""

from __future__ import annotations

import os
import shlex

DAMAGE_ADVICE = (
    "rocketstore patch STORE marks the lost messages in place, and keeps all others; rocketstore salvage STORE --out "
    "NEW copies the sound records; rocketstore recover STORE --cut-at-damage cuts the "
    "log here and loses them; rocketstore recover STORE --policy broker does what a broker does at its next start: it "
    "cuts the log here if its recovery reads this file, and leaves the damage otherwise"
)
GAP_ADVICE = (
    "rocketstore salvage STORE --out NEW copies the sound records; rocketstore recover STORE --cut-at-damage cuts the "
    "log before the gap and loses the records behind it; rocketstore recover STORE --policy broker reads on behind the "
    "gap, as a broker does"
)
ENTRIES_ADVICE = "rocketstore salvage STORE --out NEW copies the sound records into a log of plain files"  # of DLedger


class StoreError(Exception):
    """The base of all errors whose cause is the store itself.

    Examples:
    >>> import os
    >>> os.mkdir("empty")
    >>> rocketstore.open("empty")
    Traceback (most recent call last):
        ...
    rocketstore.errors.StoreError: ...empty: no store is here, neither commitlog nor consumequeue nor index
    """


class CorruptFileError(StoreError):
    """Bytes of a file that RocketMQ cannot have written.

    Attributes: ``path`` of the file; ``offset`` in the file, bytes; ``field``, by RocketMQ's name; ``reason``.

    Examples:
    >>> error = CorruptFileError("commitlog/0", 8, "magicCode", "is 7")
    >>> error.path, error.offset, error.field, error.reason
    ('commitlog/0', 8, 'magicCode', 'is 7')
    """

    def __init__(self, path: object, offset: int, field: str, reason: str) -> None:
        super().__init__(path, offset, field, reason)
        self.path = path
        self.offset = offset
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.field} at byte {self.offset}: {self.reason}"


class DiskReadError(OSError):
    """Bytes of a file that the disk cannot read, for example in a bad sector.

    Attributes: ``filename``, a str; ``offset``, in bytes, of the first page of the file that cannot be read; ``errno``.

    Examples:
    >>> import errno
    >>> error = DiskReadError("commitlog/00000000000000000000", 8192, errno.EIO)
    >>> error.filename, error.offset, error.strerror
    ('commitlog/00000000000000000000', 8192, 'Input/output error at byte 8192')
    """

    def __init__(self, path: object, offset: int, number: int) -> None:
        super().__init__(number, f"{os.strerror(number)} at byte {offset}", str(path))
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.filename, self.offset, self.errno)


class UnsupportedFormatError(StoreError):
    """A store, or a part of it, is in a format that rocketstore does not read.

    Examples:
    >>> import os
    >>> os.makedirs("dledger/dledger-n0")
    >>> rocketstore.open("dledger", "a")
    Traceback (most recent call last):
        ...
    rocketstore.errors.UnsupportedFormatError: ...dledger: the commit log is DLedger's, which is read but not changed...
    """


class StoreClosedError(StoreError):
    """The object was closed before this call.

    Examples:
    >>> store = rocketstore.open("demo")
    >>> store.close()
    >>> store.query_message("Orders", "order-7")
    Traceback (most recent call last):
        ...
    rocketstore.errors.StoreClosedError: ...demo is closed
    """


class StoreLockedError(StoreError):
    """Another process writes to this store.

    Examples:
    >>> with rocketstore.open("locked", "a", config=StoreConfig.small()):
    ...     rocketstore.open("locked", "r+")
    Traceback (most recent call last):
        ...
    rocketstore.errors.StoreLockedError: ...locked/lock: this process has the store open for writing...
    """


class NestedCallError(RuntimeError):
    """A call of a writer was refused because its thread is in another call of the writer. Nothing was changed.

    Signal handlers, finalizers and callbacks of the garbage collector make these calls.
    """


class SettingError(ValueError):
    """A size or a directory must be given, or the files contradict it.

    Attributes: ``reason``; ``settings``, the fields of ``StoreConfig`` to set; ``suggested``, the probable values of
    these fields, from the files or RocketMQ's defaults, or an empty dict; ``advice``, the arguments that a Python
    program passes, or an empty text.
    """

    def __init__(self, reason: str, *settings: str, suggested: dict[str, int] | None = None, advice: str = "") -> None:
        super().__init__(reason, *settings)
        self.reason = reason
        self.settings = settings
        self.suggested = suggested or {}
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.reason}: {self.advice}" if self.advice else self.reason


class PutMessageError(ValueError):
    """A message was refused because of its own values.

    Attributes: ``status``, a name of RocketMQ's PutMessageStatus.

    Examples:
    >>> with rocketstore.open("small", "a", config=StoreConfig.small()) as store:
    ...     store.put_message(Message("", b""))
    Traceback (most recent call last):
        ...
    rocketstore.errors.PutMessageError: the message is refused: topic ''...
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status

    def __str__(self) -> str:
        return f"{self.args[1]} ({self.status})"


def advice_for(advice: str, root: object) -> str:
    """Return an advice with the path of a store in place of STORE, as a shell reads it."""
    return advice.replace("STORE", shlex.quote(str(root)))


def text_of(error: BaseException) -> str:
    """Return an error as text: the path and the reason of a system error, the message of any other error."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])  # str(error) has quotes
    return str(error)
