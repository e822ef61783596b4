"""The ticks of axes: round numbers, sizes and times. The place of a tick is a share of the axis, from 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rocketstore.report.texts import Clock, duration_text, size_text
from rocketstore.store.usage.zone_bins import DAY, HOUR, MINUTE, SECOND

TICKS = 4  # steps of a vertical axis, at most
TIME_TICKS = 6
TIME_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(SECOND * n for n in (1, 2, 5, 10, 15, 30)),
    *(MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(HOUR * n for n in (1, 2, 3, 6, 12)),
    *(DAY * n for n in (1, 2, 7, 14, 30, 90, 365)),
)
DURATIONS = (1, 10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY)


class Tick(NamedTuple):
    """A tick of an axis. ``share``: its place, from 0 to 1. ``below``: a second line, such as the day of a time."""

    share: float
    label: str
    below: str = ""


class Axis(NamedTuple):
    """A linear axis that begins at 0. ``most``: the value at its end."""

    most: float
    ticks: Sequence[Tick]


def number_axis(most: float, text: Callable[[float], str]) -> Axis:
    """Return an axis with ticks at round numbers. Parameters: most: the largest value. text: of a number."""
    step = round_step(max(most, 1) / TICKS)
    count = max(math.ceil(most / step - 1e-9), 1)
    ticks = [Tick(place / count, text(place * step)) for place in range(count + 1)]
    return Axis(count * step, ticks)


def round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below a number; at least 1."""
    power = 10.0 ** math.floor(math.log10(max(least, 1)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= max(least, 1) * (1 - 1e-9))


def short_count(value: float) -> str:
    """Return a round number in few characters: 20,000 as 20 k."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size and value >= 10_000:
            return f"{value / size:g} {unit}"
    return f"{value:,.0f}"


def short_size(value: float) -> str:
    """Return a round number of bytes with its unit: 5,000,000 as 5 MB."""
    return size_text(value).replace(".0 ", " ").replace("bytes", "B")


def time_ticks(begin: int, end: int, clock: Clock) -> list[Tick]:
    """Return ticks at round local times. Parameters: begin, end: of the axis, epoch ms; ``begin`` is less."""
    step = next((step for step in TIME_STEPS if (end - begin) // step <= TIME_TICKS), 0)
    step = step or math.ceil((end - begin) / TIME_TICKS / DAY) * DAY
    offset = clock.offset(begin)
    first = begin + -(begin + offset) % step
    ticks: list[Tick] = []
    shown = ""
    for time in range(first, end + 1, step):
        text = clock.text(time, has_ms=step < SECOND)
        day, _, hour = text.partition(" ")
        label = day if step >= DAY else hour if step < MINUTE else hour[:5]
        below = "" if step >= DAY or day == shown else day
        ticks.append(Tick((time - begin) / (end - begin), label, below))
        shown = day
    return ticks


class LogAxis(NamedTuple):
    """A logarithmic axis. ``least``, ``most``: the values at its ends."""

    least: float
    most: float
    ticks: Sequence[Tick]

    def share(self, value: float) -> float:
        """Return the place of a value from 0 to 1."""
        return log_share(value, self.least, self.most)


def log_share(value: float, least: float, most: float) -> float:
    return min(max(math.log(max(value, least) / least) / math.log(most / least), 0.0), 1.0)


def duration_axis(least: int, most: int) -> LogAxis:
    """Return an axis of durations that has two values, ms."""
    begin = max((value for value in DURATIONS if value <= least), default=1)
    end = min((value for value in DURATIONS if value >= most and value > begin), default=max(most, begin + 1))
    marks = [value for value in DURATIONS if begin <= value <= end]
    return LogAxis(begin, end, [Tick(log_share(value, begin, end), duration_text(value)) for value in marks])


def power_axis(most: float) -> LogAxis:
    """Return an axis from a half to a number, with ticks at powers of ten."""
    end = max(most, 2)
    marks = [10**power for power in range(math.floor(math.log10(end)) + 1)]
    return LogAxis(0.5, end, [Tick(log_share(mark, 0.5, end), short_count(mark)) for mark in marks])
