"""Stores of many short queues: how many files are read for each queue, and where each queue ends."""

import os
from collections import Counter

import pytest
from test_consume_queue import UNIT, batch_units, units_of, write

import rocketstore
from rocketstore import BatchConsumeQueue, ConsumeQueue, Message, StoreConfig
from rocketstore.disk.mapped_file import MappedFile
from rocketstore.queue.unit_run import FIRST_UNITS, READ_UNITS

QUEUES = 12


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        for number in range(2 * QUEUES):
            message = Message(f"Topic{number % 3}", b"x" * number, keys=f"k{number}")
            message.queue_id = number % QUEUES // 3
            store.put_message(message)
    for directory in (root / "consumequeue").glob("*/*"):
        os.utime(directory, (1_000_000_000, 1_000_000_000))  # a list of a directory that has just changed is repeated
    return root


@pytest.fixture
def calls(monkeypatch):
    """Count the files that are opened, the mappings, and the listings of directories."""
    counts = Counter()
    for name in ("open", "scandir"):
        monkeypatch.setattr(os, name, counting(counts, name, getattr(os, name)))
    monkeypatch.setattr(MappedFile, "__init__", counting(counts, "map", MappedFile.__init__))
    return counts


def counting(counts, name, function):
    def call(*args, **options):
        counts[name] += 1
        return function(*args, **options)

    return call


def test_a_short_queue_costs_one_listing_and_no_mapping(root, calls):
    with rocketstore.open(root) as store:
        queues = list(store.queues())
        assert len(queues) == QUEUES
        assert store.consume_queue(*queues[0]).bounds == (0, 2, 2)  # and now the end of the log is known
        calls.clear()
        for queue_id in queues[1:]:
            queue = store.consume_queue(*queue_id)
            assert queue.bounds == (0, 2, 2)
            assert queue.count_bytes(0, 2) > 200
    assert calls["map"] == 0
    assert calls["scandir"] <= QUEUES - 1
    assert calls["open"] <= 4 * (QUEUES - 1)


def test_a_unit_behind_the_log_is_left_out_after_other_queues_were_read(root):
    with rocketstore.open(root) as store:
        log_end = store.commit_log.max_phy_offset
    path = next((root / "consumequeue" / "Topic2" / "3").iterdir())
    with path.open("r+b") as file:
        file.seek(40)
        file.write(UNIT.pack(log_end, 100, 0))
    with rocketstore.open(root) as store:
        bounds = {queue_id: store.consume_queue(*queue_id).bounds for queue_id in store.queues()}
        assert set(bounds.values()) == {(0, 2, 2)}
        assert store.consume_queue("Topic2", 3).leftover_units == 1


@pytest.mark.parametrize("n", [1, FIRST_UNITS - 1, FIRST_UNITS, FIRST_UNITS + 1, READ_UNITS + FIRST_UNITS + 1])
def test_the_end_is_found_in_whichever_part_it_is_read(tmp_path, n):
    queue = ConsumeQueue.open(write(tmp_path / "T" / "0", units_of(n), file_size=20 * (READ_UNITS + 2 * FIRST_UNITS)))
    assert queue.bounds == (0, n, n)
    assert queue.count_bytes(0, n) == 100 * n
    assert queue.count_bytes(n // 2, n + 5) == 100 * (n - n // 2)


def test_bounds_are_both_ends_and_the_length(tmp_path):
    plain = ConsumeQueue.open(write(tmp_path / "T" / "0", units_of(25, first=10), first=10))
    batch = BatchConsumeQueue.open(write(tmp_path / "B" / "0", batch_units([3, 1, 5], first=4), file_size=460))
    empty = BatchConsumeQueue.open(write(tmp_path / "B" / "1", [], file_size=460))
    for queue, expected in ((plain, (10, 35, 25)), (batch, (4, 13, 9)), (empty, (-1, 0, 0))):
        assert queue.bounds == expected
        assert (queue.min_queue_offset, queue.max_queue_offset, len(queue)) == expected
        assert queue.bounds.begin == max(expected[0], 0)


def test_bytes_of_a_batch_unit_count_at_its_first_queue_offset(tmp_path):
    queue = BatchConsumeQueue.open(write(tmp_path / "B" / "0", batch_units([3, 1, 5]), file_size=460))
    assert [queue.count_bytes(*bounds) for bounds in ((0, 9), (1, 9), (3, 5), (5, 9))] == [300, 200, 200, 0]


def test_filler_units_have_no_bytes(tmp_path):
    filler = units_of(1, size=2**31 - 1)[0][:12] + bytes(8)
    queue = ConsumeQueue.open(write(tmp_path / "T" / "0", [filler, filler, *units_of(3)]))
    assert queue.count_bytes(0, 5) == 300


@pytest.mark.parametrize("place", ["missing", "a file"])
def test_only_a_directory_is_opened_as_a_queue(tmp_path, place):
    (tmp_path / "a file").write_bytes(b"x")
    with pytest.raises((FileNotFoundError, NotADirectoryError)):
        ConsumeQueue.open(tmp_path / place)
