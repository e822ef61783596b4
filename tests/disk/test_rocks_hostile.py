"""RocksDatabase on files whose checksums fit, but whose contents do not: errors or rows, never a crash or a hang."""

import contextlib
import random
import resource
import struct
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.rocks import make_rocksdb, rocksdict
from support.subprocesses import in_subprocess

from rocketstore import CorruptFileError, StoreError
from rocketstore.disk.rocksdb.reader_process import Answer
from rocketstore.disk.rocksdb.rocks_database import KeyRange, RocksDatabase
from rocketstore.kernels.layout import ROCKSDB_UNIT
from rocketstore.kernels.queue_id import QueueId
from rocketstore.queue.built_units import CompletedUnits, PlannedUnits
from rocketstore.queue.rocks_consume_queue import RocksConsumeQueue
from rocketstore.queue.rocks_units import RocksUnits, _end_key, _unit_prefix

CASES, PARTS = 3, 8
HEAD = struct.Struct("<IHB")  # of a record in a manifest: masked CRC, bytes, type
MANIFEST_BLOCK = 1 << 15
QUEUE = QueueId("T", 0)
TAIL = 2600  # bytes of an SST file with its index, properties and footer
MOST_MEMORY = 200 << 20


# ---- hostile files -----------------------------------------------------------------------------------------


def crc32c_table():
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        yield value


TABLE = list(crc32c_table())


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records_in(manifest):
    """Yield where the payload of each record of a manifest begins, and its length."""
    at = 0
    while at + HEAD.size <= min(len(manifest), MANIFEST_BLOCK):
        _, size, _ = HEAD.unpack_from(manifest, at)
        yield at + HEAD.size, size
        at += HEAD.size + size


def damage(data, first, last, draw):
    """Change some bits, or set a huge length, within a range of bytes."""
    if draw.random() < 0.5:
        for _ in range(draw.choice([1, 2, 20])):
            data[draw.randrange(first, last)] ^= 1 << draw.randrange(8)
        return
    at = draw.randrange(first, last)
    huge = draw.choice([b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\xff\xff\x7f", bytes(8)])
    data[at : min(at + len(huge), last)] = huge[: last - at]


def damage_manifest(path, draw):
    """Damage a record of a manifest, and give it a checksum that fits."""
    data = bytearray(path.read_bytes())
    first, size = draw.choice([record for record in records_in(data) if record[1]])
    damage(data, first, first + size, draw)
    HEAD.pack_into(data, first - HEAD.size, masked_crc(data[first - 1 : first + size]), size, data[first - 1])
    path.write_bytes(data)


def damage_table(path, draw):
    """Damage an SST file without checksums: its rows, or its index and its properties."""
    data = bytearray(path.read_bytes())
    split = max(len(data) - TAIL, 1)
    first, last = draw.choice([(0, split), (split, len(data))])
    damage(data, first, last, draw)
    path.write_bytes(data)


def make_unchecked(path, families):
    """Make a RocksDB whose SST files have no checksums."""
    options = rocksdict.Options(raw_mode=True)
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_checksum_type(rocksdict.ChecksumType.no_checksum())
    options.set_block_based_table_factory(blocks)
    return make_rocksdb(path, families, options)


def unit_key(queue_offset, queue=QUEUE):
    return _unit_prefix(queue) + struct.pack(">q", queue_offset)


def queue_rows(count=300):
    """The rows of a queue, as a broker writes them."""
    units = {unit_key(n): struct.pack(">qiqq", n * 200, 200, 0, 1_700_000_000_000 + n) for n in range(count)}
    ends = {_end_key(QUEUE, mark): struct.pack(">qq", n * 200, n) for mark, n in ((b"min", 0), (b"max", count - 1))}
    return {"default": units, "offset": ends}


# ---- reading -----------------------------------------------------------------------------------------------


def read_everything(path):
    """Read a RocksDB as rows and as queues. An error is raised by each part that is damaged."""
    with RocksDatabase(path, seconds=20) as database:
        units = RocksUnits(database)
        queue = RocksConsumeQueue(CompletedUnits(units, PlannedUnits({})), QUEUE, None, lambda: 1 << 40)
        calls = (
            lambda: [len(rows) for rows in database.read("default", KeyRange(), backwards=True)],
            lambda: list(units.queues()),
            lambda: list(queue),
            lambda: queue.get_offset_by_time(1_700_000_000_100),
        )
        for call in calls:
            with contextlib.suppress(CorruptFileError, StoreError, FileNotFoundError):
                call()


def survive(kind, directory, seed, part):
    """Damage a RocksDB again and again, and read it."""
    path = make_unchecked(Path(directory) / "db", queue_rows())
    name = "MANIFEST-*" if kind == "manifest" else "*.sst"
    clean = {file: file.read_bytes() for file in sorted(path.glob(name))}
    read_everything(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(CASES):
        draw = random.Random(f"{kind} {seed} {part} {number}")
        file = draw.choice(list(clean))
        (damage_manifest if kind == "manifest" else damage_table)(file, draw)
        begin = time.monotonic()
        read_everything(path)
        assert time.monotonic() - begin < 110, f"{kind} {seed} {part} {number}"
        file.write_bytes(clean[file])
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < MOST_MEMORY


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory as Linux counts it")
@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, PARTS))])
@pytest.mark.parametrize("kind", ["manifest", "table"])
def test_hostile_files_neither_crash_nor_hang_nor_take_memory(tmp_path, seed, kind, part):
    in_subprocess(survive, kind, tmp_path, seed, part)


def test_a_manifest_with_a_new_checksum_is_read(tmp_path):
    path = make_unchecked(tmp_path / "db", queue_rows())
    (manifest,) = path.glob("MANIFEST-*")
    data = bytearray(manifest.read_bytes())
    for first, size in records_in(data):
        assert HEAD.unpack_from(data, first - HEAD.size)[0] == masked_crc(data[first - 1 : first + size])


# ---- rows that cannot be -----------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [False, True])
def test_rows_that_come_again_and_again_are_an_error(tmp_path, monkeypatch, backwards):
    row = Answer(0, np.array([[1], [0]], np.uint32), b"k", b"")
    with RocksDatabase(tmp_path) as database:
        monkeypatch.setattr(RocksDatabase, "families", ["default"])
        monkeypatch.setattr(database, "_ask", lambda *arguments: row)
        with pytest.raises(CorruptFileError, match="b'k' is not in the order of the keys"):
            for _ in database.read("default", KeyRange(b"a", b"z"), backwards=backwards):
                pass


@pytest.mark.parametrize(
    "keys",
    [
        [unit_key(5), unit_key(4)],
        [unit_key(4), unit_key(4)],
        [unit_key(4), unit_key(100)],
        [unit_key(0), unit_key(4)],
        [unit_key(4, QueueId("U", 0)), unit_key(5)],
    ],
)
def test_units_that_were_not_asked_for_are_an_error(tmp_path, monkeypatch, keys):
    values = bytes(ROCKSDB_UNIT.itemsize * len(keys))
    sizes = np.array([[len(key) for key in keys], [ROCKSDB_UNIT.itemsize] * len(keys)], np.uint32)
    with RocksDatabase(tmp_path) as database:
        monkeypatch.setattr(RocksDatabase, "families", ["default"])
        monkeypatch.setattr(database, "_ask", lambda *arguments: Answer(1, sizes, b"".join(keys), values))
        with pytest.raises(CorruptFileError, match="not those of the queue"):
            RocksUnits(database).read_units(QUEUE, 1, 10)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
