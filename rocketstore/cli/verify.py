"""``rocketstore verify``: check whether a store is sound."""

from collections.abc import Sequence
from pathlib import Path

import click

from rocketstore.cli.columns import FINDING_KINDS, FINDINGS
from rocketstore.cli.formats import RowsView, is_table, paths_below, write_list, write_rows
from rocketstore.cli.repair.lost_messages import show_lost_places
from rocketstore.cli.settings import broker_config, config_with, geometry_settings
from rocketstore.cli.text import note
from rocketstore.index.geometry import IndexGeometry
from rocketstore.messages.text_rows import Row
from rocketstore.text_values import format_count
from rocketstore.verify.findings import VerifyReport
from rocketstore.verify.kinds import KINDS, mend_commands
from rocketstore.verify.verify import verify as verify_store

SHOWN = ("severity", "kind", "path", "offset", "detail", "mend", "atNextStart")  # in a table


def run(
    ctx: click.Context,
    /,
    store: Path | None,
    quick: bool,
    threads: int | None,
    lists_kinds: bool,
    geometry: IndexGeometry | None,
    tier: str | None,
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    if lists_kinds:
        if store is not None:
            raise click.UsageError("--list and STORE: give only one of them")
        kinds = ((name, kind.severity, kind.meaning, kind.mend, kind.at_next_start) for name, kind in KINDS.items())
        write_list(FINDING_KINDS, kinds, view)
        return
    if store is None:
        raise click.UsageError("Missing argument 'STORE'.", ctx)
    config = config_with(broker_config(ctx), store, tiered_store_file_path=tier, **geometry_settings(geometry))
    report = verify_store(store, quick=quick, threads=threads, config=config, progress=True)
    if is_table(view.output_format):
        click.echo(report.verdict)
    rows = [finding.to_dict() for finding in report.findings]
    write_rows(rows, view, lambda rows: for_people(rows, store), columns=FINDINGS)
    show_lost_places(report.lost, view)
    note(summary_of(report))
    mends = (finding.mend for finding in report.findings if finding.severity != "info" and finding.mend)
    for command in mend_commands(mends, store):
        note(f"To mend: {command}")
    if not report.ok:
        raise click.exceptions.Exit(1)


def for_people(rows: Sequence[Row], store: Path) -> list[Row]:
    """Return the rows of a table: short columns first, and paths below the store."""
    shown = []
    for row in paths_below(store)(rows):
        more = f" (and {row['more']:,} more)" if row["more"] else ""
        shown.append({name: row[name] for name in SHOWN} | {"detail": row["detail"] + more})
    return shown


def summary_of(report: VerifyReport) -> str:
    """Return one line with the extent of the check and the number of findings."""
    found = ", ".join(
        f"{report.count(severity):,} of severity {severity}"
        for severity in ("error", "warning", "info")
        if report.count(severity)
    )
    queues = f"{format_count(report.messages, 'message')} in {format_count(report.queues, 'queue')}"
    if not report.has_log:
        return f"{queues}, no log: {found}"
    extent = "samples of" if report.quick else "all of"
    return (
        f"{queues}, "
        f"{format_count(report.records, 'record')}, "
        f"{extent} {report.max_phy_offset - report.min_phy_offset:,} bytes of log, "
        f"{format_count(report.index_files, 'index file')}: {found or 'nothing is wrong'}"
    )
