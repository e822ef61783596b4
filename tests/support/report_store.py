"""A store with everything that a report shows, and with markup in every name that a client or an operator chooses."""

import json
import os

import rocketstore
from rocketstore import Message, StoreConfig

BEGIN = 1_700_000_000_000
SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(1)>"
END = "</script><script>alert(2)</script><!--"
PLACEHOLDER = SCRIPT.replace("/", "_")  # of the same length; no store makes a queue for a name with a slash
CONFIG = StoreConfig(
    mapped_file_size_commit_log=16384,
    mapped_file_size_consume_queue=2000,
    max_hash_slot_num=101,
    max_index_num=120,
    flush_disk_type="ASYNC_FLUSH",
)
PLAIN_TOPICS = [f"Topic{n}" for n in range(9)]
MESSAGES = 400


def build(root):
    """Make the store. Return the paths of its log files, oldest first."""
    with rocketstore.open(root, "a", config=CONFIG) as store:
        for topic in (*PLAIN_TOPICS, IMAGE, PLACEHOLDER):
            store.create_topic(topic, 2)
        time = BEGIN
        for n in range(MESSAGES):
            time += 90_000 if n == 200 else 700
            topic = (*PLAIN_TOPICS, IMAGE, PLACEHOLDER)[n % 11]
            tags = (END, None, "plain", SCRIPT)[n % 4]
            message = Message(topic, b"b" * (n % 50 * 3), keys=[f"key{n}"], tags=tags, queue_id=n % 2)
            store.put_message(message, store_timestamp=time)
    offsets = {f"{IMAGE}@{SCRIPT}": {"0": 3, "1": 4}, "Topic0@plain": {"0": 0, "1": 999}}
    config = root / "config"
    config.mkdir(exist_ok=True)
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}), encoding="utf-8")
    files = sorted((root / "commitlog").iterdir())
    for file in files:
        file.write_bytes(file.read_bytes().replace(PLACEHOLDER.encode(), SCRIPT.encode()))
    os.utime(files[0], (BEGIN / 1000, BEGIN / 1000))  # long enough ago to expire
    return files
