"""LogChunk: a part of a commit log, as the driver of a distributed job listed it, for a task that reads this part."""

from __future__ import annotations

import bisect
from typing import Any, NamedTuple, Self

from rocketstore.disk.file_run_reader import FROM_OFFSET, RunFile
from rocketstore.disk.remote.remote_file_run import open_file_run
from rocketstore.disk.store_path import StorePath
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import LogView
from rocketstore.log.record_heads import BYTES_BEHIND_RECORD


class LogChunk(NamedTuple):
    """The files of a part of a log, and the file behind them. A task opens them without listing the directories.

    Attributes: begin, end: physical offsets of the part. directories, options: of the log. files: of the part, as the
    driver listed them. mapped_file_size: bytes of a whole file. whole_to: nobody writes before this physical offset.
    view: where the driver saw the log end; None if the task needs no end.
    """

    begin: int
    end: int
    directories: list[StorePath]
    files: list[RunFile]
    mapped_file_size: int
    options: dict[str, Any]
    whole_to: int
    view: LogView | None = None

    @classmethod
    def of(cls, log: CommitLog, begin: int, end: int, whole_to: int = 0, view: LogView | None = None) -> Self:
        """Plan the bytes from ``begin`` to before ``end``, physical offsets, of an open log."""
        files = log.file_run.files
        first = max(bisect.bisect_right(files, begin, key=FROM_OFFSET) - 1, 0)
        last = bisect.bisect_left(files, end, key=FROM_OFFSET)
        files = files[first : last + 1]
        return cls(begin, end, log.directories, files, log.mapped_file_size, log.reader.options, whole_to, view)

    def open(self) -> CommitLog:
        """Open the part. Its directories are listed only if a file is missing or has damage."""
        file_run = open_file_run(self.directories, mapped_file_size=self.mapped_file_size, files=self.files)
        return CommitLog(file_run, self.options, whole_to=self.whole_to, view=self.view)

    def open_part(self) -> CommitLog:
        """Open the part for a scan: of remote files, only the bytes of the part are read."""
        log = self.open()
        log.file_run.limit_to(self.begin, self.end + BYTES_BEHIND_RECORD)
        return log
