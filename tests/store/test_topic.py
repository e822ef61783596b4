"""A store as a container of topics, and results as containers of messages."""

import datetime
import warnings

import pytest

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.messages.message_batch import MessageBatch

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        for i in range(40):
            message = Message("Orders" if i % 4 else "Payments", b"body", keys=[f"k{i}"], queue_id=i % 2)
            store.put_message(message, store_timestamp=T0 + 1000 * i)
        store.create_topic("Empty")
    return root


@pytest.fixture
def store(root):
    with rocketstore.open(root) as store:
        yield store


def test_a_topic_has_queues_a_length_messages_and_times(store):
    topic = store["Orders"]
    assert (topic.name, len(topic), list(topic.queues)) == ("Orders", 30, [0, 1])
    assert [message.keys for message in topic] == [[f"k{i}"] for i in range(40) if i % 4]
    assert topic.scan(limit=3, columns=["keys"]).head().keys.to_pylist() == [["k1"], ["k2"], ["k3"]]
    assert topic.query("k5")[0].keys == ["k5"]
    assert not topic.query("k4")
    begin, end = topic.time_range
    assert begin == datetime.datetime.fromtimestamp((T0 + 1000) / 1000, datetime.UTC)
    assert end - begin == datetime.timedelta(seconds=38)
    title = "<Topic 'Orders': 2 queues, 30 messages, 2023-11-14 22:13:21 to 2023-11-14 22:13:59 UTC>"
    assert repr(topic).splitlines()[0] == title


def test_a_store_is_a_container_of_topics(store):
    assert [(topic.name, len(topic)) for topic in store] == [("Orders", 30), ("Payments", 10)]
    assert "Orders" in store
    assert store["Orders"] in store
    assert "orders" not in store
    assert 5 not in store
    with pytest.raises(KeyError, match="no queue of topic 'orders': did you mean 'Orders'"):
        store["orders"]
    with pytest.raises(KeyError, match="topic 'Empty' has no queue"):
        store["Empty"]


def test_an_unknown_topic_gives_one_warning_everywhere(store):
    for call in (
        lambda: store.scan(topic="Ordrs"),
        lambda: store.scan(topic=["Orders", "Ordrs"]),
        lambda: store.query_message("Ordrs", "k1"),
        lambda: store.query_message_by_unique_key("Ordrs", "k1"),
        lambda: store.query_message_by_tag("Ordrs", "k1"),
        lambda: store.query_messages("Ordrs", ["k1"]),
    ):
        with pytest.warns(UserWarning, match="there is no queue of topic 'Ordrs': did you mean 'Orders'") as caught:
            call()
        assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="no queue of topic 'x': rocketstore ls .* shows all"):
        store.scan(topic="x")
    with pytest.raises(KeyError, match="there is no queue of topic 'Ordrs': did you mean 'Orders'"):
        store.get_offset_by_time("Ordrs", T0)


def test_a_known_topic_without_messages_gives_no_warning(store, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.scan(topic="Empty").count() == 0
        assert not store.query_message("Empty", "k")
        with rocketstore.open(tmp_path / "new", "a", config=StoreConfig.small()) as new:
            assert new.scan(topic="Any").count() == 0  # no topic is known yet


def test_an_unknown_group_gives_a_warning(root, store):
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text('{"offsetTable": {"Orders@billing": {"0": 3}}}')
    assert [lag.lag for lag in store.consumer_lag("billing")] == [7, 20]
    with pytest.warns(UserWarning, match=r"no group 'biling' in consumerOffset.json: did you mean 'billing'"):
        assert list(store.consumer_lag("biling")) == []


def test_results_are_sequences_of_messages(store):
    found = store.query_message("Orders", "k5")
    assert (len(found), bool(found), [message.keys for message in found]) == (1, True, [["k5"]])
    assert found[0].body == b"body"
    assert isinstance(found[:1], MessageBatch)
    assert found.complete
    assert "1 message, complete" in repr(found)
    assert "k5" in repr(found)
    got = store.get_message("Orders", 0, 2, 5)
    assert (len(got), got.status, got.next_begin_offset) == (5, "FOUND", 7)
    assert [message.queue_offset for message in got] == [2, 3, 4, 5, 6]
    assert got[1:3].queue_offset.tolist() == [3, 4]
    assert got[-1].queue_offset == 6
    for nothing in (store.query_message("Orders", "x"), store.get_message("Orders", 0, 1000)):
        assert not nothing
        assert list(nothing) == []
    many = store.query_messages("Orders", ["k5", "x", "k6"])
    assert (len(many), bool(many), [len(batch) for batch in many]) == (3, True, [1, 0, 1])
    assert [len(batch) for batch in many[1:]] == [0, 1]
    assert many[-1][0].keys == ["k6"]
    assert not store.query_messages("Orders", ["x", "y"])


def test_results_go_to_arrow_and_into_a_store(store, tmp_path):
    found = store.query_message("Orders", "k5")
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as copy:
        assert len(copy.put_messages(found)) == len(copy.put_messages(store.get_message("Orders", 0, 0, 1))) == 1
    pytest.importorskip("pyarrow")
    assert found.to_arrow().equals(found.messages.to_arrow())


def test_a_topic_ignores_store_times_that_no_calendar_has(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        store.put_message(Message("Orders", b"", queue_id=0), store_timestamp=300_000_000_000_000)
        assert store["Orders"].time_range is None
        assert repr(store["Orders"]).splitlines()[0] == "<Topic 'Orders': 1 queue, 1 message>"
        store.put_message(Message("Orders", b"", queue_id=0), store_timestamp=T0)
        assert [int(time.timestamp() * 1000) for time in store["Orders"].time_range] == [T0, T0]


def test_a_queue_and_its_units_are_sequences(store):
    queue = store.consume_queue("Orders", 1)
    units = list(queue)
    assert [unit.queue_offset for unit in units] == list(range(20)) == list(range(len(queue)))
    part = queue[5:15]
    assert list(part) == units[5:15]
    assert [part[i] for i in (0, 9, -1)] == [units[5], units[14], units[14]]
    for cut in (slice(2, 7), slice(None, None, 3), slice(8, 1, -2)):
        assert list(part[cut]) == units[5:15][cut]
    with pytest.raises(IndexError):
        part[10]
    assert repr(part).splitlines()[2].split()[:2] == ["5", str(units[5].phy_offset)]
