"""Pass data to the tasks of a build in a file for each task: a task, and Spark's plan, do not carry those of all."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["read_task", "write_tasks"]


def write_tasks(directory: Path, tasks: Iterable[Any]) -> int:
    """Write the data of each task to a file that is named by the task's number. Returns: the number of tasks.

    Parameters: directory: in the working directory of a build, which the driver and all workers share; it is made.
    Raises: OSError.
    """
    directory.mkdir(exist_ok=True)
    count = 0
    for count, task in enumerate(tasks, 1):
        (directory / f"{count - 1}").write_bytes(pickle.dumps(task, pickle.HIGHEST_PROTOCOL))
    return count


def read_task(directory: Path, number: int) -> Any:
    """Read the data that the driver wrote for a task. Raises: FileNotFoundError if the build is over; OSError."""
    return pickle.loads((directory / f"{number}").read_bytes())
