"""Decoding consume queue units into columns against RocketMQ's iterator and NumPy, and a few units at a time."""

from pathlib import Path

import numpy as np
import pytest
from conftest import seconds_of
from keys import TOPIC
from peers import Java
from store_files import QUEUE_FILE_UNITS, UNIT, write_queue

from rocketstore import ConsumeQueue
from rocketstore.limits import LONG_MAX

FILES = 10
UNITS = FILES * QUEUE_FILE_UNITS


@pytest.fixture(scope="module")
def root(scratch: Path):
    units = np.empty(UNITS, UNIT)
    units["offset"] = np.arange(UNITS, dtype=np.int64) * 1200
    units["size"] = 1200
    units["tags_code"] = np.arange(UNITS) % 5 * 31_337
    write_queue(scratch / "units" / "consumequeue" / TOPIC / "0", units)
    return scratch / "units"


@pytest.fixture(scope="module")
def queue(root: Path):
    with ConsumeQueue.open(root / "consumequeue" / TOPIC / "0") as queue:
        assert len(queue) == UNITS
        yield queue


@pytest.fixture(scope="module")
def java():
    process = Java(1000, 4000, main="StoreBench")
    yield process
    process.close()


@pytest.fixture(scope="module")
def files(queue):
    """The files mapped, as ConsumeQueue has them from the round before."""
    return [np.memmap(path, UNIT, "r") for path in sorted(queue.directory.iterdir())]


def by_file(queue):
    """Decode as RocketMQ's iterator goes: to the end of a file, and that file's columns are let go."""
    for first in range(0, UNITS, QUEUE_FILE_UNITS):
        queue[first : first + QUEUE_FILE_UNITS]


def columns_of(units):
    return units.phy_offsets, units.sizes, units.tags_codes


def astype(units):
    return units["offset"].astype(np.int64), units["size"].astype(np.int32), units["tags_code"].astype(np.int64)


def astype_by_file(files):
    for units in files:
        astype(units)


def test_all_read_the_same(java, root, queue, files):
    columns = columns_of(queue[0:UNITS])
    for number, file in enumerate(files):
        rows = slice(number * QUEUE_FILE_UNITS, (number + 1) * QUEUE_FILE_UNITS)
        for whole, ours, theirs in zip(columns, columns_of(queue[rows]), astype(file), strict=True):
            assert whole.dtype == ours.dtype == theirs.dtype
            assert np.array_equal(whole[rows], theirs)
            assert np.array_equal(ours, theirs)
    total = sum(int(column.sum(dtype=np.int64)) for column in columns)
    assert java.round("queue", root, TOPIC, 0)[1:] == (UNITS, total & LONG_MAX)


def test_decode_against_java(pairs, java, root, queue):
    def iterate():
        return java.round("queue", root, TOPIC, 0)[0]

    pairs("consume queue, file by file", UNITS, lambda: by_file(queue), iterate, "Java iterateFrom", goal=2)


def test_decode_against_numpy(pairs, queue, files):
    def theirs():
        return seconds_of(lambda: astype_by_file(files))

    pairs("consume queue, file by file", UNITS, lambda: by_file(queue), theirs, "NumPy astype", goal=3)


def test_decode_of_all_against_numpy(pairs, queue, files):
    def theirs():
        return seconds_of(lambda: list(map(astype, files)))

    pairs("consume queue, ten files at once", UNITS, lambda: queue[0:UNITS], theirs, "NumPy astype", goal=3)


def test_short_read(pairs, queue):
    offsets = np.random.default_rng(1).integers(0, UNITS - 32, 10_000).tolist()

    def one_by_one():
        return seconds_of(lambda: [queue[i] for offset in offsets[:100] for i in range(offset, offset + 32)]) * 100

    def ours():
        for offset in offsets:
            queue[offset : offset + 32]

    pairs("32 units by queue offset", len(offsets), ours, one_by_one, "one by one")


def test_one_unit(pairs, queue):
    offsets = np.random.default_rng(2).integers(0, UNITS, 10_000).tolist()

    def slices():
        return seconds_of(lambda: [queue[i : i + 1] for i in offsets])

    pairs("one unit by queue offset", len(offsets), lambda: [queue[i] for i in offsets], slices, "slices of one")
