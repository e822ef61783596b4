"""MessageTables: the methods by which a store and a topic give their messages as batches and tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from rocketstore.kernels.column_names import Names
from rocketstore.log.scan import Scan
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.progress import Progress
from rocketstore.text_values import Time, Zone

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class ScanOptions(TypedDict, total=False):
    """The options of ``CommitLog.scan``, without the topic."""

    columns: str | Iterable[str] | None
    queue_ids: int | Iterable[int] | None
    tag: str | Iterable[str] | None
    key: str | Iterable[str] | None
    since: Time | None
    until: Time | None
    tz: Zone
    verify_crc: bool | None
    on_corrupt: Literal["raise", "skip"]
    batch_size: int
    threads: int
    limit: int | None
    plan: Literal["auto", "scan"]
    sample: float | str | None
    charset: str
    containers: bool | None
    progress: Progress


class TableOptions(ScanOptions, total=False):
    """The options of ``CommitLog.scan``. A topic has no option ``topic``."""

    topic: str | Iterable[str] | None


class MessageTables(ABC):
    """The first and the last messages, and all messages as tables. Options are those of ``MessageStore.scan``.

    An empty table has no ``why``. A scan with the same options has it.
    """

    __slots__ = ()

    @abstractmethod
    def _scan_for_caller(self, options: dict[str, Any]) -> Scan:
        """Return a scan for a method that a user called: a warning names the line of that call."""

    def head(self, n: int = 5, **options: Unpack[TableOptions]) -> MessageBatch:
        """Return the first ``n`` messages, in the order of the log. Reading stops behind them."""
        return self._scan_for_caller({**options}).head(n)

    def tail(self, n: int = 5, **options: Unpack[TableOptions]) -> MessageBatch:
        """Return the last ``n`` messages, in the order of the log. It reads little more than these."""
        return self._scan_for_caller({**options}).tail(n)

    def sample(self, share: float | str, **options: Unpack[TableOptions]) -> MessageBatch:
        """Return a part of the messages, in the order of the log, always the same ones.

        Parameters: share: such as 0.01 or "1%"; options: as for ``scan``. Raises: ValueError for another share.
        """
        scan = self._scan_for_caller({**options, "sample": share})
        batches = [*scan]
        return MessageBatch.join(batches) if batches else scan.head(0)

    def to_arrow(self, *, names: Names = "rocketmq", **options: Unpack[TableOptions]) -> pyarrow.Table:
        """Return the messages as a pyarrow.Table, in memory. ``MessageStore.dataset`` needs less memory.

        Parameters, raises: as ``Scan.to_arrow`` and ``MessageStore.scan``.
        """
        return self._scan_for_caller({**options}).to_arrow(names=names)

    def to_pandas(self, *, names: Names = "rocketmq", **options: Unpack[TableOptions]) -> pandas.DataFrame:
        """Return the messages as a pandas.DataFrame, in memory. Parameters, raises: as ``to_arrow``."""
        return self._scan_for_caller({**options}).to_pandas(names=names)

    def to_polars(self, *, names: Names = "rocketmq", **options: Unpack[TableOptions]) -> polars.DataFrame:
        """Return the messages as a polars.DataFrame, in memory. Parameters, raises: as ``to_arrow``."""
        return self._scan_for_caller({**options}).to_polars(names=names)
