"""Stores of brokers with compaction, tiered storage or waiting messages, and what the Java client sent and read.

golden/states/README.md says what each store is.
"""

import functools
import shutil

from support import brokers, stores

unpack = functools.partial(stores.unpack_broker, group="states")
truth = functools.partial(stores.truth, group="states")


def copy_tiered(golden, directory):
    """Copy the unpacked store ``tiered``, and its tier beside it, into a directory. Return the store's root."""
    shutil.copytree(golden.parent / "tiered-data", directory / "tiered-data")
    return shutil.copytree(golden, directory / "tiered")


def row_of(row):
    """Return a row of the client without the cells that ``cells_of`` does not have."""
    names = (
        "topic", "queueId", "queueOffset", "phyOffset", "size", "msgId", "offsetMsgId", "keys", "tags", "flag",
        "reconsumeTimes", "pto", "bornTimestamp", "storeTimestamp", "properties", "body",
    )  # fmt: skip
    return {name: row[name] for name in names}


def cells_of(message):
    """Return a message of rocketstore as the client's rows have it."""
    cells = {
        "offsetMsgId": message.msg_id,
        "keys": message.properties.get("KEYS"),
        "tags": message.tags or None,
        "body": message.body.decode(),
    }
    return row_of(brokers.cells_of(message) | cells)
