"""RocksDatabase: a RocksDB that is read by ranges of keys, as arrays."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rocketstore.disk.closable import Closable
from rocketstore.disk.rocksdb.child import MAX_ROWS
from rocketstore.disk.rocksdb.linked_files import REMOTE_COPY_LIMIT, Stamp, link_files, read_stamp
from rocketstore.disk.rocksdb.reader_program import find_missing_reader, reader_command
from rocketstore.disk.storage import is_remote, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, StoreClosedError, StoreError, UnsupportedFormatError

if TYPE_CHECKING:
    from rocketstore.disk.rocksdb.reader_process import Answer, ReaderProcess

MEMORY = 2 << 30  # bytes of address space of the child
SECONDS = 120.0  # for each answer of the child
TRIES = 5
CHECK_SECONDS = 1.0  # between two looks at the files


class KeyRange(NamedTuple):
    """Keys with ``begin <= key < end``. ``end``: None for no bound."""

    begin: bytes = b""
    end: bytes | None = None

    @classmethod
    def of_prefix(cls, prefix: bytes) -> KeyRange:
        """The keys that begin with some bytes."""
        stem = prefix.rstrip(b"\xff")
        return cls(prefix, stem[:-1] + bytes([stem[-1] + 1]) if stem else None)

    def has(self, key: bytes) -> bool:
        """Return whether a key is one of these."""
        return self.begin <= key and (self.end is None or key < self.end)


@dataclass(frozen=True)
class KeyValueRows:
    """Rows of a column family, in the order of a request.

    ``keys``, ``values``: all bytes end to end. ``key_ends``, ``value_ends``: where each one ends, int64[n].
    """

    keys: bytes
    values: bytes
    key_ends: np.ndarray
    value_ends: np.ndarray

    @classmethod
    def of_answer(cls, answer: Answer) -> KeyValueRows:
        ends = np.cumsum(answer.sizes, axis=1, dtype=np.int64)
        return cls(answer.keys, answer.values, ends[0], ends[1])

    def __len__(self) -> int:
        return len(self.key_ends)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        key_begin = value_begin = 0
        for key_end, value_end in zip(self.key_ends.tolist(), self.value_ends.tolist(), strict=True):
            yield self.keys[key_begin:key_end], self.values[value_begin:value_end]
            key_begin, value_begin = key_end, value_end

    @property
    def first_key(self) -> bytes:
        """The first key; there must be a row."""
        return self.keys[: int(self.key_ends[0])]

    @property
    def last_key(self) -> bytes:
        """The last key; there must be a row."""
        begin = int(self.key_ends[-2]) if len(self) > 1 else 0
        return self.keys[begin:]


class RocksDatabase(Closable):
    """A RocksDB as it was when it was opened, read in a child process. ``refresh`` opens it again if it has changed.

    The child is started at the first read, and again if it ended, for example by Ctrl-C. All methods raise
    CorruptFileError, with the directory as its path, for damage; UnsupportedFormatError without the package that reads
    RocksDB; StoreError for a RocksDB whose files are replaced too fast; OSError. Threads may share a database.

    Attributes: opened: how many times its files were opened.
    """

    def __init__(
        self,
        path: object,
        *,
        remote_copy_limit: int = REMOTE_COPY_LIMIT,
        memory: int = MEMORY,
        seconds: float = SECONDS,
    ) -> None:
        """Parameters: remote_copy_limit: bytes. memory: address space of the child, bytes. seconds: for each answer."""
        self.path = to_path(path)
        self.remote_copy_limit = remote_copy_limit
        self.opened = 0
        self._memory, self._seconds = memory, seconds
        self._lock = threading.Lock()
        self._process: ReaderProcess | None = None
        self._families: list[str] = []
        self._stamp: Stamp = {}  # of the files that the child has open
        self._checked = 0.0  # when the stamp was compared last, seconds of the monotonic clock
        self._closed = False

    def refresh(self) -> None:
        """Open the files again at the next read, if a process has written into the RocksDB. Looks once a second."""
        with self._lock:
            process = self._process
            if process is None or not process.is_usable() or time.monotonic() - self._checked < CHECK_SECONDS:
                return
            self._checked = time.monotonic()
            if read_stamp(self.path) != self._stamp:
                process.end()

    @property
    def families(self) -> list[str]:
        """The names of the column families."""
        with self._lock:
            self._start()
            return list(self._families)

    def read(
        self, family: str, *ranges: KeyRange, backwards: bool = False, limit: int | None = None
    ) -> Iterator[KeyValueRows]:
        """Yield the rows of some ranges of keys, one range after the other, in blocks of at most 24 MiB.

        Parameters: family: no rows if the RocksDB lacks it. backwards: the rows of each range from the last one on.
        limit: the maximum number of rows.
        """
        left = list(ranges)
        wanted = sys.maxsize if limit is None else limit
        while left and wanted > 0 and family in self.families:
            answer = self._ask(family, left, backwards, min(wanted, MAX_ROWS))
            rows = KeyValueRows.of_answer(answer)
            if not rows:
                return
            yield rows
            wanted -= len(rows)
            left = left[answer.ranges_read :]
            if left:  # the answer ended within the first of them
                if not left[0].has(rows.last_key):  # the same rows could repeat for ever
                    reason = f"the key {rows.last_key!r:.200} is not in the order of the keys"
                    raise CorruptFileError(self.path, 0, "RocksDB", reason)
                left[0] = _rest_of(left[0], rows.last_key, backwards)

    def find_first(self, family: str, keys: KeyRange, *, backwards: bool = False) -> tuple[bytes, bytes] | None:
        """Return the first row of a range, or the last one; None for an empty range."""
        for rows in self.read(family, keys, backwards=backwards, limit=1):
            return next(iter(rows))
        return None

    def close(self) -> None:
        """End the child process."""
        self._closed = True
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.path, self.remote_copy_limit, self._memory, self._seconds)

    def __repr__(self) -> str:
        return f"<RocksDatabase {str(self.path)!r}>"

    # ---- the child -----------------------------------------------------------------------------------------

    def _ask(self, family: str, ranges: Sequence[KeyRange], backwards: bool, limit: int) -> Answer:
        hexadecimal = [(begin.hex(), None if end is None else end.hex()) for begin, end in ranges]
        request = {"family": family, "ranges": hexadecimal, "backwards": backwards, "limit": limit}
        with self._lock:
            return self._start().ask(request)

    def _start(self) -> ReaderProcess:
        """Return the child. If it does not run, start it, and again if files were replaced meanwhile."""
        if self._closed:
            raise StoreClosedError(f"{self.path} is closed")
        if self._process is not None and self._process.is_usable():
            return self._process
        problem = find_missing_reader()
        if problem is not None:
            raise UnsupportedFormatError(f"{self.path}: {problem}")
        for _ in range(TRIES):
            before = read_stamp(self.path)
            try:
                self._process = self._start_once()
                self.opened += 1
                self._stamp, self._checked = before, time.monotonic()
            except (CorruptFileError, FileNotFoundError):
                if is_remote(self.path):
                    self.path.forget()
                if read_stamp(self.path) == before:
                    raise
            else:
                return self._process
        raise StoreError(
            f"{self.path}: this RocksDB is busy: its files were replaced during each of {TRIES} attempts to open it: "
            "try again when less is written"
        )

    def _start_once(self) -> ReaderProcess:
        import shutil  # these take long to import, and few stores have a RocksDB
        import tempfile

        from rocketstore.disk.rocksdb.reader_process import ReaderProcess

        directory = Path(tempfile.mkdtemp(prefix="rocketstore-rocksdb-"))
        try:
            link_files(self.path, directory, self.remote_copy_limit)
            process = ReaderProcess(reader_command(directory, self._memory), directory, self.path, self._seconds)
            try:
                self._families = process.read_families()
            except BaseException:
                process.end()
                raise
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return process


def _reopen(path: StorePath, remote_copy_limit: int, memory: int, seconds: float) -> RocksDatabase:
    return RocksDatabase(path, remote_copy_limit=remote_copy_limit, memory=memory, seconds=seconds)


def _rest_of(keys: KeyRange, last: bytes, backwards: bool) -> KeyRange:
    return KeyRange(keys.begin, last) if backwards else KeyRange(last + b"\0", keys.end)
