"""StoreQueueNumbers: queue ids and first queue offsets of messages that are put into a store."""

from __future__ import annotations

import threading

from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.queue_ids import QueueIds


class StoreQueueNumbers:
    """Gives each put its queue id, and the first put of a queue its queue offset, from the topics and the queues.

    Source: TopicConfigManager, QueueOffsetOperator.
    """

    def __init__(self, queue_ids: QueueIds, dispatcher: Dispatcher, dispatch_lock: threading.Lock) -> None:
        """Parameters: dispatch_lock: is held while queues are written."""
        self.next_queue_id = queue_ids.next_queue_id
        self._queue_ids = queue_ids
        self._dispatcher = dispatcher
        self._dispatch_lock = dispatch_lock

    def find_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the next queue offset of a queue that this writer has not put into yet, and declare the queue."""
        self._queue_ids.declare(topic, queue_id)
        with self._dispatch_lock:
            return self._dispatcher.queue(topic, queue_id).max_queue_offset
