"""The life of a message: its events are those that the Java client and the broker took part in."""

import pytest
from support import states

import rocketstore
from rocketstore import Message, StoreConfig

KINDS = {  # by kind and state of the truth; a pop is tested by itself
    ("delay", "delivered"): ["produced", "delayed", "delivered"],
    ("delay", "waiting"): ["produced", "delayed", "waiting"],
    ("timer", "delivered"): ["produced", "timed", "delivered"],
    ("timer", "waiting"): ["produced", "timed", "waiting"],
    ("timer", "recalled"): ["produced", "timed", "recalled"],
    ("half", "committed"): ["produced", "prepared", "committed"],
    ("half", "rolledBack"): ["produced", "prepared", "rolledBack"],
    ("half", "open"): ["produced", "prepared", "waiting"],
    ("half", "discarded"): ["produced", "prepared", "givenUp"],
    ("half", "givenUp"): ["produced", "prepared", "givenUp"],
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    directory = tmp_path_factory.mktemp("states")
    names = "pending", "pending-stale-kill9", "pending-rocksdb", "dlq", "unconsumed"
    stores = {name: rocketstore.open(states.unpack(name, directory)) for name in names}
    yield stores
    for store in stores.values():
        store.close()


def kinds_of(trace):
    return [event.kind for event in trace if event.kind not in ("checked", "consumed", "unconsumed")]


def check_life(store, sent):
    trace = store.trace(uniq_key=sent["msgId"])
    assert trace.reasons == []
    expected = KINDS[sent["kind"], sent["state"]]
    if sent["state"] == "delivered" and kinds_of(trace) == ["produced", "stored"]:
        assert sent["kind"] == "timer"  # its time had come when it was sent
    else:
        assert kinds_of(trace) == expected
    delivered = [row for row in sent["deliveredBeforeStop"] or [] if row["topic"] == sent["topic"]]
    found = [event for event in trace if event.kind in ("stored", "delivered", "committed")]
    assert [(event.topic, event.queue_id, event.queue_offset, event.timestamp) for event in found] == [
        (row["topic"], row["queueId"], row["queueOffset"], row["storeTimestamp"]) for row in delivered
    ]


def messages_that_wait(name):
    return [row for row in states.truth(name)["sent"] if row["kind"] != "plain"]


@pytest.mark.parametrize("name", ["pending", "pending-stale-kill9", "pending-rocksdb"])
def test_the_life_of_a_message_ends_as_the_client_saw_it(name, stores):
    rows = {(row["kind"], row["state"]): row for row in messages_that_wait(name)}
    if name == "pending-rocksdb":  # each question reads three databases
        rows = {key: rows[key] for key in [("timer", "delivered"), ("half", "givenUp"), ("half", "open")]}
    for sent in rows.values():
        check_life(stores[name], sent)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pending", "pending-stale-kill9", "pending-rocksdb"])
def test_the_life_of_every_message_ends_as_the_client_saw_it(name, stores):
    for sent in messages_that_wait(name):
        check_life(stores[name], sent)


def test_a_waiting_message_has_its_due_time(stores):
    row = next(row for row in states.truth("pending")["pending"] if row["kind"] == "timer")
    waiting = stores["pending"].trace(row["key"])[-1]
    assert (waiting.kind, waiting.timestamp, waiting.topic, waiting.queue_id) == (
        "waiting",
        row["due"],
        row["topic"],
        row["queueId"],
    )


def test_a_popped_message_is_not_consumed_by_its_group(stores):
    row = next(row for row in states.truth("pending")["popInvisible"] if row["group"] == "pop-copy")
    trace = stores["pending"].trace(uniq_key=row["msgId"])
    (waiting,) = [event for event in trace if event.kind == "waiting" and event.group == row["group"]]
    place = row["fromTopic"], row["queueId"], row["queueOffset"]
    assert (waiting.timestamp, waiting.topic, waiting.queue_id, waiting.queue_offset) == (row["due"], *place)
    consumed = [event for event in trace if event.kind == "consumed" and event.group == row["group"]]
    assert place not in {(event.topic, event.queue_id, event.queue_offset) for event in consumed}


def test_a_dead_message_has_its_retries_and_its_place(stores):
    truth = states.truth("dlq")
    for dead in [rows[0] for rows in truth["dlq"].values()]:
        trace = stores["dlq"].trace(dead["key"], topic=dead["originalTopic"])
        (found,) = [event for event in trace if event.kind == "dead" and event.group == dead["group"]]
        assert (found.timestamp, found.phy_offset) == (dead["storeTimestamp"], dead["phyOffset"])
        retried = [event.queue_offset for event in trace if event.kind == "retried" and event.group == dead["group"]]
        rows = truth["retryTopics"].get(f"%RETRY%{dead['group']}", {"rows": []})["rows"]
        assert retried == [row["queueOffset"] for row in rows if row["msgId"] == dead["msgId"]]
        stored = next(event for event in trace if event.kind == "stored")
        assert (stored.topic, stored.queue_id, stored.queue_offset) == (
            dead["originalTopic"],
            dead["originalQueueId"],
            dead["originalQueueOffset"],
        )


def test_a_delayed_retry_waits_for_its_group(stores):
    row = states.truth("dlq")["retryScheduled"][0]
    trace = stores["dlq"].trace(uniq_key=row["msgId"])
    (waiting,) = [event for event in trace if event.kind == "waiting"]
    assert (waiting.timestamp, waiting.group, waiting.topic) == (row["due"], "billing", row["realTopic"])


def test_groups_are_compared_with_the_place_of_the_message(stores):
    truth = states.truth("unconsumed")
    offsets = truth["offsetsAtStop"]["part"]
    for sent in truth["sent"][::9]:
        if f"{sent['topic']}/{sent['queueId']}" in offsets:
            trace = stores["unconsumed"].trace(uniq_key=sent["msgId"], topic=None)
            (event,) = [event for event in trace if event.group == "part" and event.topic == sent["topic"]]
            is_consumed = sent["queueOffset"] < offsets[f"{sent['topic']}/{sent['queueId']}"]["consumer"]
            assert event.kind == ("consumed" if is_consumed else "unconsumed")


def test_a_message_of_a_deleted_topic_is_consumed_by_nobody(stores):
    sent = states.truth("unconsumed")["deletedMessagesOf"][0]
    assert kinds_of(stores["unconsumed"].trace(sent["key"])) == ["produced", "stored"]
    assert len(stores["unconsumed"].trace(sent["key"])) == 2


def test_key_unique_key_and_id_lead_to_the_same_life(stores):
    dead = states.truth("dlq")["dlq"]["%DLQ%billing"][0]
    store = stores["dlq"]
    by_key = list(store.trace(dead["key"]))
    assert list(store.trace(uniq_key=dead["msgId"])) == by_key
    assert list(store.trace(dead["msgId"])) == by_key
    assert list(store.trace(msg_id=dead["originalOffsetMsgId"])) == by_key
    assert list(store.trace(msg_id=dead["dlqOffsetMsgId"])) == by_key


def test_a_trace_that_finds_nothing_is_empty_and_says_why(stores):
    store = stores["dlq"]
    assert list(store.trace("no-such-key")) == []
    assert "the log has the offsets" in store.trace(msg_id="7F00000100007CCF0000000000FFFFFF").reasons[0]
    with pytest.warns(UserWarning, match="Bill"):
        assert list(store.trace("Bill-20", topic="Bil")) == []


def test_wrong_questions_to_trace_are_refused(stores):
    for options in ({}, {"key": "k", "uniq_key": "u"}, {"uniq_key": "u", "topic": "T"}, {"key": "k", "limit": -1}):
        with pytest.raises(ValueError, match=r"give one of|only a key|limit"):
            stores["dlq"].trace(**options)
    with pytest.raises(ValueError, match="id"):
        stores["dlq"].trace(msg_id="xyz")


def test_a_trace_converts_to_a_table(stores):
    pytest.importorskip("pyarrow")
    trace = stores["dlq"].trace("Bill-20")
    table = trace.to_arrow()
    assert table["kind"].to_pylist() == [event.kind for event in trace]
    assert table["eventTimestamp"].null_count == len([event for event in trace if event.timestamp is None])
    assert repr(trace).startswith(f"<Rows: {len(trace)} TraceEvent")


def entry(*fields):
    return "\1".join(map(str, fields)) + "\2"


def make(root, *messages):
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        store.put_messages(list(messages))
    return rocketstore.open(root)


def test_the_traces_of_clients_are_read_from_the_trace_topic(tmp_path):
    body = entry("Pub", 1000, "R", "P", "T", "U1", "tag", "k1 k2", "10.0.0.1:10911", 5, 7, 0, "OFFSET", "true")
    body += entry("Pub", 1000, "R", "P", "T", "U2", "tag", "k3", "10.0.0.1:10911", 5, 7, 0, "OFFSET", "true")
    later = entry("SubBefore", 2000, "R", "G", "request", "U1", 0, "k1 k2")
    later += entry("SubAfter", "request", "U1", 12, "false", "k1 k2", 2, 2012)
    later += entry("EndTransaction", 3000, "R", "P", "T", "U1", "", "", "h", 1, "X", "COMMIT_MESSAGE", "true")
    store = make(
        tmp_path / "store",
        Message("RMQ_SYS_TRACE_TOPIC", body, keys=["U1", "k1", "k2", "U2", "k3"]),
        Message("RMQ_SYS_TRACE_TOPIC", later + entry("Pub", 1, 2) + "\1\2x", keys=["U1"]),
        Message("RMQ_SYS_TRACE_TOPIC", later, keys=["U1"]),
    )
    with store:
        found = [(event.kind, event.timestamp, event.group, event.topic, event.detail) for event in store.trace("k1")]
    assert found == [
        ("clientSent", 1000, "P", "T", "success in 7 ms, to broker 10.0.0.1:10911; by 127.0.0.1:0"),
        ("clientReceived", 2000, "G", None, "retry 0; by 127.0.0.1:0"),
        ("clientConsumed", 2012, "G", None, "exception in 12 ms; by 127.0.0.1:0"),
        ("clientEnded", 3000, "P", "T", "COMMIT_MESSAGE, asked by the broker; by 127.0.0.1:0"),
    ]


def test_entries_that_the_java_client_of_5_5_0_writes_are_read(tmp_path):
    entries = [
        "Pub|1000|R|P|T|U1|tag|k1 k2|10.0.0.1:10911|5|7|0|OFF|true$",
        "SubBefore|2000|R|G|Q|U1|3|k1 k2$",
        "SubAfter|Q|U1|7|true|k1 k2|0|3000|H$",
        "EndTransaction|4000|R|P|T|U1|tag|k1 k2|10.0.0.1:10911|0|X|COMMIT_MESSAGE|false$",
        "Recall|5000|R|P|T|U1|true$",
    ]
    body = "".join(entries).replace("|", "\1").replace("$", "\2")
    with make(tmp_path / "store", Message("RMQ_SYS_TRACE_TOPIC", body, keys=["U1", "k1", "k2"])) as store:
        found = [(event.kind, event.timestamp, event.group) for event in store.trace(uniq_key="U1")]
    assert found == [
        ("clientSent", 1000, "P"),
        ("clientReceived", 2000, "G"),
        ("clientConsumed", 3000, "H"),
        ("clientEnded", 4000, "P"),
        ("clientRecalled", 5000, "P"),
    ]


def test_the_newest_messages_of_a_key_are_traced(tmp_path):
    messages = [Message("T", b"x", keys="k", uniq_key=f"U{n}", born_timestamp=1000 + n) for n in range(5)]
    with make(tmp_path / "store", *messages) as store:
        trace = store.trace("k", limit=2)
        assert [event.uniq_key for event in trace] == ["U3", "U3", "U4", "U4"]
        assert trace.notes == ["3 older messages have the same key"]


def test_messages_without_a_unique_key_are_told_apart(tmp_path):
    messages = [Message("T", b"x", keys="k", queue_id=0, born_timestamp=1000 + n) for n in range(2)]
    with make(tmp_path / "store", *messages) as store:
        assert [(event.kind, event.queue_offset) for event in store.trace("k")] == [
            ("produced", None),
            ("stored", 0),
            ("produced", None),
            ("stored", 1),
        ]


def test_a_trace_without_an_index_says_that_events_may_be_missing(tmp_path):
    make(tmp_path / "store", Message("T", b"x", keys="k")).close()
    for file in (tmp_path / "store" / "index").iterdir():
        file.unlink()
    with rocketstore.open(tmp_path / "store") as store:
        assert "index" in store.trace("k").reasons[0]
