"""The child process that reads a RocksDB. The parent runs this file as a script; it imports no other module of ours.

Arguments: the directory with the links to the files of the RocksDB, which this process removes; the limit of its memory
in bytes; the directory of the package ``rocksdict``, or an empty text.

Each request is a line of JSON on standard input, each answer a frame on standard output:

    header    kind of 1 byte, ranges that were read to their end, rows, bytes of keys, bytes of values (HEADER)
    rows      "R": lengths of the keys, uint32[rows]; lengths of the values, uint32[rows]; keys; values
    families  "F": the names of the column families, with a zero between two, in place of the values
    error     "E": a text in place of the values

The process ends when its standard input ends.
"""

from __future__ import annotations

import array
import gc
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any

HEADER = struct.Struct("=cxxxIIxxxxQQ")
MAX_ROWS = 1 << 16  # of one answer
MAX_BYTES = 8 << 20  # of keys and values; an answer ends with the row that exceeds it
MAX_ROW = 16 << 20  # bytes
CPU_SECONDS = 600  # of one request; the parent waits for a shorter time, but it may be gone
Row = tuple[bytes, bytes]
Frame = tuple[bytes, int, list[bytes], list[bytes]]
Ranges = list[tuple[str, str | None]]


def main(directory: str, memory: int, package: str) -> None:
    import shutil  # takes long to import, and the parent needs only the constants of this module

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    gc.disable()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries may print
    if package:
        sys.path.append(package)
    _limit_resources(memory)
    try:
        families = _open(directory)
        _send(answers, (b"F", 0, [], ["\0".join(families).encode(errors="replace")]))
        for line in sys.stdin.buffer:
            _limit_cpu()
            request = json.loads(line)
            family = families[request["family"]]
            _send(answers, _read(family, request["ranges"], request["limit"], request["backwards"]))
    except Exception as error:
        _send(answers, (b"E", 0, [], [str(error).replace(directory + "/", "")[:2000].encode(errors="replace")]))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _limit_resources(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:  # every file of the RocksDB is open
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if sys.platform == "linux":  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    _limit_cpu()


def _limit_cpu() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + CPU_SECONDS, most))


def _open(directory: str) -> dict[str, Any]:
    """Open all column families. All files stay open, so that the directory is no longer needed."""
    import shutil

    from rocksdict import AccessType, Options, Rdict

    def options() -> Any:
        made = Options(raw_mode=True)
        made.set_max_open_files(-1)
        made.set_max_file_opening_threads(1)
        return made

    names = Rdict.list_cf(directory, options())
    access = AccessType.read_only(False)
    database = Rdict(directory, options(), {name: options() for name in names}, access)
    shutil.rmtree(directory)
    return {name: database if name == "default" else database.get_column_family(name) for name in names}


def _read(family: Any, ranges: Ranges, limit: int, backwards: bool) -> Frame:
    """Return the rows of some ranges of keys, as many as fit into one answer.

    Parameters: ranges: pairs of the first key and the key after the last one, or None for no bound, in hexadecimal
    digits. limit: the maximum number of rows, 1 or more.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for number, (begin, end) in enumerate(ranges):
        rows = _rows_of(family, bytes.fromhex(begin), None if end is None else bytes.fromhex(end), backwards)
        for key, value in rows:
            if len(key) + len(value) > MAX_ROW:
                raise ValueError(f"a row of {len(key) + len(value)} bytes, where at most {MAX_ROW} are expected")
            keys.append(key)
            values.append(value)
            size += len(key) + len(value)
            if size > MAX_BYTES or len(keys) >= min(limit, MAX_ROWS):
                return b"R", number, keys, values
    return b"R", len(ranges), keys, values


def _rows_of(family: Any, begin: bytes, end: bytes | None, backwards: bool) -> Iterator[Row]:
    """Yield the rows with ``begin <= key``, and ``key < end`` if an end is given."""
    last = None
    for row in family.items(backwards=backwards, from_key=end if backwards else begin):
        last = row[0]
        if backwards:
            if last < begin:
                return
            if last == end:
                continue
        elif end is not None and last >= end:
            return
        yield row
    following = family.iter()  # ``items`` ends before damage without an error
    if not backwards:
        following.seek(begin if last is None else last + b"\0")
    elif last is not None:
        following.seek(last)
        following.prev()
    elif end is not None:
        following.seek_for_prev(end)
    else:
        following.seek_to_last()
    following.status()


def _send(answers: IO[bytes], frame: Frame) -> None:
    kind, ranges, keys, values = frame
    joined = b"".join(keys), b"".join(values)
    answers.write(HEADER.pack(kind, ranges, len(keys), len(joined[0]), len(joined[1])))
    if kind == b"R":
        answers.write(_lengths(keys))
        answers.write(_lengths(values))
    for part in joined:
        answers.write(part)
    answers.flush()


def _lengths(texts: Iterable[bytes]) -> bytes:
    return array.array("I", map(len, texts)).tobytes()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
