"""Run the tasks of a build in Spark, and pass data to them.

The data of a task is in a file of its own. Spark sends the function of the tasks, and the plan, to every task, so that
neither of them may contain the data of all tasks.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

SQL_TYPES = {int: "long", str: "string"}
Row = TypeVar("Row", bound=Any)


class Built(NamedTuple):
    """The result of one task. Attributes: items: the number of items or units that it wrote."""

    number: int
    items: int


def run(spark: SparkSession, task: Callable[[int, str], Iterable[Row]], count: int, row_type: type[Row]) -> list[Row]:
    """Call ``task`` with each number below ``count`` and the name of the attempt, each call in a Spark task.

    Returns: the rows of all calls, tuples of ``row_type``, in the order of the numbers.
    """

    def run_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                rows = [row._asdict() for row in task(number, attempt_name())]
                if rows:
                    yield pa.RecordBatch.from_pylist(rows)

    if not count:
        return []
    rows = spark.range(0, count, 1, count).mapInArrow(run_numbers, schema_of(row_type)).collect()
    return [row_type(*row) for row in rows]


def schema_of(row_type: type[Any]) -> str:
    return ", ".join(f"{name} {SQL_TYPES[kind]}" for name, kind in get_type_hints(row_type).items())


def attempt_name() -> str:
    """Return a name for this attempt of this task that is unique in the application."""
    context = TaskContext.get()
    if context is None:
        return f"driver-{uuid.uuid4().hex}"
    return f"{context.partitionId():06}-{context.taskAttemptId()}"


def run_all(spark: SparkSession, make: Callable[[int, str], int], count: int) -> int:
    """Call ``make`` in tasks as ``run`` does. Return the sum of its results, which are numbers of items.

    Raises: RuntimeError unless all tasks have finished.
    """

    def build(number: int, attempt: str) -> Iterator[Built]:
        yield Built(number, make(number, attempt))

    built = run(spark, build, count, Built)
    if [result.number for result in built] != list(range(count)):
        raise RuntimeError(f"only {len(built)} of {count} tasks have finished")
    return sum(result.items for result in built)


# ---- the data of tasks -----------------------------------------------------------------------------------


def write_tasks(directory: Path, tasks: Iterable[Any]) -> int:
    """Write the data of each task to a file that is named by the task's number. Return the number of tasks.

    Parameters: directory: to make, in the working directory of the build, which the driver and all workers share.
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
