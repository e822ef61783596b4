"""DatasetReader: the messages within bounds, from the index if a key is bound, else by a scan of the log."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from rocketstore.dataset.bounds import Bounds, is_impossible, scan_conditions
from rocketstore.errors import CorruptFileError, UnsupportedFormatError, text_of
from rocketstore.index.index_service import IndexService
from rocketstore.kernels.message_columns import BATCH_NAMES
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_reader import MAX_BATCH_BYTES
from rocketstore.log.scan import Scan
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.query.coverage import Coverage
from rocketstore.query.query_messages import query_messages

MAX_SCAN = 1 << 40  # items of the index: more than an index can have
ROWS_AT_ONCE = 16384  # messages in a batch of a scan at most
THREADS = min(os.cpu_count() or 1, 8)  # each holds the messages of some 32 MiB of the log


class KeyedStore(Protocol):
    """The parts of a ``MessageStore`` that a dataset reads."""

    @property
    def commit_log(self) -> CommitLog: ...

    @property
    def index(self) -> IndexService | None: ...

    @property
    def coverage(self) -> Coverage: ...

    @property
    def reads_other_logs(self) -> bool:
        """Whether scans also read compacted topics or tiered storage."""

    @property
    def compacted(self) -> bool:
        """Whether scans give the messages that consumers of compacted topics get."""

    @property
    def scan(self) -> Callable[..., Scan]:
        """Reads messages. Parameters: as for ``CommitLog.scan``."""


@dataclass(frozen=True)
class DatasetReader:
    """Reads the messages of a store within bounds.

    Attributes: keys: a condition of its own: one of them is a word of KEYS, or UNIQ_KEY; None for all messages.
    on_corrupt: as for ``CommitLog.scan``.
    """

    store: KeyedStore
    keys: tuple[str, ...] | None = None
    on_corrupt: Literal["raise", "skip"] = "raise"

    def read(
        self, bounds: Bounds, names: Iterable[str], *, threads: int = 1, batch_size: int = ROWS_AT_ONCE
    ) -> Iterator[MessageBatch]:
        """Yield all messages within the bounds, and perhaps others, in the order of the log.

        Parameters: names: of columns in tables. threads, batch_size: as for ``CommitLog.scan``.
        Raises: as a scan; errors of reading come with the batches.
        """
        columns = [BATCH_NAMES[name] for name in names]
        if is_impossible(bounds):
            return
        conditions = scan_conditions(bounds)
        if self.store.compacted:  # compacted logs have physical offsets of their own
            conditions.pop("begin_offset", None)
            conditions.pop("end_offset", None)
        if self.keys is not None:
            conditions["key"] = self.keys
        offsets = None
        if "key" in conditions and "topic" in conditions and not self.store.reads_other_logs:
            offsets = find_phy_offsets(self.store, conditions["topic"], list(conditions["key"]))
        if offsets is not None:
            begin, end = conditions.get("begin_offset", 0), conditions.get("end_offset", LONG_MAX)
            yield from self._read_at(offsets[(begin <= offsets) & (offsets < end)], columns)
            return
        read = self.store.scan if self.store.reads_other_logs else self.store.commit_log.scan
        scan = read(columns=columns, on_corrupt=self.on_corrupt, threads=threads, batch_size=batch_size, **conditions)
        yield from scan
        for part in scan.skipped:
            warnings.warn(f"{text_of(part.error)}: offsets {part.begin} to {part.end} are left out", stacklevel=2)

    def _read_at(self, offsets: np.ndarray, columns: list[str]) -> Iterator[MessageBatch]:
        """Yield the messages at physical offsets, in batches of records that are not much larger than a scan's."""
        log, bad_bodies = self.store.commit_log, BadBodies()
        if not len(offsets):
            return
        sizes, statuses = log.find_messages(offsets, columns=["size"])
        lost = offsets[statuses != 0]
        lost = lost[lost >= log.min_phy_offset]  # the others have expired since the index was read
        if len(lost) and self.on_corrupt == "raise":
            log.get_messages(lost[:1], columns=["size"])  # raises the error of that record
        offsets = offsets[statuses == 0]
        parts = np.cumsum(sizes.size, dtype=np.int64) // MAX_BATCH_BYTES
        for part in np.split(offsets, np.flatnonzero(np.diff(parts)) + 1):
            batch = log.find_messages(part, columns=columns)[0]
            yield from log.reader.with_bodies(batch, MAX_BATCH_BYTES, bad_bodies)
        bad_bodies.warn()


def find_phy_offsets(store: KeyedStore, topics: Iterable[str], keys: list[str]) -> np.ndarray | None:
    """Find the physical offsets, int64[n], ascending, of all messages of topics with one of these keys by the index.

    Return None if the index is missing, cannot be read, or may lack messages. Unknown topics have no messages.
    """
    try:
        if store.index is None:
            return None
    except (CorruptFileError, UnsupportedFormatError, ValueError):
        return None
    offsets = [np.empty(0, np.int64)]
    for topic in topics:
        found = query_messages(store.coverage.look(None), topic, keys, LONG_MAX, LONG_MIN, LONG_MAX, None, MAX_SCAN, 1)
        if not found.complete.all():
            return None
        offsets.append(found.phy_offsets)
    return np.unique(np.concatenate(offsets))
