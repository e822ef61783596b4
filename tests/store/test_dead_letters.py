"""Dead letters and retries: each with the topic, queue and id of the message that the producer sent."""

import shutil

import pytest
from reference.message_store import make_store
from support import states

import rocketstore


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return states.unpack("dlq", tmp_path_factory.mktemp("states"))


@pytest.fixture
def store(root):
    with rocketstore.open(root) as store:
        yield store


def test_dead_letters_are_those_that_the_client_saw(store):
    truth = [
        (row["group"], row["originalTopic"], row["originalQueueId"], (row["key"],), row["originalMsgId"],
         row["properties"]["ORIGIN_MESSAGE_ID"], row["reconsumeTimes"], row["bornTimestamp"], row["storeTimestamp"],
         topic, row["dlqQueueId"], row["dlqQueueOffset"], row["phyOffset"])
        for topic, rows in states.truth("dlq")["dlq"].items()
        for row in rows
    ]  # fmt: skip
    found = store.dead_letters()
    assert sorted(row[:13] for row in found) == sorted(truth)
    assert found.reasons == []


def test_retries_say_whether_the_group_consumed_them(store):
    topics = states.truth("dlq")["retryTopics"]
    found = list(store.dead_letters(retry=True))
    assert sorted((row.stored_topic, row.queue_offset, row.uniq_key, row.reconsume_times) for row in found) == sorted(
        (row["topic"], row["queueOffset"], row["msgId"], row["reconsumeTimes"])
        for topic in topics.values()
        for row in topic["rows"]
    )
    waiting = [row.keys[0] for row in found if not row.is_consumed]
    assert sorted(waiting) == sorted(key for topic in topics.values() for key in topic["notConsumed"])


def test_retries_of_popped_messages_have_their_group_and_topic(tmp_path):
    with rocketstore.open(states.unpack("pending", tmp_path)) as store:
        found = list(store.dead_letters(retry=True))
        assert {(row.group, row.topic) for row in found} == {("pop-copy", "Parcel"), ("pop-parcel", "Parcel")}
        origins = {row.uniq_key: store.query_message_by_unique_key("Parcel", row.uniq_key)[-1] for row in found}
        assert all(row.queue_id == origins[row.uniq_key].queue_id for row in found)


def test_dead_letters_are_chosen_by_group_topic_and_time(store):
    everything = list(store.dead_letters())
    time = everything[6].store_timestamp
    assert list(store.dead_letters(group="audit")) == [row for row in everything if row.group == "audit"]
    assert list(store.dead_letters(topic=["Mail", "Steps"])) == [
        row for row in everything if row.topic in ("Mail", "Steps")
    ]
    assert list(store.dead_letters(since=time)) == [row for row in everything if row.store_timestamp >= time]
    assert list(store.dead_letters(until=time)) == [row for row in everything if row.store_timestamp < time]
    assert list(store.dead_letters(limit=2)) == everything[:2]
    with pytest.raises(ValueError, match="limit=-1"):
        store.dead_letters(limit=-1)
    with pytest.warns(UserWarning, match="billing"):
        assert list(store.dead_letters(group="biling")) == []


def test_totals_of_dead_letters_are_by_group_and_topic(store):
    found = store.dead_letters()
    totals = {(total.group, total.topic): total.messages for total in found.totals()}
    assert totals == {("audit", "Bill"): 4, ("billing", "Bill"): 11, ("billing", "Mail"): 3, ("stepper", "Steps"): 3}
    assert repr(found).startswith("<Rows: 21 DeadMessage")


def test_dead_letters_convert_to_a_table(store):
    pytest.importorskip("pyarrow")
    found = store.dead_letters()
    table = found.to_arrow()
    assert table["originMessageId"].to_pylist() == [row.origin_message_id for row in found]
    assert table["queueId"].to_pylist() == [row.queue_id for row in found]


def test_without_the_index_an_unknown_queue_is_empty_with_a_reason(root, tmp_path):
    copy = tmp_path / "store"
    shutil.copytree(root, copy)
    shutil.rmtree(copy / "index")
    with rocketstore.open(copy) as store:
        found = store.dead_letters(group="stepper")
    assert [(row.topic, row.queue_id) for row in found] == [("Steps", None)] * 3
    assert found.reasons


def test_wild_origins_are_not_found(tmp_path):
    uniq_key = {"UNIQ_KEY": "u"}
    ids = ["", "x", "7F00000100002A9F" + "F" * 16, "7F00000100002A9F" + "7" * 16, "7F00000100002A9F" + "0" * 16]
    messages = [{"topic": "T", "properties": {"UNIQ_KEY": "other"}}]
    messages += [{"topic": "%DLQ%G", "properties": uniq_key | {"ORIGIN_MESSAGE_ID": each}} for each in ids]
    messages += [{"topic": "%DLQ%G", "properties": uniq_key | {"RETRY_TOPIC": "../T"}}]
    make_store(tmp_path / "store", messages)
    with rocketstore.open(tmp_path / "store") as store:
        found = list(store.dead_letters())
    assert [(row.group, row.topic, row.queue_id) for row in found] == [*[("G", None, None)] * 5, ("G", "../T", None)]
    assert [row.origin_message_id for row in found] == [None, *ids[1:], None]
