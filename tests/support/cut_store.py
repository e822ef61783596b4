"""Stores as a broker leaves them that cut its log at its start, wrote new records there, and was stopped."""

import struct

from reference.checkpoint import checkpoint_bytes
from reference.commit_log import read_files, write_file
from reference.message_store import make_store
from reference.record import build_record
from support import damages

T0 = 1_700_000_000_000
CQ_FILE = 200


def store_of(root, count=12, *, topics=1, file_size=65536, **fields):
    """A store after a clean stop whose messages are one second apart, in queue 0 of each topic."""
    records = [
        {
            "topic": f"T{i % topics}",
            "body": b"old%03d" % i,
            "store_timestamp": T0 + 1000 * i,
            "properties": {"KEYS": f"k{i}"},
            **fields,
        }
        for i in range(count)
    ]
    make_store(root, records, file_size=file_size, cq_file_size=CQ_FILE)
    return root


def offsets_of(root):
    """(file start, position, size) of all records."""
    return damages.records(root)


def forget_checkpoint(root):
    (root / "checkpoint").write_bytes(bytes(4096))


def cut_off(root, number, new=2, properties=None):
    """As a broker leaves a store: record `number` did not reach the disk; newer, shorter ones stand in the place of it.

    `properties`: of each new record, by its number. Returns where the log ends.
    """
    start, position, size = offsets_of(root)[number]
    topic = damages.parse_record(damages.log_files(root)[start], position).record
    damages.change_log(root, start, position, bytes(size))
    units = []
    for i in range(new):
        at = start + position
        data = build_record(
            topic=topic.topic,
            body=b"n",
            phy_offset=at,
            queue_offset=topic.queue_offset + i,
            born_timestamp=T0 + 10**6 + i,
            store_timestamp=T0 + 10**6 + i,
            properties={} if properties is None else properties(i),
        )
        damages.change_log(root, start, position, data)
        units.append((topic.queue_offset + i, struct.pack(">qiq", at, len(data), 0)))
        position += len(data)
    directory = root / "consumequeue" / topic.topic / "0"
    for index, unit in units:
        set_unit(directory, index, unit)
    last = T0 + 10**6 + new - 1 if new else T0 + 1000 * (number - 1)
    (root / "checkpoint").write_bytes(checkpoint_bytes(last, last, 0))
    return start + position


def set_unit(directory, index, unit, file_size=CQ_FILE):
    position = index * len(unit)
    start = position // file_size * file_size
    files = read_files(directory)
    data = bytearray(files.get(start, bytes(file_size)))
    data[position - start : position - start + len(unit)] = unit
    write_file(directory, start, data)
