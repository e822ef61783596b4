"""FoundMessages: the answer of a query or a read, as a sequence of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

from rocketstore.kernels.column_names import Names
from rocketstore.lazy import lazy_property
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.preview import preview_messages
from rocketstore.preview import Preview, Previewed

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class FoundMessages(Previewed):
    """The messages that a query or a read found. Without a message it is false, and ``why`` has the reason.

    ``found[i]`` is a Message, ``found[i:j]`` a MessageBatch.
    """

    def __init__(
        self,
        messages: MessageBatch | Callable[[], MessageBatch],
        rows: Sequence[Message] | None = None,
        explain: Callable[[], str] | None = None,
    ) -> None:
        """Parameters: messages: the batch, or a function that reads it. rows: the messages if they are read already.
        explain: returns why there is no message.
        """
        self._source = messages
        self._rows = rows
        self._explain = explain

    @lazy_property
    def messages(self) -> MessageBatch:
        """The messages as columns."""
        return self._source if isinstance(self._source, MessageBatch) else self._source()

    @lazy_property
    def why(self) -> str | None:
        """Why no message was found; None if there are messages. It is found at the first access."""
        return None if len(self) or self._explain is None else self._explain()

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_source": self.messages, "_rows": None, "why": self.why, "_explain": None}

    def __len__(self) -> int:
        return len(self.messages if self._rows is None else self._rows)

    @overload
    def __getitem__(self, i: int) -> Message: ...
    @overload
    def __getitem__(self, i: slice) -> MessageBatch: ...
    def __getitem__(self, i: int | slice) -> Message | MessageBatch:
        if self._rows is not None and not isinstance(i, slice):
            return self._rows[i]
        return self.messages[i]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages if self._rows is None else self._rows)

    def to_arrow(self, *, names: Names = "rocketmq") -> pyarrow.RecordBatch:
        """Return a pyarrow.RecordBatch, without a copy. Parameters, raises: as ``MessageBatch.to_arrow``."""
        return self.messages.to_arrow(names=names)

    def to_pandas(self, *, names: Names = "rocketmq") -> pandas.DataFrame:
        """Return a pandas.DataFrame. Parameters, raises: as ``MessageBatch.to_arrow``."""
        return self.messages.to_pandas(names=names)

    def to_polars(self, *, names: Names = "rocketmq") -> polars.DataFrame:
        """Return a polars.DataFrame. Parameters, raises: as ``MessageBatch.to_arrow``."""
        return self.messages.to_polars(names=names)

    def _title(self) -> str:
        """Return the line about the answer in a repr."""
        raise NotImplementedError

    def _preview(self) -> Preview:
        return preview_messages(self._title(), self.messages, self.messages.names)
