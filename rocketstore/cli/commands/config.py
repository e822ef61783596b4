"""The options of ``rocketstore config`` and its two commands."""

from typing import Any

import click

from rocketstore.cli.columns import CONFIG_PROBLEMS
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.options.basics import PATH, STORE
from rocketstore.cli.options.output import rows_options
from rocketstore.cli.options.stores import write_elsewhere_option
from rocketstore.text_values import find_similar

REPAIR = ("fix", "mend", "recover", "restore")  # other words for this command


class ConfigCommands(click.Group):
    """The two commands. An error of another word has the line to type."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            meant = "repair" if args[0] in REPAIR else find_similar(args[0], self.commands)
            line = f"rocketstore config {meant or 'check'} STORE"
            ctx.fail(f"No such command {args[0]!r}: did you mean {line!r}?")
        return super().resolve_command(ctx, args)


@click.group(cls=ConfigCommands)
def config() -> None:
    """Check and repair the configuration that a broker keeps in its store."""


@config.command("check", cls=GroupedCommand, short_help="Show the problems of the configuration files.")
@click.argument("store", type=STORE)
@rows_options(*CONFIG_PROBLEMS)
def check_command(**options: Any) -> None:
    """Read every file of STORE/config and show each problem. The exit status is 1 if there is a problem."""
    from rocketstore.cli.config import run_check

    run_check(**options)


@config.command("repair", cls=GroupedCommand, short_help="Restore files from their .bak files.")
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
