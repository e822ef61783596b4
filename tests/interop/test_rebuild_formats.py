"""A broker serves the queues of files that rebuild makes of a store of RocksDB or DLedger in a new directory."""

import base64
import shutil

import pytest
from support import brokers

import rocketstore
from interop.broker import Broker, free_ports

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore:.*messageDelayLevel is assumed")]

SIZES = {"mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 1000, "maxIndexNum": 4000}
TOPIC, GROUP = "Plain", "G1"


def served(client):
    """The messages that a consumer gets, by queue id and queue offset."""
    found = {}
    for row in client.consume([TOPIC]):
        place = row["queueId"], row["queueOffset"]
        found[place] = base64.b64decode(row["body"]), row["properties"].get("KEYS"), row["properties"]["UNIQ_KEY"]
    return found


def expected_of(name):
    return {
        place: (row["body"], row["properties"].get("KEYS"), row["msgId"])
        for place, row in brokers.rows(name, TOPIC).items()
    }


def check_broker(client, name):
    expected = expected_of(name)
    assert served(client) == expected
    # By unique key: a query by key finds only messages of the last day.
    some = sorted(expected)[::40]
    answers = client.query([{"topic": TOPIC, "key": expected[place][2], "unique": True} for place in some])
    assert [[(row["queueId"], row["queueOffset"]) for row in answer] for answer in answers] == [[at] for at in some]
    sent = client.send([{"topic": TOPIC, "queueId": 0, "body": base64.b64encode(b"more").decode(), "properties": {}}])
    assert sent[0]["queueOffset"] == sum(queue_id == 0 for queue_id, _ in expected)


@pytest.mark.parametrize("name", ["rocksdb-cq", "config-v2"])
def test_a_broker_with_queues_of_files_starts_where_one_with_rocksdb_stopped(client, tmp_path, name):
    root = brokers.unpack(name, tmp_path)
    out = tmp_path / "out"
    rocketstore.rebuild(root, out=out)
    sizes = SIZES | {"mappedFileSizeConsumeQueue": 6_000_000 if name == "rocksdb-cq" else 2000}
    with Broker(client, out, [TOPIC], tmp_path, storePathCommitLog=root / "commitlog", **sizes) as broker:
        check_broker(client, name)
        progress = brokers.progress(name, GROUP)
        lags = {(row["topic"], row["queueId"]): row for row in client.stats([GROUP])[0]}
        assert {queue: lags[queue]["consumerOffset"] for queue in progress} == {
            queue: lag.consumer_offset for queue, lag in progress.items()
        }
        broker.stop()


def test_a_broker_of_dledger_starts_on_the_new_queues(client, tmp_path):
    root = brokers.unpack("dledger", tmp_path)
    out = tmp_path / "out"
    rocketstore.rebuild(root, out=out)
    shutil.move(root / "dledger-n0", out)
    settings = {
        "enableDLegerCommitLog": True,
        "dLegerGroup": "interop",
        "dLegerPeers": f"n0-127.0.0.1:{free_ports()}",
        "dLegerSelfId": "n0",
        "mappedFileSizeConsumeQueue": 2000,
        **SIZES,
    }
    with Broker(client, out, [TOPIC], tmp_path, **settings) as broker:
        check_broker(client, "dledger")
        broker.stop()
