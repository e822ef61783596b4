"""PatchReport: the messages that a patch marks as lost, and what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketstore.lost.corrections import CorrectedRecord
from rocketstore.lost.lost_message import LOST_MESSAGE_FIELDS, LostMessage
from rocketstore.lost.plan import PatchPlan, RefusedRange
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.rows import export_rows
from rocketstore.preview import Preview, Previewed, first_of
from rocketstore.text_values import format_count


@dataclass(frozen=True, repr=False)
class PatchReport(Previewed, ArrowStream):
    """The result of a patch. ``to_arrow``, ``to_pandas`` and ``to_polars`` make a table of the lost messages.

    Attributes
    ----------
    lost : the messages that stood in the damaged bytes, in the order of the log. ``problem`` names those whose bytes
        stay as they are.
    ranges, bytes : how many damaged ranges were overwritten, and their bytes.
    fillers : how many records were written over bytes of which no queue knows anything.
    corrected : the records of which only topic, queue id or queue offset had changed. Their messages are not lost.
    refused : the ranges that stay as they are, and why.
    saved : the files in ``rocketstore-cut`` that have the old bytes.
    dry_run : whether nothing was changed.
    notes : what is not known of the lost messages, and why, such as a damaged index.

    Examples:
    >>> report = rocketstore.patch("demo")
    >>> report.ranges, report.lost
    (0, ())
    """

    lost: Sequence[LostMessage]
    ranges: int
    bytes: int
    fillers: int
    corrected: Sequence[CorrectedRecord]
    refused: Sequence[RefusedRange]
    saved: Sequence[Path]
    dry_run: bool = False
    notes: Sequence[str] = ()

    def _preview(self) -> Preview:
        count = format_count(self.ranges, "damaged range")
        state = "to patch, nothing was changed" if self.dry_run else "patched"
        lost = format_count(sum(message.messages for message in self.lost), "lost message")
        title = f"PatchReport: {count} {state}, {len(self.refused)} refused, {lost}"
        notes = [*(f"at {part.phy_offset}: {part.reason}" for part in self.refused[:5]), *self.notes]
        return Preview(title, LostMessage._fields, first_of(self.lost), notes)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the lost messages as an Arrow stream."""
        return export_rows(LOST_MESSAGE_FIELDS, self.lost)


def make_report(plan: PatchPlan, saved: Sequence[Path] = (), *, dry_run: bool = False) -> PatchReport:
    """Make the report of a plan. Parameters: saved: the files with the old bytes."""
    size = sum(part.end - part.begin for part in plan.ranges)
    return PatchReport(
        plan.lost,
        len(plan.ranges),
        size,
        len(plan.fillers),
        tuple(plan.corrected),
        plan.refused,
        tuple(saved),
        dry_run=dry_run,
        notes=plan.notes,
    )
