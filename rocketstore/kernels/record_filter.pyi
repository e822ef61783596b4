from collections.abc import Iterable
from typing import Self

__all__ = ["RecordFilter"]

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
