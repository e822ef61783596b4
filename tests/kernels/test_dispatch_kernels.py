"""The kernels that compare and choose items and units give the answers of NumPy."""

from itertools import pairwise

import numpy as np
import pytest

from rocketstore.errors import StoreClosedError
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.dispatch import ITEM, REQUEST, are_units_of, new_items
from rocketstore.kernels.layout import INDEX_ITEM, UNIT
from rocketstore.kernels.verify import are_in_order, check_chains
from rocketstore.limits import LONG_MAX, LONG_MIN

HEADER, SLOT = 40, 4  # bytes
EXTREMES = [LONG_MIN, -1, 0, 1, LONG_MAX]


def index_file(phy_offsets, slots):
    """Return the bytes of an index file. The item before the first is not used, and has the largest offset."""
    items = np.zeros(len(phy_offsets) + 1, INDEX_ITEM)
    items["phy_offset"] = [LONG_MAX, *phy_offsets]
    return bytes(HEADER + SLOT * slots) + items.tobytes()


def random_offsets(random, n):
    """Return offsets of which most are ascending, and some are repeated, earlier or extreme."""
    offsets = np.cumsum(random.integers(0, 3, n)).tolist()
    for row in random.integers(0, n, random.integers(0, 3)) if n else ():
        offsets[row] = random.choice([*EXTREMES, max(row - 2, 0)])
    return np.array(offsets, np.int64)


# ---- are_in_order ------------------------------------------------------------------------------------------


def test_items_are_in_order_if_no_offset_falls(seed):
    random = np.random.default_rng(seed)
    for _ in range(300):
        slots, offsets = int(random.integers(1, 9)), random_offsets(random, int(random.integers(0, 12)))
        expected = all(before <= offset for before, offset in pairwise(offsets))
        assert are_in_order(Buffer(index_file(offsets, slots)), len(offsets), slots) is expected


@pytest.mark.parametrize("fall", [1, (1 << 19) - 1, 1 << 19, (1 << 19) + 1, (1 << 20) + 2])
def test_a_fall_is_found_between_and_within_steps(fall):
    """A step has 1 << 19 items. ``fall`` is the ordinal, from 1, of the item before the one that falls."""
    offsets = np.arange(fall + 2)
    assert are_in_order(Buffer(index_file(offsets, 1)), len(offsets), 1)
    offsets[fall] = offsets[fall - 1] - 1
    assert not are_in_order(Buffer(index_file(offsets, 1)), len(offsets), 1)


def test_items_beyond_the_file_are_not_read():
    data = index_file([1, 2], 3)
    for count, slots in ((3, 3), (2, 9), (2, 0), (2, -1), (2**31 - 1, 1), (-1, 3), (0, LONG_MAX), (0, 1 << 62)):
        with pytest.raises(ValueError, match="are not within"):
            are_in_order(Buffer(data), count, slots)
    for count in (3, -1):
        with pytest.raises(ValueError, match="are not within"):
            check_chains(Buffer(data), count, np.zeros(3, np.int32))
    buffer = Buffer(data)
    buffer.close()
    with pytest.raises(StoreClosedError):
        are_in_order(buffer, 2, 3)


# ---- new_items ---------------------------------------------------------------------------------------------


def test_new_items_are_those_at_or_after_the_end_and_all_earlier_items(seed):
    random = np.random.default_rng(seed)
    for _ in range(300):
        n = int(random.integers(0, 12))
        items = np.zeros(n, ITEM)
        items["phy_offset"] = random_offsets(random, n)
        items["store_timestamp"] = random.integers(LONG_MIN, LONG_MAX, n)
        items["key_hash"] = random.integers(0, 2**31, n)
        end = int(random.choice([*EXTREMES, *items["phy_offset"].tolist()]))
        ends = np.maximum.accumulate(np.maximum(items["phy_offset"], end)) if n else items["phy_offset"]
        expected = items[items["phy_offset"] == ends]
        for column, name in zip(new_items(items, end), ("key_hash", "phy_offset", "store_timestamp"), strict=True):
            assert column.dtype == ITEM[name]
            assert column.tolist() == expected[name].tolist()


# ---- are_units_of ------------------------------------------------------------------------------------------


def test_units_are_those_of_requests_if_all_bytes_agree(seed):
    random = np.random.default_rng(seed)
    for _ in range(300):
        n = int(random.integers(0, 5))
        requests = np.frombuffer(random.bytes(n * REQUEST.itemsize), REQUEST)
        units = np.empty(n, UNIT)
        for name in UNIT.names:
            units[name] = requests[name]
        data = bytearray(units.tobytes())
        assert are_units_of(bytes(data), requests)
        assert not are_units_of(bytes(data) + b"\0", requests)
        assert not are_units_of(bytes(data) + bytes(UNIT.itemsize), requests)
        if n:
            assert not are_units_of(bytes(data[:-1]), requests)
            data[random.integers(len(data))] ^= 1 << int(random.integers(8))
            assert not are_units_of(bytes(data), requests)
