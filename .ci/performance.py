"""The tables and plots of docs/performance.md, from bench/results.json. .ci/docs.py writes them."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocketstore.report.svg import element, text_html, title

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
WIDTH, ROW, MARGIN, BELOW = 420, 20, 8, 46  # pixels: of the plane, of a row, around the picture, for the axis
RATIOS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


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
    """Write the plots of the page as SVG files."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, svg in plots().items():
        (directory / name).write_text(svg, encoding="utf-8")


def plots() -> dict[str, str]:
    """Return the picture of each file."""
    rows = [row for row in read_results()["rows"] if row["peer_ns"] is not None]
    return {
        "speed-rocketmq.svg": ratio_plot([row for row in rows if row["peer"] in ROCKETMQ], "{name}"),
        "speed-stores.svg": store_plot([row for row in rows if row["peer"] in STORES]),
        "speed-spark.svg": ratio_plot([row for row in rows if row["name"].startswith("Spark:")], "{name} / {peer}"),
    }


def ratio_plot(rows: list[dict[str, Any]], label: str) -> str:
    """Return a dot for each median ratio, with a line from the smallest to the largest, and a line at 1.

    Parameters: label: the format of the name of a row.
    """
    ordered = sorted(rows, key=lambda row: -row["ratio"])
    names = [label.format(**row) for row in ordered]
    left, bottom = name_room(names), MARGIN + ROW * len(rows)
    least, most = min(0.5, *(row["ratio_min"] for row in rows)), max(100, *(row["ratio_max"] for row in rows))
    ratios = [ratio for ratio in RATIOS if least <= ratio <= most]

    def place(ratio: float) -> float:
        return left + WIDTH * math.log(ratio / least) / math.log(most / least)

    parts = [vertical(place(ratio), bottom, LINE) for ratio in ratios]
    parts += [text(f"{ratio:g}", place(ratio), bottom + 16, "middle") for ratio in ratios]
    parts += [
        text("times as fast as the peer", left + WIDTH / 2, bottom + 36, "middle"),
        vertical(place(1), bottom, TEXT),
    ]
    for number, (row, name) in enumerate(zip(ordered, names, strict=True)):
        y, color = MARGIN + ROW * (number + 0.5), ORANGE if is_slower(row) else BLUE
        ends = {"x1": place(row["ratio_min"]), "x2": place(row["ratio_max"]), "y1": y, "y2": y}
        parts.append(element("line", **ends, stroke=color, stroke_width=3, stroke_opacity=0.5))
        hover = title([f"{name}: {row['ratio']:g} times as fast"])
        parts.append(element("circle", hover, cx=place(row["ratio"]), cy=y, r=4, fill=color))
        parts.append(text(name, left - 8, y + 4, "end"))
    return picture(left + WIDTH + WIDEST, bottom + BELOW, parts)


def store_plot(rows: list[dict[str, Any]]) -> str:
    """Return a bar for the nanoseconds of each store: to build, and to look up."""
    groups = {what: bars_of(rows, what) for what in ("build", "lookup")}
    most = max(time for bars in groups.values() for _, time, _ in bars)
    left, y, parts = name_room([name for bars in groups.values() for name, *_ in bars]), MARGIN, []
    for what, bars in groups.items():
        parts.append(text(what, left, y + 14, "start", size=13))
        y += ROW
        for name, time, color in bars:
            width = WIDTH * time / most
            parts.append(element("rect", x=left, y=y + 4, width=width, height=12, fill=color))
            parts += [text(name, left - 8, y + 14, "end"), text(f"{time:,.0f}", left + width + 4, y + 14, "start")]
            y += ROW
    parts.append(text("nanoseconds per key", left + WIDTH / 2, y + 20, "middle"))
    return picture(left + WIDTH + WIDEST * 8, y + BELOW - MARGIN, parts)


def bars_of(rows: list[dict[str, Any]], what: str) -> list[tuple[str, float, str]]:
    """Return the name, the nanoseconds and the colour of each store. Parameters: what: "build" or "lookup"."""
    chosen = [row for row in rows if row["name"].endswith(what)]
    ours = sorted(row["ours_ns"] for row in chosen)[len(chosen) // 2]
    return [("rocketstore", ours, BLUE), *((row["peer"], row["peer_ns"], GREY) for row in chosen)]


def name_room(names: list[str]) -> float:
    """Return the width that names take in the widest font of a browser, pixels."""
    return MARGIN + WIDEST * max(map(len, names))


def text(words: str, x: float, y: float, anchor: str, size: int = 12) -> str:
    return element("text", text_html(words), x=x, y=y, text_anchor=anchor, font_size=size, fill=TEXT)


def vertical(x: float, bottom: float, color: str) -> str:
    return element("line", x1=x, x2=x, y1=MARGIN, y2=bottom, stroke=color)


def picture(width: float, height: float, parts: list[str]) -> str:
    """Return an SVG file. Its text and lines are light if the reader prefers a dark scheme."""
    rules = "".join(
        f'[fill="{light}" i] {{ fill: {dark} }} [stroke="{light}" i] {{ stroke: {dark} }} '
        for light, dark in DARK.items()
    )
    style = f"<style>@media (prefers-color-scheme: dark) {{ {rules}}}</style>"
    size = {"width": width + MARGIN, "height": height, "viewBox": f"0 0 {width + MARGIN:g} {height:g}"}
    return element(
        "svg", style, *parts, xmlns="http://www.w3.org/2000/svg", font_family="system-ui, sans-serif", **size
    )
