"""IndexHeader: the header of an index file; read and write it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from rocketstore.disk.positioned_read import read_path_at
from rocketstore.disk.remote.read_parts import read_parts
from rocketstore.disk.storage import is_remote
from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.layout import INDEX_HEADER, struct_of
from rocketstore.text_values import datetime_or_none

HEADER: struct.Struct = struct_of(INDEX_HEADER)
AT_ONCE = 64  # headers of remote files


class IndexHeader(NamedTuple):
    """The header of an index file: times in epoch milliseconds, offsets in bytes of the commit log.

    ``hash_slot_count``: puts that found their slot empty. ``index_count``: the next item's ordinal, items + 1.
    Source: IndexHeader.

    Examples:
    >>> file = rocketstore.open("demo").index.files[-1]
    >>> file.header.index_count, file.header.begin_phy_offset
    (202, 0)
    """

    begin_timestamp: int
    end_timestamp: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int

    @property
    def begin_time(self) -> datetime | None:
        """``begin_timestamp`` as a datetime in UTC; None for a file without items."""
        return datetime_or_none(self.begin_timestamp) if self.begin_timestamp else None

    @property
    def end_time(self) -> datetime | None:
        """``end_timestamp`` as a datetime in UTC; None for a file without items."""
        return datetime_or_none(self.end_timestamp) if self.end_timestamp else None


def unpack_header(data: bytes | memoryview) -> IndexHeader:
    """Return the header at the begin of an index file's bytes."""
    return IndexHeader(*HEADER.unpack_from(data))


def read_header(path: StorePath) -> IndexHeader:
    """Read the header of an index file. Bytes that the file does not have yet are read as zeros."""
    return unpack_header(read_path_at(path, HEADER.size, 0).ljust(HEADER.size, b"\0"))


def read_headers(paths: Sequence[StorePath]) -> list[IndexHeader]:
    """Read the headers of index files as ``read_header`` does; of remote files, many at once and nothing else."""
    if not all(map(is_remote, paths)):
        return [read_header(path) for path in paths]
    parts = [(path, 0, min(HEADER.size, path.stat().st_size)) for path in paths if is_remote(path)]
    found = (data for at in range(0, len(parts), AT_ONCE) for data in read_parts(parts[at : at + AT_ONCE]))
    return [unpack_header(data.ljust(HEADER.size, b"\0")) for data in found]


def write_header(view: memoryview, header: IndexHeader) -> None:
    """Write a header into the mapping of an index file."""
    HEADER.pack_into(view, 0, *header)
