"""ReaderProcess: the child process that reads a RocksDB, seen from the parent."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rocketstore.disk.rocksdb.child import HEADER, MAX_BYTES, MAX_ROW, MAX_ROWS
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError

MAX_TEXT = 1 << 20  # bytes
READ_AT_ONCE = 1 << 20  # bytes
END_SECONDS = 2.0


class Answer(NamedTuple):
    """A frame of the child.

    ``ranges_read``: how many of the requested ranges were read to their end. ``sizes``: bytes of each key and of each
    value, uint32[2, rows].
    """

    ranges_read: int
    sizes: np.ndarray
    keys: bytes
    values: bytes


class ReaderProcess:
    """A running child process. One thread at a time uses it. After an error, or an interrupt, it has ended."""

    def __init__(self, command: Sequence[str], directory: Path, path: StorePath, seconds: float) -> None:
        """Start the process.

        Parameters: command: the program and its arguments. directory: is removed when the process ends. path: of the
        RocksDB, for errors. seconds: the time for each answer. Raises: OSError.
        """
        self.path = path
        self.seconds = seconds
        self.owner = os.getpid()
        # Without LD_PRELOAD: sanitizers reserve more memory than the process may have.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment | {"MALLOC_ARENA_MAX": "2"},
            process_group=0,  # Ctrl-C goes to the parent only
        )
        self.process = process
        self._end = weakref.finalize(self, _end, process, directory, self.owner)
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests, self._answers = process.stdin.fileno(), process.stdout.fileno()
        for fd in (self._requests, self._answers):
            os.set_blocking(fd, False)

    def read_families(self) -> list[str]:
        """Return the first answer of the process: the names of the column families."""
        answer = self._receive(b"F", time.monotonic() + self.seconds)
        return answer.values.decode(errors="replace").split("\0")

    def ask(self, request: dict[str, Any]) -> Answer:
        """Send a request and return the rows of the answer.

        Raises: CorruptFileError if the process reports damage, ends, sends nonsense, or does not answer in time.
        """
        deadline = time.monotonic() + self.seconds
        try:
            self._send(json.dumps(request).encode() + b"\n", deadline)
            return self._receive(b"R", deadline)
        except BaseException:  # the rest of the answer would come before the next one
            self.end()
            raise

    def is_usable(self) -> bool:
        """Return whether the process was started by this process, and was not ended by it."""
        return self._end.alive and self.owner == os.getpid()

    def end(self) -> None:
        """End the process and remove its directory."""
        self._end()

    # ---- frames --------------------------------------------------------------------------------------------

    def _send(self, data: bytes, deadline: float) -> None:
        while data:
            self._wait(self._requests, select.POLLOUT, deadline)
            with contextlib.suppress(BlockingIOError):
                try:
                    data = data[os.write(self._requests, data) :]
                except BrokenPipeError:
                    return  # the answer says why

    def _receive(self, expected: bytes, deadline: float) -> Answer:
        kind, ranges_read, rows, key_size, value_size = HEADER.unpack(self._read(HEADER.size, deadline))
        most = MAX_BYTES + MAX_ROW if kind == b"R" else MAX_TEXT
        if kind not in (expected, b"E") or rows > MAX_ROWS or key_size > most or value_size > most:
            raise self._broken("its reader sent an answer that cannot be")
        lengths = self._read(8 * rows, deadline)
        keys, values = self._read(key_size, deadline), self._read(value_size, deadline)
        if kind == b"E":
            raise self._broken(values.decode(errors="replace"))
        sizes = np.frombuffer(lengths, np.uint32).reshape(2, rows)
        if kind == b"R" and sizes.sum(axis=1, dtype=np.int64).tolist() != [key_size, value_size]:
            raise self._broken("its reader sent an answer that cannot be")
        return Answer(ranges_read, sizes, keys, values)

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait(self._answers, select.POLLIN, deadline)
            with contextlib.suppress(BlockingIOError):
                part = os.read(self._answers, min(size - len(data), READ_AT_ONCE))
                if not part:
                    raise self._broken(f"its reader ended: {self._describe_end()}")
                data += part
        return bytes(data)

    def _wait(self, fd: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(fd, event)
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise self._broken(f"its reader did not answer within {self.seconds:g} seconds")

    def _broken(self, reason: str) -> CorruptFileError:
        self.end()
        return CorruptFileError(self.path, 0, "RocksDB", reason)

    def _describe_end(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(END_SECONDS)
            return f"exit status {code}" if code >= 0 else signal.Signals(-code).name
        return "it closed its output"


def _end(process: subprocess.Popen[bytes], directory: Path, owner: int) -> None:
    """End a process and remove its directory. A process that was forked closes its descriptors, and no more."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    if owner != os.getpid():
        return
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    shutil.rmtree(directory, ignore_errors=True)
