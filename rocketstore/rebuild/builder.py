"""Builder: writes queues and index in two threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from rocketstore.disk.work_threads import WorkThreads
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.kernels.queue_id import QueueId


class Builder:
    """Writes units in one thread and index items in another one, in order.

    Requests wait until there are many, so that each queue is written to seldom.
    """

    def __init__(self, dispatcher: Dispatcher, queues: Sequence[QueueId], most: int) -> None:
        """Parameters: queues: by the numbers in requests. most: bytes of requests that may wait."""
        self._dispatcher, self._queues, self._most = dispatcher, queues, most
        self._waiting: list[np.ndarray] = []
        self._size = 0
        self._threads = WorkThreads(2, "rocketstore-rebuild")
        self._index = self._units = self._threads.submit(lambda: None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._threads.end(cancels=False)

    def build_consume_queues(self, requests: np.ndarray) -> None:
        self._waiting.append(requests)
        self._size += requests.nbytes
        if self._size > self._most:
            self._put()

    def _put(self) -> None:
        self._units.result()
        if self._waiting:
            requests, self._waiting, self._size = np.concatenate(self._waiting), [], 0
            self._units = self._threads.submit(self._dispatcher.build_consume_queues, requests, list(self._queues))

    def build_index(self, items: np.ndarray, last_phy_offset: int) -> None:
        self._index.result()
        self._index = self._threads.submit(self._dispatcher.build_index, items, last_phy_offset)

    def flush(self) -> None:
        """Wait for both threads, and flush the files. Raises: the errors of the threads."""
        self._put()
        self._units.result()
        self._index.result()
        self._dispatcher.flush()
