"""A summary of a store that is being written: one consistent view, and no leftovers that do not exist."""

import pytest

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.store.overview import summary as summary_module


@pytest.fixture
def writer(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig.small()) as writer:
        put(writer)
        yield writer


def put(writer):
    writer.put_messages([Message("T", b"x" * 50, keys=[f"k{n}"], queue_id=0) for n in range(20)])
    writer.flush()
    assert writer.index is not None  # which waits until it is built


STEPS = ["count_queues", "find_index_span", "find_log_span", "count_leftover_bytes", "compare_ends"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_before", [True, False])
def test_messages_that_come_meanwhile_are_neither_leftovers_nor_damage(writer, step, is_before, monkeypatch):
    function = getattr(summary_module, step)

    def write_meanwhile(*arguments):
        if is_before:
            put(writer)
        found = function(*arguments)
        put(writer)
        return found

    monkeypatch.setattr(summary_module, step, write_meanwhile)
    with rocketstore.open(writer.path) as store:
        found = store.summary()
    assert found.is_locked
    assert (found.leftover_bytes, found.leftover_units, found.problems, list(found.notes)) == (0, 0, [], [])
    assert found.index_end_phy_offset < found.max_phy_offset
    assert found.messages * 100 < found.max_phy_offset


def test_bytes_that_are_written_while_leftovers_are_counted_are_none(writer, monkeypatch):
    leftovers = pytest.importorskip("rocketstore.log.leftovers")
    find_tails = leftovers.find_tails

    def write_first(log, end):
        put(writer)
        return find_tails(log, end)

    monkeypatch.setattr(leftovers, "find_tails", write_first)
    with rocketstore.open(writer.path) as store:
        assert store.summary().leftover_bytes == 0
