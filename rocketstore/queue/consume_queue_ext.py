"""ConsumeQueueExt: ext units, which hold fields of messages that have no room in consume queue units."""

from __future__ import annotations

import io
import operator
import os
from datetime import datetime
from typing import ClassVar, NamedTuple, Self

from rocketstore.config import DEFAULT_SIZES
from rocketstore.disk.closable import Closable
from rocketstore.disk.durable import make_directory
from rocketstore.disk.mapped_file import check_mode
from rocketstore.disk.remote.remote_file_run import open_file_run
from rocketstore.disk.storage import local_path, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.columns import require_int64
from rocketstore.kernels.consume_queue import read_ext_unit
from rocketstore.limits import LONG_MIN
from rocketstore.made_by import made_by
from rocketstore.queue.consume_queue_ext_writer import LARGEST_UNIT, MAX_ADDRESS, ConsumeQueueExtWriter
from rocketstore.text_values import Time, datetime_or_none, time_as_long


class ExtUnit(NamedTuple):
    """An ext unit: the store time in epoch milliseconds; the bitmap of filters that the message passes, or b""."""

    tags_code: int
    store_timestamp: int
    bitmap: bytes

    @property
    def store_time(self) -> datetime | None:
        """``store_timestamp`` as a datetime in UTC; None for a time that no calendar has."""
        return datetime_or_none(self.store_timestamp)


@made_by("ConsumeQueueExt.open(path)")
class ConsumeQueueExt(Closable):
    """The ext units of one queue, by their address. The unit of the queue has the address in place of a tags code.

    Made by ``open``; a context manager; a reader pickles as its options. Attributes: directory; mode.
    Source: ConsumeQueueExt.

    Examples:
    >>> with ConsumeQueueExt.open("ext", "a", mapped_file_size=4096) as ext:
    ...     address = ext.put(7, 1_700_000_000_000)
    ...     print(ConsumeQueueExt.is_ext_address(address), ext.read(address).tags_code)
    True 7
    """

    size_name: ClassVar[str] = "mapped_file_size_consume_queue_ext"
    unit_size: ClassVar[int] = 1  # units are of any length

    def __init__(self, directory: StorePath, mapped_file_size: int | None = None, mode: str = "r") -> None:
        self.directory = directory
        self.mode = mode
        self._given_size = mapped_file_size
        self._file_run = open_file_run([self.directory], mapped_file_size=mapped_file_size)
        self._writer: ConsumeQueueExtWriter | None = None
        if mode != "r":
            size = self._file_run.mapped_file_size or DEFAULT_SIZES[self.size_name]
            self._writer = ConsumeQueueExtWriter(local_path(self.directory), size)
            self._writer.recover(zero=True)

    @classmethod
    def open(
        cls, directory: str | os.PathLike[str] | StorePath, mode: str = "r", *, mapped_file_size: int | None = None
    ) -> Self:
        """Open the files of a directory ``topic/queueId``.

        Parameters: mode: "r" reads; "r+" also puts; "a" also makes the directory. mapped_file_size: bytes; without
        it, the files show it, and the first file has RocketMQ's default.
        Raises: FileNotFoundError; ValueError; CorruptFileError for files that cannot be continued.
        Source: ConsumeQueueExt.load.
        """
        check_mode(mode)
        path: StorePath = to_path(directory) if mode == "r" else local_path(directory)
        if mode == "a":
            make_directory(local_path(path))
        size = None if mapped_file_size is None else operator.index(mapped_file_size)
        return cls(path, size, mode)

    @staticmethod
    def is_ext_address(tags_code: int) -> bool:
        """Return whether a tags code is an address: no hash is so small. Source: ConsumeQueueExt.isExtAddr."""
        return tags_code <= MAX_ADDRESS

    def read(self, address: int) -> ExtUnit | None:
        """Read the unit of an address; return None if it is missing.

        Raises: ValueError if ``address`` is no address; CorruptFileError for a damaged unit.
        Source: ConsumeQueueExt.get.
        """
        if not LONG_MIN <= address <= MAX_ADDRESS:
            raise ValueError(f"{address} is no address of an ext unit")
        position = address - LONG_MIN
        if self._file_run.find(position) is None:
            self._file_run.refresh()
        window = self._file_run.read(position, LARGEST_UNIT)
        unit = None if window is None else read_ext_unit(window.buffer, position - window.from_offset)
        return None if unit is None else ExtUnit(*unit)

    def put(self, tags_code: int, store_timestamp: Time, bitmap: bytes | None = None) -> int:
        """Append a unit.

        Parameters: store_timestamp: epoch ms, a datetime, a date or an ISO 8601 text. bitmap: of the filters that the
        message passes.
        Returns: the tags code for the unit of the queue: the address of the ext unit; or ``tags_code`` if the ext unit
        is larger than 32,767 bytes or than a file.
        Raises: TypeError, ValueError for a number that is no long; io.UnsupportedOperation in mode "r"; OSError.
        Source: ConsumeQueueExt.put.
        """
        stored = time_as_long(store_timestamp, "store_timestamp")
        require_int64(tags_code=tags_code, store_timestamp=stored)
        return self._writing().put(tags_code, stored, bitmap)

    def flush(self) -> None:
        """Return when all units that were put are on the disk. Raises: OSError; io.UnsupportedOperation in mode "r"."""
        self._writing().flush()

    def _writing(self) -> ConsumeQueueExtWriter:
        if self._writer is None:
            raise io.UnsupportedOperation(f"{self.directory} is open for reading: open it with mode 'a' to put units")
        return self._writer

    def close(self) -> None:
        """Flush, if open for writing, and close the files. Later calls raise StoreClosedError."""
        self._file_run.close()
        if self._writer is not None and not self._writer.closed:
            try:
                self._writer.flush()
            finally:
                self._writer.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self._writer is not None:
            raise TypeError(f"{self.directory} is open for writing: only a reader can be pickled")
        return type(self), (self.directory, self._given_size)

    def __repr__(self) -> str:
        return f"<ConsumeQueueExt {str(self.directory)!r}>"
