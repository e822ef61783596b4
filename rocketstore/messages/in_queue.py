"""Whether a message belongs to the queue whose unit leads to its record."""

from __future__ import annotations

import numpy as np

from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX, split_names


def is_in_queue(message: Message, topic: str, queue_id: int) -> bool:
    """Return whether a queue may have a unit of a message: it is the message's own, or INNER_MULTI_DISPATCH names it.

    A light queue is queue 0, or has the queue id of the message if the broker has no enableLmq.
    Source: ConsumeQueue.multiDispatchLmqQueue.
    """
    if message.queue_id != queue_id and not (queue_id == 0 and topic.startswith(LIGHT_QUEUE_PREFIX)):
        return False
    return message.topic == topic or topic in split_names(message.properties.get("INNER_MULTI_DISPATCH") or "")


def rows_in_queue(batch: MessageBatch, topic: str, queue_id: int) -> np.ndarray:
    """Return the rows of the messages that belong to a queue, int64[n]. The batch needs topic, queue_id, properties."""
    topics = np.fromiter((name == topic for name in batch.topic.to_pylist()), np.bool_, len(batch))
    own = topics & (batch.queue_id == queue_id)
    for row in np.flatnonzero(~own).tolist():
        own[row] = is_in_queue(batch[row], topic, queue_id)
    return np.flatnonzero(own)
