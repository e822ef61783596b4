"""Queues in RocksDB, of small databases that the tests make row by row."""

import struct
from types import SimpleNamespace

import numpy as np
import pytest
from support.rocks import make_rocksdb

from rocketstore import CorruptFileError
from rocketstore.disk.rocksdb.rocks_database import RocksDatabase
from rocketstore.queue.built_units import PlannedUnits
from rocketstore.queue.queue_source import read_units_between
from rocketstore.queue.rocks_queues import RocksQueues
from rocketstore.queue.rocks_units import RocksUnits

SIZE, T0 = 100, 1_700_000_000_000


def topic_key(topic):
    return struct.pack(">i", len(topic.encode())) + b"\x01" + topic.encode() + b"\x01"


def unit_rows(topic, queue_id, queue_offsets, time_of=lambda offset: T0 + 10 * offset):
    prefix = topic_key(topic) + struct.pack(">i", queue_id) + b"\x01"
    return {
        prefix + struct.pack(">q", offset): struct.pack(">qiqq", offset * SIZE, SIZE, 7, time_of(offset))
        for offset in queue_offsets
    }


def end_rows(topic, queue_id, first, last):
    rows = {}
    for mark, offset in ((b"min", first), (b"max", last)):
        if offset is not None:
            rows[topic_key(topic) + mark + b"\x01" + struct.pack(">i", queue_id)] = struct.pack(
                ">qq", offset * SIZE, offset
            )
    return rows


def queue_rows(queues):
    """The rows of both families. Parameters: queues: (topic, queue id): queue offsets."""
    units, ends = {}, {}
    for (topic, queue_id), offsets in queues.items():
        units |= unit_rows(topic, queue_id, offsets)
        ends |= end_rows(topic, queue_id, min(offsets, default=0), max(offsets, default=None))
    checkpoint = topic_key("CHECKPOINT_TOPIC") + b"max\x01" + struct.pack(">i", 0)
    return {"default": units, "offset": ends | {checkpoint: struct.pack(">q", 4321)}}


QUEUES = {
    ("A", 0): range(5),
    ("A", 3): range(3, 2000),
    ("Bb", 1): [1, 2, 5, 6],
    ("%LMQ%x", 0): range(2),
    ("Empty", 0): [],
    ("主题", 7): range(3),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_rocksdb(tmp_path_factory.mktemp("rocks") / "consumequeue", queue_rows(QUEUES))


def open_queues(path, log=None, log_end=None):
    return RocksQueues(RocksDatabase(path), PlannedUnits({}), lambda: log, lambda: log_end)


@pytest.fixture
def queues(made):
    with open_queues(made) as opened:
        yield opened


def test_queues_with_units_are_listed_in_order(queues):
    expected = sorted(queue for queue, offsets in QUEUES.items() if len(offsets))
    assert list(queues.queues()) == expected
    assert queues.queue_ids("A") == [0, 3]
    assert queues.queue_ids("Empty") == queues.queue_ids("None") == []
    assert queues.open("Empty", 0) is queues.open("None", 0) is queues.open("A", 1) is None
    assert RocksUnits(queues.database).read_checkpoint() == 4321


@pytest.mark.parametrize(("topic", "queue_id"), [queue for queue, offsets in QUEUES.items() if len(offsets)])
def test_units_are_those_of_the_rows(queues, topic, queue_id):
    queue, offsets = queues.open(topic, queue_id), list(QUEUES[topic, queue_id])
    assert (queue.topic, queue.queue_id) == (topic, queue_id)
    assert (queue.min_queue_offset, queue.max_queue_offset) == (offsets[0], offsets[-1] + 1)
    assert len(queue) == offsets[-1] + 1 - offsets[0]
    units = queue[:]
    assert units.queue_offsets.tolist() == offsets
    assert units.phy_offsets.tolist() == [offset * SIZE for offset in offsets]
    assert (units.sizes.tolist(), units.tags_codes.tolist()) == ([SIZE] * len(offsets), [7] * len(offsets))
    assert [unit.queue_offset for unit in queue] == offsets
    assert queue[offsets[-1]] == queue[-1] == units[-1]
    assert queue[offsets[0] : offsets[0] + 2].queue_offsets.tolist() == [o for o in offsets if o < offsets[0] + 2]
    assert queue.count_bytes(0, offsets[-1] + 1) == SIZE * len(offsets)


def test_a_missing_unit_is_an_index_error(queues):
    for place in (3, 7, -9, 0):
        with pytest.raises(IndexError, match=f"no unit {place} of Bb/1: queue offsets are 1 to 6"):
            queues.open("Bb", 1)[place]


@pytest.mark.parametrize("least", [0, 1, 3, 300, 301, 1500, 199_900, 199_901, 500_000])
def test_the_begin_follows_the_log(made, least):
    with open_queues(made, SimpleNamespace(min_phy_offset=least)) as queues:
        for queue, offsets in QUEUES.items():
            if len(offsets):
                live = [offset for offset in offsets if offset * SIZE >= least]
                assert queues.open(*queue).min_queue_offset == (live or [offsets[-1] + 1])[0]


@pytest.mark.parametrize("log_end", [0, 1, 100, 450, 500, 501, 100_000, 199_900, 199_901])
def test_the_end_follows_the_log(made, log_end):
    with open_queues(made, log_end=log_end) as queues:
        for queue, offsets in QUEUES.items():
            if len(offsets):
                behind = [offset for offset in offsets if offset * SIZE >= log_end]
                opened = queues.open(*queue)
                found = opened.max_queue_offset
                assert [offset for offset in offsets if offset >= found] == behind
                assert opened.leftover_units == offsets[-1] + 1 - found


def test_units_behind_the_noted_end_are_not_read(tmp_path):
    rows = queue_rows({("T", 0): range(10)})
    rows["offset"] |= end_rows("T", 0, 0, 6)
    with open_queues(make_rocksdb(tmp_path / "q", rows)) as queues:
        assert queues.open("T", 0)[:].queue_offsets.tolist() == list(range(7))


def search_as_java(times, first, end, timestamp, *, is_lower):
    """RocksDBConsumeQueueTable.binarySearchInCQByTime, then the bounds of DefaultMessageStore."""
    low, high = first, end - 1
    floor, ceiling, below, above, target = low, high, -1, -1, -1

    def bounded(found):
        return min(max(found, first), end)

    if ceiling in times and times[ceiling] < timestamp:
        return bounded(ceiling + 1 if is_lower else ceiling)
    if floor in times and times[floor] > timestamp:
        return bounded(floor if is_lower else 0)
    while high >= low:
        middle = low + (high - low) // 2
        if middle not in times:
            low = middle + 1
        elif times[middle] == timestamp:
            target = middle
            break
        elif times[middle] > timestamp:
            high, above = middle - 1, middle
        else:
            low, below = middle + 1, middle
    if target == -1:
        return bounded(above if is_lower else below)
    step = -1 if is_lower else 1
    while floor <= target + step <= ceiling and times[target + step] == timestamp:
        target += step
    return bounded(target)


@pytest.mark.parametrize("shape", ["rising", "equal", "falling", "long run"])
def test_a_search_by_time_is_that_of_the_java_class(tmp_path, shape):
    draw = np.random.default_rng(len(shape))
    count = 1500 if shape == "long run" else 40
    steps = {
        "rising": draw.integers(0, 3, count),
        "equal": np.zeros(count, int),
        "falling": draw.integers(-3, 4, count),
        "long run": np.repeat([0, 1, 0], [3, 1, count - 4]),
    }[shape]
    times = dict(enumerate((T0 + np.cumsum(steps)).tolist()))
    rows = {"default": unit_rows("T", 0, times, times.__getitem__), "offset": end_rows("T", 0, 0, count - 1)}
    with open_queues(make_rocksdb(tmp_path / "q", rows), SimpleNamespace(min_phy_offset=0)) as queues:
        queue = queues.open("T", 0)
        low, high = min(times.values()), max(times.values())
        for timestamp in {low - 1, low, high, high + 1, *draw.integers(low, high + 1, 12).tolist()}:
            for boundary in ("lower", "upper"):
                expected = search_as_java(times, 0, count, timestamp, is_lower=boundary == "lower")
                assert queue.get_offset_by_time(timestamp, boundary) == expected


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        ("offset", b"\x00\x00\x00\x09\x01T\x01max\x01\x00\x00\x00\x00", bytes(16)),
        ("offset", topic_key("T") + b"mid\x01\x00\x00\x00\x00", bytes(16)),
        ("offset", topic_key("T") + b"max\x01\x00\x00", bytes(16)),
        ("offset", topic_key("T") + b"max\x01\x00\x00\x00\x01", bytes(15)),
        ("offset", struct.pack(">i", 1) + b"\x01\xff\x01max\x01\x00\x00\x00\x01", bytes(16)),
        ("default", topic_key("T") + struct.pack(">i", 0) + b"\x01" + struct.pack(">q", 2), bytes(27)),
    ],
)
def test_a_row_that_cannot_be_is_an_error_that_names_the_rocksdb(tmp_path, family, key, value):
    rows = queue_rows({("T", 0): range(10)})
    rows[family][key] = value
    path = make_rocksdb(tmp_path / "q", rows)
    with open_queues(path) as queues, pytest.raises(CorruptFileError) as caught:
        [queues.open(*queue)[:] for queue in queues.queues()]
    assert caught.value.path == path


def test_a_checkpoint_of_another_length_is_an_error(tmp_path):
    rows = queue_rows({})
    rows["offset"] = dict.fromkeys(rows["offset"], bytes(7))
    path = make_rocksdb(tmp_path / "q", rows)
    with RocksUnits(RocksDatabase(path)) as units, pytest.raises(CorruptFileError, match="CHECKPOINT"):
        units.read_checkpoint()


@pytest.mark.parametrize("offsets", [[0, 1, 2**62], [3, 2**40, 2**62 + 5], [2**62]])
def test_far_queue_offsets_are_reached_by_their_keys(tmp_path, offsets):
    def values(rows):
        return {key: struct.pack(">qiqq", number, SIZE, 7, T0) for number, key in enumerate(rows)}

    prefix = topic_key("T") + struct.pack(">i", 0) + b"\x01"
    units = values(prefix + struct.pack(">q", offset) for offset in offsets)
    ends = {
        topic_key("T") + mark + b"\x01" + struct.pack(">i", 0): struct.pack(">qq", place, offsets[place])
        for mark, place in ((b"min", 0), (b"max", len(offsets) - 1))
    }
    with open_queues(make_rocksdb(tmp_path / "q", {"default": units, "offset": ends})) as queues:
        queue = queues.open("T", 0)
        assert [unit.queue_offset for unit in queue] == offsets
        assert queue.count_bytes(0, 2**63 - 1) == SIZE * len(offsets)
        found = read_units_between(queue, 0, queue.max_queue_offset, 10)
        assert [offset for units in found for offset in units.queue_offsets.tolist()] == offsets
        assert queue.file_range(offsets[-1] + 1) is None


@pytest.mark.parametrize("offset", [-1, 2**63 - 1])
def test_a_noted_end_that_no_queue_can_have_is_an_error(tmp_path, offset):
    rows = queue_rows({("T", 0): range(3)})
    rows["offset"][topic_key("T") + b"max\x01" + struct.pack(">i", 0)] = struct.pack(">qq", 0, offset)
    with open_queues(make_rocksdb(tmp_path / "q", rows)) as queues, pytest.raises(CorruptFileError, match=str(offset)):
        queues.open("T", 0)
