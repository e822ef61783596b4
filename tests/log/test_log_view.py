"""A view of a log says where its records end, and why, whatever was asked of the log before."""

import pytest
from support import damages
from support.cut_store import cut_off, offsets_of, store_of
from support.log_ends import running

import rocketstore
from rocketstore.limits import LONG_MAX
from rocketstore.log.log_chunk import LogChunk
from rocketstore.log.log_end import LogView, Why
from rocketstore.log.record_reader import RecordReader


def end_of(root):
    with rocketstore.open(root, leftovers=True) as store:
        return store.commit_log.look().records_end


def damage(root, number):
    """Zero one record. Return where it begins."""
    start, position, size = offsets_of(root)[number]
    damages.change_log(root, start, position, bytes(size))
    return start + position


def test_a_stopped_log_is_complete_at_its_last_record(tmp_path):
    store_of(tmp_path, 12)
    *_, (start, position, size) = offsets_of(tmp_path)
    last = start + position
    with rocketstore.open(tmp_path) as store:
        assert store.commit_log.look() == LogView(last + size, Why.COMPLETE, last + size, last, last + size)


@pytest.mark.parametrize("holds_lock", [True, False], ids=["running", "crashed"])
def test_without_records_behind_a_log_grows_or_is_torn(tmp_path, holds_lock):
    store_of(tmp_path, 12)
    (tmp_path / "abort").write_bytes(b"4711")
    (tmp_path / "lock").write_bytes(b"lock")
    with running(tmp_path, holds_lock=holds_lock), rocketstore.open(tmp_path) as store:
        view = store.commit_log.look()
        assert view.why == (Why.GROWING if holds_lock else Why.TORN)
        assert view.end == view.records_end == end_of(tmp_path)
        assert view.queue_end == (view.end if holds_lock else LONG_MAX)


def test_records_behind_damage_belong_to_the_log_and_queues_are_not_bounded(tmp_path):
    store_of(tmp_path, 12)
    place = damage(tmp_path, 7)
    with rocketstore.open(tmp_path) as store:
        view = store.commit_log.look()
        assert view[:3] == (place, Why.DAMAGED, end_of(tmp_path))
        assert view.queue_end == LONG_MAX
        assert store.commit_log.max_phy_offset == place


def test_records_behind_a_half_written_one_and_damage_belong_to_the_log(tmp_path):
    """Else a query says that it is complete, although the index leads to the damaged record between them."""
    store_of(tmp_path, 4)
    (start, position, _), (last_start, last, size) = offsets_of(tmp_path)[2:]
    damages.change_log(tmp_path, start, position - 8, bytes(8 + 20))
    end = last_start + last + size
    with rocketstore.open(tmp_path, leftovers=True) as store:
        assert store.commit_log.look(again=True).records_end == end
        assert not store.query_message("T0", "k2").complete
    with rocketstore.open(f"local://{tmp_path}") as store:
        assert store.commit_log.look().records_end == end


def test_a_cut_ends_records_and_queues(tmp_path):
    store_of(tmp_path, 30)
    cut = cut_off(tmp_path, 10)
    with rocketstore.open(tmp_path) as store:
        view = store.commit_log.look()
        assert (view.end, view.why, view.records_end, view.queue_end) == (cut, Why.CUT, cut, cut)


def test_a_cut_behind_damage_ends_the_log_whatever_is_asked_first(tmp_path):
    store_of(tmp_path, 30)
    cut = cut_off(tmp_path, 10)
    damage(tmp_path, 4)
    with rocketstore.open(tmp_path) as store:
        assert store.commit_log.max_phy_offset == cut
    with rocketstore.open(tmp_path) as store:
        assert store.commit_log.look()[:3] == (cut, Why.CUT, cut)
        assert store.commit_log.max_phy_offset == cut


def test_a_task_has_the_view_of_its_driver(tmp_path):
    store_of(tmp_path, 12)
    with rocketstore.open(tmp_path) as store:
        log = store.commit_log
        plan = LogChunk.of(log, 0, log.max_phy_offset, view=log.look())
        damage(tmp_path, 7)
        with plan.open() as part:
            assert part.look() == plan.view
            assert part.max_phy_offset == plan.view.end


def test_bytes_behind_a_stopped_log_are_searched_once_for_all_queues(tmp_path, monkeypatch):
    store_of(tmp_path, 12, topics=4)
    real, calls = RecordReader.find_later, []
    monkeypatch.setattr(RecordReader, "find_later", lambda *args: calls.append(args) or real(*args))
    with rocketstore.open(tmp_path) as store:
        assert [store.consume_queue(*queue).max_queue_offset for queue in store.queues()] == [3, 3, 3, 3]
        assert store.commit_log.look().why == Why.COMPLETE
    assert len(calls) == 1
