"""``rocketstore salvage``: the messages that are still found in a damaged store, in a new one."""

from pathlib import Path

import click

from rocketstore.cli.formats import format_option, note, write_list
from rocketstore.cli.options import PATH, broker_conf_option, broker_config
from rocketstore.cli.progress import byte_progress
from rocketstore.salvage.salvage import SalvageReport
from rocketstore.salvage.salvage import salvage as salvage_store

__all__ = ["salvage"]


@click.command()
@click.argument("store", type=PATH)
@click.option("--out", type=PATH, required=True, help="The new store: a directory that is empty, or does not exist.")
@broker_conf_option
@format_option
@click.pass_context
def salvage(ctx: click.Context, /, store: Path, out: Path, output_format: str | None) -> None:
    """Copy all messages that are still found in STORE into a new sound store, and show what was lost.

    STORE may be the root of a store, a directory of commit log files of any names, or one such file; nothing in it is
    changed. The exit status is 0 if nothing was lost, 1 if something was.

    Each row is a range of bytes of a commit log file of which nothing was taken. Messages keep all but their physical
    offsets behind a loss, and their queue offsets before one: the newest of a queue keeps its own, so that no consumer
    misses a message.
    """
    with byte_progress("salvage") as progress:
        report = salvage_store(store, out, config=broker_config(ctx), progress=progress)
    lost = ((str(part.path), *part[1:]) for part in report.lost)
    write_list(("path", "offset", "size", "phyOffset", "reason"), lost, output_format)
    note(summary(report))
    if report.lost:
        raise click.exceptions.Exit(1)


def summary(report: SalvageReport) -> str:
    """Say in a line what the new store has, and what is not as it was."""
    parts = [f"{report.out}: {report.records:,} records, {report.min_phy_offset} to {report.max_phy_offset}"]
    numbers, queues = sum(report.renumbered.values()), len(report.renumbered)
    misplaced, light_queues = sum(report.misplaced.values()), len(report.misplaced)
    parts += [f"{count:,} {what}" for count, what in (
        (len(report.lost), "range lost" if len(report.lost) == 1 else "ranges lost"),
        (report.duplicates, "found twice"),
        (report.out_of_order, "out of order"),
        (report.moved, "at other physical offsets"),
        (numbers, f"messages of {queues} queue{'s' if queues > 1 else ''} with other queue offsets"),
        (misplaced, f"messages at other places of {light_queues} light queue{'s' if light_queues > 1 else ''}"),
    ) if count]
    return "; ".join(parts)
