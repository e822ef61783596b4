"""Run a function of a test file in an interpreter of its own."""

import subprocess
import sys
from pathlib import Path


def in_subprocess(function, *arguments, timeout=300):
    """Run a function of a test file in a new interpreter, and return its standard output.

    A crash, a signal or a peak of memory then concerns only one test. The file must call the function if it is run as
    a script with the function's name.
    """
    command = [sys.executable, "-X", "faulthandler", function.__code__.co_filename, function.__name__]
    run = subprocess.run([*command, *map(str, arguments)], text=True, capture_output=True, timeout=timeout, check=False)
    assert run.returncode == 0, f"exit {run.returncode}\n{run.stdout}\n{run.stderr}"
    print(run.stdout)
    return run.stdout


def anonymous_memory():
    """Return the bytes of memory of this process that belong to no file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon in /proc/self/status")
