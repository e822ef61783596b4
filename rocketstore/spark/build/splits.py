"""Read a commit log in Spark, one split in each task. The driver checks that the splits form the whole log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from rocketstore.config import SizedConfig
from rocketstore.dispatch.request_chunks import RequestChunks
from rocketstore.errors import CorruptFileError
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.join_chunks import join_chunks
from rocketstore.log.log_chunk import LogChunk
from rocketstore.spark.build.tasks import Row, attempt_name, read_task, run, write_tasks

MIN_SPLIT, MAX_SPLIT = 256 << 20, 1 << 30  # bytes of the log; a task takes 50 ms, and reads 3 GB/s from memory
SPLITS = 16  # the least number of splits, unless they would be smaller than MIN_SPLIT
CHUNK = 16 << 20  # bytes of the log that are read at once
ROOM = 32 << 20  # bytes of requests and items, after which a chunk ends early


class LogReader(NamedTuple):
    """A log that a build reads. Attributes: begin, end: physical offsets of the records."""

    log: CommitLog
    config: SizedConfig
    begin: int
    end: int
    chunk_size: int = CHUNK

    def chunks(self, begin: int, stop: int) -> RequestChunks:
        """Read the records that begin from ``begin`` to before ``stop``. A record begins at ``begin``."""
        return RequestChunks(
            self.log, self.config, begin, self.end, size=self.chunk_size, threads=1, room=ROOM, stop=stop
        )

    def plan(self, begin: int, stop: int) -> SplitPlan:
        """Plan a task that reads records from ``begin`` to before ``stop``."""
        return SplitPlan(LogChunk.of(self.log, begin, stop, self.log.reader.whole_to), *self[1:])


class SplitPlan(NamedTuple):
    """The LogReader of one split in the form that the driver sends to a task. It has listed files, not an open log."""

    log: LogChunk
    config: SizedConfig
    begin: int
    end: int
    chunk_size: int

    def open(self) -> LogReader:
        """Open the log of the split. The caller closes it."""
        return LogReader(self.log.open(), *self[1:])


def plan_splits(reader: LogReader) -> list[tuple[int, int]]:
    """Cut a log where files begin, and within large files."""
    size = min(max((reader.end - reader.begin) // SPLITS, MIN_SPLIT), MAX_SPLIT)
    cuts = [reader.begin]
    for file in reader.log.file_run.files:
        for cut in range(file.file_from_offset, min(reader.log.reader.end_of(file), reader.end), size):
            if cut >= cuts[-1] + size:
                cuts.append(cut)
    return list(pairwise([*cuts, reader.end]))


def read_log(
    spark: SparkSession,
    reader: LogReader,
    read: Callable[[LogReader, RequestChunks, str], Iterable[Row]],
    row_type: type[Row],
    directory: Path,
) -> list[Row]:
    """Read a log in Spark tasks.

    Parameters: read: gets a reader, chunks and the name of the attempt. It returns rows with the physical offsets
    ``begin`` and ``end`` of their records. directory: where the driver writes a file for each task.
    Returns: the rows of the whole log in order. Raises: CorruptFileError; OSError.
    """
    splits = ((begin, stop, reader.plan(begin, stop)) for begin, stop in plan_splits(reader))
    count = write_tasks(directory, splits)

    def read_split(number: int, attempt: str) -> list[Row]:
        begin, stop, plan = read_task(directory, number)
        own = plan.open()
        with own.log:
            first = own.log.reader.first_record(begin, stop)
            try:
                return [] if first is None else list(read(own, own.chunks(first, stop), attempt))
            except CorruptFileError:  # the split began within a body, or the driver will report the damage
                return []

    rows = run(spark, read_split, count, row_type)

    def read_again(begin: int, stop: int) -> Iterable[Row]:
        return read(reader, reader.chunks(begin, stop), attempt_name())

    return list(join_chunks(reader.begin, reader.end, rows, read_again))
