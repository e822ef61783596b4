"""The name of a queue."""

from __future__ import annotations

from typing import NamedTuple


class QueueId(NamedTuple):
    """A queue of a topic. A plain ``(topic, queue_id)`` tuple is equal to it."""

    topic: str
    queue_id: int
