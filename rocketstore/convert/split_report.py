"""SplitReport: the stores into which a store was split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rocketstore.convert.stale_ids import StaleId
from rocketstore.kernels.message_columns import Field
from rocketstore.kernels.queue_id import QueueId
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.rows import export_rows
from rocketstore.preview import WIDE_CELL, Preview, Previewed, first_of, show_fields
from rocketstore.text_values import format_count


class SplitPart(NamedTuple):
    """One of the new stores.

    Attributes: part: its name. path: its root. topics: whose messages it has. records, bytes: of its log.
    min_phy_offset, max_phy_offset: where its log begins and ends, bytes. queues, index_items: their numbers.

    Examples:
    >>> [part.records for part in rocketstore.split("demo", "by-topic").parts]
    [100, 1]
    """

    part: str
    path: Path
    topics: tuple[str, ...]
    records: int
    bytes: int
    min_phy_offset: int
    max_phy_offset: int
    queues: int
    index_items: int

    def __repr__(self) -> str:
        return show_fields(self)


PART_FIELDS = (
    Field("part", "u"),
    Field("path", "u"),
    Field("topics", "+l"),
    Field("records", "l"),
    Field("bytes", "l"),
    Field("minPhyOffset", "l"),
    Field("maxPhyOffset", "l"),
    Field("queues", "l"),
    Field("indexItems", "l"),
)


@dataclass(frozen=True, repr=False)
class SplitReport(Previewed, ArrowStream):
    """The result of a split. ``to_arrow``, ``to_pandas`` and ``to_polars`` make a table of ``parts``.

    Attributes: out: the directory of the new stores. parts: sorted by name. stale_ids, assumptions, deleted,
    undeclared, doubtful: as of ``ConvertReport``, of all parts. notes: what no part has, and queues whose offsets
    moved.

    Examples:
    >>> [(part.part, part.records) for part in rocketstore.split("demo", "topics").parts]
    [('Orders', 100), ('Users', 1)]
    """

    out: Path
    parts: tuple[SplitPart, ...]
    stale_ids: tuple[StaleId, ...] = ()
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    deleted: Mapping[QueueId, int] = field(default_factory=dict)
    undeclared: Sequence[str] = ()
    doubtful: Sequence[QueueId] = ()

    def _preview(self) -> Preview:
        records = format_count(sum(part.records for part in self.parts), "record")
        title = f"SplitReport: {records} in {format_count(len(self.parts), 'store')} in {str(self.out)!r}"
        return Preview(title, SplitPart._fields, first_of(self.parts), self.notes, WIDE_CELL)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the parts as an Arrow stream."""
        return export_rows(PART_FIELDS, self.parts)
