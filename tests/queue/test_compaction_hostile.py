"""Compacted topics in damaged files: messages or errors; never a crash, a hang, or more than 200 MB of memory."""

import contextlib
import os
import random
import re
import resource
import shutil
import signal
import struct
import sys
from pathlib import Path

import pytest
from support import states
from support.subprocesses import in_subprocess

import rocketstore
from rocketstore import CorruptFileError, StoreError

TOPIC = "Settings"
UNIT = struct.Struct(">qiqqqhii")
ROOM, SECONDS = 200 << 20, 10
HUGE = [0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 1 << 40, 0]
IS_SANITIZED = "san" in os.environ.get("LD_PRELOAD", "")


def damage_bits(data, draw):
    for _ in range(draw.choice([1, 5, 100])):
        data[draw.randrange(min(len(data), 2000))] ^= 1 << draw.randrange(8)


def damage_numbers(data, draw):
    for _ in range(draw.choice([1, 3, 40])):
        at, size = draw.randrange(min(len(data), 1500)), draw.choice([4, 8])
        data[at : at + size] = (draw.choice(HUGE) & (1 << 8 * size) - 1).to_bytes(size, "big")


def damage_units(data, draw):
    """Set one field of many units to a huge value."""
    field = draw.randrange(8)
    for at in range(0, 46 * draw.choice([1, 3, 18]), 46):
        unit = list(UNIT.unpack_from(data, at))
        unit[field] = (
            draw.choice([-1, 0, 1 << 14, (1 << 15) - 1]) if field == 5 else draw.choice([-1, 0, (1 << 31) - 1])
        )
        unit[field] = draw.choice([(1 << 62) + at, (1 << 63) - 1]) if field in (0, 2, 3, 4) else unit[field]
        UNIT.pack_into(data, at, *unit)


def cut(data, draw):
    del data[draw.randrange(len(data)) :]


def lengthen(path, draw):
    os.truncate(path, draw.choice([1 << 30, 46 << 30, 1 << 40]))


def damage(root, draw):
    files = [path for part in ("compactionCq", "compactionLog") for path in (root / "compaction" / part).rglob("0*")]
    for path in filter(Path.is_file, files):
        kind = draw.choice([None, damage_bits, damage_numbers, damage_units, cut, lengthen])
        if kind is lengthen:
            kind(path, draw)
        elif kind is not None and (kind is not damage_units or "compactionCq" in path.parts):
            data = bytearray(path.read_bytes())
            kind(data, draw)
            path.write_bytes(data)
        if draw.random() < 0.05:
            path.rename(path.with_name(f"{draw.choice([1, 46, 1 << 40, (1 << 63) - 1]):020}"))


def read_all(root):
    """Read all that a compacted topic has. Each answer is messages of it, or a documented error."""
    for read in (read_queues, read_scan, read_keys, lambda root: rocketstore.verify(root, quick=True)):
        with contextlib.suppress(CorruptFileError, StoreError, IndexError):
            read(root)
    rocketstore.verify(root)


def read_queues(root):
    with rocketstore.open(root) as store:
        for queue_id in store.queue_ids(TOPIC):
            queue = store.consume_queue(TOPIC, queue_id)
            offset = 0
            for _ in range(60):
                found = store.get_message(TOPIC, queue_id, offset, 3)
                assert {(each.topic, each.queue_id) for each in found.messages} <= {(TOPIC, queue_id)}
                if found.status != "FOUND":
                    break
                offset = found.next_begin_offset
            store.get_offset_by_time(TOPIC, 1795812236337, queue_id)
            store.get_offset_by_time(TOPIC, 1795812236337, queue_id, "upper", exact_times=True)
            queue.count_bytes(0, 1 << 62)
            len(queue)
            store.summary()


def read_scan(root):
    with rocketstore.open(root, compacted=True) as store:
        assert store.scan(on_corrupt="skip").count() < 2000
        for _ in store.scan(verify_crc=True):
            pass


def read_keys(root):
    with rocketstore.open(root, compacted=True) as store:
        assert {key for each in store.query_message(TOPIC, "k8") for key in each.keys} <= {"k8"}


def run(base, first, count):
    golden = states.unpack("compaction", Path(base))
    for seed in range(first, first + count):
        root = shutil.copytree(golden, Path(base) / f"store{seed}")
        damage(root, random.Random(seed))
        signal.alarm(SECONDS)
        try:
            read_all(root)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        finally:
            signal.alarm(0)
        shutil.rmtree(root)


def on_alarm(_number, _frame):
    raise AssertionError(f"no end after {SECONDS} seconds")


def read_damaged(base, first):
    signal.signal(signal.SIGALRM, on_alarm)
    run(base, first, 1)  # imports and caches take memory of their own
    status = Path("/proc/self/status")
    if status.exists() and not IS_SANITIZED:
        (used,) = re.findall(r"VmData:\s*(\d+) kB", status.read_text())
        resource.setrlimit(resource.RLIMIT_DATA, 2 * (1024 * int(used) + ROOM,))
    run(base, first, 12)


def test_damaged_compaction_is_read_or_refused(tmp_path, seed):
    in_subprocess(read_damaged, tmp_path, seed % 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 21))
def test_much_damaged_compaction_is_read_or_refused(tmp_path, seed, part):
    in_subprocess(read_damaged, tmp_path, 10_000 * part + seed % 10_000)


if __name__ == "__main__":
    {"read_damaged": read_damaged}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
