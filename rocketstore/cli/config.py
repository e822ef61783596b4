"""``rocketstore config``: whether config/*.json can be read, and making it readable again."""

import contextlib
from pathlib import Path

import click

from rocketstore.cli.formats import finish, format_option, write_list
from rocketstore.cli.options import PATH, STORE, write_elsewhere_option
from rocketstore.config import StoreConfig
from rocketstore.layout.geometry import require_store
from rocketstore.layout.places import lock_for_writing
from rocketstore.state.broker_config import BrokerConfig, ConfigProblem, check, repair

__all__ = ["config"]


@click.group()
def config() -> None:
    """Check and repair the configuration that a broker keeps in its store."""


@config.command("check", short_help="Show what is wrong in its files.")
@click.argument("store", type=STORE)
@format_option
def check_command(store: Path, output_format: str | None) -> None:
    """Read every file of STORE/config and show what is wrong; the exit status is then 1."""
    require_config(store)
    problems = check(store)
    write(problems, output_format)
    if problems:
        raise click.exceptions.Exit(1)


@config.command("repair", short_help="Make files again from their .bak files.")
@click.argument("store", type=PATH)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@write_elsewhere_option
@format_option
def repair_command(store: Path, dry_run: bool, write_elsewhere: bool, output_format: str | None) -> None:
    """Make the files of STORE/config that are missing or damaged from their .bak files.

    A damaged file is kept beside the new one. No broker may run on STORE. What cannot be repaired is an error.
    """
    require_config(store)
    with contextlib.ExitStack() as stack:
        if not dry_run:
            stack.enter_context(lock_for_writing(store, StoreConfig(write_elsewhere=write_elsewhere)))
        done = repair(store, dry_run)
    write(done, output_format)
    paths = {problem.path for problem in done}
    left = BrokerConfig.open(store).problems
    finish(f"{problem.path}: {problem.what}" for problem in left if problem.path not in paths)


def write(problems: list[ConfigProblem], output_format: str | None) -> None:
    write_list(("file", "what"), ((str(problem.path), problem.what) for problem in problems), output_format)


def require_config(path: Path) -> None:
    """Refuse what has neither a configuration nor a store. Raises: StoreError, OSError."""
    if not (path / "config").is_dir():
        require_store(path, StoreConfig())
