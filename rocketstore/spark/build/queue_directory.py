"""The positions of the requests of all queues in all spill files, as arrays of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from rocketstore.kernels.queue_id import QueueId

# The requests of a queue in one block of a spill file. run: number of the file. start, items: the first request and the
# number of requests. first_offset, last_offset: queue offsets of the first and the last request. first_end, last_end:
# where the records of these two end. follows: whether each request follows the one before it without a gap. falls:
# whether a request has no higher queue offset than the one before it.
ROW = np.dtype(
    [
        ("run", "<i4"), ("follows", "?"), ("falls", "?"), ("start", "<i8"), ("items", "<i8"), ("first_offset", "<i8"),
        ("last_offset", "<i8"), ("first_end", "<i8"), ("last_end", "<i8"),
    ]
)  # fmt: skip
SLICE = np.dtype([("run", "<i4"), ("start", "<i8"), ("stop", "<i8")])  # requests of a spill file


class QueueDirectory:
    """The rows of all queues. It has one ROW for each queue in each block, and the name of each queue once.

    There may be millions of rows (splits times queues), too many for a Python object each.
    """

    def __init__(self, names: list[QueueId], numbers: np.ndarray, rows: np.ndarray) -> None:
        """Keep the rows. Parameters: names: of the queues. numbers: int32[n], the queue of each row. rows: ROW[n]."""
        self._names = names
        self._numbers = numbers
        self._rows = rows

    @classmethod
    def read(cls, paths: Sequence[str]) -> QueueDirectory:
        """Read the lists of queues that are beside the spill files. Raises: OSError."""
        known: dict[QueueId, int] = {}
        numbers, rows = [np.empty(0, np.int32)], [np.empty(0, ROW)]
        for run, path in enumerate(paths):
            block = pd.read_feather(path)
            queues = map(QueueId, block["topic"].tolist(), block["queue_id"].tolist())
            numbers.append(np.array([known.setdefault(queue, len(known)) for queue in queues], np.int32))
            block_rows = np.empty(len(block), ROW)
            block_rows["run"] = run
            for name in (ROW.names or ())[1:]:
                block_rows[name] = block[name].to_numpy()
            rows.append(block_rows)
        return cls(list(known), np.concatenate(numbers), np.concatenate(rows))

    def queues(self) -> Iterator[tuple[QueueId, np.ndarray]]:
        """Yield each queue, sorted by topic and queue id, with its rows in the order of the log."""
        order = np.argsort(self._numbers, kind="stable")
        bounds = np.searchsorted(self._numbers[order], np.arange(len(self._names) + 1))
        for number in sorted(range(len(self._names)), key=self._names.__getitem__):
            yield self._names[number], self._rows[order[bounds[number] : bounds[number + 1]]]
