"""The segments of a log, of a queue or of the index in a tier, as a run of files."""

from __future__ import annotations

import re

from rocketstore.config import StoreConfig
from rocketstore.disk.file_run_reader import FileRunReader, RunFile
from rocketstore.disk.remote.remote_file_run import RemoteFileRunReader
from rocketstore.disk.storage import identity, is_remote, scandir
from rocketstore.disk.store_path import StorePath
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_chunk import LogChunk
from rocketstore.log.log_end import LogView, Why
from rocketstore.tier.places import hash_prefix

SEGMENT = re.compile("([0-9a-f]{8})([0-9]{20})")


def find_segments(directory: StorePath) -> tuple[list[RunFile], list[StorePath]]:
    """Return the segments of a directory in order, and its other files; none if it is missing.

    Segments without bytes are left out. Source: PosixFileSegment, FlatFileFactory.
    """
    found, others = [], []
    try:
        with scandir(directory) as entries:
            for entry in entries:
                match = SEGMENT.fullmatch(entry.name)
                if match and int(match[2]) <= LONG_MAX and match[1] == hash_prefix(str(int(match[2]))):
                    size = entry.stat().st_size
                    found.append(RunFile(int(match[2]), directory / entry.name, size, identity(entry)))
                else:
                    others.append(directory / entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    return sorted(file for file in found if file.size and file.end_offset <= LONG_MAX), sorted(others, key=str)


def list_segments(directory: StorePath) -> list[RunFile]:
    """Return the segments of a directory in order; none if it is missing. Other files are ignored.

    Bytes of a segment behind the begin of the next segment are left out.
    """
    files = find_segments(directory)[0]
    ends = [*(file.file_from_offset for file in files[1:]), LONG_MAX][: len(files)]
    return [
        file._replace(size=min(file.size, end - file.file_from_offset)) for file, end in zip(files, ends, strict=True)
    ]


class SegmentReader(FileRunReader):
    """The segments of a directory as one run."""

    def list_again(self) -> None:
        self.files = list_segments(self.directories[0])


class RemoteSegmentReader(RemoteFileRunReader):
    """The segments of a remote directory as one run."""

    def list_again(self) -> None:
        self.files = list_segments(self.directories[0])


def open_segments(directory: StorePath, files: list[RunFile] | None = None) -> FileRunReader:
    """Open the segments of a directory as one run. They are listed again only if one of them is missing.

    Parameters: files: a list that was made before; None to list the directory.
    """
    kind = RemoteSegmentReader if is_remote(directory) else SegmentReader
    return kind([directory], files=list_segments(directory) if files is None else files)


class SegmentChunk(LogChunk):
    """A part of a log in a tier. Its files are segments."""

    def open(self) -> CommitLog:
        """Open the part. Its directory is listed only if a segment is missing or has damage."""
        return CommitLog(open_segments(self.directories[0], self.files), self.options, view=self.view)


def open_tier_log(directory: StorePath, config: StoreConfig) -> CommitLog:
    """Open the log of one queue in a tier. Its records have their position in this log as physical offset."""
    files = open_segments(directory)
    end = files.files[-1].end_offset if files.files else 0
    options = {"force_verify_prop_crc": config.force_verify_prop_crc, "message_delay_level": config.message_delay_level}
    return CommitLog(files, options, view=LogView(end, Why.COMPLETE, end, None, end))


def plan_tier_log(directory: StorePath, config: StoreConfig) -> SegmentChunk:
    """Plan to read the log of one queue in a tier as ``open_tier_log`` does, without listing its directory again."""
    with open_tier_log(directory, config) as log:
        end = log.max_phy_offset
        return SegmentChunk.of(log, log.min_phy_offset, end, whole_to=end, view=log.look())
