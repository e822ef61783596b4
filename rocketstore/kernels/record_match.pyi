from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rocketstore.kernels.buffer import Buffer

NO_RECORD: int
HIT: int
HALF_HIT: int
MISS: int
ANY_KEY: int
UNIQ_KEY: int
TAGS: int

class Utf8Texts:
    def __new__(cls, column: Any, name: str) -> Self: ...
    @property
    def length(self) -> int: ...
    def to_list(self) -> list[bytes]: ...

def match_records(
    windows: Sequence[tuple[Buffer, int]],
    window_of: NDArray[np.int32],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    topics: Utf8Texts,
    keys: Utf8Texts,
    kind: int,
    begin_timestamp: int,
    end_timestamp: int,
    matched: NDArray[np.uint8],
) -> None: ...
