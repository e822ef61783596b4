"""Choose the files of a log that may have messages of a range of store times, by the first message of each file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rocketstore.disk.remote.remote_file_run import RemoteFileRunReader
from rocketstore.text_values import format_count

if TYPE_CHECKING:
    from rocketstore.log.commit_log import CommitLog
from rocketstore.log.record_heads import read_store_timestamps

# Milliseconds: one day. A clock with the local time instead of UTC, or of another time zone, is wrong by less. A larger
# value skips fewer files: a query also reads the files of a day before and of a day after its range.
CLOCK_SLACK = 86_400_000

Range = tuple[int, int]  # begin and end, physical offsets in bytes


class ChosenFiles(NamedTuple):
    """The files of a range of a log that may have messages of the requested store times, and the other files.

    Attributes: ranges: to read, each in one file, in the order of the log. skipped: not to read, likewise.
    """

    ranges: list[Range]
    skipped: list[Range]


def choose_files(
    log: CommitLog, begin: int, end: int, first_time: int, last_time: int, *, exact_times: bool = False
) -> ChosenFiles:
    """Choose the files that may have messages of a range of store times. No other rule skips files by time.

    Store times grow from file to file, except where a clock was wrong: it was set by hand, or was that of another
    master, or the messages came from another store. So the first messages of a file and of the next file do not limit
    the times between them. A file is skipped only if four messages are all more than ``CLOCK_SLACK`` before the range,
    or all more than ``CLOCK_SLACK`` behind it:

    * the first message of the file, and the first message of the next file, which enclose it;
    * the first message of the file before, and the first message of the second file behind. They enclose the two
      neighbours: a clock that was wrong there may have been wrong in this file too.

    If some of them are before the range and others behind it, the times between them include the range, and the file is
    read. A file is also read

    * if one of the four messages cannot be read. The last file of the log may have no message yet, because a broker
      creates it ahead. Its neighbours are judged without it;
    * if it is the last file, and its messages would be before the range: no later message limits its times;
    * if the four messages show that a clock was set back by more than ``CLOCK_SLACK``.

    At the edges of the log, the messages that exist decide. The choice assumes that no clock was wrong by
    ``CLOCK_SLACK`` or more within a file. If a clock was corrected before the next file, the four messages do not show
    it. If a file was skipped, the caller must report ``describe_skipped``.

    Parameters
    ----------
    begin, end : the range of the log, physical offsets in bytes, between two records.
    first_time, last_time : store times, epoch milliseconds, both inclusive.
    exact_times : choose all files, without the assumption.
    """
    starts = [log.reader.begin_in(file) for file in log.file_run.files]
    parts = list(pairwise([begin, *(start for start in starts if begin < start < end), end])) if begin < end else []
    if exact_times or not starts:
        return ChosenFiles(parts, [])
    numbers = [max(bisect_right(starts, part[0]) - 1, 0) for part in parts]
    times = read_first_times(log, starts, range(numbers[0] - 1, numbers[-1] + 3) if numbers else range(0))
    chosen = ChosenFiles([], [])
    for part, number in zip(parts, numbers, strict=True):
        is_skipped = has_other_times(times, number, first_time, last_time)
        (chosen.skipped if is_skipped else chosen.ranges).append(part)
    return chosen


def read_first_times(log: CommitLog, starts: Sequence[int], numbers: Iterable[int]) -> dict[int, int | None]:
    """Read the store times, epoch ms, of the first messages of files, by the numbers of the files.

    The time is None if no message can be read there. Numbers of files that do not exist are left out, and the last file
    of the log if it has no message yet. Of a remote log only the heads of records are read, many at once.
    Parameters: starts: of all files, physical offsets in bytes. numbers: indexes of ``starts``, and others.
    """
    found = [number for number in numbers if 0 <= number < len(starts)]
    offsets = [starts[number] for number in found]
    times: dict[int, int | None] = dict.fromkeys(found)
    if isinstance(log.file_run, RemoteFileRunReader):
        firsts = [offset + log.reader.framing for offset in offsets]
        times = dict(zip(found, read_store_timestamps(log.file_run, firsts), strict=True))
    for number, offset in zip(found, offsets, strict=True):
        if times[number] is None and (message := log.find_message(log.reader.record_at(offset))) is not None:
            times[number] = message.store_timestamp
    last = len(starts) - 1
    return {number: time for number, time in times.items() if time is not None or number != last}


def has_other_times(times: Mapping[int, int | None], number: int, first_time: int, last_time: int) -> bool:
    """Return whether a file is skipped by the rule of ``choose_files``.

    Parameters: times: a result of ``read_first_times`` for the file, the one before it and the two behind it.
    """
    around = [times[near] for near in range(number - 1, number + 3) if near in times]
    known = [time for time in around if time is not None]
    if number not in times or len(known) < len(around):
        return False
    if any(following < time - CLOCK_SLACK for time, following in pairwise(known)):
        return False
    is_before = number + 1 in times and max(known) < first_time - CLOCK_SLACK
    return is_before or min(known) > last_time + CLOCK_SLACK


def describe_skipped(skipped: Sequence[Range]) -> list[str]:
    """Return the reason why an answer may be incomplete because files were skipped; no reason if none was skipped."""
    if not skipped:
        return []
    files = format_count(len(skipped), "log file of other times was", "log files of other times were")
    return [f"{files} not read: this assumes that no clock was wrong by 24 hours or more within a file"]
