"""What is typed first in a shell, with pipes, works, or the error has the line to type."""

import os
import shlex
import shutil
import subprocess

import pytest
from support.cli import COMMAND
from tasks import Shell, tries_of

QUICK = "use exit statuses"
NEEDED = ("bash", "jq", "sqlite3", "timeout")  # programs of a line


@pytest.fixture
def path(tmp_path):
    """A PATH that begins with a directory that has the commands rocketstore and python."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, words in {"rocketstore": COMMAND, "python": COMMAND[:1]}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (programs / name).chmod(0o755)
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def lines():
    """Return the lines. A line takes some seconds, so that the quick tests type those about exit statuses only."""
    return [
        pytest.param(task, line, id=line.typed[:60], marks=() if task == QUICK else pytest.mark.slow)
        for task, line in tries_of(Shell)
    ]


@pytest.mark.parametrize(("task", "line"), lines())
def test_a_first_line_of_a_shell_works_or_says_what_to_type(directory, path, task, line):
    for name in NEEDED:
        if name in shlex.split(line.typed.replace("|", " ")) and shutil.which(name) is None:
            pytest.skip(f"needs {name}")
    environment = os.environ | {"PATH": path, "LC_ALL": "C.UTF-8"}
    command = ["bash", "-o", "pipefail", "-c", line.typed]
    answer = subprocess.run(
        command, cwd=directory, env=environment, text=True, capture_output=True, timeout=60, check=False
    )
    assert line.shown in answer.stdout + answer.stderr
    assert answer.returncode == line.status
    assert "Traceback" not in answer.stderr
