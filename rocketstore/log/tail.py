"""The tail of a commit log: the bytes behind its end."""

from __future__ import annotations

from typing import NamedTuple

from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.holes import nonzero_end
from rocketstore.log.commit_log import CommitLog


class Tail(NamedTuple):
    """Bytes behind the end of the log in one file: from a physical offset to the last one that is not zero."""

    file: RunFile
    begin: int
    end: int


def find_tails(log: CommitLog, end: int) -> list[Tail]:
    """Return the tail of each log file that has bytes other than zero behind the end of the log."""
    found = []
    for file in log.file_run.files:
        begin = max(end, file.file_from_offset)
        last = file.file_from_offset + nonzero_end(file.path, begin - file.file_from_offset, file.size)
        if begin < last:
            found.append(Tail(file, begin, last))
    return found
