"""A store of messages whose tags, keys and unique keys are missing, empty, or have spaces and separators."""

import rocketstore
from rocketstore import Message, StoreConfig

TEXTS = ["", "a", "b", " a", "a ", "a b", "a||b", "*", "||", "|", "\u00a0a", "a\u3000"]


def make_store(path):
    with rocketstore.open(path, "a", config=StoreConfig.small()) as store:
        for text in [None, *TEXTS]:
            for name in ("TAGS", "KEYS", "UNIQ_KEY"):
                properties = {} if text is None else {name: text}
                store.put_message(Message("A", b"x", properties=properties, queue_id=0))
    return path
