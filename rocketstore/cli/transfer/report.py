"""``rocketstore report``: write a page about a store."""

from pathlib import Path

import click

from rocketstore.cli.settings import broker_config
from rocketstore.cli.text import note
from rocketstore.cli.transfer.target import FileIsThere, require_file_name, require_outside_stores
from rocketstore.disk.durable import replace_file
from rocketstore.report.make_report import SAMPLE, make_report
from rocketstore.store.message_store import MessageStore


def run(ctx: click.Context, store: MessageStore, output: Path, sample: int | None, tz: str | None, force: bool) -> None:
    """Run the command with the values of its options."""
    if output == Path("-"):
        raise click.UsageError("--output must be a file")
    require_outside_stores(output, [store.path])
    check_output(output, force)
    page = make_report(
        store,
        sample=sample or SAMPLE,
        config=broker_config(ctx),
        tz=tz,
        progress=True,
    )
    check_output(output, force)  # another program may have made the file meanwhile
    replace_file(output, page.encode())
    note(f"{output}: {output.stat().st_size:,} bytes")


def check_output(output: Path, force: bool) -> None:
    """Raise ClickException if the file cannot be written, or exists and must not be replaced."""
    require_file_name(output)
    if output.exists() and not force:
        raise FileIsThere(output)
