"""What queues and index are built from, read from a commit log by several threads and given in the log's order."""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from rocketstore.config import Compat, StoreConfig
from rocketstore.disk.mapped_file import LogFile
from rocketstore.errors import DAMAGE_ADVICE, GAP_ADVICE, CorruptFileError
from rocketstore.kernels.dispatch import ITEM, REQUEST, RequestScanner
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_reader import SPAN

__all__ = ["Piece", "RequestPieces"]

PIECE = 8 << 20  # bytes of the log
ROOM = 16 << 20  # bytes of requests and items
THREADS = min(os.cpu_count() or 1, 4)


class Piece(NamedTuple):
    """What records stand for: REQUEST[n] and ITEM[n], and where the records begin and end, bytes.

    last: physical offset and store time of the last record, None without one. has_inner: whether one is an inner batch.
    """

    requests: np.ndarray
    items: np.ndarray
    begin: int
    end: int
    last: tuple[int, int] | None
    has_inner: bool


NOTHING = Piece(np.empty(0, REQUEST), np.empty(0, ITEM), -1, -1, None, False)


class RequestPieces:
    """Reads a part of a log. Attribute: queues, by the numbers in requests.

    The log is cut anywhere: each piece begins with the first record from there on, and counts if the piece before it
    ends where it begins. If it does not, it began within a record's body, and is read again from where it should.
    """

    def __init__(
        self, log: CommitLog, config: StoreConfig, begin: int, end: int, *, size: int = PIECE, threads: int = THREADS,
        room: int = ROOM, stop: int = LONG_MAX,
    ) -> None:
        """Parameters: begin, end: of whole records, physical offsets. stop: only records that begin before it.

        size: of a piece, bytes of the log. room: bytes of requests and items after which a piece ends early, so that
        records of nothing but keys take no more memory than others.
        """
        self.queues: list[QueueId] = []
        self._numbers: dict[QueueId, int] = {}
        self._log = log
        self._options: dict[str, Any] = {
            "message_delay_level": config.message_delay_level, "indexes_tags": Compat.of(config.compat).indexes_tags
        }
        self._begin, self._end, self._stop = begin, end, min(stop, end)
        self._size = size
        self._room = room
        self._threads = threads
        self._lock = threading.Lock()

    def __iter__(self) -> Generator[Piece, None, None]:
        """Give all records, in the order of the log. Raises: CorruptFileError for bytes that are no record."""
        position = self._begin
        with ThreadPoolExecutor(self._threads, "rocketstore-requests") as threads:
            waiting: deque[tuple[int, Future[Piece]]] = deque()
            cuts = self._cuts()
            try:
                while True:
                    while len(waiting) <= self._threads and (cut := next(cuts, None)) is not None:
                        waiting.append((cut[1], threads.submit(self._read_from, *cut)))
                    if not waiting:
                        break
                    stop, future = waiting.popleft()
                    for piece in self._in_order(position, stop, future):
                        yield piece
                        position = piece.end
            finally:
                for _, future in waiting:
                    future.cancel()
        if position < self._stop:  # where there is no file
            yield self._read(position, self._stop)

    def _cuts(self) -> Iterator[tuple[int, int]]:
        """Give where to cut: parts of files, since no record is in two of them."""
        for file in self._log.queue.between(self._begin, self._stop):
            end = min(self._log.end_of(file), self._stop)
            for begin in range(max(file.file_from_offset, self._begin), end, self._size):
                yield begin, min(begin + self._size, end)

    def _in_order(self, position: int, stop: int, future: Future[Piece]) -> Iterator[Piece]:
        """Give the records from ``position`` to ``stop``, which may have been read from a wrong place."""
        try:
            piece = future.result()
        except CorruptFileError:
            piece = None
        if position >= stop:  # a record, or a blank, goes on beyond this piece
            return
        if piece is None or piece.begin != position:
            piece = self._read(position, stop)
        yield piece
        while piece.end < stop:
            piece = self._read(piece.end, stop)
            yield piece

    def _read_from(self, begin: int, stop: int) -> Piece:
        """Read a piece that may begin within a record."""
        found = self._log.first_record(begin, stop)
        return NOTHING if found is None else self._read(found, stop)

    def _read(self, begin: int, stop: int) -> Piece:
        """Read the records that begin before ``stop``. The rest of a file behind a blank has none."""
        file = self._log.queue.find(begin)
        if file is None:
            reason = f"none has this physical offset: {GAP_ADVICE}"
            raise CorruptFileError(self._log.directories[0], begin, "file", reason)
        scanner, end = self._scan(file, begin, stop)
        last = scanner.last_phy_offset, scanner.last_store_timestamp
        requests, items = scanner.take()
        if len(requests):
            requests["queue"] = self._numbers_of(scanner.queues)[requests["queue"]]
        if end < stop and requests.nbytes + items.nbytes < self._room:
            end = min(self._log.end_of(file), self._end)
        return Piece(requests, items, begin, end, last if last[0] >= 0 else None, scanner.has_inner)

    def _scan(self, file: LogFile, begin: int, stop: int) -> tuple[RequestScanner, int]:
        size = stop - begin + SPAN
        while (window := self._log.queue.read(begin, size, "sequential", self._stop)) is not None:
            scanner = RequestScanner(**self._options)
            try:
                return scanner, scanner.scan(*window, begin, self._end, stop - begin, self._room)
            except CorruptFileError as error:
                if window.from_offset + window.buffer.size >= file.end_offset:
                    at = window.from_offset - file.file_from_offset + error.offset
                    raise CorruptFileError(file.path, at, error.field, f"{error.reason}: {DAMAGE_ADVICE}") from None
            size *= 16  # the file cannot be mapped, and a record goes on beyond what was read of it
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file.path))

    def _numbers_of(self, queues: list[QueueId]) -> np.ndarray:
        """The numbers here of queues that a scanner has met."""
        with self._lock:
            for queue in queues:
                if queue not in self._numbers:
                    self._numbers[queue] = len(self.queues)
                    self.queues.append(queue)
            return np.array([self._numbers[queue] for queue in queues], np.int32)
