from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["RecordColumns", "take_values"]

class RecordColumns:
    def __new__(cls, names: Iterable[str]) -> Self: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> int: ...
    @property
    def needs_properties(self) -> bool: ...
    def take(self) -> dict[str, Any]: ...

def take_values(
    offsets: NDArray[np.int32], data: NDArray[np.uint8], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]: ...
