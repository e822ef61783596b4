"""The command line in tests: run here, started in a process, or on a terminal."""

import atexit
import errno
import functools
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile

import pytest
from support import stores

testing = pytest.importorskip("click.testing", reason="needs click, from the extra 'cli'")
pytest.importorskip("rich", reason="needs rich, from the extra 'cli'")

COMMAND = [sys.executable, "-m", "rocketstore"]


def run(*arguments):
    """Run the command here; gives click's result, with exit_code, stdout and stderr."""
    from rocketstore.cli.group import rocketstore

    result = testing.CliRunner().invoke(rocketstore, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def start(*arguments, **options):
    """Start the command in a process of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *map(str, arguments)], **pipes | options)


def on_terminal(*arguments, columns=200, typed=""):
    """Run the command on a terminal. Return the exit status and the output, without codes of colours and bold text.

    Parameters: typed: text for its standard input.
    """
    main, terminal = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    process = start(*arguments, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    os.write(main, typed.encode())
    written = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # Linux's end of file
                raise
            piece = b""
        if not piece:
            break
        written += piece
    os.close(main)
    return process.wait(60), re.sub("\x1b\\[[0-9;]*m", "", written.decode())


def rows(result, *, exit_code=0):
    """The rows that a command wrote as JSON lines."""
    assert result.exit_code == exit_code, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def assert_one_line(result, *words):
    """The error is one line that says all the words."""
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    for word in words:
        assert str(word) in line


@functools.cache
def golden(name):
    """The root of a golden store, which no test changes."""
    directory = tempfile.mkdtemp(prefix="rocketstore-cli-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return stores.unpack(name, directory)
