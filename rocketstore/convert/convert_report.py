"""ConvertReport: the result of a conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rocketstore.convert.stale_ids import STALE_FIELDS, StaleId
from rocketstore.kernels.queue_id import QueueId
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.rows import export_rows
from rocketstore.preview import WIDE_CELL, Preview, Previewed, first_of
from rocketstore.text_values import format_count


@dataclass(frozen=True, repr=False)
class ConvertReport(Previewed, ArrowStream):
    """The result of a conversion. ``to_arrow``, ``to_pandas`` and ``to_polars`` make a table of ``stale_ids``.

    Attributes: out: the root of the new store. min_phy_offset, max_phy_offset: where its log begins and ends, bytes.
    records: of the log. moved: records that have another physical offset now. prepared: commits and rollbacks that name
    the new physical offset of their half message. queues: their number. index_items: their number. stale_ids: the
    messages with an id in a property that no longer leads to its message, by topic and property. notes: what is not
    copied, and sizes that were assumed. assumptions, deleted, undeclared, doubtful: as of ``RebuildReport``.

    Examples:
    >>> rocketstore.convert("demo", "other-sizes", mapped_file_size_consume_queue=6000).stale_ids
    ()
    """

    out: Path
    min_phy_offset: int
    max_phy_offset: int
    records: int
    moved: int
    prepared: int
    queues: int
    index_items: int
    stale_ids: tuple[StaleId, ...] = ()
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    deleted: Mapping[QueueId, int] = field(default_factory=dict)
    undeclared: Sequence[str] = ()
    doubtful: Sequence[QueueId] = ()

    def _preview(self) -> Preview:
        title = (
            f"ConvertReport: {format_count(self.records, 'record')} in {str(self.out)!r}, log from "
            f"{self.min_phy_offset:,} to {self.max_phy_offset:,}, {self.moved:,} moved, "
            f"{format_count(self.queues, 'queue')}, {format_count(self.index_items, 'index item')}"
        )
        return Preview(title, StaleId._fields, first_of(self.stale_ids), self.notes, WIDE_CELL)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the stale ids as an Arrow stream."""
        return export_rows(STALE_FIELDS, self.stale_ids)
