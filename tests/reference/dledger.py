"""The files of DLedger's log: entries around the records of a commit log, the index of entries, and two small files."""

import struct
from typing import NamedTuple

from .commit_log import write_file
from .record import build_record

__all__ = ["HEAD", "Entry", "build_entry", "make_dledger", "walk_entries"]

HEAD = 48  # bytes before each record
LEAST_BLANK = 8
INDEX_UNIT = struct.Struct(">iqiqq")
INDEX_FILE = 32 * 5 * 1024 * 1024


class Entry(NamedTuple):
    pos: int  # physical offset of the entry
    index: int
    term: int
    record: bytes


def build_entry(record, pos, index, term=0):
    """The bytes of an entry. Source: DLedgerEntryCoder.encode."""
    return struct.pack(">iiqqqiiii", 1, len(record) + HEAD, index, term, pos, 0, 0, 0, len(record)) + record


def walk_entries(data, start):
    """Yield the entries of one file, in order, up to the first bytes that are none. Source: DLedgerMmapFileStore."""
    at = 0
    while at + HEAD <= len(data):
        magic, size, index, term, pos, _, _, _, body_size = struct.unpack_from(">iiqqqiiii", data, at)
        if magic != 1 or pos != start + at or size != body_size + HEAD or not HEAD < size <= len(data) - at:
            return
        yield Entry(pos, index, term, data[at + HEAD : at + size])
        at += size


def make_dledger(directory, file_size, records, *, first_offset=0, first_index=0, committed=None, data=None):
    """Write a log of DLedger, ``dledger-n0``, and return the physical offset of each record.

    Parameters: records: arguments of build_record each. committed: the index that the checkpoint has; None for the last
    one. data: the directory of the log's files, ``directory / "data"`` by default.
    """
    files, start, offsets, units, queue_offsets = {first_offset: bytearray()}, first_offset, [], [], {}
    for number, fields in enumerate(records):
        queue = fields.get("topic", "TopicTest"), fields.get("queue_id", 0)
        size = HEAD + len(build_record(**fields))
        left = file_size - len(files[start])
        if size + LEAST_BLANK > left:
            files[start] += struct.pack(">ii", -1, left).ljust(left, b"\0")
            start += file_size
            files[start] = bytearray()
        pos = start + len(files[start])
        queue_offset = queue_offsets.get(queue, 0)
        queue_offsets[queue] = queue_offset + 1
        record = build_record(**{"phy_offset": pos + HEAD, "queue_offset": queue_offset, **fields})
        files[start] += build_entry(record, pos, first_index + number)
        units.append(INDEX_UNIT.pack(1, pos, size, first_index + number, 0))
        offsets.append(pos + HEAD)
    for begin, content in files.items():
        write_file(data or directory / "data", begin, bytes(content.ljust(file_size, b"\0")))
    write_file(directory / "index", 0, b"")
    with (directory / "index" / f"{0:020}").open("r+b") as file:
        file.truncate(INDEX_FILE)
        file.seek(first_index * INDEX_UNIT.size)
        file.write(b"".join(units))
    last = first_index + len(units) - 1
    committed = last if committed is None else committed
    (directory / "checkpoint").write_text(f"committedIndex={committed}\nendIndex={last}\n")
    (directory / "currterm").write_text("voteLeader=n0\ncurrTerm=0\n")
    return offsets
