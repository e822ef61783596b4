"""Build the consume queues of a store from its commit log.

    split of the log -> requests sorted by queue in a spill file, and a list of the queues in it
    -> check on the driver that a queue's offsets are contiguous -> one task for some files of queues -> rename

If the offsets of a queue are contiguous, several tasks build its files. Each of them begins with a new file. One task
builds the whole queue if the offsets have gaps, or if it is a batch queue or has ext units.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from rocketstore.config import StoreConfig
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.light_queues import with_more
from rocketstore.dispatch.request_chunks import RequestChunks
from rocketstore.dispatch.topic_lives import DeletedTopics, TopicLives, are_earlier, are_valid, topic_notes
from rocketstore.kernels.dispatch import INNER_DISPATCH, MULTI_DISPATCH, REQUEST
from rocketstore.kernels.queue_id import QueueId
from rocketstore.logger import logger
from rocketstore.messages.topics import is_file_name
from rocketstore.rebuild.build import Build
from rocketstore.rebuild.rebuild import Rebuilder, RebuildOptions
from rocketstore.recovery.settings import warn_of
from rocketstore.spark.build.directories import (
    BuildDirectories,
    BuildReport,
    new_place,
    publish,
    sweep,
    working_directories,
)
from rocketstore.spark.build.queue_directory import SLICE, QueueDirectory
from rocketstore.spark.build.spill import Run, Slice, read_entries
from rocketstore.spark.build.splits import LogReader, read_log
from rocketstore.spark.build.tasks import read_task, run_all, write_tasks
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.requirements import begin_entry

BLOCK = 64 << 20  # bytes of requests that are sorted at once
TASK_UNITS = 2 << 20  # units that one task builds, approximately


class RequestRun(NamedTuple):
    """The requests of a part of the log.

    Attributes: begin, end: physical offsets of the part. path: of the spill file. queues: path of the list of its
    queues. Both paths are "" without requests.
    """

    begin: int
    end: int
    path: str
    queues: str


class QueuePart(NamedTuple):
    """A queue or some files of a queue, and the requests of their units.

    Attributes: slices: SLICE[n]. paths: of all spill files; ``run`` of a slice is an index of this list. restarts:
    where the queue offsets began again: see ``are_earlier``.
    """

    queue: QueueId
    slices: np.ndarray
    paths: list[str]
    restarts: Sequence[tuple[int, int]] = ()

    @property
    def units(self) -> int:
        return int((self.slices["stop"] - self.slices["start"]).sum())

    def requests(self) -> Iterator[Slice]:
        """Yield the slices of spill files that have the requests, for ``read_entries``."""
        for run, start, stop in self.slices.tolist():
            yield Slice(Run(self.paths[run], start, stop - start), 0, stop - start)

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the requests, REQUEST[n], in the order of the log, in blocks. Raises: OSError."""
        yield from read_entries(self.requests(), REQUEST)

    def are_left_out(self, requests: np.ndarray) -> np.ndarray:
        """Return whether the records of requests belong to an earlier life of the topic, bool[n]."""
        return are_earlier(self.restarts, requests["phy_offset"], requests["msg_base_offset"])


def rebuild_consume_queue(
    spark: SparkSession,
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    scratch: str | os.PathLike[str] | None = None,
    config: StoreConfig | None = None,
    deleted: bool = False,
) -> BuildReport:
    """Build the consume queues of a store from its commit log. The files are those of ``rebuild``.

    The store is only read. All workers must be able to read the log. ``out`` and ``scratch`` must be the same
    directories for driver and workers.

    Parameters
    ----------
    store : the root of the store, or its URI. No broker and no rocketstore may write to it meanwhile.
    out : the new directory, with ``consumequeue``, ``batchconsumequeue`` and ``consumequeue_ext`` if they have files.
        It appears when it is complete. Until then the files are in a hidden directory beside it.
    scratch : directory for the spill files, 48 bytes a message. Default: beside ``out``.
    config, deleted : as for ``rebuild``.

    Returns
    -------
    BuildReport.

    Raises
    ------
    FileExistsError : ``out`` exists and is not an empty directory.
    ValueError : a size is not known.
    CorruptFileError : the log is damaged before its tail.
    StoreLockedError, StoreError, OSError.

    After an error, no file of the build remains.

    Source: ConsumeQueue.putMessagePositionInfoWrapper for each message.
    """
    started = time.perf_counter()
    out = new_place(out)
    survey = begin_entry("spark rebuild_consume_queue", store, config)
    rebuilder = Rebuilder.of(survey, Build(True, False, None, False), RebuildOptions())
    opened, repair = rebuilder.open_log(last_file=True)
    with opened.log, working_directories(out, scratch) as directories:
        reader = LogReader(opened.log, rebuilder.config, opened.log.min_phy_offset, repair.end)

        def read(batches: set[str]) -> list[RequestRun]:
            def spill(reader: LogReader, chunks: RequestChunks, attempt: str) -> Iterator[RequestRun]:
                yield from spill_requests(chunks, reader, batches, directories.spills / attempt)

            return read_log(spark, reader, spill, RequestRun, directories.work / "split-tasks")

        lives = None if deleted else TopicLives(opened.known_topics)
        runs = read({*rebuilder.batches})
        if rebuilder.add_batches(inner_topics(runs), lives) and rebuilder.config.enable_multi_dispatch:
            runs = read({*rebuilder.batches})  # topics of batches have no units in light queues
        parts, left_out = plan_queues(runs, rebuilder, lives)
        rebuilder.assumed.add_queues(part.queue for part in parts)
        for topic, messages in named_messages(runs):
            rebuilder.assumed.add_named(topic, messages)
        count = build_queues(spark, parts, reader, rebuilder.batches, directories)
        publish(directories.files, out)
    files = sorted(path for path in out.rglob("*") if path.is_file())
    assumptions = warn_of(rebuilder.find_assumptions(), rebuilder.root)
    for text in topic_notes(left_out.messages, left_out.undeclared, left_out.doubtful, "deleted=True"):
        logger.warning("%s", text)
    seconds = time.perf_counter() - started
    return BuildReport(files, count, seconds, assumptions, left_out.messages, left_out.undeclared, left_out.doubtful)


# ---- first pass: spill -----------------------------------------------------------------------------------


def spill_requests(chunks: RequestChunks, reader: LogReader, batches: set[str], path: Path) -> Iterator[RequestRun]:
    """Write the requests of all chunks in blocks that are sorted by queue, and a list of the queues in each block."""
    begin = end = -1
    waiting: list[np.ndarray] = []
    blocks: list[pd.DataFrame] = []
    with path.open("xb") as file:
        for chunk in chunks:
            begin, end = begin if begin >= 0 else chunk.begin, chunk.end
            waiting.append(chunk.requests)
            if sum(requests.nbytes for requests in waiting) > BLOCK:
                blocks.append(write_block(np.concatenate(waiting), chunks.queues, reader, batches, file))
                waiting = []
        if any(len(requests) for requests in waiting):
            blocks.append(write_block(np.concatenate(waiting), chunks.queues, reader, batches, file))
    if blocks:
        pd.concat(blocks).reset_index(drop=True).to_feather(f"{path}.queues")
    if begin >= 0:
        yield RequestRun(begin, end, *((str(path), f"{path}.queues") if blocks else ("", "")))


def write_block(
    requests: np.ndarray, queues: Sequence[QueueId], reader: LogReader, batches: set[str], file: BinaryIO
) -> pd.DataFrame:
    """Write requests sorted by queue. Return for each queue where its requests are, and if they are contiguous."""
    requests, queues = with_more(reader.log, reader.config, requests, queues, batches)
    position = file.tell()
    # NumPy sorts 8-bit and 16-bit numbers by radix, which is faster.
    requests = requests[np.argsort(requests["queue"].astype(np.min_scalar_type(len(queues))), kind="stable")]
    requests.tofile(file)
    starts = np.flatnonzero(np.diff(requests["queue"], prepend=-1))
    numbers = requests["queue"][starts]
    lasts = np.append(starts[1:], len(requests)) - 1
    offsets, ends = requests["msg_base_offset"], requests["phy_offset"] + requests["size"]
    follows = np.append(True, (np.diff(offsets) == 1) & (np.diff(ends) > 0))
    follows[starts] = True
    falls = np.diff(offsets, prepend=offsets[:1]) <= 0
    falls[starts] = False
    return pd.DataFrame(
        {
            "topic": [queues[number][0] for number in numbers.tolist()],
            "queue_id": [queues[number][1] for number in numbers.tolist()],
            "start": position // REQUEST.itemsize + starts,
            "items": lasts - starts + 1,
            "first_offset": offsets[starts],
            "last_offset": offsets[lasts],
            "first_end": ends[starts],
            "last_end": ends[lasts],
            "follows": np.logical_and.reduceat(follows, starts),
            "falls": np.logical_or.reduceat(falls, starts),
            "named": np.add.reduceat(np.int64(requests["flags"] & MULTI_DISPATCH != 0), starts),
            "has_inner": np.logical_or.reduceat(requests["flags"] & INNER_DISPATCH != 0, starts),
        }
    )


# ---- the driver's part -----------------------------------------------------------------------------------


def inner_topics(runs: list[RequestRun]) -> set[str]:
    """Return the topics that have inner batches."""
    found: set[str] = set()
    for run in runs:
        if run.queues:
            block = pd.read_feather(run.queues, columns=["topic", "has_inner"])
            found.update(block.loc[block["has_inner"], "topic"])
    return found


def named_messages(runs: list[RequestRun]) -> Iterator[tuple[str, int]]:
    """Yield a topic, and the number of messages in a block that name more queues than their own."""
    for run in runs:
        if run.queues:
            block = pd.read_feather(run.queues, columns=["topic", "named"])
            yield from block.loc[block["named"] > 0].itertuples(index=False, name=None)


def plan_queues(
    runs: list[RequestRun], rebuilder: Rebuilder, lives: TopicLives | None
) -> tuple[list[QueuePart], DeletedTopics]:
    """Return the parts of queues that can be built independently, and the deleted topics.

    Parameters: lives: new; None to leave out no records.
    """
    spilled = [run for run in runs if run.queues]
    paths = [run.path for run in spilled]
    directory = QueueDirectory.read([run.queues for run in spilled])
    if lives is not None:
        for queue, rows in directory.queues():
            add_records(lives, whole_queue(queue, rows, paths), rows)
        lives.finish()
    parts: list[QueuePart] = []
    left_out: dict[QueueId, int] = {}
    for queue, rows in directory.queues():
        if not is_file_name(queue[0]):
            logger.warning("topic %.80r cannot be the name of a directory: its messages have no units", queue[0])
        elif lives is not None and lives.is_queue_left_out(queue):
            left_out[queue] = int(rows["items"].sum())
        elif lives is not None and (restarts := lives.restarts_of(queue)):
            part = whole_queue(queue, rows, paths)._replace(restarts=restarts)
            left_out[queue] = sum(int(part.are_left_out(requests).sum()) for requests in part.blocks())
            parts.append(part)
        else:
            bounds = bounds_of(queue, rows, rebuilder)
            parts += [QueuePart(queue, slices, paths) for slices in slices_between(rows, bounds)]
    return parts, DeletedTopics() if lives is None else lives.result(left_out)


def whole_queue(queue: QueueId, rows: np.ndarray, paths: list[str]) -> QueuePart:
    (slices,) = slices_between(rows, [(0, int(rows["items"].sum()))])
    return QueuePart(queue, slices, paths)


def add_records(lives: TopicLives, part: QueuePart, rows: np.ndarray) -> None:
    """Add the records of a whole queue. If their queue offsets only rise, the first and the last record suffice."""
    first, last = rows[0], rows[-1]
    offsets = np.array([first["first_offset"], last["last_offset"]])
    is_rising = not rows["falls"].any() and (rows["first_offset"][1:] > rows["last_offset"][:-1]).all()
    if not is_rising or not are_valid(offsets).all():
        for requests in part.blocks():
            lives.add(part.queue, *(requests[name] for name in ("phy_offset", "msg_base_offset", "batch_size")))
    else:
        within = np.array([first["first_end"], last["last_end"]]) - 1  # a physical offset within each record
        lives.add(part.queue, within, offsets, np.ones(2, np.int64))


def bounds_of(queue: QueueId, rows: np.ndarray, rebuilder: Rebuilder) -> list[tuple[int, int]]:
    """Return the ranges of requests that can be built independently.

    A range begins where a file of units begins. The whole queue is one range if the place of a unit depends on others.
    """
    total, first = int(rows["items"].sum()), int(rows["first_offset"][0])
    if queue[0] in rebuilder.batches or rebuilder.config.enable_consume_queue_ext or not is_contiguous(rows):
        return [(0, total)]
    file_units = -(-rebuilder.config.mapped_file_size_consume_queue // 20)
    units = max(TASK_UNITS // file_units, 1) * file_units
    cuts = [first, *range(first - first % units + units, first + total, units), first + total]
    return [(begin - first, stop - first) for begin, stop in pairwise(cuts)]


def is_contiguous(rows: np.ndarray) -> bool:
    """Return whether each request of a queue has the next queue offset, and a later record, than the one before it."""
    offsets = rows["first_offset"][1:] - rows["last_offset"][:-1]
    ends = rows["first_end"][1:] - rows["last_end"][:-1]
    return bool(rows["follows"].all() and (offsets == 1).all() and (ends > 0).all())


def slices_between(rows: np.ndarray, bounds: Iterable[tuple[int, int]]) -> Iterator[np.ndarray]:
    """Yield, for each (begin, stop) of ``bounds``, the slices with these requests of a queue: SLICE[n]."""
    ends = np.cumsum(rows["items"], dtype=np.int64)
    for begin, stop in bounds:
        touched = slice(int(np.searchsorted(ends, begin, "right")), int(np.searchsorted(ends, stop, "left")) + 1)
        firsts = ends[touched] - rows["items"][touched]
        slices = np.empty(len(firsts), SLICE)
        slices["run"] = rows["run"][touched]
        slices["start"] = rows["start"][touched] + np.maximum(begin - firsts, 0)
        slices["stop"] = rows["start"][touched] + np.minimum(stop - firsts, rows["items"][touched])
        yield slices


# ---- second pass: build ----------------------------------------------------------------------------------


def build_queues(
    spark: SparkSession, parts: list[QueuePart], reader: LogReader, batches: set[str], directories: BuildDirectories
) -> int:
    """Build the files of all parts, some parts in each task. Return the number of units in all files."""
    directory = directories.work / "queue-tasks"
    count = write_tasks(directory, tasks_of(parts))
    plan = reader.plan(reader.begin, reader.begin)  # tasks read nothing of the log, since a request has all of its unit

    def build(number: int, attempt: str) -> int:
        own = plan.open()
        with own.log:
            return build_parts(read_task(directory, number), own, batches, directories, attempt)

    return run_all(spark, build, count)


def tasks_of(parts: Iterable[QueuePart]) -> Iterator[list[QueuePart]]:
    """Yield the parts of each task. Each task but the last has at least TASK_UNITS units."""
    task: list[QueuePart] = []
    size = 0
    for part in parts:
        task.append(part)
        size += part.units
        if size >= TASK_UNITS:
            yield task
            task, size = [], 0
    if task:
        yield task


def build_parts(
    parts: list[QueuePart], reader: LogReader, batches: set[str], directories: BuildDirectories, attempt: str
) -> int:
    """Build some files in a directory of their own, move the complete files, and return the number of units."""
    root, units = directories.attempts / attempt, 0
    root.mkdir()
    try:
        with contextlib.closing(
            Dispatcher(StorePlaces.of(root), reader.config, reader.log, None, batches)
        ) as dispatcher:
            for part in parts:
                directories.files.stat()  # raises if the build is over; the files of this attempt would remain
                for requests in part.blocks():
                    requests["queue"] = 0
                    units += dispatcher.put_requests(requests[~part.are_left_out(requests)], [part.queue])
            dispatcher.flush()
        for path in sorted(root.rglob("*")):
            target = directories.files / path.relative_to(root)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                path.rename(target)
    finally:
        sweep([root if directories.files.exists() else directories.work])
    return units
