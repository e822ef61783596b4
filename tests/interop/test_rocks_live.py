"""Messages of a live broker with queues in RocksDB are read, whose units are only in its memory."""

import base64

import pytest
from support.broker_tables import extend_topics

import rocketstore
from interop.broker import QUEUES, Broker

pytestmark = pytest.mark.interop

TOPIC, MESSAGES = "Orders", 300
ROCKSDB = {"storeType": "defaultRocksDB", "rocksdbCQDoubleWriteEnable": False}


def message(number):
    return {
        "topic": TOPIC,
        "queueId": number % QUEUES[TOPIC],
        "body": base64.b64encode(b"%d" % number).decode(),
        "properties": {"KEYS": f"key-{number}"},
    }


def read_all(root):
    with rocketstore.open(root) as store:
        found = {}
        for queue in store.queues():
            if queue.topic == TOPIC:
                for one in store.get_message(*queue, 0, MESSAGES).messages:
                    found[queue.queue_id, one.queue_offset] = one.body
        return found, store.describe_built_units()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_messages_of_a_broker_with_rocksdb_are_read_beside_it_and_after_its_end(client, root, tmp_path, end):
    extend_topics(root, {TOPIC: QUEUES[TOPIC]})
    with Broker(client, root, [TOPIC], tmp_path, **ROCKSDB) as broker:
        answers = client.send([message(number) for number in range(MESSAGES)])
        expected = {
            (number % QUEUES[TOPIC], answer["queueOffset"]): b"%d" % number for number, answer in enumerate(answers)
        }
        found, built = read_all(root)
        assert found == expected
        assert built
        getattr(broker, end)()
    found, built = read_all(root)
    assert found == expected
    assert bool(built) == (end == "kill")
    report = rocketstore.verify(root)
    assert report.ok, report.findings
    assert ("rocksdb-behind" in {finding.kind for finding in report.findings}) == (end == "kill")
