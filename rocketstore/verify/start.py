"""Check the small files that a broker opens when it starts: lock, abort, timers and compacted topics."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rocketstore.config import StoreConfig
from rocketstore.disk.mapped_file import is_offset_name
from rocketstore.java_text import parse_boolean, parse_int
from rocketstore.survey.places import StorePlaces
from rocketstore.verify.findings import Findings

TIMER_LOG_SIZE = 100 << 20  # bytes. Source: MessageStoreConfig.mappedFileSizeTimerLog
TIMER_WHEEL_SIZE = 7 * 24 * 3600 * 2 * 32  # bytes: two slots a second of seven days. Source: TimerWheel
PAGE = 4096
Stray = tuple[str, Path, str]  # the end of the finding's kind, path, detail


def check_start_files(places: StorePlaces[Path], config: StoreConfig, findings: Findings) -> None:
    """Report files with which a broker cannot start. Source: BrokerController.initialize, DefaultMessageStore.start."""
    if not can_be_opened(places.lock):
        findings.add("lock-no-file", places.lock, 0, "no regular file")
    for path in (places.abort, places.abort_backup):
        if not can_be_opened(path):
            findings.add("abort-no-file", path, 0, "no regular file")
    if is_on(config, "timerWheelEnable"):
        for path, offset, detail in _timer_faults(places, config):
            findings.add("timer-damaged", path, offset, detail)
    if is_on(config, "enableCompaction"):
        for path in _entries(places.compacted_logs):
            for queue in _entries(path) if path.is_dir() else ():
                if queue.is_dir() and parse_int(queue.name) is None:
                    findings.add("compaction-queue-name", queue, 0, "its name is no queue id")


def is_on(config: StoreConfig, name: str) -> bool:
    """Return whether a property of the broker that is true by default is true."""
    return name not in config.other or parse_boolean(config.other[name])


def can_be_opened(path: Path) -> bool:
    """Return whether RocketMQ can open a file, or make it if it is missing. Source: RandomAccessFile."""
    if not os.path.lexists(path) or path.is_file():
        return True
    target = Path(os.path.realpath(path))  # of a link
    return not os.path.lexists(target) and target.parent.is_dir()


def stray_files(directory: Path) -> Iterator[Stray]:
    """List a directory, and yield the entries that ``stray_entries`` finds."""
    return stray_entries(_scan(directory))


def stray_entries(entries: Sequence[os.DirEntry[str]]) -> Iterator[Stray]:
    """Yield those entries of a directory whose names or types are wrong, where RocketMQ loads every file.

    Parameters: entries: all entries of the directory, sorted by name.
    Yields: "" for a directory, which is ignored; "-empty" for the last entry, if it has no bytes; else "-fatal".
    Source: MappedFileQueue.load.
    """
    for entry in entries:
        if _is_log_file(entry):
            continue
        path = Path(entry.path)
        if path.is_dir():
            yield "", path, "a directory"
        elif entry is entries[-1] and _java_length(path) == 0:
            yield "-empty", path, "no bytes"
        else:
            yield "-fatal", path, "its name or type is not that of a log file"


def _timer_faults(places: StorePlaces[Path], config: StoreConfig) -> Iterator[tuple[Path, int, str]]:
    """Yield path, offset and detail of each fault that stops the timers.

    Source: TimerWheel, TimerCheckpoint, TimerLog.load.
    """
    for path in (places.timer_wheel, places.timer_checkpoint):
        if not can_be_opened(path):
            yield path, 0, "no regular file"
    wheel = places.timer_wheel
    size = wheel.stat().st_size if wheel.is_file() else 0
    if size not in (0, TIMER_WHEEL_SIZE):
        yield wheel, size, f"{size} bytes, not {TIMER_WHEEL_SIZE}"
    for kind, path, detail in stray_files(places.timer_log):
        if kind == "-fatal":
            yield path, 0, detail
    yield from _timer_log_sizes([path for path in _entries(places.timer_log) if path.is_file()], config)


def _timer_log_sizes(paths: list[Path], config: StoreConfig) -> Iterator[tuple[Path, int, str]]:
    """Yield the files of the timers' log that have another length than the broker's, or than most of them."""
    sizes = [path.stat().st_size for path in paths if is_offset_name(path.name)]
    given = parse_int(config.other.get("mappedFileSizeTimerLog", ""))
    if given is None and len(sizes) == 1 and sizes[0] % PAGE == 0:
        return  # one file alone may have the length that the broker was given
    expected = given or (Counter(sizes).most_common(1)[0][0] if len(sizes) > 1 else TIMER_LOG_SIZE)
    for path in paths:
        size = path.stat().st_size
        is_last_empty = size == 0 and path == paths[-1]
        if is_offset_name(path.name) and size != expected and not is_last_empty:
            yield path, size, f"{size} bytes, not {expected}"


def _entries(directory: Path) -> list[Path]:
    """Return the paths of the entries of a directory, as ``_scan`` does."""
    return [Path(entry.path) for entry in _scan(directory)]


def _scan(directory: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a directory by name. RocketMQ treats a directory that cannot be listed as empty."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _is_log_file(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry of a directory is a file with the name of a log file."""
    with contextlib.suppress(OSError):  # a link that leads to itself
        return is_offset_name(entry.name) and entry.is_file()
    return False


def _java_length(path: Path) -> int:
    """Return the length in bytes, 0 for a broken link. Source: File.length."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
