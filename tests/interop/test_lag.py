"""The lag of consumer groups, compared with a broker's answer to GET_CONSUME_STATS."""

import json

import pytest

import rocketstore
from interop.broker import CONFIG, RELEASE, Broker
from interop.write_checks import store_config
from rocketstore import Message, StoreConfig

pytestmark = pytest.mark.interop

SETTINGS = store_config({"config": CONFIG}, RELEASE)
QUEUES = {"Orders": 4, "Audit": 4, "Narrow": 4, "Gone": 2, "Empty": 3}
OFFSETS = {
    "Orders@partly": {0: 5, 2: 3},
    "Audit@partly": {},  # asked for, and never committed
    "Narrow@partly": {0: 1, 1: 1, 2: 1, 3: 1},
    "Gone@partly": {0: 1},
    "Empty@partly": {0: 0},
    "Orders@beyond": {0: 50, 1: 10, 3: -1},
    "Narrow@beyond": {3: 4},
    "Gone@deleted": {0: 1, 1: 2},
}
GROUPS = ["partly", "beyond", "deleted", "never"]


def make_store(root):
    """Put ten messages into each queue of each topic, but none into Empty and into the last queue of Audit."""
    with rocketstore.open(root, "a", config=SETTINGS) as store:
        for topic, queues in QUEUES.items():
            store.create_topic(topic, queues)
            for queue_id in range(queues - (topic == "Audit")) if topic != "Empty" else ():
                store.put_messages([Message(topic, b"x", queue_id=queue_id) for _ in range(10)])
    path = root / "config" / "topics.json"
    table = json.loads(path.read_text())
    table["topicConfigTable"]["Narrow"]["readQueueNums"] = 2
    del table["topicConfigTable"]["Gone"]
    path.write_text(json.dumps(table))


@pytest.mark.parametrize("has_light_queues", [False, True])
def test_lag_is_that_of_a_broker(client, tmp_path, has_light_queues):
    """Also the file that has the offsets: the other one has other offsets."""
    root, names = tmp_path / "store", ["consumerOffset.json", "lmqConsumerOffset.json"]
    make_store(root)
    wrong = {key: {0: 2} for key in OFFSETS}
    for name, table in zip(names, [wrong, OFFSETS] if has_light_queues else [OFFSETS, wrong], strict=True):
        light = {"lmqOffsetTable": {}} if name.startswith("lmq") else {}
        (root / "config" / name).write_text(json.dumps({"offsetTable": table, **light}))
    options = {"enableLmq": True, "enableMultiDispatch": True} if has_light_queues else {}
    with Broker(client, root, ["Orders"], tmp_path, **options) as broker:
        answers = dict(zip(GROUPS, client.stats(GROUPS), strict=True))
        broker.stop()
    expected = {
        (group, row["topic"], row["queueId"]): (row["consumerOffset"], row["brokerOffset"])
        for group in GROUPS
        for row in answers[group]
        if row["brokerOffset"] or row["consumerOffset"]
    }
    assert len(expected) == 15
    with rocketstore.open(root, config=StoreConfig.from_broker_conf(tmp_path / "broker.conf")) as store:
        rows = list(store.consumer_lag())
    rows = [row for row in rows if row.topic not in ("Gone", "Empty")]
    assert {row[:3]: (row.consumer_offset, row.max_offset) for row in rows} == expected
    for row in rows:
        offset, end = expected[row[:3]]
        assert row.lag == max(end - offset, 0)
        assert (row.problem is not None) == (offset > end)
