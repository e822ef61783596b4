"""The charts of a report: HTML with inline SVG, made of numbers and names by the templates of ``svg``.

Colours are classes of the style. Names are shown in full, and only as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rocketstore.report.axes import (
    Axis,
    Tick,
    duration_axis,
    number_axis,
    power_axis,
    short_count,
    short_size,
    time_ticks,
)
from rocketstore.report.log_numbers import LogNumbers
from rocketstore.report.parts import LONGEST, IndexNumbers, QueueBounds
from rocketstore.report.svg import ABOVE, drawing, element, percent, plot, text_html, title
from rocketstore.report.texts import Clock, duration_text, share_text, size_text
from rocketstore.report.traffic import Series
from rocketstore.text_values import format_count

SHOWN_ROWS = 15
PLANE = 200  # pixels
BAR = 12  # pixels


class Bar(NamedTuple):
    """A bar with a name.

    ``begin`` and ``end`` are shares of the width; ``text`` is shown behind it. ``mark``: the place of a line across the
    bar, or None. ``group``: stands in front of the name, in a softer colour.
    """

    name: str
    end: float
    text: str
    begin: float = 0.0
    mark: float | None = None
    group: str = ""


def bars(label: str, rows: Iterable[Bar]) -> str:
    """Return bars below each other. Parameters: label: for screen readers."""
    return f'<div class="bars" role="group" aria-label="{text_html(label)}">{"".join(map(bar_html, rows))}</div>'


def bar_html(bar: Bar) -> str:
    group = f'<span class="soft">{text_html(bar.group)}</span> ' if bar.group else ""
    hover = title([f"{bar.group} {bar.name}".strip(), bar.text])
    x, width = percent(bar.begin), percent(max(bar.end - bar.begin, 0))
    marks = [element("rect", x=x, width=width, y=0, height=BAR, class_="c0 bar-mark")]
    if bar.mark is not None:
        at = percent(bar.mark)
        marks.append(element("line", x1=at, x2=at, y1=0, y2=BAR, class_="expected"))
    picture = drawing(BAR, f"{bar.name}: {bar.text}", [hover, *marks], "track")
    name = f'<span class="name">{group}<bdi>{text_html(bar.name)}</bdi></span>'
    return f'<div class="bar">{name}{picture}<span class="value">{text_html(bar.text)}</span></div>'


def scaled_bars(label: str, rows: Sequence[tuple[str, str, int]], text: Callable[[int], str]) -> str:
    """Return bars whose lengths are numbers. Parameters: rows: group, name and number. text: of a number."""
    most = max((number for *_, number in rows), default=0) or 1
    return bars(label, [Bar(name, number / most, text(number), group=group) for group, name, number in rows])


def legend(entries: Iterable[tuple[str, str, str]]) -> str:
    """Return a legend. Parameters: entries: the class of the colour, the name, and a number."""
    items = (
        f'<li><i class="{colour}"></i><bdi>{text_html(name)}</bdi> <span class="soft">{text_html(number)}</span></li>'
        for colour, name, number in entries
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


# ---- over time -------------------------------------------------------------------------------------------------


def over_time(
    label: str, numbers: LogNumbers, series: Sequence[Series], clock: Clock, *, counts_bytes: bool = False
) -> str:
    """Return stacked bars by topic in each bin of time, with a legend. Parameters: counts_bytes: else messages."""
    counts = [(one.size if counts_bytes else one.messages) * numbers.scale for one in series]
    text, short = (size_text, short_size) if counts_bytes else (message_text, short_count)
    tops = np.cumsum(counts, axis=0)
    axis = number_axis(float(tops[-1].max()), short)
    marks = [rect for place in range(numbers.bins) for rect in stack(place, numbers.bins, series, tops, axis)]
    for place in np.flatnonzero(tops[-1]).tolist():
        texts = [text(round(float(row[place]))) for row in counts]
        marks.append(hover_column(place, numbers.bins, numbers_of_bin(place, numbers, clock, series, texts)))
    ticks = time_ticks(numbers.first, numbers.first + numbers.bins * numbers.step, clock)
    sums = [text(round(float(row.sum()))) for row in counts]
    entries = [(one.colour, one.name, total) for one, total in zip(series, sums, strict=True)]
    return plot(PLANE, label, marks, axis.ticks, ticks) + legend(entries)


def message_text(count: float) -> str:
    return format_count(round(count), "message")


def stack(place: int, bins: int, series: Sequence[Series], tops: np.ndarray, axis: Axis) -> Iterable[str]:
    """Yield the marks of one bin, the first series at the bottom."""
    below = 0.0
    for one, top in zip(series, tops[:, place].tolist(), strict=True):
        if top > below:
            y = ABOVE + PLANE * (1 - top / axis.most)
            height = PLANE * (top - below) / axis.most
            yield element(
                "rect", x=percent(place / bins), width=percent(1 / bins), y=y, height=height, class_=one.colour
            )
        below = top


def hover_column(place: int, columns: int, lines: Sequence[str]) -> str:
    """Return the invisible mark over a column of a plot that tells its numbers."""
    x, width = percent(place / columns), percent(1 / columns)
    return element("rect", title(lines), x=x, width=width, y=ABOVE, height=PLANE, class_="hover")


def numbers_of_bin(
    place: int, numbers: LogNumbers, clock: Clock, series: Sequence[Series], texts: Sequence[str]
) -> list[str]:
    """Return the time of a bin, and the number of each series that has any. Parameters: texts: of the numbers."""
    begin = clock.text(numbers.first + place * numbers.step, has_ms=numbers.step < 1000)
    named = [f"{one.name}: {text}" for one, text in zip(series, texts, strict=True) if one.messages[place]]
    return [f"{begin}, {duration_text(numbers.step)}", *named]


def gaps(label: str, numbers: LogNumbers, clock: Clock) -> str:
    """Return points of the longest gaps: when each began, and its length."""
    end = numbers.first + numbers.step * numbers.bins
    shown = [gap for gap in numbers.gaps if numbers.first <= gap.begin <= end]  # else a clock was wrong
    if not shown:
        return ""
    lengths = [gap.length for gap in shown]
    axis = duration_axis(min(lengths), max(lengths))
    marks = [
        element(
            "circle",
            title([f"{duration_text(gap.length)} from {clock.text(gap.begin, has_ms=True)}"]),
            cx=percent((gap.begin - numbers.first) / (end - numbers.first)),
            cy=ABOVE + PLANE * (1 - axis.share(gap.length)),
            r=4,
            class_="c1",
        )
        for gap in shown
    ]
    return plot(PLANE, label, marks, axis.ticks, time_ticks(numbers.first, end, clock))


# ---- queues and index ------------------------------------------------------------------------------------------


def coverage(label: str, queues: Sequence[QueueBounds], begin: int, end: int) -> str:
    """Return a bar for each of the largest queues, from its first to its last record in the log, bytes."""
    largest = sorted((queue for queue in queues if queue.begin is not None), key=lambda queue: -(queue.messages or 0))
    size = max(end - begin, 1)

    def share(phy_offset: int | None) -> float:
        return min(max(((phy_offset or 0) - begin) / size, 0.0), 1.0)  # a damaged unit may lead anywhere

    return bars(
        label,
        [
            Bar(
                f"{queue.topic}/{queue.queue_id}",
                share(queue.end),
                f"{queue.begin:,} to {queue.end:,}",
                begin=share(queue.begin),
            )
            for queue in largest[:SHOWN_ROWS]
        ],
    )


def slot_use(label: str, files: Sequence[IndexNumbers]) -> str:
    """Return a bar for each index file: the share of its slots in use, with a line at the share that theory expects."""
    most = max((max(file.used, file.expected_used) / file.slots for file in files), default=1.0) or 1.0
    return bars(
        label,
        [
            Bar(
                file.name,
                file.used / file.slots / most,
                f"{share_text(file.used, file.slots)}, expected {share_text(file.expected_used, file.slots)}",
                mark=file.expected_used / file.slots / most,
            )
            for file in files
        ],
    )


def chain_lengths(label: str, files: Sequence[IndexNumbers]) -> str:
    """Return bars of slots by the length of their chain, of all files together, with lines at the expected numbers."""
    measured = np.sum([file.chains for file in files], axis=0)
    expected = np.sum([file.expected_chains() for file in files], axis=0)
    shown = max(int(np.flatnonzero((measured > 0) | (expected >= 0.5))[-1]), 1) + 1
    axis = power_axis(float(max(measured.max(), expected.max())))
    marks = []
    for length in range(shown):
        x, width = percent((length + 0.1) / shown), percent(0.8 / shown)
        if measured[length]:
            height = PLANE * axis.share(float(measured[length]))
            marks.append(element("rect", x=x, width=width, y=ABOVE + PLANE - height, height=height, class_="c0"))
        if expected[length] >= 0.5:
            y = ABOVE + PLANE * (1 - axis.share(float(expected[length])))
            marks.append(element("line", x1=x, x2=percent((length + 0.9) / shown), y1=y, y2=y, class_="expected"))
        lines = [
            f"{items_text(length)} in the chain",
            f"in the files: {measured[length]:,} slots",
            f"expected: {expected[length]:,.1f} slots",
        ]
        marks.append(hover_column(length, shown, lines))
    step = -(-shown // 16)
    ticks = [Tick((length + 0.5) / shown, str(length)) for length in range(0, shown, step)]
    entries = [("c0", "in the files", ""), ("c1", "expected (Poisson)", "")]
    return plot(PLANE, label, marks, axis.ticks, ticks) + legend(entries)


def items_text(length: int) -> str:
    return f"{LONGEST} or more items" if length == LONGEST else format_count(length, "item")
