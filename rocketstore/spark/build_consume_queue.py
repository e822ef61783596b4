"""Building a store's consume queues from its commit log.

    split of the log -> requests sorted by queue in a spill file, and a list of the queues in it
    -> proof on the driver that a queue's offsets follow each other -> one task for some files of queues -> rename

The files of a queue without gaps are built by several tasks: each begins with a file. Another queue, of batches or
with ext units too, is built by one task from its beginning.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from rocketstore.config import StoreConfig
from rocketstore.kernels.dispatch import INNER_DISPATCH, REQUEST
from rocketstore.spark.build import (
    BuildReport,
    Places,
    new_place,
    publish,
    run_all,
    sweep,
    working_places,
)
from rocketstore.spark.spill import Run, Slice, read_entries, slices_of
from rocketstore.spark.splits import LogReader, read_log
from rocketstore.store.dispatch import Dispatcher, Queue, is_file_name, with_more
from rocketstore.store.rebuild import Build, Rebuilder
from rocketstore.store.request_pieces import RequestPieces

__all__ = ["rebuild_consume_queue"]

logger = logging.getLogger("rocketstore")

BLOCK = 64 << 20  # bytes of requests that are sorted at once
TASK_UNITS = 2 << 20  # of one task, about


class RequestRun(NamedTuple):
    """What a part of the log gives to queues: where its records begin and end; its files, "" if there are none."""

    begin: int
    end: int
    path: str
    queues: str


class QueuePart(NamedTuple):
    """A queue, or some files of it, and the requests that these are built from."""

    queue: Queue
    slices: list[Slice]

    @property
    def units(self) -> int:
        return sum(stop - start for _, start, stop in self.slices)


def rebuild_consume_queue(
    spark: SparkSession,
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    scratch: str | os.PathLike[str] | None = None,
    config: StoreConfig | None = None,
) -> BuildReport:
    """Build the consume queues of a store from its commit log, file for file as ``rebuild`` does. It is only read.

    The log must be where all workers can read it, ``out`` and ``scratch`` the same directories for all.

    Parameters
    ----------
    store : the root of the store, or its URI, which no broker and no rocketstore may be writing.
    out : the directory to make, with ``consumequeue``, ``batchconsumequeue`` and ``consumequeue_ext`` as far as there
        are any. It appears when it is complete; until then work is in a hidden one beside it.
    scratch : where to spill 48 bytes a message; default: beside ``out``.
    config : as for ``rebuild``.

    Returns
    -------
    BuildReport.

    Raises
    ------
    FileExistsError : ``out`` is there and not an empty directory.
    ValueError : a size is not known. CorruptFileError : the log is damaged before its tail.
    StoreLockedError, StoreError, OSError. Nothing is left.

    Source: ConsumeQueue.putMessagePositionInfoWrapper for each message.
    """
    started = time.perf_counter()
    out = new_place(out)
    rebuilder = Rebuilder.of(store, Build(True, False, None, False), config)
    plan = rebuilder.look_only(last_file=True)
    with plan.log, working_places(out, scratch) as places:
        reader = LogReader(plan.log, rebuilder.config, plan.log.min_phy_offset, plan.end)

        def read(batches: set[str]) -> list[RequestRun]:
            def spill(pieces: RequestPieces, attempt: str) -> Iterator[RequestRun]:
                yield from spill_requests(pieces, reader, batches, places.spills / attempt)

            return read_log(spark, reader, spill, RequestRun)

        runs = read({*rebuilder.batches})
        if rebuilder.find_batches(inner_topics(runs)) and rebuilder.config.enable_multi_dispatch:
            runs = read({*rebuilder.batches})  # without their units in light queues
        parts = plan_queues(runs, rebuilder)
        count = build_queues(spark, parts, reader, rebuilder.batches, places)
        publish(places.files, out)
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return BuildReport(files, count, time.perf_counter() - started)


# ---- first pass: spill -------------------------------------------------------------------------------------


def spill_requests(
    pieces: RequestPieces, reader: LogReader, batches: set[str], path: Path
) -> Iterator[RequestRun]:
    """Write the requests of all pieces, by queue in each block, and beside them where those of each queue are."""
    begin = end = -1
    waiting: list[np.ndarray] = []
    blocks: list[pd.DataFrame] = []
    with path.open("xb") as file:
        for piece in pieces:
            begin, end = begin if begin >= 0 else piece.begin, piece.end
            waiting.append(piece.requests)
            if sum(requests.nbytes for requests in waiting) > BLOCK:
                blocks.append(write_block(np.concatenate(waiting), pieces.queues, reader, batches, file))
                waiting = []
        if any(len(requests) for requests in waiting):
            blocks.append(write_block(np.concatenate(waiting), pieces.queues, reader, batches, file))
    if blocks:
        pd.concat(blocks).reset_index(drop=True).to_feather(f"{path}.queues")
    if begin >= 0:
        yield RequestRun(begin, end, *((str(path), f"{path}.queues") if blocks else ("", "")))


def write_block(
    requests: np.ndarray, queues: Sequence[Queue], reader: LogReader, batches: set[str], file: BinaryIO
) -> pd.DataFrame:
    """Write requests, sorted by queue. Returns: a row for each queue: where its requests are, and how they follow."""
    requests, queues = with_more(reader.log, reader.config, requests, queues, batches)
    position = file.tell()
    # Of few queues the numbers are short: such are sorted by radix.
    requests = requests[np.argsort(requests["queue"].astype(np.min_scalar_type(len(queues))), kind="stable")]
    requests.tofile(file)
    starts = np.flatnonzero(np.diff(requests["queue"], prepend=-1))
    numbers = requests["queue"][starts]
    lasts = np.append(starts[1:], len(requests)) - 1
    offsets, ends = requests["msg_base_offset"], requests["phy_offset"] + requests["size"]
    follows = np.append(True, (np.diff(offsets) == 1) & (np.diff(ends) > 0))
    follows[starts] = True
    return pd.DataFrame({
        "topic": [queues[number][0] for number in numbers.tolist()],
        "queue_id": [queues[number][1] for number in numbers.tolist()],
        "start": position // REQUEST.itemsize + starts, "items": lasts - starts + 1,
        "first_offset": offsets[starts], "last_offset": offsets[lasts],
        "first_end": ends[starts], "last_end": ends[lasts],
        "follows": np.logical_and.reduceat(follows, starts),
        "has_inner": np.logical_or.reduceat(requests["flags"] & INNER_DISPATCH != 0, starts),
    })


# ---- the driver's part -------------------------------------------------------------------------------------


def inner_topics(runs: list[RequestRun]) -> set[str]:
    """The topics that have inner batches."""
    blocks = [pd.read_feather(run.queues) for run in runs if run.queues]
    return {topic for block in blocks for topic in block.loc[block["has_inner"], "topic"]}


def plan_queues(runs: list[RequestRun], rebuilder: Rebuilder) -> list[QueuePart]:
    """Find what can be built by itself."""
    blocks = [pd.read_feather(run.queues).assign(path=run.path) for run in runs if run.queues]
    if not blocks:
        return []
    directory = pd.concat(blocks)
    parts = []
    for queue, rows in directory.groupby(["topic", "queue_id"]):
        if is_file_name(queue[0]):
            file_runs = [Run(*row) for row in rows[["path", "start", "items"]].itertuples(index=False, name=None)]
            parts += [QueuePart(queue, slices) for slices in slices_of(file_runs, bounds_of(queue, rows, rebuilder))]
        else:
            logger.warning("topic %.80r cannot be the name of a directory: its messages have no units", queue[0])
    return parts


def bounds_of(queue: Queue, rows: pd.DataFrame, rebuilder: Rebuilder) -> list[tuple[int, int]]:
    """Cut the requests of a queue where files of units begin; not at all if a unit may be elsewhere."""
    total, first = int(rows["items"].sum()), int(rows["first_offset"].iloc[0])
    if queue[0] in rebuilder.batches or rebuilder.config.enable_consume_queue_ext or not is_contiguous(rows):
        return [(0, total)]
    file_units = -(-rebuilder.config.mapped_file_size_consume_queue // 20)
    units = max(TASK_UNITS // file_units, 1) * file_units
    cuts = [first, *range(first - first % units + units, first + total, units), first + total]
    return [(begin - first, stop - first) for begin, stop in pairwise(cuts)]


def is_contiguous(rows: pd.DataFrame) -> bool:
    """Whether each request of a queue has the queue offset that follows, and a record that follows."""
    offsets = rows["first_offset"].to_numpy()[1:] - rows["last_offset"].to_numpy()[:-1]
    ends = rows["first_end"].to_numpy()[1:] - rows["last_end"].to_numpy()[:-1]
    return bool(rows["follows"].all() and (offsets == 1).all() and (ends > 0).all())


# ---- second pass: build ------------------------------------------------------------------------------------


def build_queues(
    spark: SparkSession, parts: list[QueuePart], reader: LogReader, batches: set[str], places: Places
) -> int:
    """Build the files of all parts, some parts in a task. Returns: the units in them."""
    tasks: list[list[QueuePart]] = []
    size = TASK_UNITS
    for part in parts:
        if size >= TASK_UNITS:
            tasks.append([])
            size = 0
        tasks[-1].append(part)
        size += part.units

    def build(number: int, attempt: str) -> int:
        return build_parts(tasks[number], reader, batches, places, attempt)

    return run_all(spark, build, len(tasks))


def build_parts(
    parts: list[QueuePart], reader: LogReader, batches: set[str], places: Places, attempt: str
) -> int:
    """Build some files beside the others, and rename them when they are complete. Returns: the units in them."""
    root, units = places.attempts / attempt, 0
    root.mkdir()
    try:
        with contextlib.closing(Dispatcher(root, reader.config, reader.log, None, batches)) as dispatcher:
            for part in parts:
                places.files.stat()  # else the build is over: what is made now nobody would sweep
                for requests in read_entries(part.slices, REQUEST):
                    requests["queue"] = 0
                    units += dispatcher.put_requests(requests, [part.queue])
            dispatcher.flush()
        for path in sorted(root.rglob("*")):
            target = places.files / path.relative_to(root)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                path.rename(target)
    finally:
        sweep([root if places.files.exists() else places.work])
    return units
