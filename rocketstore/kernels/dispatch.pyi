from typing import Any, Self

import numpy as np
from numpy import void
from numpy.typing import NDArray

from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.queue_id import QueueId

ITEM: np.dtype[void]
REQUEST: np.dtype[void]
MULTI_DISPATCH: int
INNER_DISPATCH: int
MORE_DISPATCH: int

class RequestScanner:
    queues: list[QueueId]
    last_phy_offset: int
    last_store_timestamp: int
    n_records: int
    has_inner: bool
    def __new__(
        cls, *, message_delay_level: str, indexes_tags: bool, anywhere: bool = ..., framing: int = 0
    ) -> Self: ...
    def scan(self, buffer: Buffer, from_offset: int, begin: int, end: int, most: int = ..., room: int = ...) -> int: ...
    def take(self) -> tuple[NDArray[void], NDArray[void]]: ...

def sort_requests(requests: NDArray[void], n_queues: int) -> tuple[NDArray[void], NDArray[np.int64]]: ...
def new_items(items: NDArray[void], end: int) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]: ...
def are_units_of(data: bytes, requests: NDArray[void]) -> bool: ...
def by_queue(requests: NDArray[void], n_queues: int) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]: ...
