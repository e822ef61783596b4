"""``rocketstore copy``: copy a store, also one that a broker is writing."""

import click

from rocketstore.backup.copy_report import CopyReport
from rocketstore.backup.copy_store import copy as copy_store
from rocketstore.cli.columns import COPIED_PARTS
from rocketstore.cli.formats import RowsView, write_list
from rocketstore.cli.settings import broker_config
from rocketstore.cli.text import note
from rocketstore.disk.store_path import StorePath
from rocketstore.text_values import format_count


def run(
    ctx: click.Context,
    /,
    store: StorePath | str,
    new: StorePath | str,
    since: int | None,
    topic: tuple[str, ...],
    credentials: bool,
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    config = broker_config(ctx)
    report = copy_store(
        store, new, since=since, topic=topic or None, credentials=credentials, config=config, progress=True
    )
    write_list(COPIED_PARTS, report.parts, view)
    for text in [describe_copy(report), *report.notes]:
        note(text)
    if report.left_out:
        note(f"not copied, because they may have credentials (--credentials copies them): {', '.join(report.left_out)}")


def describe_copy(report: CopyReport) -> str:
    """Return one line about the copy."""
    messages = format_count(report.messages, "message")
    text = f"{report.new}: log from {report.min_phy_offset} to {report.max_phy_offset}, {messages}, same as the store"
    if report.limited_offsets:
        text += f"; {format_count(report.limited_offsets, 'offset')} lowered to the end of the queue"
    return text
