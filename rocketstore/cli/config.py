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
from rocketstore.survey.requirements import begin_entry, locked
from rocketstore.survey.survey import Survey


def run_check(store: Path, view: RowsView) -> None:
    """Run ``config check`` with the values of its options."""
    survey = begin_entry("config check", store)
    problems = open_tables(survey.places).check()
    write_problems(store, problems, view)
    if problems:
        raise click.exceptions.Exit(1)
    note_sound(survey)


def run_repair(store: Path, dry_run: bool, write_elsewhere: bool, view: RowsView) -> None:
    """Run ``config repair`` with the values of its options."""
    entry = "config repair dry run" if dry_run else "config repair"
    survey = begin_entry(entry, store, StoreConfig(write_elsewhere=write_elsewhere))
    tables = open_json_tables(survey.local_places)
    with contextlib.nullcontext() if dry_run else locked(entry, survey):
        repaired = tables.repair(dry_run)
    write_problems(store, repaired, view)
    paths = {problem.path for problem in repaired}
    remaining = [problem for problem in tables.read_all().problems if problem.path not in paths]
    if not repaired and not remaining:
        note_sound(survey)
    finish(f"{problem.path}: {problem.what}" for problem in remaining)


def note_sound(survey: Survey) -> None:
    """Write to standard error that no file of the configuration has a problem."""
    directory = survey.places.config
    note(f"{directory}: all files are sound" if directory.is_dir() else f"{survey.root}: has no configuration")


def write_problems(store: Path, problems: list[ConfigProblem], view: RowsView) -> None:
    rows = ((str(problem.path), problem.what) for problem in problems)
    write_list(CONFIG_PROBLEMS, rows, view, paths_below(store, "file"))
