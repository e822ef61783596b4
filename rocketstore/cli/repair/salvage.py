"""``rocketstore salvage``: copy the sound messages of a damaged store into a new store."""

from pathlib import Path

import click

from rocketstore.cli.formats import RowsView, paths_below, write_list
from rocketstore.cli.options import (
    PATH,
    allow_unreadable_option,
    broker_conf_option,
    broker_config,
    config_with,
    deleted_option,
    rows_options,
)
from rocketstore.cli.progress import byte_progress
from rocketstore.cli.text import note
from rocketstore.dispatch.topic_lives import topic_notes
from rocketstore.salvage.salvage import SalvageReport
from rocketstore.salvage.salvage import salvage as salvage_store
from rocketstore.text_values import counted

__all__ = ["salvage"]

MOST_NOTES = 20  # of ranges of unverified records
COLUMNS = ("path", "offset", "size", "phyOffset", "reason")


@click.command()
@click.argument("store", type=PATH)
@click.option("--out", type=PATH, required=True, help="The new store: a directory that is empty, or does not exist.")
@deleted_option("Give messages of deleted topics a place in their queues too.")
@broker_conf_option
@allow_unreadable_option
@rows_options(*COLUMNS, has_limit=False)
@click.pass_context
def salvage(
    ctx: click.Context, /, store: Path, out: Path, deleted: bool, allow_unreadable: bool, view: RowsView
) -> None:
    """Copy all sound messages of STORE into a new store, and show the bytes that were lost. STORE is not changed.

    STORE is the root of a store, a directory of commit log files with any names, or one of these files. Each row shows
    a range of bytes without a sound message. The exit status is 0 if nothing was lost, 1 if bytes were lost.

    After a lost range, messages get other physical offsets. Before a lost range, messages get other queue offsets: the
    newest message of a queue keeps its offset, so that no consumer misses a message.

    Messages of deleted topics are copied, but get no place in a queue. Standard error counts and names them.
    """
    with byte_progress("salvage") as progress:
        config = config_with(broker_config(ctx), store, allow_unreadable=allow_unreadable)
        report = salvage_store(store, out, config=config, deleted=deleted, progress=progress)
    lost = ((str(part.path), *part[1:]) for part in report.lost)
    write_list(COLUMNS, lost, view, paths_below(store))
    for text in [summary(report), *topic_notes(report.deleted, report.undeclared)]:
        note(text)
    for part in report.unverified[:MOST_NOTES]:
        records = counted(part.records, "record")
        note(f"{part.path}: {records} from byte {part.offset} on without a CRC property: unverified")
    if report.lost:
        raise click.exceptions.Exit(1)


def summary(report: SalvageReport) -> str:
    """Return one line about the new store and its differences from the old one."""
    parts = [f"{report.out}: {counted(report.records, 'record')}, {report.min_phy_offset} to {report.max_phy_offset}"]
    numbers, queues = sum(report.renumbered.values()), len(report.renumbered)
    misplaced, light_queues = sum(report.misplaced.values()), len(report.misplaced)
    parts += [
        f"{counted(count, noun)} {state}"
        for count, noun, state in (
            (len(report.lost), "range", "lost"),
            (report.duplicates, "record", "found twice"),
            (sum(part.records for part in report.unverified), "record", "unverified"),
            (report.out_of_order, "record", "out of order"),
            (report.moved, "record", "at other physical offsets"),
            (numbers, "message", f"of {counted(queues, 'queue')} with other queue offsets"),
            (misplaced, "message", f"at other places of {counted(light_queues, 'light queue')}"),
        )
        if count
    ]
    return "; ".join(parts)
