from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

_Strings: TypeAlias = Sequence[str] | NDArray[Any] | _ArrowArray | _ArrowStream

class TextColumn:
    @property
    def length(self) -> int: ...
    def __new__(cls, column: _Strings, name: str) -> Self: ...

def hash_keys(
    keys: _Strings | TextColumn, *, topic: str | _Strings | TextColumn | None = None
) -> NDArray[np.int32]: ...
def java_hash_codes(keys: _Strings, *, topic: str | _Strings | None = None) -> NDArray[np.int32]: ...
