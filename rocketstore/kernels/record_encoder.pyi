from collections.abc import Callable
from typing import Any

from numpy import int32, int64
from numpy.typing import NDArray

__all__ = ["RecordEncoder", "java_bytes", "parse_host"]

class RecordEncoder:
    append_prop_crc: bool
    queues: list[tuple[str, int]]
    def __init__(
        self,
        store_host: str,
        find_queue_id: Callable[[str], int],
        *,
        append_prop_crc: bool = False,
        trailing_separator: bool = True,
        has_v2: bool = True,
        has_ipv6: bool = True,
        batch_properties: str = "none",
        max_message_size: int = ...,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def largest(self) -> int: ...
    def columns(self) -> tuple[NDArray[int32], NDArray[int32], NDArray[int64]]: ...
    def clear(self) -> None: ...
    def add(self, message: Any, *, message_num: int = 1, batch: Any = None, keeps_store: bool = False) -> None: ...

def java_bytes(text: str) -> bytes: ...
def parse_host(host: str) -> bytes: ...
