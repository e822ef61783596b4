"""Copies of a store that a broker writes under load have all acknowledged messages, and brokers start on them."""

import base64
import threading
import time

import pytest
from support.broker_tables import extend_topics

import rocketstore
from interop.broker import CONFIG, QUEUES, Broker, free_ports
from rocketstore import StoreConfig

pytestmark = pytest.mark.interop

TOPIC, AT_ONCE = "Orders", 40
SIZES = StoreConfig(max_hash_slot_num=CONFIG["maxHashSlotNum"], max_index_num=CONFIG["maxIndexNum"])


def message(number):
    return {
        "topic": TOPIC,
        "queueId": number % QUEUES[TOPIC],
        "body": base64.b64encode(b"%d" % number).decode(),
        "properties": {"KEYS": f"key-{number}", "TAGS": f"tag{number % 3}"},
    }


class Load:
    """Sends messages in a thread, until it is stopped.

    Attributes: acknowledged: queue id, queue offset and body of each message that the broker acknowledged.
    """

    def __init__(self, client):
        self.client, self.acknowledged, self._stops = client, [], False
        self._thread = threading.Thread(target=self._send)

    def _send(self):
        number = 0
        while not self._stops:
            numbers = range(number, number + AT_ONCE)
            answers = self.client.send([message(each) for each in numbers])
            self.acknowledged += [
                (each % QUEUES[TOPIC], answer["queueOffset"], b"%d" % each)
                for each, answer in zip(numbers, answers, strict=True)
            ]
            number += AT_ONCE

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stops = True
        self._thread.join()

    def wait(self, more):
        """Wait for more acknowledged messages."""
        wanted = len(self.acknowledged) + more
        while len(self.acknowledged) < wanted and self._thread.is_alive():
            time.sleep(0.005)


def settings_of(kind):
    """Return the settings of a broker with its log, queues or configuration in other formats."""
    dledger = {"enableDLegerCommitLog": True, "dLegerGroup": "interop", "dLegerSelfId": "n0"}
    return {
        "files": {},
        "rocksdb": {"storeType": "defaultRocksDB", "rocksdbCQDoubleWriteEnable": False},
        "rocksdb-index": {"indexRocksDBEnable": True, "timerRocksDBEnable": True},
        "dledger": {**dledger, "dLegerPeers": f"n0-127.0.0.1:{free_ports()}"},
    }[kind]


@pytest.mark.parametrize("count", [6, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["files", "rocksdb", "rocksdb-index", "dledger"])
def test_each_copy_of_a_broker_under_load_is_complete_and_sound(client, root, tmp_path, kind, count):
    settings = settings_of(kind)
    extend_topics(root, {TOPIC: QUEUES[TOPIC]})
    copies = []
    with Broker(client, root, [TOPIC], tmp_path, **settings) as broker:
        with Load(client) as load:
            for number in range(count):
                load.wait(60)
                known, new = list(load.acknowledged), tmp_path / f"copy{number}"
                report = rocketstore.copy(root, new, config=SIZES)
                copies.append((new, known, report))
        broker.stop()
    is_crashed = kind in ("rocksdb", "dledger")  # the broker itself completes queues
    for new, known, report in copies:
        check_copy(new, known, report, is_crashed)
    for new, known, _ in [copies[0], copies[-1]]:
        (tmp_path / new.name / "broker").mkdir()
        with Broker(client, new, [TOPIC], tmp_path / new.name / "broker", **settings) as broker:
            assert_served(client, {(queue_id, offset) for queue_id, offset, _ in known})
            after = client.send([message(number) for number in range(6)])
            assert all(answer["queueOffset"] >= len(known) // QUEUES[TOPIC] - 1 for answer in after)
            broker.stop()


def assert_served(client, places):
    """Check that a broker serves the messages at places of the topic. It may still complete its queues."""
    deadline = time.monotonic() + 60
    got = set()
    while not got >= places and time.monotonic() < deadline:
        got = {(row["queueId"], row["queueOffset"]) for row in client.consume([TOPIC])}
    assert places - got == set()


def test_a_broker_starts_on_the_copy_of_a_topic_and_serves_its_old_messages(client, root, tmp_path):
    extend_topics(root, {TOPIC: QUEUES[TOPIC], "Audit": QUEUES["Audit"]})
    with Broker(client, root, [TOPIC, "Audit"], tmp_path) as broker:
        rows = [message(number) for number in range(60)]
        for row in rows[::2]:
            row.update(topic="Audit", queueId=0)
        answers = client.send(rows)
        rocketstore.copy(root, tmp_path / "copy", topic=TOPIC, config=SIZES)
        broker.stop()
    checked = rocketstore.verify(tmp_path / "copy")
    assert [finding for finding in checked.findings if finding.severity == "error"] == []
    (tmp_path / "copy" / "broker").mkdir()
    with Broker(client, tmp_path / "copy", [TOPIC], tmp_path / "copy" / "broker") as broker:
        got = {(row["queueId"], row["queueOffset"], row["body"]) for row in client.consume([TOPIC])}
        sent = {
            (row["queueId"], answer["queueOffset"], row["body"])
            for row, answer in zip(rows, answers, strict=True)
            if row["topic"] == TOPIC
        }
        assert got == sent
        assert all(answer["queueOffset"] >= 0 for answer in client.send([message(number) for number in range(3)]))
        broker.stop()


def check_copy(new, known, report, is_crashed):
    """Check that a copy has the known messages, and that verify finds no fault."""
    checked = rocketstore.verify(new)
    assert [finding for finding in checked.findings if finding.severity == "error"] == []
    assert checked.last_exit_ok != is_crashed
    assert is_crashed or report.messages >= len(known)
    with rocketstore.open(new) as store:
        found = {
            (one.queue_id, one.queue_offset, one.body) for batch in store.scan() for one in batch if one.topic == TOPIC
        }
        assert found >= set(known)
        if not is_crashed:
            ends = {queue: store.consume_queue(*queue).max_queue_offset for queue in store.queues()}
            assert sum(end for queue, end in ends.items() if queue.topic == TOPIC) == len(found)
