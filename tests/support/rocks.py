"""Make a RocksDB for tests."""

import struct

import pytest

from rocketstore.disk.rocksdb.rocks_database import KeyRange, RocksDatabase

rocksdict = pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")

UNIT = struct.Struct(">qiqq")  # physical offset, size, code of the tags, store time
PLACE = struct.Struct(">qq")  # physical offset, queue offset


def make_rocksdb(path, families, options=None):
    """Make a RocksDB. Parameters: families: the rows, as a dict of bytes, by the name of the column family."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = options or rocksdict.Options(raw_mode=True)
    database = rocksdict.Rdict(str(path), options)
    for name, rows in families.items():
        family = database if name == "default" else database.create_column_family(name, options)
        for key, value in rows.items():
            family[key] = value
        family.flush()
    database.close()
    (path / "rocksdict-config.json").unlink()
    return path


def rows_of(path):
    """Return the rows of a RocksDB, as a dict of bytes, by the name of the column family."""
    with RocksDatabase(path) as database:
        return {
            name: {key: value for rows in database.read(name, KeyRange()) for key, value in rows}
            for name in database.families
        }


def replace_rocksdb(path, families):
    """Put a new RocksDB in the place of one; directories beside it stay."""
    for file in path.iterdir():
        if file.is_file():
            file.unlink()
    made = make_rocksdb(path.with_name(f"{path.name}-new"), families)
    for file in made.iterdir():
        file.rename(path / file.name)
    made.rmdir()
    return path


# ---- queues ------------------------------------------------------------------------------------------------


def topic_key(topic):
    return struct.pack(">i", len(topic.encode())) + b"\x01" + topic.encode() + b"\x01"


def unit_key(topic, queue_id, queue_offset):
    return topic_key(topic) + struct.pack(">iBq", queue_id, 1, queue_offset)


def end_key(topic, queue_id, mark=b"max"):
    return topic_key(topic) + mark + b"\x01" + struct.pack(">i", queue_id)


def without_tail(units, part):
    """The rows of queues as a live broker left them on the disk: the last units are only in its memory.

    Parameters: part: of the records, whose units are on the disk, 0.0 to 1.0.
    """
    places = {key: UNIT.unpack(value)[0] for key, value in units.items()}
    offsets = sorted({*places.values()})
    begin = offsets[int(len(offsets) * part)]
    left = {key: value for key, value in units.items() if places[key] < begin}
    kept = {}
    for key in left:  # the last unit of each queue is read last
        prefix, (queue_offset,) = key[:-9], struct.unpack(">q", key[-8:])
        for mark in (b"max", b"min"):
            end = prefix[:-4] + mark + b"\x01" + prefix[-4:]
            if mark == b"max" or end not in kept:
                kept[end] = PLACE.pack(places[key], queue_offset)
    checkpoint = end_key("CHECKPOINT_TOPIC", 0)
    return left, kept | {checkpoint: struct.pack(">q", begin)}
