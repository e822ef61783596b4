"""RebuildReport: the result of a rebuild."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rocketstore.kernels.message_columns import Field
from rocketstore.kernels.queue_id import QueueId
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.rows import export_rows
from rocketstore.preview import show_fields

REPORT_FIELDS = (
    Field("minPhyOffset", "l"), Field("maxPhyOffset", "l"), Field("queues", "l"), Field("indexFiles", "l"),
    Field("indexItems", "l"), Field("out", "u"),
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class RebuildReport(ArrowStream):
    """The result of a rebuild. ``to_arrow``, ``to_pandas`` and ``to_polars`` make a table of one row.

    Attributes: min_phy_offset, max_phy_offset: the part of the log that was read, bytes. backups: the old directories.
    out: the root of the new directories. notes: where old bytes of the log were saved, and
    instructions for a store that had RocksDB or DLedger's log.
    assumptions: the broker's settings that neither ``config`` nor the files state, and on which the bytes of units
    depend; and how new units differ from the old ones. deleted: messages of deleted topics that got no unit, by topic
    and queue id. undeclared: topics that topics.json lacks, and whose messages were kept, because the topics may exist.
    doubtful: queues without a directory whose messages were kept. The directory of each was lost, or its topic was
    deleted and created again without this queue.

    Examples:
    >>> report = rocketstore.rebuild("demo", out="rebuilt")
    >>> report.queues, report.index_files, len(report.backups)
    (2, 1, 0)
    """

    min_phy_offset: int
    max_phy_offset: int
    queues: int
    index_files: int
    index_items: int
    backups: tuple[Path, ...]
    out: Path
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    deleted: Mapping[QueueId, int] = field(default_factory=dict)
    undeclared: Sequence[str] = ()
    doubtful: Sequence[QueueId] = ()

    def __repr__(self) -> str:
        return show_fields(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the numbers and the directory as an Arrow stream."""
        numbers = self.min_phy_offset, self.max_phy_offset, self.queues, self.index_files, self.index_items
        return export_rows(REPORT_FIELDS, [(*numbers, self.out)])
