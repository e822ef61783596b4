"""RecoveryReport: the steps of a recovery, done or planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.message_columns import Field
from rocketstore.kernels.queue_id import QueueId
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.rows import export_rows
from rocketstore.preview import WIDE_CELL, Preview, Previewed, first_of
from rocketstore.recovery.lost import LostMessages
from rocketstore.text_values import format_count


class RecoveryAction(NamedTuple):
    """One step of a recovery, on ``size`` bytes at ``offset`` of the file ``path``.

    ``what`` is one of these:

    * "save": copy the bytes to ``rocketstore-cut``. "zero": overwrite them with zeros.
    * "delete": delete the file. "extend": give it its full length. "cut": end a queue or an index file at ``offset``.
    * "dispatch": put the records of the commit log ``path``, from the physical offset ``offset`` on, into queues and
      index.
    * For a Spark write that was ended in the middle ``path`` is its intent, and ``offset`` the physical offset of its
      records. "undo": cut the records off. "finish": the log has no records of it, or records of others follow all of
      them. "leave": some records stay, because records of others may follow them.
    """

    path: StorePath
    what: str
    offset: int = 0
    size: int = 0


ACTION_FIELDS = Field("path", "u"), Field("what", "u"), Field("offset", "l"), Field("size", "l")


@dataclass(frozen=True, repr=False)
class RecoveryReport(Previewed, ArrowStream):
    """The result of a recovery. ``to_arrow``, ``to_pandas`` and ``to_polars`` make a table of the actions.

    Attributes: policy: "complete" or "broker". last_exit_ok: whether the last writer stopped cleanly: the store had no
    ``abort``. min_phy_offset, max_phy_offset: where the commit log begins and ends, bytes. actions: the steps in order.
    dry_run: whether nothing was changed. notes: what a dry run supposed, because no file shows it, where old bytes were
    saved, and whether the log was shortened after a clean stop. lost: by topic, the messages that were cut off with
    damaged bytes before them, or that a broker cuts. assumptions: the size of log files if only the length of a single
    file shows it, and the broker's settings that neither ``config`` nor the files state, and on which the bytes of
    units or items depend. deleted: messages of deleted topics that have no unit and get none, by topic and queue id.
    undeclared: topics that topics.json lacks, and whose messages are kept, because the topics may exist. doubtful: as
    of ``RebuildReport``.

    Examples:
    >>> report = rocketstore.recover("demo", dry_run=True)
    >>> report.policy, report.last_exit_ok, len(report.actions)
    ('complete', True, 0)
    """

    policy: str
    last_exit_ok: bool
    min_phy_offset: int
    max_phy_offset: int
    actions: Sequence[RecoveryAction]
    dry_run: bool = False
    notes: Sequence[str] = ()
    lost: Sequence[LostMessages] = ()
    assumptions: Sequence[str] = ()
    deleted: Mapping[QueueId, int] = field(default_factory=dict)
    undeclared: Sequence[str] = ()
    doubtful: Sequence[QueueId] = ()

    def _preview(self) -> Preview:
        stop = "stopped cleanly" if self.last_exit_ok else "crashed"
        log = f"log from {self.min_phy_offset:,} to {self.max_phy_offset:,}"
        count = format_count(len(self.actions), "planned action" if self.dry_run else "action")
        count += ", nothing was changed" * self.dry_run
        title = f"RecoveryReport: policy {self.policy!r}, {stop}, {log}, {count}"
        return Preview(
            title, RecoveryAction._fields, first_of(self.actions), [*self.notes, *self.assumptions], WIDE_CELL
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the actions as an Arrow stream."""
        return export_rows(ACTION_FIELDS, self.actions)
