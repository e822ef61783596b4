"""Why a scan, a table or a dataset is empty."""

import shutil
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import rocketstore
from rocketstore import CorruptFileError, Message, StoreConfig, Where
from rocketstore.store import not_found

BEGIN = 1_700_000_000_000
FIRST = datetime.fromtimestamp(BEGIN / 1000, UTC)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store of 20 messages, one each second: order-N alternates between orders and payments."""
    path = tmp_path_factory.mktemp("empty") / "store"
    with rocketstore.open(path, "a", config=StoreConfig.small()) as store:
        for n in range(20):
            tag = ["paid", "sent"][n % 2]
            message = Message(["orders", "payments"][n % 2], b"%d" % n, keys=[f"order-{n}"], tags=tag, queue_id=0)
            store.put_message(message, store_timestamp=BEGIN + 1000 * n)
    return path


@pytest.fixture(scope="module")
def store(root):
    with rocketstore.open(root) as store:
        yield store


QUESTIONS = [
    ({"topic": "orders", "tag": "PAID"}, "topic 'orders' has the tags 'paid'"),
    ({"topic": "orders", "key": "order-7"}, "the key 'order-7' is in topic 'payments'"),
    ({"topic": "orders", "key": iter(["order-7"])}, "the key 'order-7' is in topic 'payments'"),
    ({"since": "2026-01-01"}, "and messages since 2026-01-01 00:00:00 UTC were asked for"),
    ({"until": FIRST}, "the oldest message is of 2023-11-14 22:13:20 UTC, and messages before 2023-11-14 22:13:20"),
    ({"topic": "orders", "queue_ids": 7}, "there is no queue 7 of topic 'orders': its queue ids are 0; the log has"),
    ({"topic": "orders", "queue_ids": np.array([7])}, "the queues of topic 'orders' have 10 messages"),
]


@pytest.mark.parametrize(("conditions", "reason"), QUESTIONS, ids=lambda value: repr(value)[:40])
def test_an_empty_scan_has_the_reason_of_an_empty_query(store, conditions, reason):
    scan = store.scan(**conditions)
    assert len(scan.head()) == 0
    assert reason in scan.why
    assert "bytes 0 to " in scan.why


@pytest.mark.filterwarnings("ignore:.*no queue of topic")
def test_an_unknown_topic_is_one_reason_also_with_several_queue_ids(store):
    found = store.scan(topic="ordrs", queue_ids=[7, 8]).why
    assert found.startswith("there is no queue of topic 'ordrs': did you mean 'orders'?; the log has")


@pytest.mark.parametrize("name", ["topic", "tag", "key", "queue_ids"])
@pytest.mark.filterwarnings("ignore:.*an empty list")
def test_an_empty_list_is_the_reason(store, name):
    for empty in ([], (), set(), iter([]), np.array([], np.int64 if name == "queue_ids" else object)):
        assert store.scan(**{name: empty}).why.startswith(f"{name}=[]: an empty list selects nothing")


def test_times_in_a_reason_are_in_the_zone_of_the_scan(store):
    found = store.scan(until="2023-11-15 06:13:20", tz="Asia/Shanghai").why
    assert "the oldest message is of 2023-11-15 06:13:20+08:00" in found


def test_a_scan_with_a_message_has_no_reason_and_searches_none(store, monkeypatch):
    monkeypatch.setattr(not_found, "explain_nothing_found", pytest.fail)
    assert store.scan(topic="orders").why is None
    assert store.scan(key="order-19", threads=2, batch_size=1).why is None
    assert [*store.scan(topic="orders", tag="sent")] == []  # without a question


def test_a_condition_that_no_message_meets_is_the_reason(store):
    pytest.importorskip("duckdb", reason="needs duckdb, from the extra 'duckdb'")
    scan = store.scan(topic="orders").filtered(Where("queueOffset > 99"))
    assert scan.why == "messages meet the other conditions, but none meets <Where 'queueOffset > 99'>"
    empty = store.scan(topic="orders", tag="x").filtered(Where("queueOffset > 99"))
    assert empty.why.startswith("the newest messages have the tags 'paid'; the log has")


def test_offsets_and_a_limit_are_reasons(store):
    end = store.commit_log.max_phy_offset
    found = store.scan(end, end + 10).why
    assert found.startswith(f"only the log from {end:,} to {end + 10:,} was searched; the log has messages")
    assert store.scan(limit=0).why == "limit=0 asks for no message"


def test_a_log_without_its_store_has_a_reason(store):
    assert store.commit_log.scan(topic="nope").why == "the log has no message that meets the conditions"
    assert store.commit_log.scan(topic="orders").why is None


def test_damage_is_a_reason_or_an_error_as_in_the_scan(root, tmp_path):
    path = shutil.copytree(root, tmp_path / "store")
    with rocketstore.open(path) as store:
        offset = store.get_message("orders", 0, 5).messages.phy_offset[0]
    with (path / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(offset + 4)
        file.write(b"\xff" * 60)
    with rocketstore.open(path) as store:
        found = store.scan(key="order-10", plan="scan", on_corrupt="skip")
        assert found.why.startswith("1 damaged range was left out; the first: ")
        with pytest.raises(CorruptFileError):
            _ = store.scan(key="order-10", plan="scan").why


def test_a_reason_is_found_after_the_store_was_closed(root):
    with rocketstore.open(root) as store:
        batch = store.scan(topic="orders", tag="PAID")
        reason = batch.why
    assert "has the tags" in reason


def test_an_empty_dataset_has_the_reason_of_its_conditions_and_filter(store):
    ds = pytest.importorskip("pyarrow.dataset", reason="needs pyarrow, from the extra 'arrow'")
    topic, offset, tags = (ds.field(name) for name in ("topic", "queueOffset", "tags"))
    assert store.dataset().why is None
    assert store.dataset().filter(topic == "orders").why is None
    assert "topic 'orders' has the tags 'paid'" in store.dataset(topic="orders", tag="PAID").why
    assert "topic 'orders' has the tags 'paid'" in store.dataset().filter((topic == "orders") & (tags == "PAID")).why
    assert "none does: (queueOffset > 99)" in store.dataset().filter(offset > 99).why
    assert "can meet all conditions" in store.dataset().filter((topic == "orders") & (topic == "payments")).why
    assert "but none does" in store.dataset(limit=3).filter(topic == "nope").why


def test_several_stores_have_a_reason_if_all_are_empty(root):
    ds = pytest.importorskip("pyarrow.dataset", reason="needs pyarrow, from the extra 'arrow'")
    with rocketstore.open_many([root]) as brokers:
        assert brokers.scan(topic="orders").why is None
        assert brokers.scan(topic="orders", tag="PAID").why.startswith("store: topic 'orders' has the tags 'paid'")
        assert "store: topic 'orders' has" in brokers.dataset(topic="orders", tag="PAID").why
        assert "there are store" in brokers.dataset().filter(ds.field("broker") == "other").why


def test_a_time_in_the_future_says_how_old_the_newest_message_is(store):
    later = datetime.now(UTC) + timedelta(hours=1)
    assert "days old" in store.scan(since=later).why or "old, and messages since" in store.scan(since=later).why
