"""What the system reads into its memory: the requested parts, and no zeros of holes behind them."""

import mmap
import os
import random
from itertools import pairwise

import numpy as np
import pytest

from rocketstore import ConsumeQueue, MappedFile
from rocketstore.disk import file_run_reader
from rocketstore.disk.durable import allocate
from rocketstore.disk.file_run_reader import NEAR_PARTS, FileRunReader
from rocketstore.disk.holes import data_ranges
from rocketstore.disk.page_cache import read_file_ahead
from rocketstore.kernels.mapping import Mapping

FILE = 1 << 20
UNITS = bytes.fromhex("0000000000000000000000640000000000000007") * 100


def make_files(directory, count):
    for number in range(count):
        (directory / f"{number * FILE:020}").write_bytes(bytes([number]) * FILE)
    return FileRunReader([directory], mapped_file_size=FILE)


def test_parts_of_files_are_read_ahead_page_by_page(tmp_path, monkeypatch, seed):
    asked = []
    monkeypatch.setattr(file_run_reader, "are_cached", lambda path, positions: False)
    monkeypatch.setattr(MappedFile, "read_ahead", lambda file, *parts: asked.append((file.file_from_offset, *parts)))
    run = make_files(tmp_path, 3)
    rnd = random.Random(seed)
    offsets = np.array(sorted(rnd.sample(range(3 * FILE), 60)), np.int64)
    sizes = np.array([rnd.randrange(1, 9000) for _ in offsets], np.int32)
    room = np.minimum(FILE - offsets % FILE, np.diff(offsets, append=3 * FILE))
    sizes = np.minimum(sizes, room).astype(np.int32)
    order = rnd.sample(range(60), 60)
    run.read_ahead(offsets[order], sizes[order])
    ranges = [(int(a) + at, int(b) + at) for at, begins, ends in asked for a, b in zip(begins, ends, strict=True)]
    for offset, size in zip(offsets.tolist(), sizes.tolist(), strict=True):
        assert any(begin <= offset and offset + size <= end for begin, end in ranges)
    assert all(begin % mmap.PAGESIZE == 0 for begin, _ in ranges)
    gaps = [b[0] - a[1] for a, b in pairwise(ranges) if a[0] // FILE == b[0] // FILE]
    assert min(gaps) > NEAR_PARTS - mmap.PAGESIZE
    run.read_ahead(offsets[:0], sizes[:0])


def test_reading_ahead_changes_no_byte(tmp_path, monkeypatch):
    run = make_files(tmp_path, 2)
    monkeypatch.setattr(file_run_reader, "are_cached", lambda path, positions: False)
    run.read_ahead(np.array([0, 5000, FILE + 1]), np.array([10, 10, 10], np.int32))
    assert run.pread(FILE - 1, 2) == b"\0"
    assert run.pread(FILE, 2) == b"\1\1"
    (tmp_path / f"{FILE:020}").unlink()
    run.read_ahead(np.array([FILE + 1]), np.array([10], np.int32))


def test_a_part_outside_of_the_mapping_is_refused(tmp_path):
    with (tmp_path / "file").open("w+b") as file:
        file.write(bytes(5000))
        file.flush()
        mapping = Mapping(file.fileno(), 5000, "file")
    for begins, ends in (([0], [5001]), ([4096], [0]), ([-4096], [10])):
        with pytest.raises(ValueError, match="are not mapped"):
            mapping.read_ahead(np.array(begins), np.array(ends))
    with pytest.raises(ValueError, match="differ in length"):
        mapping.read_ahead(np.array([0]), np.array([1, 2]))


def test_reading_a_queue_fills_no_memory_with_unused_space(tmp_path):
    path = tmp_path / f"{0:020}"
    path.write_bytes(UNITS)
    with path.open("r+b") as file:
        allocate(file.fileno(), 6_000_000)
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    read_file_ahead(path, 6_000_000)
    with ConsumeQueue.open(tmp_path, mapped_file_size=6_000_000) as queue:
        assert len(queue[0:]) == 100
    assert data_ranges(path, 0, 6_000_000)[-1][1] <= 1 << 17
