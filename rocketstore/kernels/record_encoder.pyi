from collections.abc import Callable, Sequence
from typing import Any

from numpy import dtype, int32, int64
from numpy.typing import NDArray

from rocketstore.errors import PutMessageError

ILLEGAL: str
TOO_MANY_PROPERTIES: str
MAX_HOSTS: int
ENCODED: dtype[Any]

class RecordEncoder:
    append_prop_crc: bool
    queues: list[tuple[str, int]]
    is_special: bool
    last_store_host: str
    def __init__(
        self,
        store_host: str,
        find_queue_id: Callable[[str], int],
        *,
        append_prop_crc: bool = False,
        trailing_separator: bool = True,
        has_v2: bool = True,
        has_ipv6: bool = True,
        has_compression_types: bool = True,
        has_inner_batches: bool = True,
        batch_properties: str = "none",
        max_message_size: int = ...,
        mapped_file_size: int = ...,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def largest(self) -> int: ...
    def columns(self) -> tuple[NDArray[int32], NDArray[int32], NDArray[int64]]: ...
    def clear(self) -> None: ...
    def dump(self) -> tuple[bytes, NDArray[Any]]: ...
    def load(self, data: Any, encoded: NDArray[Any], queues: list[tuple[str, int]]) -> None: ...
    def add(self, message: Any, *, message_num: int = 1, batch: Any = None, keeps_store: bool = False) -> None: ...
    def add_all(
        self, messages: Sequence[Any], first: int, stop: int, *, batch: Any = None, keeps_store: bool = False
    ) -> int: ...

def refused(status: str, topic: object, reason: str) -> PutMessageError: ...
def say_too_large(size: int, file_size: int) -> str: ...
