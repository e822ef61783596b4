"""describe_log: what a log is, in a line, for the repr of a log and of its scans."""

from __future__ import annotations

from rocketstore.errors import StoreError
from rocketstore.log.end_finder import EndFinder
from rocketstore.log.record_reader import RecordReader
from rocketstore.text_values import format_count


def describe_log(log: RecordReader, end_finder: EndFinder) -> str:
    """Return the directories of a log, its bounds, and how many files it has."""
    where = ", ".join(repr(str(path)) for path in log.directories)
    if log.closed:
        return f"<CommitLog {where}, closed>"
    try:
        begin, end = log.min_phy_offset, end_finder.find_end()
    except (StoreError, OSError) as error:
        return f"<CommitLog {where}, {error}>"
    return f"<CommitLog {where}: {begin:,} to {end:,} in {format_count(len(log.file_run.files), 'file')}>"
