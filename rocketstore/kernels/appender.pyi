from collections.abc import Callable, KeysView, Sequence
from typing import Any

from numpy import int64
from numpy.typing import NDArray

from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.record_encoder import RecordEncoder

ILLEGAL: str

class Appender:
    from_offset: int
    position: int
    last_phy_offset: int
    last_store_timestamp: int
    def __init__(self) -> None: ...
    @property
    def phy_offset(self) -> int: ...
    def queues(self) -> KeysView[tuple[str, int]]: ...
    def queue_offset(self, topic: str, queue_id: int) -> int: ...
    def set_queue_offset(self, topic: str, queue_id: int, following: int) -> None: ...
    @property
    def is_full(self) -> bool: ...
    def set_file(
        self,
        buffer: Buffer,
        from_offset: int,
        position: int,
        fd: int = -1,
        extend: Callable[[int], int] | None = None,
    ) -> None: ...
    def append_message(
        self,
        records: RecordEncoder,
        message: Any,
        store_timestamp: int | None,
        host: str | None,
        message_num: int = 1,
        max_size: int = ...,
        is_completed: bool = False,
        light_queues: Sequence[tuple[str, int]] = (),
    ) -> tuple[int, int, int, int, int, str] | None: ...
    def append(
        self,
        records: RecordEncoder,
        first: int,
        store_timestamp: int | None,
        is_batch: bool,
        phy_offsets: NDArray[int64],
        queue_offsets: NDArray[int64],
    ) -> int: ...

def count_appended(
    records: RecordEncoder,
    first: int,
    store_timestamp: int | None,
    buffer: Buffer,
    from_offset: int,
    position: int,
    end: int,
) -> tuple[int, int]: ...
