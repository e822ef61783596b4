"""What a put gives: where the messages are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple, Self, overload

import numpy as np
from numpy.typing import NDArray

from rocketstore.messages.message_id import make_msg_id
from rocketstore.preview import Preview, Previewed, ends_of
from rocketstore.text_values import datetime_or_none, format_count


class PutMessageResult(NamedTuple):
    """Where a message was put: physical offset and size of its record, bytes; store time, epoch ms.

    Source: PutMessageResult, AppendMessageResult. A message that is refused is a PutMessageError instead.

    Examples:
    >>> with rocketstore.open("one", "a", config=StoreConfig.small()) as store:
    ...     put = store.put_message(Message("Orders", b"first"))
    >>> put.phy_offset, put.queue_offset, len(put.msg_id)
    (0, 0, 32)
    """

    phy_offset: int
    size: int
    queue_id: int
    queue_offset: int
    store_timestamp: int
    store_host: str

    @property
    def msg_id(self) -> str:
        """Source: MessageDecoder.createMessageId."""
        return make_msg_id(self.store_host, self.phy_offset)

    @property
    def store_time(self) -> datetime | None:
        """``store_timestamp`` as a datetime in UTC; None for a time beyond the years 1 to 9999."""
        return datetime_or_none(self.store_timestamp)


@dataclass(frozen=True, eq=False, repr=False)
class PutMessagesResult(Previewed):
    """Where messages were put: columns as in PutMessageResult. ``result[i]`` is one, ``result[i:j]`` a part.

    Examples:
    >>> with rocketstore.open("two", "a", config=StoreConfig.small()) as store:
    ...     put = store.put_messages([Message("Orders", b"first", queue_id=0)] * 2)
    >>> put.queue_offsets, put[0].phy_offset
    (array([0, 1]), 0)
    """

    phy_offsets: NDArray[np.int64]
    sizes: NDArray[np.int32]
    queue_ids: NDArray[np.int32]
    queue_offsets: NDArray[np.int64]
    store_timestamps: NDArray[np.int64]
    store_hosts: list[str]

    @classmethod
    def of(cls, results: Sequence[PutMessageResult]) -> Self:
        """Make one of single results."""
        columns: list[Any] = list(zip(*results, strict=True)) or [()] * 6
        types = np.int64, np.int32, np.int32, np.int64, np.int64
        arrays: list[Any] = [np.array(column, kind) for column, kind in zip(columns, types, strict=False)]
        return cls(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], list(columns[5]))

    @classmethod
    def join(cls, parts: Sequence[PutMessagesResult]) -> Self:
        """Make one of several."""
        if not parts:
            return cls.of([])
        columns: dict[str, Any] = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)[:-1]
        }
        return cls(**columns, store_hosts=[host for part in parts for host in part.store_hosts])

    def __len__(self) -> int:
        return len(self.phy_offsets)

    def _preview(self) -> Preview:
        title = f"PutMessagesResult: {format_count(len(self), 'message')}"
        if len(self):
            end = int(self.phy_offsets[-1] + self.sizes[-1])
            title += f", {int(self.phy_offsets[0]):,} to {end:,}"
        rows = [None if row is None else self[row] for row in ends_of(range(len(self)))]
        return Preview(title, PutMessageResult._fields, rows)

    @overload
    def __getitem__(self, i: int) -> PutMessageResult: ...
    @overload
    def __getitem__(self, i: slice) -> PutMessagesResult: ...
    def __getitem__(self, i: int | slice) -> PutMessageResult | PutMessagesResult:
        if isinstance(i, slice):
            return PutMessagesResult(**{field.name: getattr(self, field.name)[i] for field in fields(self)})
        columns = self.phy_offsets, self.sizes, self.queue_ids, self.queue_offsets, self.store_timestamps
        phy_offset, size, queue_id, queue_offset, timestamp = (int(column[i]) for column in columns)
        return PutMessageResult(phy_offset, size, queue_id, queue_offset, timestamp, self.store_hosts[i])
