"""``rocketstore diff``: compare two stores."""

from collections.abc import Sequence
from pathlib import Path

import click

from rocketstore.cli.columns import DIFFERENCES
from rocketstore.cli.formats import RowsView, write_list
from rocketstore.cli.settings import broker_config
from rocketstore.cli.text import TIERED, note
from rocketstore.compare.diff import diff as diff_stores
from rocketstore.compare.differences import DiffReport
from rocketstore.config import StoreConfig
from rocketstore.disk.store_path import StorePath
from rocketstore.messages.text_rows import Row
from rocketstore.text_values import format_count


def run(
    ctx: click.Context,
    /,
    a: StorePath | str,
    b: StorePath | str,
    by_content: bool,
    topic: tuple[str, ...],
    broker_conf_b: Path | None,
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    config_b = None if broker_conf_b is None else StoreConfig.from_broker_conf(broker_conf_b)
    report = diff_stores(
        a,
        b,
        by_content=by_content,
        topic=topic or None,
        config=broker_config(ctx),
        config_b=config_b,
        tiered=ctx.meta.get(TIERED, False),
        progress=True,
    )
    write_list(DIFFERENCES, report.differences, view, without_empty_columns)
    note(describe_report(report))
    if not report.same:
        raise click.exceptions.Exit(1)


def without_empty_columns(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table without the columns that no row has."""
    used = [name for name in DIFFERENCES if any(row[name] is not None for row in rows)]
    return [{name: row[name] for name in used} for row in rows]


def describe_report(report: DiffReport) -> str:
    """Return one line with the parts that were compared and the numbers of differences."""
    parts = [f"{format_count(size, 'byte')} of the log {state}" for state, size in report.log_bytes.items() if size]
    parts.append(f"{format_count(report.messages, 'message')} of queues in both")
    found = ", ".join(f"{count:,} {kind}" for kind, count in report.counts.items())
    return f"{'; '.join(parts)}: {found or 'the stores are the same'}"
