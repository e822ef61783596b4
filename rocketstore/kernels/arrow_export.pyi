from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from numpy.typing import NDArray

from rocketstore.kernels.message_columns import Field
from rocketstore.kernels.value_columns import ValueColumn

_Result = TypeVar("_Result")
_Columns: TypeAlias = Sequence[NDArray[Any] | ValueColumn[Any]]
_Batches: TypeAlias = Iterable[tuple[_Columns, int]]

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class ExportedSchema:
    def __new__(cls, form: str, name: str, children: Sequence[Self] = (), nullable: bool = True) -> Self: ...

class ExportedArray:
    def __new__(
        cls,
        length: int,
        buffers: list[NDArray[Any]],
        children: Sequence[Self] = (),
        valid: NDArray[Any] | None = None,
    ) -> Self: ...

class Batches:
    def __new__(cls, fields: Iterable[Field], batches: _Batches) -> Self: ...

class ExportedStream:
    def __new__(cls, batches: Batches) -> Self: ...

class OneStream:
    capsule: object
    def __init__(self, capsule: object) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def export_batch(fields: Iterable[Field], columns: _Columns, length: int) -> tuple[object, object]: ...
def export_column(form: str, column: NDArray[Any] | ValueColumn[Any], length: int) -> tuple[object, object]: ...
def export_stream(fields: Iterable[Field], batches: _Batches) -> object: ...
def consume(stream_object: _ArrowStream, consumer: Callable[[OneStream], _Result]) -> _Result: ...
