"""``rocketstore recover``: make a store sound after a crash."""

from pathlib import Path
from typing import Any, Literal

import click

from rocketstore.cli.formats import RowsView, paths_below, write_list
from rocketstore.cli.options import (
    PATH,
    allow_unreadable_option,
    broker_conf_option,
    broker_config,
    compat_option,
    config_with,
    deleted_option,
    geometry_options,
    geometry_settings,
    rows_options,
    write_elsewhere_option,
)
from rocketstore.cli.repair.lost_messages import show_lost_messages
from rocketstore.cli.text import note
from rocketstore.dispatch.topic_lives import topic_notes
from rocketstore.index.geometry import IndexGeometry
from rocketstore.recovery.recover import POLICIES
from rocketstore.recovery.recover import recover as recover_store
from rocketstore.recovery.report import RecoveryReport
from rocketstore.text_values import counted

__all__ = ["recover"]

COLUMNS = ("what", "path", "offset", "size")


@click.command()
@click.argument("store", type=PATH)
@click.option("--policy", type=click.Choice(POLICIES), default="complete", show_default=True)
@click.option("--dry-run", is_flag=True, help="Only show the steps, and the messages that would be lost.")
@click.option(
    "--cut-at-damage",
    is_flag=True,
    help="Also cut the log at damaged bytes. Sound messages behind them are lost.",
)
@compat_option("The RocketMQ release to recover as.  [default: the release that STORE names as its writer, else 5.5.1]")
@deleted_option("With policy complete, build queues of deleted topics again.")
@geometry_options
@broker_conf_option
@write_elsewhere_option
@allow_unreadable_option
@rows_options(*COLUMNS, has_limit=False)
@click.pass_context
def recover(
    ctx: click.Context,
    /,
    store: Path,
    policy: Literal["complete", "broker"],
    dry_run: bool,
    cut_at_damage: bool,
    compat: str | None,
    write_elsewhere: bool,
    deleted: bool,
    allow_unreadable: bool,
    geometry: IndexGeometry | None,
    view: RowsView,
) -> None:
    """Recover STORE after a crash, and show each step. Stop the broker of STORE first.

    complete: cut only a torn tail of the commit log, and old records behind a proved cut of a broker. Keep their bytes
    in rocketstore-cut, and complete queues and index. If sound messages follow damaged bytes, change nothing, unless
    --cut-at-damage is given.
    broker: do the same as a broker of 5.3.3, 5.5.0 or 5.5.1 at its next start.

    Policy complete builds no queues of deleted topics. Standard error counts and names their messages.

    A second table has the messages that are lost, by topic. The exit status is 1 if the log was cut.
    """
    settings: dict[str, Any] = {
        "compat": compat,
        "write_elsewhere": write_elsewhere,
        "allow_unreadable": allow_unreadable,
        **geometry_settings(geometry),
    }
    config = config_with(broker_config(ctx, compat), store, **settings)
    options: dict[str, bool] = {"dry_run": dry_run, "cut_at_damage": cut_at_damage, "deleted": deleted}
    report = recover_store(store, policy=policy, config=config, **options)
    steps = ((action.what, str(action.path), action.offset, action.size) for action in report.actions)
    write_list(COLUMNS, steps, view, paths_below(store))
    note(summary_of(report))
    for text in [*report.notes, *topic_notes(report.deleted, report.undeclared)]:
        note(text)
    show_lost_messages(report.lost, view, is_dry_run=report.dry_run)
    if any(action.what in ("save", "undo") for action in report.actions):
        raise click.exceptions.Exit(1)


def summary_of(report: RecoveryReport) -> str:
    count = len(report.actions)
    steps = f"{counted(count, 'step')} {'to do' if report.dry_run else 'done'}" if count else "nothing to do"
    return f"{steps}; the commit log goes from {report.min_phy_offset} to {report.max_phy_offset}"
