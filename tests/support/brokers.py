"""Stores that real brokers left, and what the Java client and mqadmin saw of each just before its stop.

golden/brokers/README.md says what each store is.
"""

import base64
import functools
from typing import NamedTuple

from support import stores

BROKERS = stores.GOLDEN / "brokers"
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in BROKERS.glob("*.tar.xz"))
COMPRESSED = 1  # of sysFlag, which the client clears as it decompresses a body
OF_CLIENT = ("MIN_OFFSET", "MAX_OFFSET")  # properties that the client adds
PROGRESS = 5  # cells of a line of mqadmin consumerProgress before Inflight: topic, broker, queue, two offsets


class Lag(NamedTuple):
    broker_offset: int
    consumer_offset: int


unpack = functools.partial(stores.unpack_broker, group="brokers")
truth = functools.partial(stores.truth, group="brokers")


def rows(name, topic):
    """What the client pulled from a topic, by queue and queue offset."""
    found = {}
    for row in truth(name)["topics"][topic]["rows"]:
        properties = {key: value for key, value in row["properties"].items() if key not in OF_CLIENT}
        cells = {**row, "properties": properties, "body": base64.b64decode(row["body"])}
        cells["sysFlag"] &= ~COMPRESSED
        found[row["queueId"], row["queueOffset"]] = cells
    return found


def cells_of(message):
    """A message of rocketstore, as the client's rows have it."""
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "phyOffset": message.phy_offset,
        "msgId": message.properties.get("UNIQ_KEY", message.msg_id),
        "sysFlag": message.sys_flag & ~COMPRESSED,
        "flag": message.flag,
        "bodyCRC": message.body_crc,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "bornHost": f"/{message.born_host}",
        "storeHost": f"/{message.store_host}",
        "reconsumeTimes": message.reconsume_times,
        "pto": message.prepared_transaction_offset,
        "size": message.size,
        "properties": dict(message.properties),
        "body": message.body,
    }


def progress(name, group):
    """The offsets of a group by (topic, queue id), as mqadmin consumerProgress told them."""
    found = {}
    for line in truth(name).get("progress", {}).get(group, "").splitlines():
        cells = line.split()
        if not line.startswith("#") and len(cells) >= PROGRESS and cells[2].isdecimal():
            found[cells[0], int(cells[2])] = Lag(int(cells[3]), int(cells[4]))
    return found
