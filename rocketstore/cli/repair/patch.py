"""``rocketstore patch``: put records in place of damaged ones."""

from pathlib import Path

import click

from rocketstore.cli.columns import LOST_MESSAGES
from rocketstore.cli.formats import RowsView, write_rows
from rocketstore.cli.repair.lost_messages import describe_lost_places
from rocketstore.cli.settings import broker_config, config_with
from rocketstore.cli.text import note
from rocketstore.patch.patch import patch as patch_store
from rocketstore.patch.patch_report import PatchReport
from rocketstore.text_values import format_count

MOST_NOTES = 20  # of ranges that stay as they are


def run(
    ctx: click.Context,
    /,
    store: Path,
    dry_run: bool,
    threads: int | None,
    write_elsewhere: bool,
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    config = config_with(broker_config(ctx), store, write_elsewhere=write_elsewhere)
    report = patch_store(store, config=config, dry_run=dry_run, threads=threads, progress=True)
    rows = [message.to_dict() for message in report.lost]
    write_rows(rows, view, describe_lost_places, columns=LOST_MESSAGES)
    note(summary_of(report))
    for path in report.saved:
        note(f"{path}: has the old bytes")
    for part in report.refused[:MOST_NOTES]:
        note(f"{format_count(part.size, 'byte')} at {part.phy_offset} stay damaged: {part.reason}")
    for text in report.notes:
        note(text)
    if report.refused:
        note(f"To copy the sound messages: rocketstore salvage {store} --out NEW")
    if report.lost or report.refused:
        raise click.exceptions.Exit(1)


def summary_of(report: PatchReport) -> str:
    """Return one line about what was written, and what is lost."""
    if not report.ranges and not report.refused:
        return "nothing to patch"
    done = "to patch" if report.dry_run else "patched"
    ranges = f"{format_count(report.ranges, 'damaged range')} of {format_count(report.bytes, 'byte')} {done}"
    fillers = f", {format_count(report.fillers, 'record')} where no queue knows a message" if report.fillers else ""
    corrected = (
        f", {format_count(len(report.corrected), 'head')} of sound records corrected" if report.corrected else ""
    )
    lost = format_count(sum(message.messages for message in report.lost), "message")
    return f"{ranges}{fillers}{corrected}; {lost} lost"
