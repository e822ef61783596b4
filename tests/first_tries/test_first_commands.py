"""What is typed first after ``rocketstore`` works, or the error has the line to type."""

import shlex

import pytest
from support.cli import run
from tasks import Command, tries_of


@pytest.mark.parametrize(("task", "line"), tries_of(Command), ids=lambda value: str(value)[:60])
def test_a_first_command_works_or_says_what_to_type(directory, task, line):
    result = run(*shlex.split(line.typed))
    assert line.shown in result.stdout + result.stderr
    assert result.exit_code == line.status
