"""``rocketstore config``: check and repair the files config/*.json of a broker."""

import contextlib
from pathlib import Path

import click

from rocketstore.cli.columns import CONFIG_PROBLEMS
from rocketstore.cli.formats import RowsView, finish, paths_below, write_list
from rocketstore.cli.text import note
from rocketstore.config import StoreConfig
from rocketstore.state.broker_tables import ConfigProblem
from rocketstore.survey.broker_config import open_json_tables, open_tables
from rocketstore.survey.owners import lock_for_writing
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.sizes import require_store


def run_check(store: Path, view: RowsView) -> None:
    """Run ``config check`` with the values of its options."""
    require_config(store)
    problems = open_tables(StorePlaces.of(store)).check()
    write_problems(store, problems, view)
    if problems:
        raise click.exceptions.Exit(1)
    note_sound(store)


def run_repair(store: Path, dry_run: bool, write_elsewhere: bool, view: RowsView) -> None:
    """Run ``config repair`` with the values of its options."""
    require_config(store)
    tables = open_json_tables(StorePlaces.of(store))
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
    write_list(CONFIG_PROBLEMS, rows, view, paths_below(store, "file"))


def require_config(path: Path) -> None:
    """Raise StoreError if a directory has neither a configuration nor a store; OSError if it cannot be read."""
    if not StorePlaces.of(path).config.is_dir():
        require_store(path, StoreConfig())
