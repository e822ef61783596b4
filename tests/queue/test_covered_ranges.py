"""Which ranges of the log the units of the queues cover: against sets of bytes, on drawn and on damaged units."""

import random

import numpy as np
import pytest

from rocketstore import ConsumeQueue
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.consume_queue import sum_units
from rocketstore.kernels.layout import UNIT
from rocketstore.limits import INT_MAX, LONG_MAX
from rocketstore.queue import covered_ranges
from rocketstore.queue.covered_ranges import find_covered_ranges

FILE_UNITS = 16  # of a queue's file


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(covered_ranges, "MIN_PART", 256)


def make_queues(root, units_of):
    """Write queues, each of (offset, size), and return them open."""
    queues = []
    for number, units in enumerate(units_of):
        directory = root / "T" / str(number)
        directory.mkdir(parents=True)
        data = np.array([(offset, size, 7) for offset, size in units], UNIT)
        data["tags_code"][data["size"] == INT_MAX] = 0
        for first in range(0, len(data), FILE_UNITS):
            path = directory / f"{first * UNIT.itemsize:020}"
            path.write_bytes(data[first : first + FILE_UNITS].tobytes().ljust(FILE_UNITS * UNIT.itemsize, b"\0"))
        queues.append(ConsumeQueue.open(directory, mapped_file_size=FILE_UNITS * UNIT.itemsize))
    return queues


def draw_records(rnd, files):
    """Return the records of a log without gaps, (offset, size)."""
    records = []
    for begin, end in files:
        while begin < end:
            size = min(rnd.randrange(1, 90), end - begin)
            records.append((begin, size))
            begin += size
    return records


@pytest.mark.parametrize("fault", ["none", "missing", "twice", "shifted", "longer"])
def test_covered_bytes_have_exactly_one_unit(fault, tmp_path, seed):
    rnd = random.Random(f"{seed} {fault}")
    for case in range(10):
        files = [(begin, begin + 2000) for begin in (6000, 8000, 10000)]
        records = draw_records(rnd, files)
        units = [records[rnd.randrange(len(records))]] if fault == "twice" else []
        for record in records:
            is_bad = rnd.random() < 0.02
            begin, size = record
            changed = {"shifted": (begin + 1, size), "longer": (begin, size + 1)}.get(fault, record)
            if not (is_bad and fault == "missing"):
                units.append(changed if is_bad else record)
        units_of = [[(0, INT_MAX)] * rnd.choice([0, 20]) + [(100, 50)] for _ in range(3)]
        for unit in sorted(units):
            rnd.choice([queue for queue in units_of if queue[-1][0] < unit[0]]).append(unit)
        found = find_covered_ranges(make_queues(tmp_path / str(case), units_of), files)
        counts = np.zeros(12_200, int)
        for begin, size in units:
            counts[begin : begin + size] += 1
        for begin, end in found:
            assert (counts[begin:end] == 1).all()
            assert {begin, end} <= {place for begin, size in units for place in (begin, begin + size)}
        if fault == "none":
            assert found == [(6000, 12000)]


@pytest.mark.parametrize(
    "units", [[(6000, 50), (6000, 50)], [(6050, 50), (6000, 50)], [(6000, 50), (6050, LONG_MAX)], [(6000, -1)]]
)
def test_units_that_are_not_in_the_order_of_the_log_cover_nothing(units):
    data = np.zeros(len(units), UNIT)
    for row, (offset, size) in enumerate(units):
        data[row] = offset, np.int64(size).astype(np.int32), 1
    columns = np.array([6000, 7000]), np.zeros(1, np.uint64), np.full(1, LONG_MAX), np.zeros(1, np.int64)
    buffer = Buffer(data.tobytes())
    assert sum_units(buffer, 0, len(units), 20, -1, *columns) is None
    assert sum_units(buffer, 0, 0, 20, 5, *columns) == 5
    with pytest.raises(ValueError, match="the columns differ in length"):
        sum_units(buffer, 0, 1, 20, -1, columns[0], *(np.tile(column, 2) for column in columns[1:]))


def test_a_record_beyond_a_long_covers_nothing():
    data = np.array([(LONG_MAX - 3, 50, 1)], UNIT)
    columns = np.array([6000, 7000]), np.zeros(1, np.uint64), np.full(1, LONG_MAX), np.zeros(1, np.int64)
    assert sum_units(Buffer(data.tobytes()), 0, 1, 20, -1, *columns) is None


def test_without_a_log_nothing_is_covered(tmp_path):
    assert find_covered_ranges(make_queues(tmp_path, [[(0, 50)]]), []) == []
