"""``rocketstore report``: write a page with charts about a store."""

from pathlib import Path

import click

from rocketstore.cli.options import PATH, broker_config, size_option, store_argument
from rocketstore.cli.progress import byte_progress
from rocketstore.cli.text import note
from rocketstore.cli.transfer.target import FileIsThere, require_file_name
from rocketstore.disk.durable import replace_file
from rocketstore.limits import LONG_MAX
from rocketstore.report.make_report import SAMPLE, make_report
from rocketstore.store.message_store import MessageStore

__all__ = ["report"]


@click.command()
@store_argument
@click.option("-o", "--output", type=PATH, required=True, help="The HTML file to write.")
@size_option("--sample", 1 << 20, LONG_MAX, help="Read at most this much of the log.  [default: 10g]")
@click.option("--force", is_flag=True, help="Replace the HTML file if it exists.")
@click.pass_context
def report(ctx: click.Context, store: MessageStore, output: Path, sample: int | None, force: bool) -> None:
    """Write one HTML page with charts about STORE: messages, queues, index, consumer lag, expiry, findings of verify.

    The page needs no network. If the log is larger than --sample, ranges spread over it are read, verify checks samples
    only, and the page says so. The command needs the extra "report".
    """
    if output == Path("-"):
        raise click.UsageError("--output must be a file")
    check_output(output, force)
    with byte_progress("report") as progress:
        page = make_report(
            store,
            sample=sample or SAMPLE,
            config=broker_config(ctx),
            progress=lambda name, done, total: progress(done, total),
        )
    check_output(output, force)  # another program may have made the file meanwhile
    replace_file(output, page.encode("utf-8", "backslashreplace"))
    note(f"{output}: {output.stat().st_size:,} bytes")


def check_output(output: Path, force: bool) -> None:
    """Raise ClickException if the file cannot be written, or exists and must not be replaced."""
    require_file_name(output)
    if output.exists() and not force:
        raise FileIsThere(output)
