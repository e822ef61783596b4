"""The HTML of a report page: sections with texts, charts and tables, the style, and the script that draws the charts.

Every text is escaped here: ``html.escape`` in HTML, and ``script_json`` in a script. The page forbids itself all
requests, with a content security policy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from rocketstore.report.charts import CONFIG
from rocketstore.text_values import format_count

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'"  # for Vega
STYLE = """
:root { color-scheme: light dark; --text: #1c2126; --soft: #5a646e; --line: #c9cfd6; --page: #f4f6f8; --card: #fff;
  --error: #b3261e; --warning: #8a5a00; --info: #1d5f9e; --code: #e9edf1; }
@media (prefers-color-scheme: dark) { :root { --text: #e3e7eb; --soft: #a3adb7; --line: #3a424b; --page: #101418;
  --card: #181d23; --error: #ff8a80; --warning: #f0b64a; --info: #7db8ee; --code: #262d35; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 16px; }
h1 { font-size: 24px; margin: 8px 0; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 0 0 4px; }
p { margin: 4px 0 10px; max-width: 80ch; overflow-wrap: anywhere; } .soft, figcaption { color: var(--soft); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px;
  margin: 14px 0; }
nav a { display: inline-block; margin: 0 12px 4px 0; color: var(--info); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(160px, 1fr)); gap: 10px; margin: 0; }
dt { color: var(--soft); font-size: 13px; } dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
figure { margin: 10px 0; min-width: 0; } figcaption { font-size: 13px; } .chart { width: 100%; min-width: 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 4px 10px 4px 0; vertical-align: top; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; min-width: 5.5em; } th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { background: var(--code); border-radius: 4px; padding: 1px 4px; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--info); } .error { color: var(--error); font-weight: 600; }
.warning { color: var(--warning); font-weight: 600; } .info { color: var(--info); }
@media (max-width: 640px) { .stacked thead { display: none; } .stacked tr { display: block; padding: 6px 0; }
  .stacked td { display: grid; grid-template-columns: 6.5em 1fr; text-align: left !important; white-space: normal;
  border: 0; padding: 1px 0; } .stacked td::before { content: attr(data-name); color: var(--soft); font-weight: 400; }
  .stacked tr { border-bottom: 1px solid var(--line); } }
#vg-tooltip-element { max-width: 90vw; overflow-wrap: anywhere; }
"""
DRAW = """
const charts = JSON.parse(document.getElementById("charts").textContent);
const options = {actions: false, renderer: "svg", config: charts.config, tooltip: {theme: "custom"}};
window.drawn = Promise.all(charts.specs.map((spec, number) => vegaEmbed("#chart-" + number, spec, options)));
"""


@dataclass
class Table:
    """A table with a caption. A value of a row is a text, a number, or None for an unknown value.

    Attributes: is_folded: whether only the caption is shown until the reader opens the table. more: the number of rows
    that are left out.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | None]]
    is_folded: bool = True
    more: int = 0


@dataclass
class Section:
    """One section. ``problems`` are shown before everything else; ``charts`` are pairs of a caption and a spec."""

    title: str
    texts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    charts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def script_json(value: object) -> str:
    """Return a value as JSON. No text in it can end a script element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def render_page(title: str, subtitle: str, sections: Sequence[Section], scripts: str) -> str:
    """Return the page. Parameters: scripts: JavaScript that defines vegaEmbed."""
    specs: list[dict[str, Any]] = []
    parts = [part for number, section in enumerate(sections) for part in section_html(section, number, specs)]
    links = "".join(f'<a href="#section-{n}">{escape(section.title)}</a>' for n, section in enumerate(sections))
    # In a script element, "</script" and "<!--" would end the script or change how it is read.
    library = scripts.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
    )
    body = (
        f'<body>\n<main>\n<h1>{escape(title)}</h1>\n<p class="soft">{escape(subtitle)}</p>\n'
        "<noscript><p>The charts need JavaScript. The tables do not.</p></noscript>\n"
        f'<nav aria-label="Sections">{links}</nav>\n{"".join(parts)}</main>\n'
    )
    data = script_json({"config": CONFIG, "specs": specs})
    end = (
        f'<script id="charts" type="application/json">{data}</script>\n<script>{library}</script>\n'
        f"<script>{DRAW}</script>\n</body>\n</html>\n"
    )
    return head + body + end


def section_html(section: Section, number: int, specs: list[dict[str, Any]]) -> Iterable[str]:
    """Yield the HTML of a section, and add the specifications of its charts to ``specs``."""
    yield f'<section id="section-{number}">\n<h2>{escape(section.title)}</h2>\n'
    for problem in section.problems:
        yield f'<p class="warning">{escape(problem)}</p>\n'
    for text in section.texts:
        yield f"<p>{escape(text)}</p>\n"
    if section.facts:
        items = "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in section.facts.items()
        )
        yield f"<dl>{items}</dl>\n"
    for caption, spec in section.charts:
        yield (
            f"<figure><figcaption>{escape(caption)}</figcaption>"
            f'<div class="chart" id="chart-{len(specs)}"></div></figure>\n'
        )
        specs.append(spec)
    for table in section.tables:
        yield table_html(table)
    yield "</section>\n"


def table_html(table: Table) -> str:
    numbers = {place for row in table.rows for place, value in enumerate(row) if isinstance(value, int)}
    names = [*enumerate(table.columns)]
    header = "".join(f'<th scope="col"{number_class(place in numbers)}>{escape(name)}</th>' for place, name in names)
    rows = "".join(
        f"<tr>{''.join(cell_html(table.columns[i], v) for i, v in enumerate(row))}</tr>\n" for row in table.rows
    )
    more = f'<p class="soft">{format_count(table.more, "more row")} left out.</p>' if table.more else ""
    kind = "" if table.is_folded else ' class="stacked"'
    inner = (
        f'<div class="scroll"><table{kind}><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>{more}'
    )
    if table.is_folded:
        return f"<details><summary>{escape(table.caption)}</summary>{inner}</details>\n"
    return f"<p>{escape(table.caption)}</p>{inner}\n"


def number_class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def cell_html(column: str, value: str | int | None) -> str:
    name = f' data-name="{escape(column)}"'  # shown before the value if the page is narrow
    if isinstance(value, int):
        return f'<td class="number"{name}>{value:,}</td>'
    text = escape("-" if value is None else value)
    if column == "severity":
        return f'<td class="{text}"{name}>{text}</td>'
    return f"<td{name}><code>{text}</code></td>" if column == "mend" and value is not None else f"<td{name}>{text}</td>"
