"""Why a question found no message."""

import pickle
import shutil
import time
from dataclasses import replace
from datetime import timedelta, timezone

import pytest

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.query import query_messages
from rocketstore.store import not_found

DAY_OLD = int(time.time() * 1000) - 26 * 3_600_000 - 60_000


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store of 20 messages that are 26 hours old: order-N alternates between orders and payments."""
    path = tmp_path_factory.mktemp("reasons") / "store"
    with rocketstore.open(path, "a", config=StoreConfig.small()) as store:
        for n in range(20):
            topic = ["orders", "payments"][n % 2]
            keys = [f"order-{n}", f"mixedId-{n}"]
            message = Message(topic, b"b", keys=keys, tags=["paid", "sent"][n % 2], uniq_key=f"{n:032X}", queue_id=0)
            store.put_message(message, store_timestamp=DAY_OLD + 1000 * n)
    return path


@pytest.fixture(scope="module")
def store(root):
    with rocketstore.open(root) as store:
        yield store


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (("orders", "order-7"), "the key 'order-7' is in topic 'payments'"),
        (("payments", "Order-7"), "topic 'payments' has the key 'order-7'"),
        (("payments", " order-7"), "topic 'payments' has the key 'order-7'"),
        (("payments", "order-7,order-9"), "topic 'payments' has the key 'order-7'"),
        (("payments", '"order-7"'), "topic 'payments' has the key 'order-7'"),
        (("payments", "MIXEDid-7"), "topic 'payments' has the key 'mixedId-7'"),
        (("payments", "order_7"), "topic 'payments' has the key 'order-7'"),
        (("orders", "nope"), "the index has no entry with the hash of the key 'nope' in topic 'orders'"),
        (("orders", "nope"), "(20 messages of 2 topics in its queues, bytes 0 to "),
        (("orders", "nope"), "the queues of topic 'orders' have 10 messages"),
        (("orders",), "'orders' is a topic: also give a key"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_query_without_an_answer_names_what_is_near(store, question, reason):
    found = store.query_message(*question)
    assert not found
    assert reason in found.why
    assert reason in repr(found)


def test_an_unknown_topic_is_a_reason(store):
    with pytest.warns(UserWarning, match="did you mean 'orders'"):
        found = store.query_message("ordrs", "order-8")
    assert found.why.startswith("there is no queue of topic 'ordrs': did you mean 'orders'?; the key 'order-8' is in")


def test_topics_that_a_user_separates_by_commas_are_named_one_by_one(store):
    with pytest.warns(UserWarning, match="give several topics one by one: .'orders', 'payments'"):
        assert store.scan(topic="orders,payments").count() == 0


def test_times_after_the_newest_message_name_its_age(store):
    why = store.query_message("orders", "order-8", since="-1h").why
    assert why.startswith("the newest message is 1d 2h old, and messages since ")
    assert "1 message with the key 'order-8' has another time: " in why
    assert "the oldest message is of " in store.query_message("orders", "order-8", until="2020-01-01").why


def test_tags_that_a_user_separates_by_commas_are_a_reason(store):
    assert "tags are separated by ||: 'paid || sent'" in store.query_message_by_tag("orders", "paid,sent").why
    assert "topic 'orders' has the tags 'paid'" in store.query_message_by_tag("orders", "PAID").why
    assert "the newest messages have the tags 'paid'" in store.query_message_by_tag("orders", "other").why


def test_a_key_of_an_expired_message_says_so(tmp_path):
    size = 4096
    with rocketstore.open(
        tmp_path, "a", config=replace(StoreConfig.small(), mapped_file_size_commit_log=size)
    ) as store:
        for n in range(50):
            store.put_message(Message("orders", b"b", keys=[f"order-{n}"], queue_id=0))
    min((tmp_path / "commitlog").iterdir()).unlink()
    with rocketstore.open(tmp_path) as store:
        why = store.query_message("orders", "order-8").why
        assert "the index leads for the key 'order-8' to byte" in why
        assert f"which has expired: the log begins at byte {size}" in why


def test_a_store_without_an_index_says_so(root, tmp_path):
    path = shutil.copytree(root, tmp_path / "store")
    shutil.rmtree(path / "index")
    with rocketstore.open(path) as store:
        assert "the store has no index" in store.query_message("orders", "order-8").why
    shutil.rmtree(path)
    rocketstore.open(path, "a", config=StoreConfig.small()).close()
    with rocketstore.open(path) as empty:
        assert "the log has no message" in empty.query_message(key="order-8").why


def test_a_reason_is_found_after_the_store_was_closed_and_travels_with_a_pickle(root):
    with rocketstore.open(root) as store:
        found = store.query_message("orders", "order-7")
        several = store.query_messages("orders", ["order-7", "order-8"])
    assert "in topic 'payments'" in found.why
    assert "in topic 'payments'" in pickle.loads(pickle.dumps(found)).why
    assert several.why.startswith("1 of 2 keys have no message: the key 'order-7' is in topic 'payments'")


def test_a_reason_costs_nothing_when_messages_are_found(store, monkeypatch):
    monkeypatch.setattr(not_found, "explain_nothing_found", None)
    found = [store.query_message("orders", "order-8"), store.query_messages("orders", ["order-8"])]
    found.append(store.get_message("orders", 0, 0))
    assert [one.why for one in found] == [None] * 3
    missing = store.query_message("orders", "nope")  # is explained when it is asked
    with pytest.raises(TypeError):
        _ = missing.why


def test_a_read_of_a_queue_has_a_reason(store):
    assert store.get_message("orders", 0, 99).why == "the queue has offsets 0 to 9"
    assert "its queue ids are 0" in store.get_message("orders", 7, 0).why
    assert store.get_message("orders", 0, 0, tag="none").why.startswith("no message up to queue offset 9 has one of")


def test_several_stores_give_their_reasons(root):
    with rocketstore.open_many([root]) as brokers:
        assert brokers.query_message("orders", "order-7").why.startswith(
            "store: the key 'order-7' is in topic 'payments'"
        )
        assert brokers.query_messages("orders", ["order-7"]).why.startswith("store: the key 'order-7' is in topic")
        assert [message.topic for message in brokers.query_message("order-7")] == ["payments"]


# ---- a key needs no topic ------------------------------------------------------------------------------------


def test_a_key_needs_no_topic(root, store, tmp_path):
    assert [message.topic for message in store.query_message("order-7")] == ["payments"]
    assert [message.topic for message in store.query_message(key="order-8")] == ["orders"]
    assert store.query_message_by_unique_key(f"{3:032X}")[0].topic == "payments"
    assert len(store.query_message_by_tag("paid")) == 10
    path = shutil.copytree(root, tmp_path / "store")
    with rocketstore.open(path, "r+") as writer:
        put = writer.put_message(Message("other", b"newest", keys=["order-7", "order-8"]))
        found = writer.query_messages(key=["order-7", "order-8", "none"])
        assert [batch.topic.to_pylist() for batch in found] == [["other", "payments"], ["other", "orders"], []]
        newest = writer.query_message("order-7", limit=1)
        assert (newest[0].phy_offset, newest.has_more, newest.complete) == (put.phy_offset, True, False)
        assert newest.reasons == [query_messages.limit_reason(1)]
    with pytest.raises(TypeError, match="give a key"):
        store.query_message()


def test_a_clients_message_id_is_found_as_an_id(store):
    sent = store.query_message("orders", "order-8")[0]
    assert store.query_message_by_id(sent.uniq_key).phy_offset == sent.phy_offset
    assert store.query_message_by_id(sent.uniq_key.lower()).phy_offset == sent.phy_offset
    assert store.query_message_by_id(sent.msg_id).phy_offset == sent.phy_offset
    assert store.query_message_by_id("F" * 32) is None
    with pytest.raises(ValueError, match="is no message id"):
        store.query_message_by_id("order-8")


@pytest.mark.parametrize("timestamp", [253_402_300_799_000, -62_135_596_800_000, 2**63 - 1, 0])
@pytest.mark.parametrize("hours", [-12, 14])
def test_times_at_the_ends_of_the_calendar_have_a_text(timestamp, hours):
    assert not_found.time_text(timestamp, timezone(timedelta(hours=hours)))
