from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["BodyLiterals", "RecordFilter", "find_literal"]

class RecordFilter:
    def __new__(
        cls,
        topics: Iterable[str] | None = None,
        queue_ids: Iterable[int] | None = None,
        tags: Iterable[str] | None = None,
        keys: Iterable[str] | None = None,
        begin_timestamp: int | None = None,
        end_timestamp: int | None = None,
    ) -> Self: ...
    @property
    def needs_properties(self) -> bool: ...

class BodyLiterals:
    def __new__(cls, literals: Iterable[bytes]) -> Self: ...

def find_literal(offsets: NDArray[np.int32], data: NDArray[np.uint8], literal: bytes) -> NDArray[np.bool_]: ...
