"""Stores of several brokers over which the messages of topics are spread, with drawn messages."""

import json
import random

from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig

CONFIG = StoreConfig(**SMALL)
START = 1_790_000_000_000
TOPICS = {"a": "TUV", "b": "TU", "c": "TV"}  # of each broker
KEYS = ["k1", "k2", "k3", "标签"]


def draw_store(root, name, draw, count=60):
    """Write a store. Its messages have the keys, tags and some of the store times of other stores."""
    time = START
    with rocketstore.open(root, "a", config=CONFIG) as store:
        for i in range(count):
            time += draw.choice([0, 1, 5, 40_000])
            keys = draw.sample(KEYS, draw.randrange(3))
            message = Message(
                draw.choice(TOPICS[name]), f"{name}-{i}".encode(), keys=keys, uniq_key=f"{name}-{i}",
                tags=draw.choice([None, "x", "y"]), queue_id=draw.randrange(2), born_timestamp=time,
            )  # fmt: skip
            store.put_message(message, store_timestamp=time)
    offsets = {"T@billing": {0: draw.randrange(3)}, f"{TOPICS[name][1]}@{name}-only": {0: 1}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    return root


def draw_stores(parent, seed=7):
    """Write the stores ``parent/NAME/store`` of three brokers. Return their roots by name."""
    draw = random.Random(seed)
    return {name: draw_store(parent / name / "store", name, draw) for name in TOPICS}


def messages_of(roots):
    """Return the messages of all stores as pairs of broker and message, store after store."""
    found = []
    for broker, root in roots.items():
        with rocketstore.open(root) as store:
            found += [(broker, message) for batch in store.scan() for message in batch]
    return found
