"""Record heads: where a record ends and when it was stored, from its first bytes, for logs on remote file systems."""

from __future__ import annotations

from collections.abc import Sequence

from rocketstore.disk.file_run_reader import FileRunReader
from rocketstore.kernels.layout import (
    BLANK_HEAD,
    ENTRY_BLANK_MAGIC,
    ENTRY_HEAD,
    ENTRY_MAGIC,
    MIN_RECORD,
    RECORD_HEAD,
    RECORD_MAGICS,
    read_field,
    record_head,
)

BYTES_BEHIND_RECORD = 64  # bytes to read behind a record: zeros there mean that it may be half written
HEAD_SIZE = 96  # bytes at the start of a record; they include its store time


def find_record_end(data: bytes, place: int) -> int:
    """Return the end of a record by its own size, and 4 bytes for the size of the next; 0 if no record begins there.

    Zeros in place of the next size mean that the record may be half written.
    """
    is_record = read_field(data, RECORD_HEAD, "magic", place) in RECORD_MAGICS
    return place + max(read_field(data, RECORD_HEAD, "size", place), 0) + 4 if is_record else 0


def read_length(data: bytes, framing: int) -> int:
    """Return the length field of a record, an entry or a blank, from its first 8 bytes. It may be any int.

    Parameters: framing: bytes before each record of the log, 0 or 48.
    """
    if framing and read_field(data, ENTRY_HEAD, "magic") in (ENTRY_MAGIC, ENTRY_BLANK_MAGIC):
        return read_field(data, ENTRY_HEAD, "size")
    return read_field(data, BLANK_HEAD, "size")


def is_entry(data: bytes, framing: int) -> bool:
    """Return whether bytes that begin a record, an entry or a blank have the magic of an entry."""
    return framing > 0 and read_field(data, ENTRY_HEAD, "magic") == ENTRY_MAGIC


def read_store_timestamps(file_run: FileRunReader, phy_offsets: Sequence[int]) -> list[int | None]:
    """Return the store times, epoch ms, of the records at physical offsets. Their heads are read, many at once.

    Parameters: file_run: of the log. Returns: None for an offset without the head of a record. Raises: OSError.
    """
    heads = file_run.pread_many(phy_offsets, HEAD_SIZE)
    return [_store_timestamp_of(head, offset) for head, offset in zip(heads, phy_offsets, strict=True)]


def read_sizes(file_run: FileRunReader, phy_offsets: Sequence[int]) -> list[int | None]:
    """Return the sizes, bytes, of the records at physical offsets. Their heads are read, many at once.

    Returns: None for an offset without the head of a record. Raises: OSError.
    """
    heads = file_run.pread_many(phy_offsets, HEAD_SIZE)
    return [
        read_field(head, RECORD_HEAD, "size") if _is_head(head, offset) else None
        for head, offset in zip(heads, phy_offsets, strict=True)
    ]


def _is_head(head: bytes, phy_offset: int) -> bool:
    """Return whether bytes are the head of the record at a physical offset."""
    if len(head) < MIN_RECORD:
        return False
    size, magic, offset = (read_field(head, RECORD_HEAD, name) for name in ("size", "magic", "phy_offset"))
    return size >= MIN_RECORD and magic in RECORD_MAGICS and offset == phy_offset


def _store_timestamp_of(head: bytes, phy_offset: int) -> int | None:
    """Return the store time in the head of a record, epoch ms; None if no record with this offset has that head.

    Source: MessageDecoder.decode.
    """
    if not _is_head(head, phy_offset):
        return None
    sys_flag = read_field(head, RECORD_HEAD, "sys_flag")
    return read_field(head, record_head(sys_flag), "store_timestamp")
