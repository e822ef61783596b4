"""Vega-Lite specifications of the charts of a report.

The width of a chart is that of the page. Colours of text and lines are CSS variables of the page. Texts of the store
are values of fields, never names of fields or parts of expressions. So no encoding has a list of them as ``sort``:
Vega-Lite would write an expression of it, which fails for a topic "constructor" or with U+2028.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rocketstore.report.log_numbers import LogNumbers
from rocketstore.report.parts import LONGEST, Expiry, IndexNumbers, QueueBounds
from rocketstore.store.overview.lag import ConsumerLag
from rocketstore.text_values import format_time

Spec = dict[str, Any]
SHOWN_TOPICS = 7
SHOWN_TAGS = 15
SHOWN_ROWS = 30
AXIS_HEIGHT, LEGEND_HEIGHT = 48, 36  # pixels below the rows of a chart
OTHERS = "(other topics)"  # no topic has a space in its name
NO_TAG = "(no tag)"
# Medium tones, which stand out from a white and from a black page. The last one is for all others.
COLOURS = ["#2f7fc2", "#d9731a", "#2e9e6b", "#c2489b", "#8a6fd1", "#b08a12", "#d14b4b", "#808890"]
BLUE, ORANGE = COLOURS[:2]
CLOCK = {"milliseconds": "%H:%M:%S.%L", "seconds": "%H:%M:%S", "minutes": "%H:%M", "hours": "%H:%M"}
CALENDAR = {"date": "%m-%d", "week": "%m-%d", "month": "%Y-%m", "quarter": "%Y-%m", "year": "%Y"}
CONFIG: Spec = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "gridColor": "var(--line)",
        "gridOpacity": 0.6,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 150,
    },
    "legend": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "orient": "bottom",
        "direction": "vertical",
        "columns": 2,
        "labelLimit": 130,
        "title": None,
        "labelFontSize": 12,
        "symbolType": "square",
    },
    "range": {"category": COLOURS},
    "point": {"opacity": 1},
    "tick": {"opacity": 1},
}


def chart(title: str, height: int, values: Sequence[Mapping[str, Any]], **parts: Any) -> Spec:
    """Return a specification. Parameters: title: describes the chart for screen readers. height: pixels."""
    return {
        "description": title,
        "width": "container",
        "height": height,
        "data": {"values": list(values)},
        "autosize": {"type": "fit", "contains": "padding"},
        **parts,
    }


def chart_of_rows(title: str, step: int, values: Sequence[Mapping[str, Any]], **parts: Any) -> Spec:
    """Return a specification of a chart with one row for each name. Parameters: step: the height of a row, pixels."""
    below = AXIS_HEIGHT + LEGEND_HEIGHT * ("layer" in parts)
    return chart(title, step * len(values) + below, values, **parts)


def named_bars(
    title: str, values: Sequence[Mapping[str, Any]], count: str, axis_title: str, parts: Sequence[str]
) -> Spec:
    """Return a bar for each name. Parameters: count: the field of its length. parts: the fields that make the name."""
    return chart_of_rows(
        title,
        20,
        values,
        mark={"type": "bar", "height": 11},
        encoding={
            "x": field(count, "quantitative", axis_title, axis={"format": "~s", "tickCount": 5, "tickMinStep": 1}),
            "y": field("name", "nominal", None, sort=None),
            "color": {"value": BLUE},
            "tooltip": [
                *(field(part, "nominal", part) for part in parts),
                field(count, "quantitative", count, format=",d"),
            ],
        },
    )


def field(name: str, kind: str, title: str | None, **settings: Any) -> Spec:
    """Return the encoding of a field of the values. Parameters: kind: Vega-Lite's type of the field."""
    return {"field": name, "type": kind, "title": title, **settings}


def times(name: str, domain: Sequence[int] = ()) -> Spec:
    """Return the encoding of a time in UTC on the x axis. Parameters: domain: the first and the last time, ms."""
    scale = {"type": "utc"} | ({"domain": list(domain)} if domain else {})
    axis = {"labelOverlap": True, "tickCount": 6, "format": CLOCK | CALENDAR}
    return field(name, "temporal", None, scale=scale, axis=axis)


def over_time(numbers: LogNumbers, attribute: str, title: str) -> Spec:
    """Return stacked bars by topic in each bin of time. Parameters: attribute: "messages" or "size" of TopicNumbers."""
    sums = {topic: getattr(counts, attribute) for topic, counts in numbers.topics.items()}
    order = sorted(sums, key=lambda topic: (-int(numbers.topics[topic].size.sum()), topic))
    shown: dict[str, np.ndarray] = {topic: sums[topic] for topic in order[:SHOWN_TOPICS]}
    if len(order) > SHOWN_TOPICS:
        shown[OTHERS] = np.sum([sums[topic] for topic in order[SHOWN_TOPICS:]], axis=0)
    values = [
        {
            "topic": topic,
            "rank": rank,
            "begin": begin,
            "end": begin + numbers.step,
            "when": format_time(begin),
            "value": round(int(count) * numbers.scale),
        }
        for rank, (topic, counts) in enumerate(shown.items())
        for place, count in enumerate(counts.tolist())
        if count
        for begin in [numbers.first + place * numbers.step]
    ]
    return chart(
        title,
        260,
        values,
        mark={"type": "bar", "binSpacing": 0},
        encoding={
            "x": times("begin") | {"bin": "binned"},
            "x2": {"field": "end"},
            "y": field("value", "quantitative", title, stack="zero", axis={"format": "~s"}),
            "color": field("topic", "nominal", None, scale={"domain": [*shown]}),
            "order": {"field": "rank", "type": "quantitative", "sort": "descending"},  # the largest topic on top
            "tooltip": [
                field("topic", "nominal", "topic"),
                field("value", "quantitative", title, format=",d"),
                field("when", "nominal", "from"),
            ],
        },
    )


def by_tag(numbers: LogNumbers) -> Spec:
    """Return a bar for each of the most frequent pairs of a topic and a tag."""
    values = [
        {"name": f"{topic}: {NO_TAG if tag is None else tag}", "topic": topic, "tag": tag, "messages": count}
        for topic, tag, count in numbers.ranked_tags()[:SHOWN_TAGS]
    ]
    return named_bars("messages by topic and tag", values, "messages", "messages", ["topic", "tag"])


def size_text(number: int) -> str:
    """Return a number of bytes with at most three digits and a unit, such as 64 kB for 65536."""
    units = ["B", "kB", "MB", "GB"]
    step = min(max(number.bit_length() - 1, 0) // 10, 3)
    return f"{number >> 10 * step} {units[step]}"


def body_sizes(numbers: LogNumbers) -> Spec:
    """Return bars of messages by the size of the body. Each bar ends at twice the size at which it begins."""
    counts = numbers.body_sizes.tolist()
    last = max((place for place, count in enumerate(counts) if count), default=0)
    labels = ["empty", *(f"from {size_text(1 << place)}" for place in range(len(counts) - 1))]
    values = [
        {"size": label, "messages": round(count * numbers.scale)}
        for label, count in list(zip(labels, counts, strict=True))[: last + 1]
    ]
    while len(values) > 1 and not values[0]["messages"]:
        del values[0]
    return chart(
        "messages by body size",
        240,
        values,
        mark="bar",
        encoding={
            "x": field("size", "ordinal", "size of the body as stored", sort=None, axis={"labelAngle": -45}),
            "y": field("messages", "quantitative", "messages", axis={"format": "~s"}),
            "color": {"value": BLUE},
            "tooltip": [field("size", "ordinal", "size"), field("messages", "quantitative", "messages", format=",d")],
        },
    )


def gaps(numbers: LogNumbers) -> Spec:
    """Return points of the longest gaps: when each began, and its length."""
    end = numbers.first + numbers.step * numbers.bins
    values = [
        {"begin": gap.begin, "seconds": gap.length / 1000, "when": format_time(gap.begin), "offset": gap.phy_offset}
        for gap in numbers.gaps
    ]
    return chart(
        "seconds without a message, by time",
        200,
        values,
        mark={"type": "point", "filled": True, "size": 70, "clip": True},  # a clock that was wrong gives other times
        encoding={
            "x": times("begin", (numbers.first, end)),
            "y": field(
                "seconds",
                "quantitative",
                "seconds without a message",
                scale={"type": "log"},
                axis={"format": "~s", "tickCount": 3},
            ),
            "color": {"value": ORANGE},
            "tooltip": [
                field("when", "nominal", "after"),
                field("seconds", "quantitative", "seconds", format=",.3f"),
                field("offset", "quantitative", "offset of the next message", format=",d"),
            ],
        },
    )


def coverage(queues: Sequence[QueueBounds], begin: int, end: int) -> Spec:
    """Return a bar for each of the largest queues, from its first to its last record in the log."""
    largest = sorted((queue for queue in queues if queue.begin is not None), key=lambda queue: -(queue.messages or 0))
    values = [
        {"queue": f"{queue.topic}/{queue.queue_id}", "begin": queue.begin, "end": queue.end, "messages": queue.messages}
        for queue in largest[:SHOWN_ROWS]
    ]
    return chart_of_rows(
        "the part of the log that each queue covers, by physical offset",
        20,
        values,
        mark={"type": "bar", "minBandSize": 2, "height": 11, "clip": True},  # a unit may lead outside the log
        encoding={
            "x": field(
                "begin",
                "quantitative",
                "physical offset",
                scale={"domain": [begin, end], "nice": False},
                axis={"format": "~s", "tickCount": 5},
            ),
            "x2": {"field": "end"},
            "y": field("queue", "nominal", None, sort=None),
            "color": {"value": BLUE},
            "tooltip": [
                field("queue", "nominal", "queue"),
                *(
                    field(name, "quantitative", title, format=",d")
                    for name, title in [
                        ("messages", "messages"),
                        ("begin", "first record at"),
                        ("end", "last record at"),
                    ]
                ),
            ],
        },
    )


def slot_use(files: Sequence[IndexNumbers]) -> Spec:
    """Return a bar for each index file: the share of its slots in use, with a line at the share that theory expects."""
    values = [
        {"file": file.name, "used": file.used / file.slots, "expected": file.expected_used / file.slots}
        for file in files
    ]
    y = field("file", "nominal", None, sort=None)
    tooltip = [
        field("file", "nominal", "file"),
        field("used", "quantitative", "slots in use", format=".3%"),
        field("expected", "quantitative", "expected", format=".3%"),
    ]
    share = {"scale": {"domainMin": 0}, "axis": {"format": "%", "tickCount": 5}}
    return chart_of_rows(
        "slots in use of each index file, and the expected share",
        26,
        values,
        layer=[
            {
                "mark": {"type": "bar", "height": 12},
                "encoding": {
                    "x": field("used", "quantitative", "slots in use", **share),
                    "y": y,
                    "tooltip": tooltip,
                    "color": {"datum": "in the files"},
                },
            },
            {
                "mark": {"type": "tick", "thickness": 3, "size": 22},
                "encoding": {
                    "x": field("expected", "quantitative", "slots in use"),
                    "y": y,
                    "tooltip": tooltip,
                    "color": {"datum": "expected (Poisson)"},
                },
            },
        ],
    )


def chain_lengths(files: Sequence[IndexNumbers]) -> Spec:
    """Return points of slots by chain length, of all files together, and the line that theory expects."""
    measured = np.sum([file.chains for file in files], axis=0)
    expected = np.sum([file.expected_chains() for file in files], axis=0)
    values: list[dict[str, Any]] = []
    for length in range(LONGEST + 1):
        if measured[length]:
            values.append({"length": length, "slots": int(measured[length]), "kind": "in the files"})
        if expected[length] >= 0.5:
            values.append({"length": length, "slots": round(float(expected[length]), 1), "kind": "expected (Poisson)"})
    kinds = ["in the files", "expected (Poisson)"]
    encoding = {
        "x": field("length", "quantitative", "items in the chain of a slot", axis={"tickMinStep": 1}),
        "y": field(
            "slots",
            "quantitative",
            "slots",
            scale={"type": "log", "domainMin": 0.5, "nice": False},
            axis={"format": "~s", "tickCount": 5},
        ),
        "color": field("kind", "nominal", None, sort=kinds, scale={"domain": kinds}),
        "tooltip": [
            field("kind", "nominal", "count"),
            field("length", "quantitative", "items"),
            field("slots", "quantitative", "slots", format=",.1~f"),
        ],
    }
    return chart(
        "slots by the length of their chain, and the expected numbers",
        260,
        values,
        layer=[
            {"transform": [{"filter": f"datum.kind == '{kinds[1]}'"}], "mark": "line", "encoding": encoding},
            {
                "transform": [{"filter": f"datum.kind == '{kinds[0]}'"}],
                "encoding": encoding,
                "mark": {"type": "point", "filled": True, "size": 60},
            },
        ],
    )


def lag(lags: Sequence[ConsumerLag]) -> Spec:
    """Return a bar for each group and topic with the largest lag of all its queues together."""
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for entry in lags:
        sums[entry.group, entry.topic] += entry.lag or 0
    largest = sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:SHOWN_ROWS]
    values = [
        {"name": f"{group}: {topic}", "group": group, "topic": topic, "lag": count} for (group, topic), count in largest
    ]
    return named_bars("messages that each group has not consumed", values, "lag", "messages behind", ["group", "topic"])


def expiry(found: Expiry, now: int) -> Spec:
    """Return the bytes of the log that may be deleted by a time, as steps, and a line at the present.

    Parameters: now: epoch ms.
    """
    total, values = 0, [{"time": min([now, *(file.timestamp for file in found.files)]), "bytes": 0, "file": ""}]
    for file in found.files:
        total += file.size
        values.append({"time": file.timestamp, "bytes": total, "file": file.name})
    tooltip = [field("file", "nominal", "up to file"), field("bytes", "quantitative", "bytes", format=",d")]
    x = times("time")
    y = field("bytes", "quantitative", "bytes of the log", axis={"format": "~s", "tickCount": 5})
    return chart(
        "bytes of the log that may be deleted, by time",
        200,
        values,
        layer=[
            {"mark": {"type": "line", "interpolate": "step-after", "color": BLUE}, "encoding": {"x": x, "y": y}},
            {
                "mark": {"type": "point", "filled": True, "size": 45, "color": BLUE},
                "encoding": {"x": x, "y": y, "tooltip": tooltip},
            },
            {
                "data": {"values": [{"time": now}]},
                "mark": {"type": "rule", "strokeDash": [4, 3], "color": ORANGE},
                "encoding": {"x": x},
            },
        ],
    )
