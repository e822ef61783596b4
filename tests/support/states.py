"""Stores of brokers with compaction or tiered storage, and what the Java client sent and read.

golden/states/README.md says what each store is. ``unpack`` leaves out the timer wheels, which are nearly all holes.
"""

import functools
import json
import lzma
from pathlib import Path

from support.stores import extract

STATES = Path(__file__).parent.parent / "golden" / "states"


def unpack(name, directory):
    """Unpack a store into the directory and return its root."""
    extract(STATES / f"{name}.tar.xz", directory, lambda file: "/timerwheel" not in file)
    return Path(directory) / name


@functools.cache
def truth(name):
    with lzma.open(STATES / f"{name}.truth.json.xz", "rt", encoding="utf-8") as file:
        return json.load(file)


def row_of(row):
    """Return a row of the client without the cells that ``cells_of`` does not have."""
    names = (
        "topic", "queueId", "queueOffset", "phyOffset", "size", "msgId", "offsetMsgId", "keys", "tags", "flag",
        "reconsumeTimes", "pto", "bornTimestamp", "storeTimestamp", "properties", "body",
    )  # fmt: skip
    return {name: row[name] for name in names}


def cells_of(message):
    """Return a message of rocketstore as the client's rows have it."""
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "phyOffset": message.phy_offset,
        "size": message.size,
        "msgId": message.properties.get("UNIQ_KEY", message.msg_id),
        "offsetMsgId": message.msg_id,
        "keys": message.properties.get("KEYS"),
        "tags": message.tags or None,
        "flag": message.flag,
        "reconsumeTimes": message.reconsume_times,
        "pto": message.prepared_transaction_offset,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "properties": dict(message.properties),
        "body": message.body.decode(),
    }
