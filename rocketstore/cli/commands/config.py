"""The options of ``rocketstore config`` and its two commands."""

from typing import Any

import click

from rocketstore.cli.columns import CONFIG_PROBLEMS
from rocketstore.cli.options import PATH, STORE, rows_options, write_elsewhere_option


@click.group()
def config() -> None:
    """Check and repair the configuration that a broker keeps in its store."""


@config.command("check", short_help="Show the problems of the configuration files.")
@click.argument("store", type=STORE)
@rows_options(*CONFIG_PROBLEMS)
def check_command(**options: Any) -> None:
    """Read every file of STORE/config and show each problem. The exit status is 1 if there is a problem."""
    from rocketstore.cli.config import run_check

    run_check(**options)


@config.command("repair", short_help="Restore files from their .bak files.")
@click.argument("store", type=PATH)
@click.option("--dry-run", is_flag=True, help="Only show the steps.")
@write_elsewhere_option
@rows_options(*CONFIG_PROBLEMS, has_limit=False)
def repair_command(**options: Any) -> None:
    """Restore the missing and damaged files of STORE/config from their .bak files.

    A damaged file is kept beside the new one. Stop the broker of STORE first. A file that cannot be repaired is an
    error.
    """
    from rocketstore.cli.config import run_repair

    run_repair(**options)
