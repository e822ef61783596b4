"""RequestChunks: the requests and items of a commit log, read by several threads and given in the log's order."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Generator, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.disk.ahead import read_ahead
from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.work_threads import Task, work_threads
from rocketstore.errors import DAMAGE_ADVICE, ENTRIES_ADVICE, GAP_ADVICE, CorruptFileError
from rocketstore.kernels.dispatch import RequestScanner
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.join_chunks import join_chunks
from rocketstore.log.record_reader import SPAN

CHUNK = 8 << 20  # bytes of the log
ROOM = 16 << 20  # bytes of requests and items
THREADS = min(os.cpu_count() or 1, 4)


class RequestChunk(NamedTuple):
    """The requests, REQUEST[n], and items, ITEM[n], of the records from ``begin`` to before ``end``, bytes.

    Attributes: last: physical offset and store time of the last record; None without records. has_inner: whether a
    record is an inner batch.
    """

    requests: np.ndarray
    items: np.ndarray
    begin: int
    end: int
    last: tuple[int, int] | None
    has_inner: bool


class RequestChunks:
    """Reads the requests of a part of a log, chunk by chunk. Attributes: queues: by their number in requests.

    Threads read chunks of about equal size, each from the first record that is found in it; see ``join_chunks``.
    """

    def __init__(
        self,
        log: CommitLog,
        config: StoreConfig,
        begin: int,
        end: int,
        *,
        size: int = CHUNK,
        threads: int = THREADS,
        room: int = ROOM,
        stop: int = LONG_MAX,
    ) -> None:
        """Prepare to read the complete records between two physical offsets.

        Parameters: stop: only records that begin before this offset are read. size: bytes of the log in a chunk. room:
        bytes of requests and items after which a chunk ends early, so that records with many keys need no more memory.
        """
        self.queues: list[QueueId] = []
        self._numbers: dict[QueueId, int] = {}
        self._log = log
        self._options: dict[str, Any] = {
            "message_delay_level": config.message_delay_level,
            "indexes_tags": Compat.of(config.compat).indexes_tags,
            "framing": log.reader.framing,
        }
        self._begin, self._end, self._stop = begin, end, min(stop, end)
        self._size = size
        self._room = room
        self._threads = threads
        self._lock = threading.Lock()

    def __iter__(self) -> Generator[RequestChunk, None, None]:
        """Yield all records, in the order of the log. Raises: CorruptFileError for bytes that are no record."""
        with (
            work_threads(self._threads, "rocketstore-requests") as threads,
            read_ahead(threads, self._threads, self._read_from, self._bounds()) as results,
        ):
            yield from join_chunks(self._begin, self._stop, sound_chunks(results), self._read_again)

    def _bounds(self) -> Iterator[tuple[int, int]]:
        """Yield where chunks begin and end, bytes. A chunk is in one file, as every record is."""
        for file in self._log.file_run.between(self._begin, self._stop):
            end = min(self._log.reader.end_of(file), self._stop)
            for begin in range(max(file.file_from_offset, self._begin), end, self._size):
                yield begin, min(begin + self._size, end)

    def _read_from(self, begin: int, stop: int) -> RequestChunk | None:
        """Read a chunk that may begin within a record. Return None if no record is found in it."""
        found = self._log.reader.first_record(begin, stop)
        return None if found is None else self._read(found, stop)

    def _read_again(self, begin: int, stop: int) -> Iterator[RequestChunk]:
        """Read the records that begin from ``begin``, where a record begins, to before ``stop``."""
        while begin < stop:
            chunk = self._read(begin, min(begin + self._size, stop))
            yield chunk
            begin = chunk.end

    def _read(self, begin: int, stop: int) -> RequestChunk:
        """Read the records of one file that begin before ``stop``. A blank ends the chunk at the end of the file."""
        file = self._log.file_run.find(begin)
        if file is None:
            advice = ENTRIES_ADVICE if self._log.reader.framing else GAP_ADVICE
            reason = f"none has this physical offset: {advice}"
            raise CorruptFileError(self._log.directories[0], begin, "file", reason)
        scanner, end = self._scan(file, begin, stop)
        last = scanner.last_phy_offset, scanner.last_store_timestamp
        requests, items = scanner.take()
        if len(requests):
            requests["queue"] = self._numbers_of(scanner.queues)[requests["queue"]]
        if end < stop and requests.nbytes + items.nbytes < self._room:
            end = min(self._log.reader.end_of(file), self._end)
        return RequestChunk(requests, items, begin, end, last if last[0] >= 0 else None, scanner.has_inner)

    def _scan(self, file: RunFile, begin: int, stop: int) -> tuple[RequestScanner, int]:
        failure: Exception = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file.path))
        for window in self._log.reader.windows(begin, stop - begin + SPAN, self._stop):
            scanner = RequestScanner(**self._options)
            try:
                return scanner, scanner.scan(*window, begin, self._end, stop - begin, self._room)
            except CorruptFileError as error:  # or the last record continues behind this window
                at = window.from_offset - file.file_from_offset + error.offset
                advice = ENTRIES_ADVICE if self._log.reader.framing else DAMAGE_ADVICE
                failure = CorruptFileError(file.path, at, error.field, f"{error.reason}: {advice}")
        raise failure

    def _numbers_of(self, queues: list[QueueId]) -> np.ndarray:
        """Return the numbers in ``queues`` of this object for the queues of a scanner, int32[n]."""
        with self._lock:
            for queue in queues:
                if queue not in self._numbers:
                    self._numbers[queue] = len(self.queues)
                    self.queues.append(queue)
            return np.array([self._numbers[queue] for queue in queues], np.int32)


def sound_chunks(results: Iterable[tuple[object, Task[RequestChunk | None]]]) -> Iterator[RequestChunk]:
    """Yield the chunks that were read. A chunk that begins within a body may raise CorruptFileError; it is left out.

    Damage is found again when the gap is read again.
    """
    for _, task in results:
        try:
            chunk = task.result()
        except CorruptFileError:
            continue
        if chunk is not None:
            yield chunk
