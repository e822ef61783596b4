"""``rocketstore config``: check and repair the files config/*.json of a broker."""

import contextlib
from pathlib import Path

import click

from rocketstore.cli.formats import RowsView, finish, paths_below, write_list
from rocketstore.cli.options import PATH, STORE, rows_options, write_elsewhere_option
from rocketstore.cli.text import note
from rocketstore.config import StoreConfig
from rocketstore.state.broker_tables import ConfigProblem
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.owners import lock_for_writing
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.sizes import require_store

__all__ = ["config"]

COLUMNS = ("file", "what")


@click.group()
def config() -> None:
    """Check and repair the configuration that a broker keeps in its store."""


@config.command("check", short_help="Show the problems of the configuration files.")
@click.argument("store", type=STORE)
@rows_options(*COLUMNS)
def check_command(store: Path, view: RowsView) -> None:
    """Read every file of STORE/config and show each problem. The exit status is 1 if there is a problem."""
    require_config(store)
    problems = open_tables(StorePlaces.of(store)).check()
    write_problems(store, problems, view)
    if problems:
        raise click.exceptions.Exit(1)
    note_sound(store)


@config.command("repair", short_help="Restore files from their .bak files.")
@click.argument("store", type=PATH)
@click.option("--dry-run", is_flag=True, help="Only show the steps.")
@write_elsewhere_option
@rows_options(*COLUMNS, has_limit=False)
def repair_command(store: Path, dry_run: bool, write_elsewhere: bool, view: RowsView) -> None:
    """Restore the missing and damaged files of STORE/config from their .bak files.

    A damaged file is kept beside the new one. Stop the broker of STORE first. A file that cannot be repaired is an
    error.
    """
    require_config(store)
    tables = open_tables(StorePlaces.of(store))
    with contextlib.ExitStack() as stack:
        if not dry_run:
            stack.enter_context(lock_for_writing(store, StoreConfig(write_elsewhere=write_elsewhere)))
        repaired = tables.repair(dry_run)
    write_problems(store, repaired, view)
    paths = {problem.path for problem in repaired}
    remaining = [problem for problem in tables.read_all().problems if problem.path not in paths]
    if not repaired and not remaining:
        note_sound(store)
    finish(f"{problem.path}: {problem.what}" for problem in remaining)


def note_sound(store: Path) -> None:
    """Write to standard error that no file of the configuration has a problem."""
    directory = StorePlaces.of(store).config
    note(f"{directory}: all files are sound" if directory.is_dir() else f"{store}: has no configuration")


def write_problems(store: Path, problems: list[ConfigProblem], view: RowsView) -> None:
    rows = ((str(problem.path), problem.what) for problem in problems)
    write_list(COLUMNS, rows, view, paths_below(store, "file"))


def require_config(path: Path) -> None:
    """Raise StoreError if a directory has neither a configuration nor a store; OSError if it cannot be read."""
    if not StorePlaces.of(path).config.is_dir():
        require_store(path, StoreConfig())
