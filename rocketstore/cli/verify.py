"""``rocketstore verify``: whether a store is sound."""

from pathlib import Path

import click

from rocketstore.cli.formats import format_option, note, write_list, write_rows
from rocketstore.cli.options import COUNT, PATH, broker_conf_option, broker_config
from rocketstore.cli.progress import byte_progress
from rocketstore.verify.report import KINDS, VerifyReport
from rocketstore.verify.verify import verify as verify_store

__all__ = ["verify"]

COLUMNS = ("kind", "severity", "path", "offset", "detail", "more", "atNextStart")


@click.command()
@click.argument("store", type=PATH, required=False)
@click.option("--quick", is_flag=True, help="Look at headers, ends and samples alone.")
@click.option("--threads", type=COUNT, help="Parts of the log checked at once.  [default: processors, 4 at most]")
@click.option("--list", "lists_kinds", is_flag=True, help="Show all kinds of findings, and nothing else.")
@broker_conf_option
@format_option
@click.pass_context
def verify(ctx: click.Context, /, store: Path | None, quick: bool, threads: int | None, lists_kinds: bool,
           output_format: str | None) -> None:
    """Compare log, queues, index and checkpoint of STORE with each other, and show what is wrong. Changes nothing.

    A broker may be running. The exit status is 1 if there is a finding of severity error.
    """
    if lists_kinds:
        if store is not None:
            raise click.UsageError("--list: is of no store, so not with STORE")
        kinds = ((name, *kind) for name, kind in KINDS.items())
        write_list(("kind", "severity", "meaning", "atNextStart"), kinds, output_format)
        return
    if store is None:
        raise click.UsageError("Missing argument 'STORE'.", ctx)
    with byte_progress("verify") as progress:
        report = verify_store(
            store, quick=quick, threads=threads, config=broker_config(ctx), progress=progress
        )
    write_rows([[finding.to_dict() for finding in report.findings]], output_format, columns=COLUMNS)
    note(summary_of(report))
    if not report.ok:
        raise click.exceptions.Exit(1)


def summary_of(report: VerifyReport) -> str:
    """Say in one line what was looked at, and what was found."""
    found = ", ".join(f"{report.count(severity):,} of severity {severity}" for severity in ("error", "warning", "info")
                      if report.count(severity))
    looked = "samples of" if report.quick else "all of"
    return (
        f"{report.messages:,} messages, {looked} {report.max_phy_offset - report.min_phy_offset:,} bytes of log, "
        f"{report.queues:,} queues, {report.index_files:,} index files: {found or 'nothing is wrong'}"
    )
