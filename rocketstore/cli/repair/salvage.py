"""``rocketstore salvage``: copy the sound messages of a damaged store into a new store."""

from pathlib import Path

import click

from rocketstore.cli.columns import LOST_RANGES
from rocketstore.cli.formats import RowsView, paths_below, write_list
from rocketstore.cli.repair.lost_messages import show_lost_messages
from rocketstore.cli.settings import broker_config, config_with
from rocketstore.cli.text import note
from rocketstore.dispatch.topic_lives import topic_notes
from rocketstore.salvage.salvage import SalvageReport
from rocketstore.salvage.salvage import salvage as salvage_store
from rocketstore.text_values import format_count

MOST_NOTES = 20  # of ranges of unverified records


def run(
    ctx: click.Context,
    /,
    store: Path,
    out: Path | None,
    dry_run: bool,
    deleted: bool,
    allow_unreadable: bool,
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    if out is None and not dry_run:
        raise click.UsageError("give --out NEW, the directory of the new store, or --dry-run")
    config = config_with(broker_config(ctx), store, allow_unreadable=allow_unreadable)
    report = salvage_store(store, out, config=config, dry_run=dry_run, deleted=deleted, progress=True)
    lost = ((str(part.path), *part[1:]) for part in report.lost)
    write_list(LOST_RANGES, lost, view, paths_below(store))
    for text in [summary(report), *topic_notes(report.deleted, report.undeclared, report.doubtful)]:
        note(text)
    for part in report.unverified[:MOST_NOTES]:
        records = format_count(part.records, "record")
        note(f"{part.path}: {records} from byte {part.offset} on without a CRC property: unverified")
    if report.lost_messages is None:
        note("how many messages are lost is not known: the queues of STORE cannot be read")
    else:
        show_lost_messages(report.lost_messages, view, is_dry_run=dry_run)
    if report.lost:
        raise click.exceptions.Exit(1)


def summary(report: SalvageReport) -> str:
    """Return one line about the new store and its differences from the old one."""
    parts = [f"{format_count(report.records, 'record')} to copy; nothing was written"]
    if not report.dry_run:
        bounds = f"{report.min_phy_offset} to {report.max_phy_offset}"
        parts = [f"{report.out}: {format_count(report.records, 'record')}, {bounds}"]
    renumbered, out_of_place = report.renumbered or {}, report.misplaced or {}
    numbers, queues = sum(renumbered.values()), len(renumbered)
    misplaced, light_queues = sum(out_of_place.values()), len(out_of_place)
    parts += [
        f"{format_count(count, noun)} {state}"
        for count, noun, state in (
            (len(report.lost), "range", "lost"),
            (report.duplicates, "record", "found twice"),
            (sum(part.records for part in report.unverified), "record", "unverified"),
            (report.out_of_order, "record", "out of order"),
            (report.moved, "record", "at other physical offsets"),
            (numbers, "message", f"of {format_count(queues, 'queue')} with other queue offsets"),
            (misplaced, "message", f"at other places of {format_count(light_queues, 'light queue')}"),
        )
        if count
    ]
    return "; ".join(parts)
