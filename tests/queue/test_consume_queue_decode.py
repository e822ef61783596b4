"""Decoding consume queue units: columns of any length and place, few and many, and one unit."""

import numpy as np
import pytest

from rocketstore import ConsumeQueue, CorruptFileError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.consume_queue import decode_units, read_unit
from rocketstore.queue.units import CqUnit

UNIT = np.dtype([("phy_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
NAMES = ("phy_offset", "size", "tags_code")
FILLER = bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)
MANY = 70_000  # the columns of so many are written past the cache


def random_units(seed, n):
    return np.frombuffer(np.random.default_rng(seed).bytes(n * UNIT.itemsize), UNIT)


def valid_units(n):
    units = np.empty(n, UNIT)
    units["phy_offset"], units["size"], units["tags_code"] = np.arange(n) * 100, 100, -np.arange(n)
    return units


def write(directory, units, per_file):
    directory.mkdir()
    for first in range(0, len(units), per_file):
        data = units[first : first + per_file].tobytes().ljust(per_file * 20, b"\0")
        (directory / f"{first * 20:020}").write_bytes(data)
    return directory


def columns(n, skip=0):
    """Three columns of n rows which begin ``skip`` rows behind a multiple of 64 bytes."""
    given = []
    for dtype in (np.int64, np.int32, np.int64):
        size = np.dtype(dtype).itemsize
        block = np.full(n * size + 64 + skip * size, 0x5A, np.uint8)
        given.append(np.ndarray(n, dtype, block, -block.ctypes.data % 64 + skip * size))
    return given


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000, MANY, MANY + 13, 600_001])
@pytest.mark.parametrize("skip", [0, 1, 15])
def test_columns_are_what_the_units_say(seed, n, skip):
    units = random_units(seed, n + 1)
    given = columns(n, skip)
    decode_units(Buffer(units.tobytes()), 20, *given)
    for name, column in zip(NAMES, given, strict=True):
        assert np.array_equal(column, units[name][1:])


def test_columns_without_a_common_alignment_are_the_same(seed):
    units = random_units(seed, MANY)
    given = [columns(MANY, skip)[place] for place, skip in enumerate((0, 3, 1))]
    decode_units(Buffer(units.tobytes()), 0, *given)
    for name, column in zip(NAMES, given, strict=True):
        assert np.array_equal(column, units[name])


@pytest.mark.parametrize("bounds", [(0, 200_000), (1, 199_999), (99_990, 100_010), (33_333, 166_667), (5, 5)])
def test_a_range_over_files_is_one_part_of_each_column(tmp_path, bounds):
    units = valid_units(200_000)
    with ConsumeQueue.open(write(tmp_path / "0", units, 70_001)) as queue:
        decoded = queue[slice(*bounds)]
        for name, column in zip(NAMES, (decoded.phy_offsets, decoded.sizes, decoded.tags_codes), strict=True):
            assert column.flags.c_contiguous
            assert np.array_equal(column, units[name][slice(*bounds)])
        assert np.array_equal(decoded.queue_offsets, np.arange(*bounds))


def test_columns_outlive_the_queue_and_the_next_range(tmp_path):
    units = valid_units(2 * MANY)
    with ConsumeQueue.open(write(tmp_path / "0", units, MANY)) as queue:
        offsets = queue[:MANY].phy_offsets
        assert queue[MANY:].phy_offsets[0] == MANY * 100
    assert np.array_equal(offsets, units["phy_offset"][:MANY])


def test_one_unit_is_what_a_range_has(tmp_path):
    with ConsumeQueue.open(write(tmp_path / "0", valid_units(25), 10)) as queue:
        assert [queue[i] for i in range(25)] == list(queue[0:25])
        assert queue[-1] == queue[24] == CqUnit(24, 2400, 100, -24, False)


def test_a_unit_that_was_written_meanwhile_is_found(tmp_path):
    units = valid_units(25)
    directory = write(tmp_path / "0", units[:13], 10)
    with ConsumeQueue.open(directory) as queue:
        assert queue[12].phy_offset == 1200
        with pytest.raises(IndexError, match="0 to 12"):
            queue[13]
        with (directory / f"{200:020}").open("r+b") as file:
            file.write(units[10:15].tobytes())
        assert queue[13].phy_offset == 1300
        assert len(queue[3:20]) == 12


def test_read_unit_knows_a_filler():
    buffer = Buffer(FILLER + valid_units(1).tobytes())
    assert read_unit(buffer, 0) == (0, 2**31 - 1, 0, True)
    assert read_unit(buffer, 20) == (0, 100, 0, False)


@pytest.mark.parametrize("pos", [-1, 21, 40, 2**63 - 1])
def test_read_unit_refuses_what_the_file_has_not(pos):
    with pytest.raises(CorruptFileError, match="not within 40 bytes"):
        read_unit(Buffer(bytes(40)), pos)
