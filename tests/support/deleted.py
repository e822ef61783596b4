"""A store with a topic that was deleted, and perhaps made again."""

import json
import shutil
from dataclasses import replace

import rocketstore
from rocketstore import Message, StoreConfig

OLD, LIVE = 30, 12  # messages of each queue


def delete_topic(root, topic):
    """What a broker does when an administrator deletes a topic."""
    shutil.rmtree(root / "consumequeue" / topic)
    path = root / "config" / "topics.json"
    table = json.loads(path.read_text())
    del table["topicConfigTable"][topic]
    path.write_text(json.dumps(table))


def put(root, topic, body, count, queue_ids, config=None):
    with rocketstore.open(root, "a", config=config) as store:
        for n in range(count):
            for queue_id in queue_ids:
                store.put_message(Message(topic, body, keys=[f"{body[:7].decode()}-{n}"], queue_id=queue_id))


def store_with_deleted_topic(root, *, is_made_again, **sizes):
    """Orders had queues 0 and 1. Made again, it has messages in queue 0 alone. Other was never deleted."""
    put(root, "Other", b"other", 3, [0], replace(StoreConfig.small(), **sizes))
    put(root, "Orders", b"deleted", OLD, [0, 1])
    delete_topic(root, "Orders")
    if is_made_again:
        put(root, "Orders", b"live", LIVE, [0])
    return root


def bodies(root):
    """The bodies of the messages of each queue, each once in a row, with their number."""
    found = {}
    with rocketstore.open(root) as store:
        for queue in store.queues():
            name, number = queue.topic, queue.queue_id
            got = [message.body for message in store.get_message(name, number, 0, 100).messages]
            found[name, number] = [(body, got.count(body)) for body in dict.fromkeys(got)]
    return found
