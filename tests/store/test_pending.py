"""Messages that wait: what is listed is exactly what the broker delivered later."""

import json
import shutil
import struct

import pytest
from reference.message_store import make_store
from support import states

import rocketstore

STORES = "pending", "pending-stale-kill9", "pending-rocksdb"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    directory = tmp_path_factory.mktemp("states")
    return {name: states.unpack(name, directory) for name in (*STORES, "dlq")}


def rows_of(found):
    return sorted(
        (row.kind, row.topic, row.queue_id, row.keys, row.uniq_key, row.due_timestamp, row.group, row.queue_offset)
        for row in found
    )


def truth_of(name):
    truth = states.truth(name)
    waiting = [
        (row["kind"], row["topic"], row["queueId"], (row["key"],), row["msgId"], row.get("due"), None, None)
        for row in truth["pending"]
    ]
    invisible = [
        ("pop", *(row[name] for name in ("topic", "queueId")), (row["key"],), row["msgId"], row["due"], row["group"],
         row["queueOffset"])
        for row in truth["popInvisible"]
    ]  # fmt: skip
    return sorted([*waiting, *invisible])


@pytest.mark.parametrize("name", STORES)
def test_pending_lists_what_the_broker_delivered_later(name, unpacked):
    with rocketstore.open(unpacked[name]) as store:
        found = store.pending()
    assert rows_of(found) == truth_of(name)
    assert found.reasons == []


def test_half_messages_have_their_check_times(unpacked):
    truth = {row["key"]: row["checkTimes"] for row in states.truth("pending")["pending"] if row["kind"] == "half"}
    with rocketstore.open(unpacked["pending"]) as store:
        assert {row.keys[0]: row.check_times for row in store.pending(kind="half")} == truth


def test_popped_retries_name_the_topic_of_their_place(unpacked):
    rows = [row for row in states.truth("pending")["popInvisible"] if row["topic"] != row["fromTopic"]]
    with rocketstore.open(unpacked["pending"]) as store:
        found = [row for row in store.pending(kind="pop") if row.topic != row.popped_topic]
    assert sorted((row.popped_topic, row.uniq_key) for row in found) == sorted(
        (row["fromTopic"], row["msgId"]) for row in rows
    )
    assert rows


def test_delayed_retries_are_listed_with_their_group(unpacked):
    truth = states.truth("dlq")["retryScheduled"]
    with rocketstore.open(unpacked["dlq"]) as store:
        found = list(store.pending())
    assert {row.kind for row in found} == {"retry"}
    assert sorted(
        (row.topic, row.queue_id, row.uniq_key, row.due_timestamp, row.queue_offset) for row in found
    ) == sorted(
        (row["realTopic"], row["realQueueId"], row["msgId"], row["due"], row["scheduleQueueOffset"]) for row in truth
    )
    assert {row.group for row in found} == {"billing"}


def test_rows_are_chosen_by_topic_group_kind_and_due_time(unpacked):
    with rocketstore.open(unpacked["pending"]) as store:
        everything = list(store.pending())
        due = everything[5].due_timestamp
        assert list(store.pending(topic=["Order", "Pay"])) == [
            row for row in everything if row.topic in ("Order", "Pay")
        ]
        assert list(store.pending(group="pop-copy")) == [row for row in everything if row.group == "pop-copy"]
        assert list(store.pending(kind=["half", "timer"])) == [
            row for row in everything if row.kind in ("half", "timer")
        ]
        assert list(store.pending(until=due, limit=3)) == everything[:3]
        assert list(store.pending(since=due)) == [row for row in everything if (row.due_timestamp or 0) >= due]


def test_wrong_filters_of_pending_are_refused(unpacked):
    with rocketstore.open(unpacked["pending"]) as store:
        for options in ({"kind": "dead"}, {"limit": -1}, {"since": 5_000_000_000}):
            with pytest.raises(ValueError, match=next(iter(options))):
                store.pending(**options)
        with pytest.raises(TypeError, match="topic"):
            store.pending(topic=5)


def test_an_unknown_topic_of_pending_gives_a_warning(unpacked):
    with rocketstore.open(unpacked["pending"]) as store, pytest.warns(UserWarning, match="Ledger"):
        assert list(store.pending(topic="Ledgr")) == []


def test_totals_count_by_kind_topic_and_hour(unpacked):
    with rocketstore.open(unpacked["pending"]) as store:
        found = store.pending()
    totals = list(found.totals())
    assert sum(total.messages for total in totals) == len(found)
    assert {(total.kind, total.topic) for total in totals} == {(row.kind, row.topic) for row in found}
    assert all(total.hour_timestamp is None or total.hour_timestamp % 3_600_000 == 0 for total in totals)


def test_pending_converts_to_a_table(unpacked):
    pytest.importorskip("pyarrow")
    with rocketstore.open(unpacked["pending"]) as store:
        found = store.pending()
    table = found.to_arrow()
    assert table["keys"].to_pylist() == [list(row.keys) for row in found]
    assert table["dueTimestamp"].null_count == len([row for row in found if row.kind == "half"])
    assert repr(found).startswith(f"<Rows: {len(found)} PendingMessage")


def test_checkpoints_of_nothing_but_zeros_hide_no_message(unpacked, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(unpacked["pending"], root)
    for name in ("delayOffset.json", "consumerOffset.json"):
        (root / "config" / name).unlink()
        (root / "config" / f"{name}.bak").unlink()
    (root / "config" / "timercheck").write_bytes(bytes(4096))
    with rocketstore.open(root) as store:
        assert rows_of(store.pending()) == truth_of("pending")


def test_a_timer_behind_the_checkpoint_waits(unpacked, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(unpacked["pending"], root)
    last = max(row["due"] for row in states.truth("pending")["pending"] if row["kind"] == "timer")
    (root / "config" / "timercheck").write_bytes(struct.pack(">qqq", last, 0, 1000).ljust(4096, b"\0"))
    with rocketstore.open(root) as store:
        assert [row.due_timestamp for row in store.pending(kind="timer")] == [last]


def message(topic, properties, body=b""):
    return {"topic": topic, "body": body, "properties": properties}


def test_bodies_and_numbers_of_any_kind_are_read(tmp_path):
    big = {"t": "T", "c": "G", "q": 2**40, "so": 2**70, "pt": "x", "n": 10**9, "it": -1, "d": None}
    ck = {"t": "T", "c": "G", "q": 0, "so": 0, "pt": 0, "n": 3, "it": 5, "d": [0, "x", 2**65], "bm": 0}
    wheel = {"REAL_TOPIC": "rmq_sys_REVIVE_LOG_C", "TAGS": "ck"}
    bodies = [b"", b"[]", b"{", json.dumps(big).encode(), json.dumps(ck).encode()]
    timer = {
        "REAL_TOPIC": "../T",
        "REAL_QID": str(2**40),
        "TIMER_OUT_MS": "12x",
        "UNIQ_KEY": "u",
        "TIMER_ROLL_TIMES": "-",
    }
    messages = [message("rmq_sys_wheel_timer", wheel, body) for body in bodies]
    messages += [message("rmq_sys_wheel_timer", timer), message("RMQ_SYS_TRANS_HALF_TOPIC", {"UNIQ_KEY": "h"})]
    messages += [message("RMQ_SYS_TRANS_OP_HALF_TOPIC", {"TAGS": "d"}, b"\xff,,9999999999999999999999,-1")]
    make_store(tmp_path / "store", messages)
    with rocketstore.open(tmp_path / "store") as store:
        found = list(store.pending())
    assert [(row.kind, row.topic, row.due_timestamp) for row in found] == [
        ("pop", "T", 5),
        ("timer", "../T", None),
        ("half", "RMQ_SYS_TRANS_HALF_TOPIC", None),
    ]


def test_a_recall_deletes_only_the_message_of_its_due_time(tmp_path):
    def timer(uniq_key, due, **properties):
        names = {"REAL_TOPIC": "T", "REAL_QID": "0", "TIMER_OUT_MS": str(due), "UNIQ_KEY": uniq_key}
        return message("rmq_sys_wheel_timer", names | properties, b"x")

    due = 1_900_000_000_000
    messages = [timer("a", due), timer("b", due), timer("c", due)]
    messages += [timer("a", due, TIMER_DEL_UNIQKEY="a"), timer("b", due, TIMER_DEL_UNIQKEY="T+b")]
    messages += [timer("c", due, TIMER_DEL_UNIQKEY="x+c"), timer("c", due + 1000, TIMER_DEL_UNIQKEY="c")]
    make_store(tmp_path / "store", messages)
    with rocketstore.open(tmp_path / "store") as store:
        assert [row.uniq_key for row in store.pending()] == ["c"]


def test_a_rolled_timer_is_listed_once(tmp_path):
    names = {"REAL_TOPIC": "T", "REAL_QID": "0", "TIMER_OUT_MS": "1900000000000", "UNIQ_KEY": "a"}
    rolls = [{}, {"TIMER_ROLL_TIMES": "1"}, {"TIMER_ROLL_TIMES": "2"}]
    make_store(tmp_path / "store", [message("rmq_sys_wheel_timer", names | more, b"x") for more in rolls])
    with rocketstore.open(tmp_path / "store") as store:
        assert len(store.pending()) == 1


def test_a_store_without_waiting_messages_has_none(tmp_path):
    make_store(tmp_path / "store", [message("T", {})])
    with rocketstore.open(tmp_path / "store") as store:
        assert list(store.pending()) == []
        assert repr(store.pending()) == "<Rows: 0>"


def test_a_broken_database_of_transactions_is_named(unpacked, tmp_path):
    root = tmp_path / "store"
    shutil.copytree(unpacked["pending-rocksdb"], root)
    for part in ("rocksdbstore", "kvStore"):
        (root / part / "CURRENT").write_bytes(b"nothing")
    with rocketstore.open(root) as store:
        found = store.pending()
    assert {"rocksdbstore", "kvStore"} == {text.split(":")[0].rsplit("/", 1)[1] for text in found.reasons}
    half = [row for row in truth_of("pending-rocksdb") if row[0] == "half"]
    assert {*half} <= {*rows_of(found)}
