"""ConsumeQueueExt: what a consume queue keeps of a message beside its unit."""

from __future__ import annotations

import os
from typing import ClassVar, NamedTuple, Self

from rocketstore.files.remote_file import open_queue
from rocketstore.kernels.consume_queue import read_ext_unit
from rocketstore.limits import INT_MIN, LONG_MIN
from rocketstore.storage import to_path

__all__ = ["ConsumeQueueExt", "ExtUnit"]

MAX_ADDRESS = INT_MIN - 1
LARGEST_UNIT = 2**15 - 1


class ExtUnit(NamedTuple):
    """An ext unit: the store time in epoch milliseconds; the bitmap of filters that the message passes, or b""."""

    tags_code: int
    store_timestamp: int
    bitmap: bytes


class ConsumeQueueExt:
    """The ext units of one queue, by the address that a unit has in place of a tags code. Source: ConsumeQueueExt."""

    directory_name: ClassVar[str] = "consumequeue_ext"
    size_name: ClassVar[str] = "mapped_file_size_consume_queue_ext"
    unit_size: ClassVar[int] = 1  # units are of any length

    def __init__(self, directory: str | os.PathLike[str], mapped_file_size: int | None = None) -> None:
        self.directory = to_path(directory)
        self._given_size = mapped_file_size
        self._queue = open_queue([self.directory], mapped_file_size=mapped_file_size)

    @classmethod
    def open(cls, directory: str | os.PathLike[str], mode: str = "r", *, mapped_file_size: int | None = None) -> Self:
        """Open the files of a directory ``topic/queueId``. Raises: FileNotFoundError; ValueError."""
        if mode != "r":
            raise ValueError(f"mode={mode!r}: must be 'r'")
        return cls(directory, mapped_file_size)

    @staticmethod
    def is_ext_address(tags_code: int) -> bool:
        """Whether a tags code is an address: no hash is so small. Source: ConsumeQueueExt.isExtAddr."""
        return tags_code <= MAX_ADDRESS

    def read(self, address: int) -> ExtUnit | None:
        """Read the unit of an address; None if there is none.

        Raises: ValueError for what is no address; CorruptFileError for a damaged unit. Source: ConsumeQueueExt.get.
        """
        if not LONG_MIN <= address <= MAX_ADDRESS:
            raise ValueError(f"{address} is no address of an ext unit")
        position = address - LONG_MIN
        if self._queue.find(position) is None:
            self._queue.refresh()
        window = self._queue.read(position, LARGEST_UNIT)
        unit = None if window is None else read_ext_unit(window.buffer, position - window.from_offset)
        return None if unit is None else ExtUnit(*unit)

    def close(self) -> None:
        """Unmap the files. Later calls raise StoreClosedError."""
        self._queue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.directory.absolute(), self._given_size)
