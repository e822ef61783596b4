"""``rocketstore expire``: show which files a broker would delete, or delete them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.columns import EXPIRING, EXPIRY_TOTALS, GROUP_LOSSES, QUEUE_LOSSES
from rocketstore.cli.conditions import Condition
from rocketstore.cli.formats import RowsView, finish_checked, is_table, paths_below, write_list
from rocketstore.cli.settings import broker_config
from rocketstore.cli.text import note
from rocketstore.store.expiry import ExpiredFiles
from rocketstore.store.message_store import MessageStore
from rocketstore.store.usage.expiry_plan import ExpiryPlan, describe_plan
from rocketstore.text_values import format_count


def run(
    ctx: click.Context,
    store: MessageStore,
    hours: float | None,
    before: int | None,
    tz: str | None,
    queues: bool,
    groups: bool,
    totals: bool,
    apply: bool,
    fail_if: tuple[Condition, ...],
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    if hours is not None and before is not None:
        raise click.UsageError("--hours and --before: give one of them")
    if queues + groups + totals > 1:
        raise click.UsageError("--queues, --groups and --totals: give one of them")
    plan = store.expiry(hours=hours, before=before, tz=tz)
    rows = [dict(zip(EXPIRING, row, strict=True)) for row in plan]
    sums = [dict(zip(EXPIRY_TOTALS, totals_of(plan), strict=True))]
    applies = apply and len(plan) > 0 and not any(condition.is_met(rows, sums) for condition in fail_if)
    result = describe_deletion(apply_plan(ctx, store, plan)) if applies else describe_plan(plan)
    if queues:
        write_list(QUEUE_LOSSES, plan.queues, view)
    elif groups:
        write_list(GROUP_LOSSES, plan.groups, view)
    elif totals:
        write_list(EXPIRY_TOTALS, [totals_of(plan)], view)
    else:
        below = paths_below(Path(str(store.path)))
        write_list(EXPIRING, plan, view, below)
        if is_table(view.output_format) and view.columns is None:
            write_list(QUEUE_LOSSES, plan.queues, view)
            write_list(GROUP_LOSSES, plan.groups, view)
    for text in plan.notes:
        note(f"{store.path}: {text}")
    note(f"{store.path}: {result}")
    finish_checked(plan.reasons, fail_if, rows, sums)


def totals_of(plan: ExpiryPlan) -> Sequence[Any]:
    """Return the values of EXPIRY_TOTALS."""
    messages = sum(loss.messages for loss in plan.queues)
    unconsumed = sum(loss.messages for loss in plan.groups)
    return len(plan), plan.file_bytes, plan.disk_bytes, messages, unconsumed, plan.min_phy_offset, plan.next_timestamp


def apply_plan(ctx: click.Context, store: MessageStore, plan: ExpiryPlan) -> ExpiredFiles:
    """Delete the files of a plan. Return the deleted files.

    Raises: StoreLockedError beside a broker; as opening a store to write.
    """
    store.close()
    with MessageStore.of_writing_entry("open r+", store.path, "r+", broker_config(ctx)) as written:
        return written.delete_expired_files(before_phy_offset=plan.min_phy_offset)


def describe_deletion(expired: ExpiredFiles) -> str:
    """Return in one line how many files were deleted, and their lengths."""
    parts = expired.commit_log, expired.consume_queue, expired.index
    files = format_count(sum(len(part.paths) for part in parts), "file")
    return f"deleted {files}, {sum(part.size for part in parts):,} bytes"
