"""Copy the files of a broker's timers, with the new physical offsets of the messages that wait."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rocketstore.convert.offset_map import OffsetMap
from rocketstore.disk.durable import make_directory, sync_path
from rocketstore.disk.held_file import copy_file
from rocketstore.disk.holes import data_ranges
from rocketstore.survey.places import LocalPlaces

# Source: TimerLog.append.
TIMER_UNIT = np.dtype([
    ("size", ">i4"), ("prev_pos", ">i8"), ("magic", ">i4"), ("write_time", ">i8"), ("delay", ">i4"),
    ("phy_offset", ">i8"), ("message_size", ">i4"), ("topic_hash", ">i4"), ("reserved", ">i8"),
])  # fmt: skip
NOWHERE = -1  # a broker finds no message there, and forgets the timer
UNITS = 1 << 16  # that are rewritten at once


def copy_timers(old: LocalPlaces, new: LocalPlaces, offsets: OffsetMap) -> int:
    """Copy the timers. Return how many units of the timer log name a message that the new log does not have.

    Source: TimerMessageStore, TimerWheel.
    """
    missing = 0
    for path in sorted(old.timer_log.iterdir()) if old.timer_log.is_dir() else ():
        make_directory(new.timer_log)
        copy_file(path, new.timer_log / path.name)
        missing += _rewrite(new.timer_log / path.name, offsets)
    for path in sorted(old.root.glob(f"{old.timer_wheel.name}*")):
        if path.is_file():
            copy_file(path, new.root / path.name)
    for name in (old.timer_checkpoint.name, old.timer_metrics.name):
        for path in (old.config_file(name), old.config_file(f"{name}.bak")):
            if path.is_file():
                make_directory(new.config)
                copy_file(path, new.config_file(path.name))
    return missing


def _rewrite(path: Path, offsets: OffsetMap) -> int:
    """Give the units of a file their new offsets. Return how many messages the new log does not have."""
    missing, size, done = 0, TIMER_UNIT.itemsize, 0
    with path.open("r+b") as file:
        length = path.stat().st_size
        for begin, end in data_ranges(path, 0, length):
            for first in range(max(begin // size * size, done), end, UNITS * size):
                file.seek(first)
                data = file.read(min(UNITS * size, -(-(end - first) // size) * size))
                data = data[: len(data) // size * size]
                done = first + len(data)
                units = np.frombuffer(bytearray(data), TIMER_UNIT)
                is_unit = units["size"] == size
                if is_unit.any():
                    found = offsets.find(units["phy_offset"][is_unit].astype(np.int64))
                    missing += int((found < 0).sum())
                    units["phy_offset"][is_unit] = np.where(found < 0, NOWHERE, found)
                    file.seek(first)
                    file.write(units.tobytes())
    sync_path(path)
    return missing
