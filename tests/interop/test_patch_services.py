"""The services of brokers pass over patched records, and go on: transactions, timers, revival of popped messages."""

import json
import time

import pytest
from support.broker_tables import extend_topics
from support.damaged_log import overwrite

import rocketstore
from interop.broker import CONFIG, RELEASE, Broker
from interop.test_patch_broker import other as other
from interop.write_checks import store_config
from rocketstore import Message
from rocketstore.disk.rocksdb.rocks_database import KeyRange
from rocketstore.store.pending.databases import read_rows
from rocketstore.store.pending.timers import read_timer_progress

pytestmark = pytest.mark.interop

TOPICS = {"Orders": 1, "Audit": 1, "Popped": 1}
HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
TIMER, REVIVE, GROUP = "rmq_sys_wheel_timer", f"rmq_sys_REVIVE_LOG_{CONFIG['brokerClusterName']}", "G"
SECONDS = 90
EARLY = 60_000  # ms before now: store times of messages
SERVICES = {
    "timerWheelEnable": True,
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 1000,
    "reviveInterval": 500,
    "timerFlushIntervalMs": 200,
}


def halves_and_ops(now):
    """Return half messages, and op messages that close some of them."""
    halves = [
        Message(
            HALF,
            b"half %d " % number + b"x" * 100,
            queue_id=0,
            uniq_key=f"HALF{number}",
            properties={"REAL_TOPIC": "Audit", "REAL_QID": "0", "TRAN_MSG": "true", "PGROUP": "producers"},
            born_timestamp=now - EARLY,
        )
        for number in range(12)
    ]
    ops = [
        Message(OP, b"%d" % number, queue_id=0, tags="d", uniq_key=f"OP{number}", born_timestamp=now - EARLY)
        for number in (1, 5, 8)
    ]
    return halves, ops


def timers(due, count=8):
    return [
        Message(
            TIMER,
            b"timer %d " % number + b"x" * 100,
            queue_id=0,
            uniq_key=f"TIMER{number}",
            properties={
                "REAL_TOPIC": "Orders",
                "REAL_QID": "0",
                "TIMER_OUT_MS": str(due),
                "TIMER_DELIVER_MS": str(due),
            },
        )
        for number in range(count)
    ]


def check_points(now):
    """Return popped messages, and the records by which a broker remembers that they were popped."""
    popped = [Message("Popped", b"popped %d" % number, queue_id=0, uniq_key=f"POP{number}") for number in range(8)]
    records = []
    for number in range(8):
        point = {"so": number, "pt": now - EARLY, "it": 1000, "n": 1, "d": [0], "q": 0, "t": "Popped", "c": GROUP}
        point |= {"bn": CONFIG["brokerName"], "bm": 0, "ro": 0}
        properties = {"TIMER_DELIVER_MS": str(now - EARLY)}
        body = json.dumps(point).encode()
        records.append(Message(REVIVE, body, queue_id=0, tags="ck", uniq_key=f"CK{number}", properties=properties))
    return popped, records


def put_all(root, release, messages, now):
    """Put messages; return the physical offsets of their records, by unique key."""
    with rocketstore.open(root, "a", config=store_config({"config": CONFIG}, release)) as store:
        return {
            message.uniq_key: store.put_message(message, store_timestamp=now - EARLY + number).phy_offset
            for number, message in enumerate(messages)
        }


def patch(root, release, phy_offsets):
    """Destroy records and patch them."""
    for at in phy_offsets:
        overwrite(root, at, bytes(80), CONFIG["mappedFileSizeCommitLog"])
    config = store_config({"config": CONFIG}, release)
    report = rocketstore.patch(root, config=config)
    assert (report.refused, [message.phy_offset for message in report.lost]) == ((), sorted(phy_offsets))
    checked = rocketstore.verify(root, config=config)
    assert [finding for finding in checked.findings if finding.severity == "error"] == []


def read(root, topic):
    """Return all messages of a topic, also while a broker writes."""
    with rocketstore.open(root) as store:
        return [message for batch in store.scan() for message in batch if message.topic == topic]


def keys(messages):
    return {message.uniq_key for message in messages}


def wait_for(found, wanted):
    """Wait until a function returns what is wanted, or more."""
    deadline = time.monotonic() + SECONDS
    while not found() >= wanted and time.monotonic() < deadline:
        time.sleep(0.5)
    assert found() == wanted


def make_config(root, scratch):
    extend_topics(root, TOPICS)
    groups = {GROUP: {"groupName": GROUP, "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16}}
    (root / "config" / "subscriptionGroup.json").write_text(json.dumps({"subscriptionGroupTable": groups}))
    (scratch / "conf").mkdir()
    (scratch / "conf" / "logback_broker.xml").write_text("<configuration/>")  # a 4.x broker needs it


def test_transactions_are_checked_past_patched_half_and_op_messages(other, tmp_path):
    root, now = tmp_path / "store", int(time.time() * 1000)
    make_config(root, tmp_path)
    halves, ops = halves_and_ops(now)
    release = "5.5.1" if other.release == RELEASE else "4.9.8"
    places = put_all(root, release, [*halves[:6], *ops[:2], *halves[6:], ops[2]], now)
    patch(root, release, [places[key] for key in ("HALF3", "HALF7", "OP1", "OP8")])
    with Broker(other, root, TOPICS, tmp_path, **SERVICES) as broker:
        # The op messages of 1 and 8 are lost, so that a producer is asked for them. Nobody is asked for 3 and 7.
        checked = {message.uniq_key for message in halves} - {"HALF3", "HALF7", "HALF5"}
        wait_for(
            lambda: keys(
                row for row in read(root, HALF) if "TRANSACTION_CHECK_TIMES" in row.properties and not row.damaged
            ),
            checked,
        )
        broker.stop()
    given_up = read(root, GIVEN_UP)
    assert [(message.damaged, message.body.strip()) for message in given_up] == [(True, b"")] * 2
    assert read(root, "Audit") == []
    with rocketstore.open(root) as store:
        offsets = store.broker_config.consumer_offsets["CID_RMQ_SYS_TRANS"]
        assert offsets[HALF][0] >= len(halves)
        assert offsets[OP][0] == len(ops)


@pytest.fixture(params=[False, True], ids=["wheel", "rocksdb"])
def services(request):
    """The settings of a broker with timers in its wheel, or in RocksDB."""
    return {**SERVICES, "timerRocksDBEnable": request.param}


def test_timers_and_check_points_are_served_past_patched_ones(client, tmp_path, services):
    root, now = tmp_path / "store", int(time.time() * 1000)
    make_config(root, tmp_path)
    popped, records = check_points(now)
    waiting = timers(now + 8000)
    places = put_all(root, "5.5.1", [*popped, *records[:4], *waiting, *records[4:]], now)
    patch(root, "5.5.1", [places[key] for key in ("TIMER2", "TIMER5", "CK3")])
    with Broker(client, root, TOPICS, tmp_path, **services) as broker:
        wait_for(lambda: keys(read(root, "Orders")), keys(waiting) - {"TIMER2", "TIMER5"})
        # The lost check point lets its message stay unrevived; all others come back.
        wait_for(lambda: keys(read(root, f"%RETRY%{GROUP}_Popped")), keys(popped) - {"POP3"})
        broker.stop()
    assert [message for message in read(root, "Orders") if message.damaged] == []


def test_timers_that_wait_are_delivered_past_patched_ones(client, tmp_path, services):
    root, now = tmp_path / "store", int(time.time() * 1000)
    make_config(root, tmp_path)
    waiting = timers(now + 40_000)
    places = put_all(root, "5.5.1", waiting, now)
    with Broker(client, root, TOPICS, tmp_path, **services) as broker:
        time.sleep(10)
        broker.stop()
    with rocketstore.open(root) as store:
        rows, _ = read_rows(store, store.places.rocksdb, "timer", KeyRange())
        in_rocksdb = sum(key[:1] == b"\0" for key, _ in rows)
        assert max(in_rocksdb, read_timer_progress(store)[0].queue_offset) == len(waiting)
    assert read(root, "Orders") == []
    patch(root, "5.5.1", [places[key] for key in ("TIMER2", "TIMER7")])
    with Broker(client, root, TOPICS, tmp_path, **services) as broker:
        wait_for(lambda: keys(read(root, "Orders")), keys(waiting) - {"TIMER2", "TIMER7"})
        broker.stop()
