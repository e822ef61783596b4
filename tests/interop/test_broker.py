"""A store that rocketstore and a real broker write in turn, each going on where the other stopped or was killed."""

import base64
import json
import os
import random
import subprocess
import sys
import threading
from collections import defaultdict
from typing import NamedTuple

import pytest

import rocketstore
from interop.broker import CONFIG, INNER, QUEUES, RELEASE, Broker
from interop.write_checks import store_config
from rocketstore import Message, StoreLockedError

pytestmark = pytest.mark.interop

SETTINGS = store_config({"config": CONFIG}, RELEASE)
# Puts what `write` does, and says so line by line, until it is killed.
CHILD = """
import json, sys
from interop.test_broker import Writer, open_writer
with open_writer(sys.argv[1]) as store:
    writer = Writer(store, int(sys.argv[2]), "child")
    while True:
        for place, message in writer.put():
            print(json.dumps([place, message]), flush=True)
"""
SECOND_WRITER = "import sys; from interop.test_broker import open_writer; open_writer(sys.argv[1])"


class Given(NamedTuple):
    """The messages that were put, to compare them with those that are read."""

    body: str
    keys: str | None
    tags: str | None
    uniq_key: str


def open_writer(root):
    return rocketstore.open(root, "a", config=SETTINGS)


class Writer:
    """Puts messages in all ways there are."""

    def __init__(self, store, seed, name):
        self.store = store
        self.rng = random.Random(f"{seed} {name}")
        self.name = name
        self.count = 0

    def given(self):
        self.count += 1
        keys = f"{self.name}-{self.count}" + self.rng.choice(("", f" shared{self.rng.randrange(100)}"))
        body = f"{self.name} {self.count} {'x' * self.rng.choice((0, 10, 100, 1000, 3000))}"
        return Given(body, keys, self.rng.choice((None, "TagA", "标签")), f"{self.rng.randrange(16**32):032X}")

    def put(self):
        """Put messages. Return (topic, queue id, queue offset) and the message, for each."""
        topic = self.rng.choice((*QUEUES, *QUEUES))
        queue_id = self.rng.randrange(QUEUES[topic])
        given = [self.given() for _ in range(self.rng.randint(1, 10))]
        messages = [message_of(one, topic, queue_id) for one in given]
        if topic == INNER:
            batch = Message.batch(topic, messages, queue_id=queue_id, properties={"UNIQ_KEY": given[0].uniq_key})
            first = self.store.put_message(batch).queue_offset
            offsets = range(first, first + len(given))
        elif self.rng.random() < 0.3:
            offsets = self.store.put_batch(message_of(given[0], topic, queue_id), messages).queue_offsets.tolist()
        elif len(given) == 1:
            offsets = [self.store.put_message(messages[0]).queue_offset]
        else:
            offsets = self.store.put_messages(messages).queue_offsets.tolist()
        return [((topic, queue_id, offset), one) for offset, one in zip(offsets, given, strict=True)]


def write(store, seed, name, count):
    """Put at least so many messages; return them by place."""
    writer, written = Writer(store, seed, name), {}
    while len(written) < count:
        written.update(writer.put())
    return written


def message_of(given, topic, queue_id):
    return Message(
        topic,
        given.body.encode(),
        keys=given.keys.split(" "),
        tags=given.tags,
        queue_id=queue_id,
        properties={"UNIQ_KEY": given.uniq_key},
    )


# ---- the broker's side -----------------------------------------------------------------------------------


def rows_to_send(seed, count):
    """What the client is to send: in any order, to all queues but those of batches."""
    rng = random.Random(f"{seed} client")
    made = []
    for number in range(count):
        topic = rng.choice(("Orders", "Audit"))
        properties = {"KEYS": f"client-{number} shared{rng.randrange(100)}", "TAGS": rng.choice(("TagA", "TagB"))}
        body = base64.b64encode(b"client %d %b" % (number, rng.randbytes(rng.choice((10, 100, 1000))).hex().encode()))
        made.append(
            {"topic": topic, "queueId": rng.randrange(QUEUES[topic]), "body": body.decode(), "properties": properties}
        )
    return made


def sent(rows, answers):
    """Messages that the broker acknowledged, by place."""
    made = {}
    for row, answer in zip(rows, answers, strict=False):
        if "error" not in answer:
            assert answer["status"] == "SEND_OK"
            given = Given(
                base64.b64decode(row["body"]).decode(),
                row["properties"]["KEYS"],
                row["properties"]["TAGS"],
                answer["msgId"],
            )
            made[row["topic"], row["queueId"], answer["queueOffset"]] = given
    return made


def consumed(client):
    """All messages of the broker, by place."""
    rows = client.consume(QUEUES)
    found = {(row["topic"], row["queueId"], row["queueOffset"]): given_of(row) for row in rows}
    assert len(found) == len(rows)
    return found


def given_of(row):
    properties = row["properties"]
    return Given(
        base64.b64decode(row["body"]).decode(), properties.get("KEYS"), properties.get("TAGS"), properties["UNIQ_KEY"]
    )


def by_key(messages):
    """Places by (topic, key); messages inside an inner batch are not indexed."""
    found = defaultdict(set)
    for place, given in messages.items():
        for key in given.keys.split(" "):
            if place[0] != INNER:
                found[place[0], key].add(place)
    return found


def check_queries(client, rng, messages, *, prefix=""):
    """Ask the broker by keys, which may be those of many messages, and by unique keys."""
    keys = by_key(messages)
    chosen = rng.sample([key for key in sorted(keys) if key[1].startswith(prefix)], 150)
    answers = client.query([{"topic": topic, "key": key} for topic, key in chosen])
    for key, rows in zip(chosen, answers, strict=True):
        assert {(row["topic"], row["queueId"], row["queueOffset"]) for row in rows} == keys[key]
    singles = [place for place in rng.sample(sorted(messages), 150) if place[0] != INNER]
    answers = client.query([{"topic": place[0], "key": messages[place].uniq_key, "unique": True} for place in singles])
    assert [[given_of(row) for row in rows] for rows in answers] == [[messages[place]] for place in singles]


# ---- rocketstore's side ----------------------------------------------------------------------------------


def read(store):
    """All messages of all queues, by place."""
    found = {}
    for topic, queue_id in store.queues():
        if topic in QUEUES:
            found_here = store.get_message(topic, queue_id, 0, 1_000_000)
            messages = [one for message in found_here.messages for one in unwrapped(message)]
            assert len(messages) == store.consume_queue(topic, queue_id).max_queue_offset
            for message in messages:
                found[topic, queue_id, message.queue_offset] = as_given(message)
    return found


def unwrapped(message):
    return message.decode_batch() if message.topic == INNER else [message]


def as_given(message):
    return Given(message.body.decode(), message.properties.get("KEYS"), message.tags, message.uniq_key)


def check_reading(store, rng, messages, *, complete):
    """Every message is in its queue, and found by its keys and its unique key.

    complete: False where a broker recovered the store, which may leave older messages without index: what is found is
    right, and it says so if it may not be all.
    """
    assert read(store) == messages
    keys = by_key(messages)
    for topic, key in rng.sample(sorted(keys), 300):
        found = store.query_message(topic, key, limit=1000)
        places = {(topic, message.queue_id, message.queue_offset) for message in found.messages}
        assert places == keys[topic, key] if complete or found.complete else places <= keys[topic, key]
        assert found.complete or not complete, found.reasons
    for place in rng.sample(sorted(messages), 300):
        if place[0] != INNER:
            found = store.query_message_by_unique_key(place[0], messages[place].uniq_key)
            wanted = [messages[place]] if complete or found.complete or found.messages else []
            assert [as_given(message) for message in found.messages] == wanted


# ---- tests -----------------------------------------------------------------------------------------------


def test_a_broker_and_rocketstore_write_in_turn(client, root, tmp_path, seed):
    rng = random.Random(seed)
    with open_writer(root) as store:
        messages = write(store, seed, "first", 2000)
    with Broker(client, root, QUEUES, tmp_path) as broker:
        assert consumed(client) == messages
        check_queries(client, rng, messages)
        with pytest.raises(StoreLockedError):
            open_writer(root)
        rows = rows_to_send(seed, 1000)
        messages |= sent(rows, client.send(rows))
        assert consumed(client) == messages
        with rocketstore.open(root) as store:
            assert read(store) == messages
        broker.stop()
    with open_writer(root) as store:
        check_reading(store, rng, messages, complete=True)
        messages |= write(store, seed, "second", 1000)
        check_reading(store, rng, messages, complete=True)
    with Broker(client, root, QUEUES, tmp_path):
        assert consumed(client) == messages
        check_queries(client, rng, messages)


def test_each_continues_when_the_other_was_killed(client, root, tmp_path, seed):
    rng = random.Random(seed)
    acknowledged = write_and_be_killed(root, seed, 2000)
    with Broker(client, root, QUEUES, tmp_path) as broker:
        messages = consumed(client)
        check_kept(messages, acknowledged, "child ")
        rows = rows_to_send(seed, 20_000)
        answers = client.send(rows[:200]) + send_and_kill(client, broker, rows[200:])
        assert 200 < len(answers) < len(rows)
        acknowledged = messages | sent(rows, answers)
    with open_writer(root) as store:
        messages = read(store)
        check_kept(messages, acknowledged, "client ")
        check_reading(store, rng, messages, complete=False)
        last = write(store, seed, "last", 1000)
    with Broker(client, root, QUEUES, tmp_path):
        assert consumed(client) == messages | last
        check_queries(client, rng, last, prefix="last-")


def write_and_be_killed(root, seed, count):
    """Write in a process of its own, and kill it when it has said so many messages; return all that it said."""
    acknowledged = {}
    command = [sys.executable, "-c", CHILD, root, str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=with_path()) as child:
        for line in child.stdout:
            place, given = json.loads(line)
            acknowledged[tuple(place)] = Given(*given)
            if len(acknowledged) == count:
                child.kill()
    assert len(acknowledged) >= count
    return acknowledged


def with_path():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def send_and_kill(client, broker, rows):
    """Kill the broker when it is busy; return what the client was answered until then."""
    timer = threading.Timer(0.5, broker.kill)
    timer.start()
    try:
        return client.send(rows)
    finally:
        timer.join()


def check_kept(found, acknowledged, prefix):
    """All that was acknowledged is there; besides it only what the writer may not have had the time to say."""
    assert {place: found.get(place) for place in acknowledged} == acknowledged
    unsaid = [given for place, given in found.items() if place not in acknowledged]
    assert len(unsaid) <= 10
    assert all(given.body.startswith(prefix) for given in unsaid)


def test_a_second_writer_is_refused(root, seed):
    with open_writer(root) as store:
        messages = write(store, seed, "first", 100)
        with pytest.raises(StoreLockedError):
            open_writer(root)
        second = subprocess.run(
            [sys.executable, "-c", SECOND_WRITER, root], capture_output=True, text=True, env=with_path(), timeout=60
        )
        assert second.returncode == 1
        assert "StoreLockedError" in second.stderr
        messages |= write(store, seed, "second", 100)
        assert read(store) == messages
