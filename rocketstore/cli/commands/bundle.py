"""The options of ``rocketstore bundle``."""

from typing import Any

import click

from rocketstore.cli.columns import BUNDLED_FILES
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import broker_conf_option


@click.command(cls=GroupedCommand)
@click.argument("store", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The archive to write: .tar.gz, .tgz or .zip.")
@click.option("--force", is_flag=True, help="Replace the archive if it exists.")
@broker_conf_option
@rows_options(*BUNDLED_FILES, has_limit=False, has_zone=False)
@click.pass_context
def bundle(ctx: click.Context, /, **options: Any) -> None:
    """Write what a bug report about STORE needs into one archive: summary, findings, configuration, versions.

    The archive also has the bytes around damage of the log. It has no bodies of messages, no values of properties and
    no credentials: what is not known to be harmless is replaced by x. It has the names of topics, groups and files, and
    the addresses of hosts. Each row is a file of the archive.
    """
    from rocketstore.cli.transfer.bundle import run

    run(ctx, **options)
