"""``rocketstore bundle``: write what a bug report needs into one archive."""

from pathlib import Path

import click

from rocketstore.bundle.bundle import FORMATS
from rocketstore.bundle.bundle import bundle as bundle_store
from rocketstore.cli.columns import BUNDLED_FILES
from rocketstore.cli.formats import RowsView, write_list
from rocketstore.cli.settings import broker_config
from rocketstore.cli.text import note
from rocketstore.cli.transfer.target import FileIsThere, require_file_name, require_outside_stores


def run(ctx: click.Context, /, store: Path, output: Path, force: bool, view: RowsView) -> None:
    """Run the command with the values of its options."""
    if not output.name.endswith(FORMATS):
        raise click.UsageError(f"--output: the name must end in one of {', '.join(FORMATS)}")
    require_file_name(output)
    require_outside_stores(output, [store])
    if output.exists() and not force:
        raise FileIsThere(output)
    report = bundle_store(store, output, config=broker_config(ctx), progress=True)
    write_list(BUNDLED_FILES, report.files, view)
    note(f"{report.out}: {report.size:,} bytes")
