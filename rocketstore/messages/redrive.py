"""Messages that are sent again: what a broker added to them is removed, and their origin is kept."""

from __future__ import annotations

from typing import NamedTuple

from rocketstore.messages.message import Message
from rocketstore.messages.system_flags import TRANSACTION_TYPE

ORIGIN = "ROCKETSTORE_ORIGIN"  # the property with the place from which a message was sent again
# Source: MessageConst. Without these properties consumers treat a message as one that was never retried.
ADDED_BY_BROKERS = frozenset({
    "1ST_POP_TIME", "CHECK_IMMUNITY_TIME_IN_SECONDS", "CLUSTER", "CONSUME_START_TIME", "DELAY", "MAX_RECONSUME_TIMES",
    "MSG_REGION", "ORIGIN_GROUP", "ORIGIN_MESSAGE_ID", "PGROUP", "POP_CK", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME",
    "RETRY_TOPIC", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY", "TIMER_DEQUEUE_MS",
    "TIMER_ENQUEUE_MS", "TIMER_OUT_MS", "TIMER_ROLL_TIMES", "TRACE_ON", "TRANSACTION_CHECK_TIMES", "TRAN_MSG",
    "TRAN_PREPARED_QUEUE_OFFSET", "__CRC32#", "__transactionId__",
})  # fmt: skip
KEPT = {"RETRY_TOPIC": "DLQ_ORIGIN_TOPIC", "ORIGIN_MESSAGE_ID": "DLQ_ORIGIN_MESSAGE_ID"}  # under RocketMQ's other names


class Origin(NamedTuple):
    """The place of a message in the store of a broker."""

    broker: str  # "address:port"
    topic: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return f"{self.broker} {self.topic} {self.queue_id} {self.queue_offset}"


def origin_of(message: Message) -> Origin:
    """Return the place from which a message was read. Raises: ValueError if it lacks a part of it."""
    columns = {"storeHost": "store_host", "queueId": "queue_id", "queueOffset": "queue_offset"}
    for column, name in columns.items():
        if getattr(message, name, None) is None:
            raise ValueError(f"column {column}: is missing: without it, the message could be imported twice")
    return Origin(message.store_host, message.topic, message.queue_id, message.queue_offset)


def make_again(message: Message, topic: str) -> Message:
    """Return a new message of a topic from one that was read. Its unique key, keys and tags stay.

    Its origin is a property. The topic and the id that a consumer noted become DLQ_ORIGIN_TOPIC and
    DLQ_ORIGIN_MESSAGE_ID. Parameters: message: of ``to_put``. Raises: ValueError if it lacks a part of its origin.
    """
    given = message.properties
    kept = {new: given[old] for old, new in KEPT.items() if old in given}
    own = {name: value for name, value in given.items() if name not in ADDED_BY_BROKERS}
    properties = {**own, **kept, ORIGIN: str(origin_of(message))}
    sys_flag = message.sys_flag & ~TRANSACTION_TYPE
    made = Message(topic, b"", properties=properties, flag=message.flag, sys_flag=sys_flag, born_host=message.born_host)
    made.raw_body, made.born_timestamp = message.raw_body, message.born_timestamp
    return made
