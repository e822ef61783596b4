"""What a group still gets is exactly what the broker delivered to it later."""

import json
import shutil
from collections import Counter

import pytest
from support import states

import rocketstore

STORES = "unconsumed", "unconsumed-expired"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    directory = tmp_path_factory.mktemp("states")
    return {name: states.unpack(name, directory) for name in (*STORES, "pending", "pending-rocksdb", "dlq")}


def runs_of(name):
    """Each run of a group: where it began without an offset, its subscriptions, and what it got."""
    for run in states.truth(name)["runs"]:
        start = "first" if "FIRST" in run["consumeFromWhere"] else "last"
        for group, found in run["groups"].items():
            # A broadcasting client that lost its own offsets does not begin where the broker noted them.
            if group != "bcast" or run["broadcastKeepsItsOwnOffsets"] == "true":
                yield start, group, found["subscriptions"], found["rows"]


@pytest.mark.parametrize("name", STORES)
def test_a_group_gets_what_the_broker_delivered_later(unpacked, name):
    for start, group, subscribe, rows in runs_of(name):
        with rocketstore.open(unpacked[name]) as store:
            found = store.unconsumed(group, subscribe=subscribe, start=start)
        got = [(row.topic, row.queue_id, row.queue_offset, row.uniq_key) for row in found if row.kind == "queue"]
        places = [(row.get("retryTopic") or row["topic"], row["queueId"], row["queueOffset"]) for row in rows]
        expected = [(*place, row["msgId"]) for place, row in zip(places, rows, strict=True)]
        assert Counter(got) == Counter(expected), (start, group)
        assert found.reasons == []


@pytest.mark.parametrize("name", STORES)
def test_delayed_retries_are_listed_with_the_topic_of_the_send(unpacked, name):
    with rocketstore.open(unpacked[name]) as store:
        [row] = [row for row in store.unconsumed("part") if row.kind == "retry"]
    assert (row.topic, row.origin_topic, row.keys) == ("%RETRY%part", "Fruit", ("Fruit-12",))
    assert row.due_timestamp - row.store_timestamp == 7_200_000


@pytest.mark.parametrize("name", ["pending", "pending-rocksdb"])
@pytest.mark.parametrize("group", ["pop-parcel", "pop-copy"])
def test_popped_messages_are_listed_until_they_are_acknowledged(unpacked, name, group):
    truth = states.truth(name)
    expected = [
        ("pop" if part == "popInvisible" else "queue", row.get("fromTopic", row["topic"]), row["queueId"],
         row["queueOffset"], row["msgId"])
        for part in ("popInvisible", "popRetryBacklog", "popNeverPopped")
        for row in truth[part]
        if row["group"] == group
    ]  # fmt: skip
    with rocketstore.open(unpacked[name]) as store:
        found = store.unconsumed(group)
    assert sorted((row.kind, row.topic, row.queue_id, row.queue_offset, row.uniq_key) for row in found) == sorted(
        expected
    )


def test_a_concurrent_group_gets_its_retry_topic_and_delayed_retries(unpacked):
    truth = states.truth("dlq")
    with rocketstore.open(unpacked["dlq"]) as store:
        found = store.unconsumed("billing")
    keys = {kind: [row.keys[0] for row in found if row.kind == kind] for kind in ("queue", "retry")}
    assert keys["queue"] == truth["retryTopics"]["%RETRY%billing"]["notConsumed"]
    scheduled = [row["key"] for row in truth["retryScheduled"] if row["realTopic"] == "%RETRY%billing"]
    assert sorted(keys["retry"]) == sorted(scheduled)


def test_totals_are_the_messages_and_bytes_of_each_queue(unpacked):
    with rocketstore.open(unpacked["unconsumed"]) as store:
        found = store.unconsumed("part")
        for total in found.totals():
            own = [row for row in found if (row.kind, row.topic, row.queue_id) == total[:3]]
            assert total[3:] == (len(own), sum(row.size for row in own), min(row.store_timestamp for row in own))
        assert list(store.unconsumed("part", limit=7)) == list(found[:7])


def test_units_without_a_record_are_a_reason(unpacked, tmp_path):
    root = shutil.copytree(unpacked["unconsumed"], tmp_path / "store")
    with rocketstore.open(root) as store:
        [first, *rest] = store.unconsumed("beyond")
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(first.phy_offset)
        file.write(bytes(8))
    with rocketstore.open(root) as store:
        found = store.unconsumed("beyond")
    assert list(found) == rest
    assert "1 unit leads to no message" in found.reasons[0]


def test_an_unknown_group_has_a_reason_and_a_warning(unpacked):
    with rocketstore.open(unpacked["unconsumed"]) as store:
        with pytest.warns(UserWarning, match="part"):
            found = store.unconsumed("prt")
        assert list(found) == []
        assert "no offsets" in found.reasons[0]
        for options in ({"start": "middle"}, {"limit": -1}, {"subscribe": "=TagA"}):
            with pytest.raises(ValueError, match=next(iter(options))):
                store.unconsumed("part", **options)


def test_unconsumed_messages_convert_to_a_table(unpacked):
    pytest.importorskip("pyarrow")
    with rocketstore.open(unpacked["unconsumed"]) as store:
        found = store.unconsumed("part")
    table = found.to_arrow()
    assert table["uniqKey"].to_pylist() == [row.uniq_key for row in found]
    assert table["dueTimestamp"].null_count == len(found) - 1


# ---- popped inner batches ----------------------------------------------------------------------------------


def put_bookkeeping(store, tag, fields):
    """Put a check point or an acknowledgement, as PopMessageProcessor and AckMessageProcessor do."""
    pop = {"t": "Batches", "c": "pop-batch", "q": 0, "so": 0, "pt": 1_700_000_000_000, "bn": "broker-a"}
    properties = {"TAGS": tag, "REAL_TOPIC": "rmq_sys_REVIVE_LOG_cluster", "REAL_QID": "0"}
    body = json.dumps(pop | fields).encode()
    store.put_message(rocketstore.Message("rmq_sys_wheel_timer", body, properties=properties, queue_id=0))


@pytest.fixture
def popped(tmp_path):
    """A store of a batch queue whose records were popped: batches of 3 and 2 messages, and a message."""
    path = tmp_path / "store"
    with rocketstore.open(path, "a", config=rocketstore.StoreConfig.small()) as store:
        store.create_topic("Batches", 1, queue_type="BatchCQ")
        parts = [rocketstore.Message("Batches", b"b", keys=[f"k{n}"], tags=f"t{n}") for n in range(6)]
        for first, last in ((0, 3), (3, 5)):
            store.put_message(rocketstore.Message.batch("Batches", parts[first:last], queue_id=0))
        store.put_message(rocketstore.Message("Batches", b"b", keys=["k5"], tags="t5", queue_id=0))
        put_bookkeeping(store, "ck", {"n": 3, "d": [0, 3, 5], "it": 60_000, "bm": 0})
    offsets = {"offsetTable": {"Batches@pop-batch": {"0": 6}}}
    (path / "config" / "consumerOffset.json").write_text(json.dumps(offsets))
    return path


def test_a_popped_inner_batch_is_shown_as_its_messages(popped):
    with rocketstore.open(popped) as store:
        found, pending = store.unconsumed("pop-batch"), store.pending()
    assert [(row.kind, row.topic, row.queue_offset, row.keys, row.tags) for row in found] == [
        ("pop", "Batches", n, (f"k{n}",), f"t{n}") for n in range(6)
    ]
    assert len({row.phy_offset for row in found}) == 3
    assert {row.due_timestamp for row in found} == {1_700_000_060_000}
    assert [(row.queue_offset, row.keys) for row in pending] == [(n, (f"k{n}",)) for n in range(6)]


def test_an_acknowledgement_of_a_popped_inner_batch_is_of_all_its_messages(popped):
    with rocketstore.open(popped, "a") as store:
        put_bookkeeping(store, "ack", {"ao": 0})
        put_bookkeeping(store, "ack", {"ao": 4})  # names no record: the broker ignores it
    with rocketstore.open(popped) as store:
        assert [row.queue_offset for row in store.unconsumed("pop-batch")] == [3, 4, 5]
        assert [total.messages for total in store.unconsumed("pop-batch").totals()] == [3]


def test_commands_show_and_count_the_messages_of_popped_inner_batches(popped):
    pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    from support import cli

    rows = cli.rows(cli.run("cat", popped, "--unconsumed", "--group", "pop-batch"))
    assert [(row["kind"], row["queueOffset"], row["tags"]) for row in rows] == [("pop", n, f"t{n}") for n in range(6)]
    [row] = cli.rows(cli.run("count", popped, "--unconsumed", "--group", "pop-batch"))
    assert row["messages"] == 6
