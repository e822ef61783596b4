"""ConsumeQueueExtWriter: appends ext units, which hold fields of messages that have no room in consume queue units."""

from __future__ import annotations

import os

from rocketstore.disk.file_run_writer import FileRunWriter
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.consume_queue import pack_ext_unit
from rocketstore.kernels.layout import EXT_UNIT, read_field
from rocketstore.limits import INT_MIN, LONG_MIN
from rocketstore.root_places import LOG_DIRECTORY

MAX_ADDRESS = INT_MIN - 1  # every hash of a tag is larger
LARGEST_UNIT = 2**15 - 1  # bytes
SIZE_LENGTH = EXT_UNIT["size"].itemsize
END = b"\xff\xff"  # in place of the size of a unit: no unit follows in this file
END_LENGTH = 4  # bytes at the end of a file that units leave free for END
ATTEMPTS = 3


class ConsumeQueueExtWriter(FileRunWriter):
    """Writes the ext units of one queue. Source: ConsumeQueueExt."""

    model_directory = LOG_DIRECTORY

    def __init__(
        self, directory: str | os.PathLike[str], mapped_file_size: int, held: HeldDirectory | None = None
    ) -> None:
        """Open and make nothing yet.

        Parameters: mapped_file_size: of every file, bytes. held: as for ``FileRunWriter``.
        """
        if mapped_file_size < EXT_UNIT.itemsize + END_LENGTH:
            raise ValueError(f"mapped_file_size={mapped_file_size}: no unit fits into a file")
        super().__init__(directory, mapped_file_size, held)

    def put(self, tags_code: int, store_timestamp: int, bitmap: bytes | None = None) -> int:
        """Append a unit, also if the message already has one.

        Parameters: store_timestamp: epoch milliseconds; bitmap: of the filters that the message passes.
        Returns: the tags code for the unit of the queue: the address of the ext unit; or ``tags_code`` if the ext unit
        is larger than 32,767 bytes or than a file. Raises: OSError. Source: ConsumeQueueExt.put.
        """
        self._require_recovered()
        size = EXT_UNIT.itemsize + len(bitmap or b"")
        if size > LARGEST_UNIT or self._end + size > MAX_ADDRESS - LONG_MIN:
            return tags_code
        unit = pack_ext_unit(tags_code, store_timestamp, bitmap or b"")
        for _ in range(ATTEMPTS):
            start = self._last_file()
            position = self._end
            if size <= start + self.mapped_file_size - position - END_LENGTH:
                self._write(unit, position, start)
                self._end += size
                return position + LONG_MIN
            self._write(END, position, start)
            self._end = start + self.mapped_file_size
        return tags_code

    def _recover(self, zero: bool) -> None:
        """Walk through the units of all files. Raises: CorruptFileError for a unit that is longer than its file."""
        end = 0
        for start in self._starts:
            end = self._end_of_units(start)
        self._cut(end, zero=zero)

    def _end_of_units(self, start: int) -> int:
        data = self._read(start, self.mapped_file_size)
        position = 0
        while (size := int.from_bytes(data[position : position + SIZE_LENGTH], "big", signed=True)) > 0:
            position += size
            if position + SIZE_LENGTH > len(data):
                raise CorruptFileError(self._path(start), position - size, "size", f"{size} bytes go beyond the file")
        return start + position

    def truncate_by_max_address(self, address: int) -> None:
        """Cut behind the unit of an address. Do nothing for a tags code that is no address, or has no unit.

        Source: ConsumeQueueExt.truncateByMaxAddress.
        """
        self._require_recovered()
        position = address - LONG_MIN
        if address > MAX_ADDRESS or not self._starts:
            return
        at = position or self._starts[0]  # RocketMQ assumes that the first file begins at 0, and so deletes all files
        if not self._starts[0] <= at < self._end:
            return
        size = read_field(self._read(at, SIZE_LENGTH), EXT_UNIT, "size")
        if size > 0:
            self._cut(position + size, zero=False)

    def truncate_by_min_address(self, address: int) -> None:
        """Delete the files that end before an address. Do nothing for a tags code that is no address.

        Source: ConsumeQueueExt.truncateByMinAddress.
        """
        self._require_recovered()
        if address <= MAX_ADDRESS:
            self._delete([start for start in self._starts if start + self.mapped_file_size < address - LONG_MIN])
            self._end = self._end if self._starts else 0
