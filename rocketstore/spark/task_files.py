"""What the tasks of a build get: a file for each task, so that no task, and no plan of Spark, has the rows of all."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["read_task", "write_tasks"]


def write_tasks(directory: Path, tasks: Iterable[Any]) -> int:
    """Write what each task gets to a file named by the task's number. Returns: how many tasks there are.

    Parameters: directory: in the working directory of a build, which the driver and all workers share; it is made.
    Raises: OSError.
    """
    directory.mkdir(exist_ok=True)
    count = 0
    for count, task in enumerate(tasks, 1):
        (directory / f"{count - 1}").write_bytes(pickle.dumps(task, pickle.HIGHEST_PROTOCOL))
    return count


def read_task(directory: Path, number: int) -> Any:
    """Read what the driver wrote for a task. Raises: FileNotFoundError if the build is over; OSError."""
    return pickle.loads((directory / f"{number}").read_bytes())
