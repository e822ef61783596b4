"""Physical offsets by store time, also of clocks that were wrong for a while."""

import pytest
from reference.message_store import make_store

import rocketstore

BEGIN = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR


def store_of(root, ahead):
    """Open a store of 12 files and about 12 days. The clock is ahead for some messages of the third file.

    Return the store and the physical offset of the first of these messages.
    """
    times = [BEGIN + DAY // 10 * n + ahead * (25 <= n < 28) for n in range(120)]
    make_store(root, [{"store_timestamp": time, "body": bytes(300)} for time in times], file_size=4096)
    store = rocketstore.open(root)
    assert len(store.commit_log.file_run.files) >= 12
    return store, int(store.scan().head(26).phy_offset[25])


def test_a_message_of_a_clock_that_ran_ahead_by_hours_is_found(tmp_path):
    store, first = store_of(tmp_path, 20 * HOUR)
    with store:
        time = BEGIN + DAY // 10 * 25 + 20 * HOUR
        assert store.get_phy_offset_by_time(time) == first
        assert store.find_phy_offset_by_time(time, exact_times=True) == (first, True, [])


def test_an_offset_by_time_that_skipped_files_is_not_called_complete(tmp_path):
    store, first = store_of(tmp_path, 9 * DAY)
    with store:
        time = BEGIN + DAY // 10 * 25 + 9 * DAY
        offset, complete, reasons = store.find_phy_offset_by_time(time)
        assert offset > first
        assert not complete
        assert "no clock was wrong by 24 hours or more within a file" in reasons[0]
        assert store.find_phy_offset_by_time(time, exact_times=True) == (first, True, [])
        assert store.get_phy_offset_by_time(time, exact_times=True) == first


def test_files_behind_the_found_message_are_not_called_skipped(tmp_path):
    store, _ = store_of(tmp_path, 0)
    with store:
        assert store.find_phy_offset_by_time(BEGIN) == (0, True, [])
        end = store.commit_log.max_phy_offset
        assert store.find_phy_offset_by_time(BEGIN + 99 * DAY, exact_times=True) == (end, True, [])
        assert store.find_phy_offset_by_time(BEGIN + 99 * DAY)[:2] == (end, False)


def test_a_key_query_of_some_times_skips_no_message_by_time(tmp_path):
    times = [BEGIN + DAY * n + 30 * DAY * (n == 25) for n in range(80)]
    records = [{"store_timestamp": time, "body": bytes(300), "properties": {"KEYS": "k"}} for time in times]
    make_store(tmp_path, records, file_size=4096, index_num=12)
    with rocketstore.open(tmp_path) as store:
        assert len(store.index.files) > 5
        found = store.query_message("TopicTest", "k", 64, times[25], times[25] + 1)
        assert found.messages.store_timestamp.tolist() == [times[25], times[25]]
        assert found.complete


@pytest.mark.parametrize(("boundary", "exact"), [("lower", 25), ("upper", 115)])
def test_a_queue_is_searched_by_all_its_messages_on_request(tmp_path, boundary, exact):
    store, _ = store_of(tmp_path, 9 * DAY)
    with store:
        time = BEGIN + DAY // 10 * 25 + 9 * DAY + 1
        time -= boundary == "lower"
        queue = store.consume_queue("TopicTest", 0)
        assert queue.get_offset_by_time(time, boundary, exact_times=True) == exact
        assert store.get_offset_by_time("TopicTest", time, 0, boundary, exact_times=True) == exact
        assert store.get_offset_by_time("TopicTest", time, None, boundary, exact_times=True) == {0: exact}
        assert queue.get_offset_by_time(BEGIN - 1, boundary, exact_times=True) == 0
        assert queue.get_offset_by_time(BEGIN + 99 * DAY, boundary, exact_times=True) == (
            120 if boundary == "lower" else 119
        )
