"""``rocketstore recover``: make a store sound after a crash."""

from pathlib import Path
from typing import Any, Literal

import click

from rocketstore.cli.columns import RECOVERY_STEPS
from rocketstore.cli.formats import RowsView, paths_below, write_list
from rocketstore.cli.repair.lost_messages import show_lost_messages
from rocketstore.cli.settings import broker_config, config_with, geometry_settings
from rocketstore.cli.text import note
from rocketstore.disk.storage import local_path
from rocketstore.dispatch.topic_lives import topic_notes
from rocketstore.index.geometry import IndexGeometry
from rocketstore.recovery.recover import recover as recover_store
from rocketstore.recovery.recovery_report import RecoveryAction, RecoveryReport
from rocketstore.text_values import format_count


def run(
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
    """Run the command with the values of its options."""
    settings: dict[str, Any] = {
        "compat": compat,
        "write_elsewhere": write_elsewhere,
        "allow_unreadable": allow_unreadable,
        **geometry_settings(geometry),
    }
    config = config_with(broker_config(ctx, compat), store, **settings)
    options: dict[str, bool] = {"dry_run": dry_run, "cut_at_damage": cut_at_damage, "deleted": deleted}
    report = recover_store(store, policy=policy, config=config, progress=True, **options)
    steps = ((action.what, str(action.path), action.offset, size_of(action)) for action in report.actions)
    write_list(RECOVERY_STEPS, steps, view, paths_below(store))
    note(summary_of(report))
    for text in [*report.notes, *topic_notes(report.deleted, report.undeclared, report.doubtful)]:
        note(text)
    show_lost_messages(report.lost, view, is_dry_run=report.dry_run)
    if any(action.what in ("save", "undo") for action in report.actions):
        raise click.exceptions.Exit(1)


def size_of(action: RecoveryAction) -> int | None:
    """Return the bytes of a step; of a deletion the length of the file, None if it is deleted already."""
    if action.what != "delete":
        return action.size
    path = local_path(action.path)
    return path.stat().st_size if path.exists() else None


def summary_of(report: RecoveryReport) -> str:
    count = len(report.actions)
    steps = f"{format_count(count, 'step')} {'to do' if report.dry_run else 'done'}" if count else "nothing to do"
    return f"{steps}; the commit log goes from {report.min_phy_offset} to {report.max_phy_offset}"
