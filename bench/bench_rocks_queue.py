"""Units of a queue in RocksDB, against the same units in files."""

import shutil
import struct

import numpy as np
import pytest
from conftest import record, seconds_of

from rocketstore import ConsumeQueue
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.kernels.layout import UNIT
from rocketstore.queue.built_units import PlannedUnits
from rocketstore.queue.queue_source import read_units_between
from rocketstore.queue.rocks_queues import RocksQueues

rocksdict = pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")

UNITS, SIZE, T0 = 1_000_000, 200, 1_700_000_000_000
READ_AT_ONCE = 1 << 14
ROUNDS = 5
TOPIC = b"\x00\x00\x00\x01\x01T\x01"


@pytest.fixture(scope="module")
def directories(scratch):
    """A RocksDB, and the directory of a queue in files. Both have the same units."""
    database, files = scratch / "rocksdb", scratch / "files" / "T" / "0"
    options = rocksdict.Options(raw_mode=True)
    made = rocksdict.Rdict(str(database), options)
    for number in range(UNITS):
        key = TOPIC + struct.pack(">iBq", 0, 1, number)
        made[key] = struct.pack(">qiqq", number * SIZE, SIZE, 7, T0 + number)
    made.flush()
    ends = made.create_column_family("offset", options)
    for mark, number in ((b"min", 0), (b"max", UNITS - 1)):
        ends[TOPIC + mark + b"\x01" + struct.pack(">i", 0)] = struct.pack(">qq", number * SIZE, number)
    ends.flush()
    made.close()
    units = np.zeros(UNITS, UNIT)
    units["phy_offset"], units["size"], units["tags_code"] = np.arange(UNITS) * SIZE, SIZE, 7
    files.mkdir(parents=True)
    units.tofile(files / f"{0:020}")
    yield database, files
    shutil.rmtree(database)
    shutil.rmtree(scratch / "files")


def read_all(queue):
    assert sum(map(len, read_units_between(queue, 0, UNITS, READ_AT_ONCE))) == UNITS


def test_units_in_rocksdb(benchmark, directories):
    database, files = directories
    with (
        RocksQueues(RocksDatabase(database), PlannedUnits({}), lambda: None, lambda: None) as queues,
        ConsumeQueue.open(files, mapped_file_size=UNITS * UNIT.itemsize) as in_files,
    ):
        queue = queues.open("T", 0)
        pairs = [(seconds_of(lambda: read_all(in_files)), seconds_of(lambda: read_all(queue))) for _ in range(ROUNDS)]
        ours, theirs = (sorted(pair[side] for pair in pairs)[ROUNDS // 2] / UNITS * 1e9 for side in (1, 0))
        record("units of a queue in RocksDB", ours, "a queue in files", theirs, [a / b for a, b in pairs])
        benchmark.pedantic(lambda: read_all(queue), rounds=1)
