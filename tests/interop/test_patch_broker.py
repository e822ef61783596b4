"""Brokers start on a patched store, serve every other message under its old id, and the marked ones."""

import base64
import random
import time
from typing import NamedTuple

import pytest
from support.broker_tables import extend_topics
from support.damaged_log import overwrite

import rocketstore
from interop import harness
from interop.broker import CONFIG, QUEUES, RELEASE, Broker
from interop.write_checks import store_config
from rocketstore import Message
from rocketstore.messages.topics import SCHEDULE_TOPIC

pytestmark = pytest.mark.interop

TOPICS = {name: QUEUES[name] for name in ("Orders", "Audit")}
LOG_SIZE = CONFIG["mappedFileSizeCommitLog"]
LEVEL = 1  # of a delay of one second
# A 4.x broker reads what a 5.x broker does not know any more; timers and revival came later.
# 4.9.8: the store of that release in the broker of 4.9.7, see BESIDE of harness.py.
BROKERS = [(RELEASE, "broker"), ("4.9.8", "broker-4")]


class OtherBroker(NamedTuple):
    """A client of one release, with the class path of a broker of another one."""

    client: object
    release: str
    profile: str

    @property
    def namesrv_port(self):
        return self.client.namesrv_port

    @property
    def broker_port(self):
        return self.client.broker_port

    def call(self, *command):
        return self.client.call(*command)


@pytest.fixture(params=BROKERS, ids="-".join)
def other(request, client):
    reason = harness.build(*request.param)
    if reason:
        pytest.skip(reason)
    return OtherBroker(client, *request.param)


def put_all(root, release, rng):
    """Put messages of ordinary topics, and some that wait for their delivery; return them with their places."""
    puts = []
    now = int(time.time() * 1000) - 60_000
    with rocketstore.open(root, "a", config=store_config({"config": CONFIG}, release)) as store:
        for number in range(300):
            topic = rng.choice(sorted(TOPICS))
            made = Message(
                topic,
                f"{number} ".encode() + b"x" * rng.choice((10, 300, 2000)),
                queue_id=rng.randrange(TOPICS[topic]),
                tags=rng.choice(("TagA", "TagB")),
                keys=[f"key-{number}"],
                uniq_key=f"{number:032X}",
            )
            puts.append((made, store.put_message(made, store_timestamp=now + number)))
            if number % 30 == 0:
                properties = {"REAL_TOPIC": "Audit", "REAL_QID": "0", "DELAY": str(LEVEL), "UNIQ_KEY": f"D{number}"}
                waiting = Message(SCHEDULE_TOPIC, b"delayed" * 20, queue_id=LEVEL - 1, properties=properties)
                puts.append((waiting, store.put_message(waiting, store_timestamp=now + number)))
    return puts


def test_a_broker_serves_a_patched_store(other, tmp_path, seed):
    rng, root = random.Random(seed), tmp_path / "store"
    extend_topics(root, TOPICS)
    compat = "5.5.1" if other.release == RELEASE else "4.9.8"
    puts = put_all(root, compat, rng)
    ordinary = [put for put in puts[:-3] if put[0].topic in TOPICS]
    waiting = [put for put in puts if put[0].topic == SCHEDULE_TOPIC]
    hit = [*rng.sample(ordinary, 12), waiting[2]]
    for _, place in hit:
        overwrite(root, place.phy_offset, rng.choice((bytes(40), rng.randbytes(100))), LOG_SIZE)
    report = rocketstore.patch(root, config=store_config({"config": CONFIG}, compat))
    assert report.refused == ()
    lost = {message.phy_offset for message in report.lost}
    assert lost == {place.phy_offset for _, place in hit}
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "logback_broker.xml").write_text("<configuration/>")  # a 4.x broker needs it
    with Broker(other, root, TOPICS, tmp_path):
        rows = wait_for_delayed(other.client, len(ordinary) + 3 + len(waiting) - 1)
    found = {(row["topic"], row["queueId"], row["queueOffset"]): row for row in rows}
    for message, place in puts:
        if message.topic == SCHEDULE_TOPIC:
            continue
        row = found.pop((message.topic, place.queue_id, place.queue_offset))
        body = base64.b64decode(row["body"])
        if place.phy_offset in lost:
            assert row["properties"]["DAMAGED"] == "1"
            assert row["properties"]["TAGS"] == message.tags
            assert body.strip() == b""
        else:
            assert (body, row["properties"]["KEYS"]) == (message.body, message.properties["KEYS"])
    expected = [one.properties["UNIQ_KEY"] for one, place in waiting if place.phy_offset not in lost]
    assert sorted(row["properties"]["UNIQ_KEY"] for row in found.values()) == sorted(expected)


def wait_for_delayed(client, count):
    """Return all messages of the topics, when at least so many are there."""
    deadline = time.monotonic() + 60
    while len(rows := client.consume(TOPICS)) < count and time.monotonic() < deadline:
        time.sleep(1)
    return rows
