"""The tables and plots of docs/performance.md, from bench/results.json. .ci/docs.py writes them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TREE = Path(__file__).parent.parent
RESULTS = TREE / "bench" / "results.json"
# The peers that are RocketMQ's own classes, by their methods.
ROCKETMQ = (
    "checkMessageAndReturnSize",
    "Java iterateFrom",
    "putMessagePositionInfoWrapper",
    "IndexFile.putKey",
    "IndexFile.selectPhyOffset",
    "putMessage",
    "queryMessage",
    "load",
)
STORES = ("dict", "NumPy searchsorted", "LMDB", "DuckDB join")
# Colours of text, lines and marks on a white page, and those of a dark page.
TEXT, LINE, BLUE, ORANGE, GREY = "#1c2126", "#c9cfd6", "#2f7fc2", "#d9731a", "#808890"
DARK = {TEXT: "#e3e7eb", LINE: "#4a545e"}
WIDEST = 8  # pixels of a character, on average
CONFIG = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": TEXT,
        "titleColor": TEXT,
        "domainColor": LINE,
        "tickColor": LINE,
        "gridColor": LINE,
        "labelLimit": 420,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
}


def read_results() -> dict[str, Any]:
    return json.loads(RESULTS.read_text(encoding="utf-8"))


# ---- the page ----------------------------------------------------------------------------------------------


def performance_page() -> str:
    """Return docs/performance.md, with the measurements in the place of {method}, {slower} and {all}."""
    results = read_results()
    rows = results["rows"]
    parts = {"method": method(results), "slower": performance_table([row for row in rows if is_slower(row)])}
    parts["all"] = performance_table(rows)
    page = (TREE / "docs" / "performance.md").read_text(encoding="utf-8")
    for name, lines in parts.items():
        page = page.replace(f"\n{{{name}}}\n", "\n" + "\n".join(lines) + "\n")
    return page


def method(results: dict[str, Any]) -> Iterator[str]:
    """Yield the machine, the versions, the command, and how a figure is made."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    yield f"- **Machine:** {machine['cpu']}, {machine['system']}. The figures of this page are from 2 virtual cores."
    yield f"- **Versions:** Python {machine['python']}, {versions}."
    yield "- **Command:** `make bench` measures all rows, and writes `bench/results.json`."
    yield f"- **Figures:** each is the median of {results['rounds']} pairs of rounds, in nanoseconds per item. The"
    yield "  rounds of a pair measure rocketstore and its peer in turn on the same input, so that other work of the"
    yield "  machine meets both. Results are compared before times are measured."


def is_slower(row: dict[str, Any]) -> bool:
    return row["peer_ns"] is not None and row["ratio"] < 1


def performance_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| measurement | rocketstore | peer | | ratio | smallest | largest |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: |"
    for row in rows:
        numbers = [format_number(row[name]) for name in ("ours_ns", "peer_ns", "ratio", "ratio_min", "ratio_max")]
        ours, peer, *ratios = numbers
        name, other = (re.sub(r"([*\[\]<>|_])", r"\\\1", row[key] or "") for key in ("name", "peer"))
        yield f"| {name} | {ours} | {other} | {peer} | {' | '.join(ratios)} |"


def format_number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


# ---- plots -------------------------------------------------------------------------------------------------


def write_plots(directory: Path) -> None:
    """Write the plots of the page as SVG files. This needs vl-convert-python, from the extra "report"."""
    import vl_convert

    directory.mkdir(parents=True, exist_ok=True)
    for name, spec in plots().items():
        svg = vl_convert.vegalite_to_svg(spec, config=CONFIG)
        (directory / name).write_text(with_dark_scheme(svg), encoding="utf-8")


def plots() -> dict[str, dict[str, Any]]:
    """Return the Vega-Lite specification of each file."""
    rows = [row for row in read_results()["rows"] if row["peer_ns"] is not None]
    return {
        "speed-rocketmq.svg": ratio_plot([row for row in rows if row["peer"] in ROCKETMQ], "{name}"),
        "speed-stores.svg": store_plot([row for row in rows if row["peer"] in STORES]),
        "speed-spark.svg": ratio_plot([row for row in rows if row["name"].startswith("Spark:")], "{name} / {peer}"),
    }


def ratio_plot(rows: list[dict[str, Any]], label: str) -> dict[str, Any]:
    """Return a dot for each median ratio, with a line from the smallest to the largest, and a line at 1.

    Parameters: label: the format of the name of a row.
    """
    values = [
        {
            "name": label.format(**row),
            "ratio": row["ratio"],
            "least": row["ratio_min"],
            "most": row["ratio_max"],
            "color": ORANGE if is_slower(row) else BLUE,
        }
        for row in sorted(rows, key=lambda row: -row["ratio"])
    ]
    y = name_axis("name", values)
    x = {
        "type": "quantitative",
        "title": "times as fast as the peer",
        "scale": {"type": "log", "domain": [0.4, 100], "nice": False},
        "axis": {"values": [0.5, 1, 2, 5, 10, 20, 50, 100], "format": "~g"},
    }
    color = {"field": "color", "type": "nominal", "scale": None}
    layer = [
        {"mark": {"type": "rule", "color": TEXT}, "encoding": {"x": {"datum": 1, **x}}},
        {
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.5},
            "encoding": {"y": y, "x": {"field": "least", **x}, "x2": {"field": "most"}, "color": color},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"y": y, "x": {"field": "ratio", **x}, "color": color},
        },
    ]
    return {"width": 420, "height": {"step": 20}, "data": {"values": values}, "layer": layer}


def store_plot(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a bar for the nanoseconds of each store: to build, and to look up."""
    values = []
    for what in ("build", "lookup"):
        chosen = [row for row in rows if row["name"].endswith(what)]
        ours = sorted(row["ours_ns"] for row in chosen)[len(chosen) // 2]
        bars = [("rocketstore", ours, BLUE), *((row["peer"], row["peer_ns"], GREY) for row in chosen)]
        values += [{"what": what, "store": store, "ns": time, "color": color} for store, time, color in bars]
    bar = {
        "mark": {"type": "bar", "height": 12},
        "encoding": {
            "y": name_axis("store", values),
            "x": {"field": "ns", "type": "quantitative", "title": "nanoseconds per key", "axis": {"grid": False}},
            "color": {"field": "color", "type": "nominal", "scale": None},
        },
    }
    text = {
        "mark": {"type": "text", "align": "left", "dx": 4, "color": TEXT},
        "encoding": {
            "y": bar["encoding"]["y"],
            "x": bar["encoding"]["x"],
            "text": {"field": "ns", "type": "quantitative", "format": ",.0f"},
        },
    }
    facet = {"field": "what", "type": "nominal", "title": None, "header": {"labelColor": TEXT, "labelFontSize": 13}}
    return {
        "data": {"values": values},
        "facet": facet,
        "columns": 1,
        "spec": {"width": 420, "height": {"step": 22}, "layer": [bar, text]},
    }


def name_axis(field: str, values: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a vertical axis of names, with room for them in the widest font of a browser."""
    room = WIDEST * max(len(value[field]) for value in values)
    return {"field": field, "type": "nominal", "sort": None, "title": None, "axis": {"minExtent": room}}


def with_dark_scheme(svg: str) -> str:
    """Return a picture whose text and lines are light if the reader prefers a dark scheme."""
    rules = "".join(
        f'[fill="{light}" i] {{ fill: {dark} }} [stroke="{light}" i] {{ stroke: {dark} }} '
        for light, dark in DARK.items()
    )
    style = f"<style>@media (prefers-color-scheme: dark) {{ {rules}}}</style>"
    return re.sub(r"(<svg [^>]*>)", lambda match: match[1] + style, svg, count=1)
